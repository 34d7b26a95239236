//! The complete history of a run: what every process sent, was told, read and committed, in the order in which it happened, and against
//! that what the log holds in the end. In the manner of Jepsen's log workload, and as pure: a history comes in, what is wrong with it comes out.

mod around;
mod commits;
mod index;
mod log;
mod readers;
#[cfg(test)]
mod tests;
mod topics;

use std::collections::BTreeMap;
use std::fmt;

use self::index::Index;
use super::{Kind, Violations};

/// A message: who sent it, and its number there. Whoever sends, sends each once, and in the order of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// The producer. A connection of version 1 is one of its own: what it left in a socket may come behind what the next one sends.
    pub producer: u32,
    /// Counts from 0.
    pub number: u32,
}

/// One partition of one topic; topics are counted in the order in which they came to be, each incarnation anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The topic.
    pub topic: u16,
    /// Its partition.
    pub partition: u16,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// A message is about to be sent.
    Sends {
        /// The message.
        message: Message,
        /// Its topic.
        topic: u16,
    },
    /// The broker answered that it is stored, and where.
    Stored {
        /// The message.
        message: Message,
        /// The partition.
        part: Part,
        /// The offset.
        offset: u64,
    },
    /// It is not stored, says the broker or the SDK, and will not be.
    Refused {
        /// The message.
        message: Message,
    },
    /// No answer came: it may be stored or not.
    Unanswered {
        /// The message.
        message: Message,
    },
    /// A reader begins, at an offset.
    Begins {
        /// The reader.
        reader: u16,
        /// The partition.
        part: Part,
        /// What it asked for.
        offset: u64,
    },
    /// A reader was shown a record.
    Reads {
        /// The reader.
        reader: u16,
        /// The partition.
        part: Part,
        /// The record's offset.
        offset: u64,
        /// Offsets that it takes.
        span: u32,
        /// What it holds; `None` if that is nothing that was ever sent to the topic.
        message: Option<Message>,
    },
    /// Somebody is about to commit.
    Commits {
        /// The group.
        group: u16,
        /// The partition.
        part: Part,
        /// The next offset to read.
        offset: u64,
    },
    /// The commit was answered; it was begun at this time.
    Committed {
        /// The group.
        group: u16,
        /// The partition.
        part: Part,
        /// The next offset to read.
        offset: u64,
        /// When it was begun.
        begun: u64,
    },
    /// The group begins to read a partition here: a member was assigned it, or a version-1 consumer was sent its first frame.
    Resumes {
        /// The group.
        group: u16,
        /// The partition.
        part: Part,
        /// Where.
        offset: u64,
        /// No commit that was answered before is missing from it.
        begun: u64,
    },
    /// Somebody asked for the committed position at `begun`, and was told this.
    Fetched {
        /// The group.
        group: u16,
        /// The partition.
        part: Part,
        /// The next offset to read, if there is one.
        offset: Option<u64>,
        /// When it was asked.
        begun: u64,
    },
    /// Somebody asked for the ends of a partition at `begun`, and was told these.
    Ends {
        /// The partition.
        part: Part,
        /// The oldest offset.
        start: u64,
        /// The high watermark (exclusive).
        end: u64,
        /// When it was asked.
        begun: u64,
    },
    /// A topic's creation was answered.
    Created {
        /// The topic.
        topic: u16,
    },
    /// A topic is about to be deleted: what it holds is no promise any more.
    Deletes {
        /// The topic.
        topic: u16,
    },
    /// Its deletion was answered.
    Deleted {
        /// The topic.
        topic: u16,
    },
    /// Somebody asked at `begun` whether the topic is there, and was told.
    Listed {
        /// The topic.
        topic: u16,
        /// Whether it was.
        there: bool,
        /// When it was asked.
        begun: u64,
    },
    /// Something was done to the broker.
    Befell(Deed),
}

