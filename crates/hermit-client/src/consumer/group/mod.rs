//! Membership in a group, and what was processed and committed: what the application's calls and the tasks beside them share.
//!
//! [`State`] is pure: it knows no sockets and reads no clock. [`Shared`] puts a lock and wake-ups around it. The tasks ask it what to send,
//! and tell it what came back: one keeps the membership (`member`), one finds where to begin (`places`), one commits (`committer`).

mod assigned;
mod commits;
mod committer;
mod member;
mod places;
mod progress;
mod queue;
mod shared;
mod state;
mod tracker;

use std::sync::Arc;

use hermit_proto::{PartitionId, TopicId};

pub(super) use self::commits::CommitWait;
pub(super) use self::shared::{Shared, random_member};
pub(super) use self::state::{Held, State, View};
pub(super) use self::tracker::Place;
use crate::error::{Error, Fencing};

pub(super) type Key = (TopicId, PartitionId);

/// One uninterrupted time of holding a partition. It goes on under another member id or generation where nobody else had the partition
/// in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tenure(pub(super) u64);

fn fenced(topic: &Arc<str>, key: Key, reason: Fencing) -> Error {
    Error::Fenced { topic: topic.clone(), partition: key.1, reason }
}

#[cfg(test)]
mod hand_out_tests;
