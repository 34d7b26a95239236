//! The history, as it is being made.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::payload;
use crate::check::history::{Deed, Event, Group, Happened, History, Keeps, Message, Part, Topic};

/// Takes what happens, from everybody.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    origin: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    history: History,
    producers: u32,
    /// For each reader, and for each group, what it was shown of a partition up to now (exclusive).
    progress: HashMap<(Who, Part), u64>,
    counts: Counts,
}

/// Counts, while the run goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent.
    pub sent: u64,
    /// Answered that they are stored.
    pub stored: u64,
    /// Answered that they are not.
    pub refused: u64,
    /// Records shown to readers.
    pub reads: u64,
    /// Commits answered.
    pub commits: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Who {
    Reader(u16),
    Group(u16),
}

/// Somebody who has not come to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Behind {
    name: String,
    part: Part,
    at: u64,
    end: u64,
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, part, at, end } = self;
        write!(f, "{name} stands at {at} of {end} in topic {}, partition {}", part.topic, part.partition)
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self(Arc::new(Shared { origin: Instant::now(), state: Mutex::default() }))
    }
}

impl Recorder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an event; gives its time.
    pub(crate) fn note(&self, what: Happened) -> u64 {
        let mut state = self.state();
        let now = u64::try_from(self.0.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // Under the lock, so that the order of times is that of the events.
        let at = now.max(state.history.events.last().map_or(0, |last| last.at + 1));
        let count = &mut state.counts;
        match what {
            Happened::Sends { .. } => count.sent += 1,
            Happened::Stored { .. } => count.stored += 1,
            Happened::Refused { .. } => count.refused += 1,
            Happened::Reads { .. } => count.reads += 1,
            Happened::Committed { .. } => count.commits += 1,
            _ => {}
        }
        state.history.events.push(Event { at, what });
        at
    }

    /// A time before whatever is begun next.
    pub(crate) fn now(&self) -> u64 {
        let state = self.state();
        state.history.events.last().map_or(0, |last| last.at + 1)
    }

    /// Notes what was done to the broker.
    pub fn befell(&self, deed: Deed) {
        self.note(Happened::Befell(deed));
    }

    /// Something that no client should meet.
    pub(crate) fn problem(&self, problem: String) {
        tracing::error!("{problem}");
        self.state().history.problems.push(problem);
    }

    pub(super) fn stalled(&self, behind: &Behind) {
        self.problem(format!("a reader stalls: {behind}"));
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    pub(super) fn topic(&self, name: &str, keeps: Keeps) -> u16 {
        let mut state = self.state();
        let number = u16::try_from(state.history.topics.len()).unwrap_or(u16::MAX);
        state.history.topics.push(Topic { name: name.to_owned(), keeps });
        number
    }

    pub(super) fn topics(&self) -> Vec<Topic> {
        self.state().history.topics.clone()
    }

    pub(super) fn producer(&self) -> u32 {
        let mut state = self.state();
        state.producers += 1;
        state.producers - 1
    }

    /// A reader; one of a group's reads for it.
    pub(super) fn reader(&self, name: String, group: Option<u16>) -> u16 {
        let mut state = self.state();
        let number = u16::try_from(state.history.readers.len()).unwrap_or(u16::MAX);
        state.history.readers.push(name);
        if let Some(group) = group.and_then(|group| state.history.groups.get_mut(usize::from(group))) {
            group.readers.push(number);
        }
        number
    }

    pub(super) fn group(&self, name: &str) -> u16 {
        let mut state = self.state();
        let number = u16::try_from(state.history.groups.len()).unwrap_or(u16::MAX);
        state.history.groups.push(Group { name: name.to_owned(), readers: Vec::new(), parts: Vec::new() });
        number
    }

    /// Notes a record, as a reader got it.
    pub(super) fn read(&self, reader: u16, group: Option<u16>, part: Part, offset: u64, span: u32, payload: &[u8]) {
        let message = payload::read(payload).filter(|(topic, _)| *topic == part.topic).map(|(_, message)| message);
        self.note(Happened::Reads { reader, part, offset, span, message });
        let who = group.map_or(Who::Reader(reader), Who::Group);
        let mut state = self.state();
        let next = state.progress.entry((who, part)).or_default();
        *next = (*next).max(offset + u64::from(span));
    }

    /// The group or reader is to come to the end of a partition.
    pub(super) fn expect(&self, reader: Option<u16>, group: Option<u16>, part: Part) {
        let mut state = self.state();
        if let Some(who) = group.map(Who::Group).or(reader.map(Who::Reader)) {
            state.progress.entry((who, part)).or_default();
        }
        if let Some(group) = group.and_then(|group| state.history.groups.get_mut(usize::from(group)))
            && !group.parts.contains(&part)
        {
            group.parts.push(part);
        }
    }

    /// Those who have not come to the ends.
    pub(super) fn behind(&self, ends: &[(Part, u64)]) -> Vec<Behind> {
        let state = self.state();
        let mut behind = Vec::new();
        for ((who, part), at) in &state.progress {
            let Some((_, end)) = ends.iter().find(|(of, _)| of == part) else { continue };
            if at < end {
                let name = match who {
                    Who::Reader(reader) => state.history.readers.get(usize::from(*reader)).cloned(),
                    Who::Group(group) => state.history.groups.get(usize::from(*group)).map(|group| group.name.clone()),
                };
                behind.push(Behind { name: name.unwrap_or_default(), part: *part, at: *at, end: *end });
            }
        }
        behind
    }

    /// The history so far; events and problems are taken out of it.
    #[must_use]
    pub fn take(&self) -> History {
        std::mem::take(&mut self.state().history)
    }
}

/// The message of a producer that comes next.
#[derive(Debug)]
pub(super) struct Numbering {
    pub(super) producer: u32,
    next: u32,
}

impl Numbering {
    pub(super) fn new(recorder: &Recorder) -> Self {
        Self { producer: recorder.producer(), next: 0 }
    }

    pub(super) fn next(&mut self) -> Message {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        Message { producer: self.producer, number }
    }
}
