//! What readers were shown: ever onwards, nothing left out, nothing that is not there any more, nothing that never was.

use std::collections::{HashMap, HashSet};

use super::index::{Index, Outcome};
use super::log::NewestOfKeys;
use super::{Happened, Held, History, Keeps, Message, Part};
use crate::check::{Kind, Violations};

pub(super) fn check(history: &History, index: &Index, violations: &mut Violations) {
    let mut readers = Readers { history, index, newest: NewestOfKeys::of(history), ends: Ends::of(history), violations };
    // For each reader and partition: the offset that comes next.
    let mut positions: HashMap<(u16, Part), u64> = HashMap::new();
    for event in &history.events {
        match event.what {
            Happened::Begins { reader, part, offset } => {
                positions.insert((reader, part), offset);
            }
            Happened::Reads { reader, part, offset, span, message } => {
                let next = positions.insert((reader, part), offset + u64::from(span));
                readers.read(event.at, reader, part, (offset, message), next);
            }
            _ => {}
        }
    }
    let violations = readers.violations;
    check_ends(history, violations);
    check_groups(history, violations);
}

struct Readers<'a> {
    history: &'a History,
    index: &'a Index,
    newest: NewestOfKeys,
    ends: Ends,
    violations: &'a mut Violations,
}

impl Readers<'_> {
    fn read(&mut self, at: u64, reader: u16, part: Part, (offset, message): (u64, Option<Message>), next: Option<u64>) {
        let history = self.history;
        let name = history.readers.get(usize::from(reader)).map_or("?", String::as_str);
        let show = || format!("{name}, {} offset {offset}{}", history.name(part), history.around(message, Some((part, offset))));
        let Some(message) = message else {
            self.violations.add(Kind::Phantom, show);
            return;
        };
        match self.index.messages.get(&message) {
            Some(known) if known.topic == part.topic => {
                if known.outcome == Outcome::Refused {
                    self.violations.add(Kind::RefusedStored, show);
                }
            }
            _ => self.violations.add(Kind::Phantom, show),
        }
        if let Some(next) = next {
            if offset < next {
                self.violations.add(Kind::Backwards, || format!("{next} was to come: {}", show()));
            } else if offset > next && self.left_out(at, part, next, offset) {
                self.violations.add(Kind::Skipped, || format!("{next} was to come: {}", show()));
            }
        }
        if self.is_taken_back(part, offset, message) {
            self.violations.add(Kind::TakenBack, show);
        }
    }

    /// Whether something was there, between two offsets, for a reader at a time.
    fn left_out(&self, at: u64, part: Part, from: u64, to: u64) -> bool {
        let Some(held) = self.history.held.get(&part) else { return false };
        // Retention takes the oldest only: what the log began with later was there before.
        let start = self.ends.start_after(part, at).unwrap_or(held.start);
        match self.history.keeps(part) {
            Keeps::Newest => start < to && from.max(start) < to,
            // A gap of what is kept is one of the log: that is reported for the log, not for each reader.
            Keeps::All | Keeps::Keys(_) => held.holds_any(from, to),
        }
    }

    /// Whether what was shown should still be there, and is not.
    fn is_taken_back(&self, part: Part, offset: u64, message: Message) -> bool {
        let Some(held) = self.history.held.get(&part) else { return false };
        if self.index.deleted.contains(&part.topic) || offset < held.start || held.holds_any(offset, offset + 1) {
            return false;
        }
        match self.history.keeps(part) {
            Keeps::All | Keeps::Newest => true,
            Keeps::Keys(keys) => !self.newest.supersedes(message, keys, part, offset),
        }
    }
}

impl Held {
    fn holds_any(&self, from: u64, to: u64) -> bool {
        let first = self.records.partition_point(|(offset, ..)| *offset < from);
        self.records.get(first).is_some_and(|(offset, ..)| *offset < to)
    }
}

/// The starts of partitions, as they were asked for.
#[derive(Debug, Default)]
struct Ends(HashMap<Part, Vec<(u64, u64)>>);

impl Ends {
    fn of(history: &History) -> Self {
        let mut ends = Self::default();
        for event in &history.events {
            if let Happened::Ends { part, start, begun, .. } = event.what {
                ends.0.entry(part).or_default().push((begun, start));
            }
        }
        ends.0.values_mut().for_each(|asked| asked.sort_unstable());
        ends
    }

    /// Where the log began when it was first asked after a time.
    fn start_after(&self, part: Part, at: u64) -> Option<u64> {
        let asked = self.0.get(&part)?;
        let later = asked.partition_point(|(begun, _)| *begun <= at);
        asked.get(later).map(|(_, start)| *start)
    }
}

/// Neither end of a partition ever goes back, and what was answered or shown lies below its end from then on.
fn check_ends(history: &History, violations: &mut Violations) {
    // For each partition, in the order in which it became known: what its ends cannot be below any more.
    let mut known: HashMap<Part, Vec<(u64, u64, u64)>> = HashMap::new();
    for event in &history.events {
        let (part, start, end) = match event.what {
            Happened::Stored { part, offset, .. } => (part, 0, offset + 1),
            Happened::Reads { part, offset, span, .. } => (part, 0, offset + u64::from(span)),
            Happened::Ends { part, start, end, begun } => {
                let before = known.get(&part).and_then(|known| {
                    let later = known.partition_point(|(at, ..)| *at < begun);
                    known.get(later.checked_sub(1)?)
                });
                if let Some((_, least_start, least_end)) = before
                    && (start < *least_start || end < *least_end)
                {
                    violations.add(Kind::EndFell, || {
                        let around = history.around(None, Some((part, end)));
                        format!("{}: {start}..{end} after {least_start}..{least_end}{around}", history.name(part))
                    });
                }
                (part, start, end)
            }
            _ => continue,
        };
        let known = known.entry(part).or_default();
        let (_, least_start, least_end) = known.last().copied().unwrap_or_default();
        if start > least_start || end > least_end {
            known.push((event.at, start.max(least_start), end.max(least_end)));
        }
    }
    for (part, held) in &history.held {
        if let Some((_, start, end)) = known.get(part).and_then(|known| known.last())
            && (held.start < *start || held.end < *end)
        {
            violations.add(Kind::EndFell, || {
                format!("{}: {}..{} in the end, after {start}..{end}", history.name(*part), held.start, held.end)
            });
        }
    }
}

/// A group that has come to the end has seen all.
fn check_groups(history: &History, violations: &mut Violations) {
    let mut seen: HashMap<u16, HashSet<(Part, u64)>> = HashMap::new();
    for event in &history.events {
        if let Happened::Reads { reader, part, offset, .. } = event.what {
            for (number, group) in history.groups.iter().enumerate() {
                if group.readers.contains(&reader) {
                    seen.entry(u16::try_from(number).unwrap_or(u16::MAX)).or_default().insert((part, offset));
                }
            }
        }
    }
    for (number, group) in history.groups.iter().enumerate() {
        let seen = seen.remove(&u16::try_from(number).unwrap_or(u16::MAX)).unwrap_or_default();
        for part in group.parts.iter().filter(|part| history.keeps(**part) == Keeps::All) {
            let Some(held) = history.held.get(part) else { continue };
            for (offset, ..) in held.records.iter().filter(|(offset, ..)| !seen.contains(&(*part, *offset))) {
                violations.add(Kind::NeverRead, || {
                    format!(
                        "{}, {} offset {offset}{}",
                        group.name,
                        history.name(*part),
                        history.around(None, Some((*part, *offset)))
                    )
                });
            }
        }
    }
}
