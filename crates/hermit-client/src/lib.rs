#![doc = include_str!("../README.md")]

mod admin;
mod backoff;
pub mod blocking;
mod client;
mod clock;
mod config;
mod conn;
mod consumer;
mod error;
mod producer;
#[cfg(feature = "tls")]
mod tls;

pub use admin::{Admin, Committed};
pub use backoff::BackoffConfig;
pub use client::{Client, ClientBuilder};
pub use consumer::{
    Acker, Assigned, AutoCommit, CommitHandle, Consumer, ConsumerBuilder, HandlerError, OnDamage, OnLostPosition, Otherwise,
    Parallel, Position, RebalanceListener, Record, RecordHeaders, RecordRef, RecordStream, Records, RecordsIter, Revoked, Start,
    Subscription, TopicPartition,
};
pub use error::{Error, Fault, Fencing, ProtocolFault, RecordFault, Result, TlsFault};
pub use producer::{
    BatchDelivery, BatchMetadata, BatchOutcome, Delivery, Keyless, Producer, ProducerBuilder, ProducerIdentity, ProducerRecord,
    RecordMetadata, TopicProducer,
};

#[cfg(feature = "tls")]
pub use tls::TlsConfig;

pub use hermit_proto::session::{
    AccessOperations, AccessResource, AccessRule, Acks, AssignmentStrategy, BrokerFigures, BrokerSetting, CreateTopicResponse,
    DescribeBrokerResponse, DescribeGroupResponse, Durability, EVERY_USER, GroupMember, GroupPartition, GroupState, HelloResponse,
    ListOffsetsResponse, ListedGroup, ListedToken, ListedTopic, ListedUser, LoginKind, NamePattern, OffsetQuery, Operation,
    PartitionMetadata, ScrubFigures, SessionLimits, Status, TopicConfig, TopicMetadata, WhoAmIResponse, WireError,
};
pub use hermit_proto::{
    Codec, FrameError, Generation, LeaderEpoch, MemberId, NameError, Offset, PartitionId, ProducerEpoch, ProducerId, Secret,
    TopicId,
};
