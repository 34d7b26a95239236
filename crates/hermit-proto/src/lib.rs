//! HermitMQ's frames, record sets, handshakes and requests: pure functions over bytes.
#![warn(clippy::indexing_slicing)]

mod crc;
mod frame;
mod header;
mod ids;

pub use crc::{Crc32c, crc32c};
pub use frame::{
    Attributes, BrokerStamp, Codec, EXTENSION_SIZE, Extension, FrameError, FrameLimits, FramePrefix, FrameSalt, FrameView,
    PREFIX_SIZE, ProducedFrame, ProducerStamp,
};
pub use header::{HEADER_SIZE, Header, magic};
pub use ids::{CorrelationId, LeaderEpoch, Offset, ParseTopicIdError, PartitionId, ProducerEpoch, ProducerId, Sequence, TopicId};
