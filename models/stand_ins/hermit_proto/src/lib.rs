//! The names of `hermit-proto` that the modelled files use.

/// A record's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

/// A partition's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionId(pub u32);

/// A topic's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicName;