/// What is done to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deed {
    /// SIGKILL.
    Killed,
    /// SIGKILL while it recovers from the one before.
    KilledInRecovery,
    /// SIGKILL while it stops.
    KilledInStop,
    /// SIGKILL, and another as soon as it serves again.
    KilledTwice,
    /// SIGKILL while its disk is full.
    KilledWhileFull,
    /// SIGTERM.
    Stopped,
    /// SIGSTOP, and SIGCONT before a member's session ends.
    Paused,
    /// SIGSTOP, and SIGCONT after that.
    PausedLong,
    /// Its disk ran full.
    DiskFull,
    /// There is space on its disk again.
    DiskFreed,
    /// It serves again.
    Serves,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Killed => "killed",
            Self::KilledInRecovery => "killed in recovery",
            Self::KilledInStop => "killed while stopping",
            Self::KilledTwice => "killed twice",
            Self::KilledWhileFull => "killed while full",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
            Self::PausedLong => "paused beyond sessions",
            Self::DiskFull => "disk full",
            Self::DiskFreed => "disk freed",
            Self::Serves => "serves again",
        })
    }
}

/// An event, and when: nanoseconds since the run began, rising, with no two alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When it was noted: before what begins, after what ends.
    pub at: u64,
    /// What it was.
    pub what: Happened,
}

/// What a topic keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Everything.
    All,
    /// What retention leaves: all from the log's start on.
    Newest,
    /// The newest record of each key: producers number `keys` keys each, and go round them.
    Keys(u32),
}

/// A topic, for the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// What it keeps.
    pub keeps: Keeps,
}

/// What a partition holds in the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// The oldest offset.
    pub start: u64,
    /// The high watermark (exclusive).
    pub end: u64,
    /// The records: offset, offsets taken, and what it is, `None` if that was never sent there.
    pub records: Vec<(u64, u32, Option<Message>)>,
}

/// Everything that is known of a run.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The topics, by their number.
    pub topics: Vec<Topic>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// What is there in the end; deleted topics are not.
    pub held: BTreeMap<Part, Held>,
    /// The groups' names, by their number, each with the readers that read for it, and the topic that these have read to its end.
    pub groups: Vec<Group>,
    /// The readers' names, by their number.
    pub readers: Vec<String>,
    /// What clients met that they should not have.
    pub problems: Vec<String>,
}

/// A group that has read a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The readers that read for it.
    pub readers: Vec<u16>,
    /// What it has read to the end.
    pub parts: Vec<Part>,
}

/// What a history adds up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages sent.
    pub sent: u64,
    /// Of these, with an answer that they are stored.
    pub stored: u64,
    /// With an answer that they are not.
    pub refused: u64,
    /// Without an answer.
    pub unanswered: u64,
    /// Of those without an answer, in the log.
    pub unanswered_held: u64,
    /// Records shown to readers.
    pub reads: u64,
    /// Commits answered.
    pub commits: u64,
    /// Records in the log in the end.
    pub held: u64,
    /// Things done to the broker.
    pub deeds: BTreeMap<Deed, u64>,
}

impl History {
    /// Checks everything.
    #[must_use]
    pub fn check(&self) -> (Totals, Violations) {
        let index = Index::of(self);
        let mut violations = Violations::default();
        log::check(self, &index, &mut violations);
        readers::check(self, &index, &mut violations);
        commits::check(self, &index, &mut violations);
        topics::check(self, &mut violations);
        for problem in &self.problems {
            violations.add(Kind::Problem, || problem.clone());
        }
        (index.totals(self), violations)
    }

    fn topic(&self, topic: u16) -> Option<&Topic> {
        self.topics.get(usize::from(topic))
    }

    fn keeps(&self, part: Part) -> Keeps {
        self.topic(part.topic).map_or(Keeps::All, |topic| topic.keeps)
    }

    fn name(&self, part: Part) -> String {
        let name = self.topic(part.topic).map_or("?", |topic| &topic.name);
        format!("{name}/{} (topic {})", part.partition, part.topic)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}.{}", self.producer, self.number)
    }
}
