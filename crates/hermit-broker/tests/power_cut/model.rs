//! What the clients asked for, and what they were answered, with the number of disk changes at either moment.
//!
//! An operation that began after `s` changes may have left something on a disk that was cut after more than `s`; what was answered after `a`
//! changes must be on every disk that was cut after `a` or more.

use std::collections::BTreeMap;

use hermit_broker::Durability;
use hermit_proto::{ProducerStamp, TopicId};

/// A moment, in disk changes.
pub type Moment = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub began: Moment,
    pub answered: Option<Moment>,
}

impl Span {
    /// What was there before anything that is looked at.
    pub const ALWAYS: Self = Self { began: 0, answered: Some(0) };

    pub const fn begin(now: Moment) -> Self {
        Self { began: now, answered: None }
    }

    /// Answered now, unless it was before.
    pub fn answer(&mut self, now: Moment) {
        self.answered.get_or_insert(now);
    }

    pub const fn may_hold(self, cut: Moment) -> bool {
        self.began < cut
    }

    pub fn must_hold(self, cut: Moment) -> bool {
        self.answered.is_some_and(|answered| answered <= cut)
    }
}

/// The values that something may have that was set several times: the last one that was answered, or one that was asked for later. The first
/// of the list has always been there.
pub fn possible<T: Copy>(set: &[(Span, T)], cut: Moment) -> Vec<T> {
    let promised = set.iter().rposition(|(span, _)| *span == Span::ALWAYS || span.must_hold(cut)).unwrap_or(0);
    let later = set.iter().enumerate().skip(promised);
    later.filter(|(at, (span, _))| *at == promised || span.may_hold(cut)).map(|(_, (_, value))| *value).collect()
}

#[derive(Debug, Clone)]
pub struct Record {
    pub span: Span,
    pub payload: Vec<u8>,
    pub producer: Option<ProducerStamp>,
}

#[derive(Debug, Clone)]
pub struct Topic {
    pub name: String,
    /// `None` where the creation was not answered.
    pub id: Option<TopicId>,
    /// As it was last answered: what an answer promises.
    pub durability: Durability,
    /// What the topic was created and altered to.
    pub settings: Vec<(Span, (Durability, u64))>,
    /// How many partitions it was created with and grown to.
    pub partitions: Vec<(Span, usize)>,
    /// Where partitions were trimmed to.
    pub trimmed: BTreeMap<usize, Vec<(Span, u64)>>,
    pub created: Span,
    pub deleted: Option<Span>,
    /// Per partition, in the order of their offsets.
    pub records: Vec<Vec<Record>>,
}

#[derive(Debug, Clone)]
pub struct Commit {
    pub span: Span,
    pub offset: u64,
}

/// Group, index of the topic, partition.
pub type PositionKey = (String, usize, u32);

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub topics: Vec<Topic>,
    pub commits: BTreeMap<PositionKey, Vec<Commit>>,
    /// Producer ids that were given out, and when.
    pub producers: BTreeMap<i64, Moment>,
    /// For each producer, topic and partition: the next sequence.
    pub sequences: BTreeMap<(i64, usize, u32), i32>,
    pub written: u64,
}

impl Model {
    /// Topics that are there now.
    pub fn live(&self) -> Vec<usize> {
        (0..self.topics.len()).filter(|at| self.topics[*at].deleted.is_none() && self.topics[*at].id.is_some()).collect()
    }
}
