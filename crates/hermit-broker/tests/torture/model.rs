//! What clients asked for, and what they were answered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

use hermit_broker::testing::Member;
use hermit_broker::{Durability, Position, TopicSettings};
use hermit_proto::{Generation, MemberId, ProducedFrame, ProducerStamp, TopicId};

use crate::users::Access;

/// A value that clients set. The first is the last one that was answered, the others were asked for later and not answered: any of them may hold.
#[derive(Debug, Clone)]
pub struct Possible<T>(Vec<T>);

impl<T: PartialEq> Possible<T> {
    pub fn new(value: T) -> Self {
        Self(vec![value])
    }

    pub fn ask(&mut self, value: T) {
        self.0.push(value);
    }

    /// What was asked for last was refused.
    pub fn retract(&mut self) {
        self.0.pop();
    }

    /// What was asked for last holds.
    pub fn answer(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    /// This value holds now, and so whatever was set before does not.
    pub fn see(&mut self, value: &T) {
        if let Some(at) = self.0.iter().position(|other| other == value) {
            self.0.drain(..at);
        }
    }

    pub fn settle(&mut self, value: T) {
        self.0 = vec![value];
    }

    pub fn allows(&self, value: &T) -> bool {
        self.0.contains(value)
    }

    pub fn is_certain(&self) -> bool {
        self.0.len() == 1
    }

    /// What was answered last.
    pub fn answered(&self) -> &T {
        &self.0[0]
    }

    /// This is what was answered; what else there is was asked for later.
    pub fn begin(&mut self, value: T) {
        self.0.insert(0, value);
    }

    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.0.retain(keep);
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number, and its client's time.
    pub number: u64,
    pub key: Option<Vec<u8>>,
    /// `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    pub producer: Option<ProducerStamp>,
}

impl Record {
    pub fn frame(&self) -> Vec<u8> {
        let key = self.key.as_deref();
        let frame = match &self.payload {
            Some(payload) => ProducedFrame::message(self.number, key, payload),
            None => ProducedFrame::tombstone(self.number, key.unwrap_or_default()),
        };
        ProducedFrame { producer: self.producer, ..frame }.to_vec().unwrap()
    }
}

#[derive(Debug)]
pub struct Part {
    /// All that was ever to be appended at an offset.
    pub sent: BTreeMap<u64, Vec<Rc<Record>>>,
    /// What the log has, or had before it was compacted or trimmed.
    pub kept: BTreeMap<u64, Rc<Record>>,
    /// The log end.
    pub end: u64,
    /// Everything before this was answered, or shown as flushed.
    pub promised_end: u64,
    pub start: Possible<u64>,
    /// The log start that a start has found, though it may have been nobody's answer.
    pub seen_start: u64,
    /// Retention had a try, and may have moved the start to wherever it is allowed to.
    pub retained: bool,
    /// The high watermark while an answer did not mean disk. Where it cannot be flushed, it stays so when the settings change.
    pub shown_unflushed_end: u64,
    /// What consumers were shown, by leader epoch and offset.
    pub shown: HashMap<(u32, u64), u64>,
    /// For each producer the sequence of its next batch.
    pub next: BTreeMap<i64, i32>,
    /// For each producer the batch that was not answered yet: it sends that again.
    pub unanswered: BTreeMap<i64, Vec<Rc<Record>>>,
}

impl Default for Part {
    fn default() -> Self {
        Self {
            sent: BTreeMap::new(),
            kept: BTreeMap::new(),
            end: 0,
            promised_end: 0,
            shown_unflushed_end: 0,
            start: Possible::new(0),
            seen_start: 0,
            retained: false,
            shown: HashMap::new(),
            next: BTreeMap::new(),
            unanswered: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its creation was not answered.
    Asked,
    There,
    /// Its deletion was not answered.
    Deleting,
    Gone,
}

#[derive(Debug)]
pub struct Topic {
    pub name: String,
    /// `None` where the creation was not answered.
    pub id: Option<TopicId>,
    pub fate: Fate,
    pub settings: Possible<TopicSettings>,
    pub partitions: Possible<usize>,
    /// All its records have keys, so that it can be compacted.
    pub keyed: bool,
    pub parts: Vec<Part>,
}

impl Topic {
    /// Whether an answer to a producer promises that the record is flushed.
    pub fn is_sync(&self) -> bool {
        self.settings.is_certain() && self.settings.answered().durability == Durability::Sync
    }
}

/// Group, index of the topic, partition.
pub type PositionKey = (String, usize, u32);

#[derive(Debug)]
pub struct Model {
    pub topics: Vec<Topic>,
    pub positions: BTreeMap<PositionKey, Possible<Option<u64>>>,
    /// When somebody last committed in a group.
    pub touched: BTreeMap<String, Duration>,
    /// Producer ids that were given out.
    pub producers: BTreeSet<i64>,
    pub written: u64,
    /// Who is in the group that has members, in the broker's present life.
    pub members: Vec<Member>,
    /// Who was, and what it held and committed.
    pub ghosts: Vec<(MemberId, Position, Generation)>,
    /// Users and rules.
    pub access: Possible<Access>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            positions: BTreeMap::new(),
            touched: BTreeMap::new(),
            producers: BTreeSet::new(),
            written: 0,
            members: Vec::new(),
            ghosts: Vec::new(),
            access: Possible::new(Access::default()),
        }
    }
}

impl Model {
    /// Everything was flushed.
    pub fn promise_all(&mut self) {
        for part in self.topics.iter_mut().flat_map(|topic| &mut topic.parts) {
            part.promised_end = part.end;
        }
    }
}
