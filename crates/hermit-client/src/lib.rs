#![doc = include_str!("../README.md")]

mod admin;
mod backoff;
mod client;
mod clock;
mod config;
mod conn;
mod consumer;
mod error;
mod producer;

pub use admin::{Admin, Committed};
pub use backoff::BackoffConfig;
pub use client::{Client, ClientBuilder};
pub use consumer::{Consumer, ConsumerBuilder, OnDamage, OnLostPosition, Otherwise, Position, Record, Start};
pub use error::{Error, Fault, ProtocolFault, RecordFault, Result};
pub use producer::{Delivery, Keyless, Producer, ProducerBuilder, ProducerRecord, RecordMetadata};

pub use hermit_proto::session::{
    Acks, CreateTopicResponse, Durability, HelloResponse, ListOffsetsResponse, ListedTopic, OffsetQuery, Operation,
    PartitionMetadata, SessionLimits, Status, TopicConfig, TopicMetadata, WireError,
};
pub use hermit_proto::{Codec, FrameError, LeaderEpoch, NameError, Offset, PartitionId, TopicId};
