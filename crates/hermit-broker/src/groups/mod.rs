//! Consumer groups: who is in them, and who may read and commit what.
//!
//! [`group`] is a group as a state machine without I/O, clock or locks, over [`assign`], which divides partitions by pure functions. [`Groups`]
//! keeps the groups that have members, tells them of topics and of the time, and lets commits through. Positions are stored elsewhere (`crate::offsets`), and outlive
//! the members.
//!
//! **Locks**, in the order in which they are taken: the manifest; the map of groups; one group; the positions; a partition's log. The registry's stripes and
//! a [`crate::Signal`] are taken alone, last. None is held across an await or a sync. A commit is checked and appended under its group's lock, so that what was
//! accepted from a partition's old owner is in the log before the next owner is told of the partition. A commit in nobody's name holds the map instead, so that nobody can join meanwhile.

mod asked;
mod assign;
mod cell;
mod commits;
mod coordinator;
mod dividing;
mod group;
mod inspect;
mod join;
mod member;
#[cfg(test)]
mod model_tests;
mod subscription;
mod time;

pub(crate) use assign::TopicPartition;
pub(crate) use cell::Waiter;
pub(crate) use coordinator::{Beat, Groups, Heartbeat, Peer};
pub(crate) use inspect::describe;
pub(crate) use subscription::{AllPatterns, Patterns};
