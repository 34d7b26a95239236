//! A history by message and by place, so that each check is one pass.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::{Happened, History, Message, Part, Totals};

/// What is known of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) topic: u16,
    pub(super) outcome: Outcome,
    /// How often the log holds it, and where last.
    pub(super) held: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Stored { part: Part, offset: u64 },
    Refused,
    Unanswered,
}

#[derive(Debug)]
pub(super) struct Index {
    pub(super) messages: HashMap<Message, Known>,
    /// What was seen at a place first, by answers, readers and the log alike; a second opinion is noted in `changed`.
    places: HashMap<(Part, u64), Message>,
    pub(super) changed: Vec<(Part, u64, Message, Message)>,
    /// Topics that somebody began to delete.
    pub(super) deleted: HashSet<u16>,
}

impl Index {
    pub(super) fn of(history: &History) -> Self {
        let mut index = Self { messages: HashMap::new(), places: HashMap::new(), changed: Vec::new(), deleted: HashSet::new() };
        for event in &history.events {
            index.take(event.what);
        }
        for (part, held) in &history.held {
            for (offset, _, message) in &held.records {
                if let Some(message) = message {
                    index.see(*part, *offset, *message);
                    if let Some(known) = index.messages.get_mut(message) {
                        known.held += 1;
                    }
                }
            }
        }
        index
    }

    fn take(&mut self, what: Happened) {
        match what {
            Happened::Sends { message, topic } => {
                self.messages.insert(message, Known { topic, outcome: Outcome::Unanswered, held: 0 });
            }
            Happened::Stored { message, part, offset } => {
                self.settle(message, Outcome::Stored { part, offset });
                self.see(part, offset, message);
            }
            Happened::Refused { message } => self.settle(message, Outcome::Refused),
            Happened::Reads { part, offset, message: Some(message), .. } => self.see(part, offset, message),
            Happened::Deletes { topic } => {
                self.deleted.insert(topic);
            }
            _ => {}
        }
    }

    fn settle(&mut self, message: Message, outcome: Outcome) {
        if let Some(known) = self.messages.get_mut(&message) {
            known.outcome = outcome;
        }
    }

    fn see(&mut self, part: Part, offset: u64, message: Message) {
        match self.places.entry((part, offset)) {
            Entry::Vacant(first) => {
                first.insert(message);
            }
            Entry::Occupied(before) if *before.get() != message => self.changed.push((part, offset, *before.get(), message)),
            Entry::Occupied(_) => {}
        }
    }

    pub(super) fn totals(&self, history: &History) -> Totals {
        let mut totals = Totals { sent: self.messages.len() as u64, ..Totals::default() };
        for known in self.messages.values() {
            match known.outcome {
                Outcome::Stored { .. } => totals.stored += 1,
                Outcome::Refused => totals.refused += 1,
                Outcome::Unanswered => {
                    totals.unanswered += 1;
                    totals.unanswered_held += u64::from(known.held > 0);
                }
            }
        }
        for event in &history.events {
            match event.what {
                Happened::Reads { .. } => totals.reads += 1,
                Happened::Committed { .. } => totals.commits += 1,
                Happened::Befell(deed) => *totals.deeds.entry(deed).or_default() += 1,
                _ => {}
            }
        }
        totals.held = history.held.values().map(|held| held.records.len() as u64).sum();
        totals
    }
}
