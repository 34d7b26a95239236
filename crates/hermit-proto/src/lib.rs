#![doc = include_str!("../README.md")]
#![warn(clippy::indexing_slicing)]

mod crc;
mod deframer;
mod frame;
mod header;
mod ids;
mod names;
mod partitioner;
pub mod record_set;
mod secret;
pub mod session;
mod unit;
pub mod v1;

pub use crc::{Crc32c, crc32c};
pub use deframer::{DeframeError, Deframer, UnitLimits};
pub use frame::{
    Attributes, BrokerStamp, Codec, EXTENSION_SIZE, Extension, FrameError, FrameLimits, FramePrefix, FrameSalt, FrameView,
    PREFIX_SIZE, ProducedFrame, ProducerStamp,
};
pub use header::{HEADER_SIZE, Header, magic};
pub use ids::{
    CorrelationId, Generation, LeaderEpoch, MemberId, Offset, ParseTopicIdError, PartitionId, ProducerEpoch, ProducerId, Sequence,
    TopicId,
};
pub use names::{GroupName, INTERNAL_PREFIX, MAX_NAME_BYTES, NameError, TopicName, UserName};
pub use partitioner::{murmur2, partition_for_key};
pub use secret::Secret;
pub use unit::{Unit, UnitView};
