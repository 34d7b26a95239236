//! The version-2 session: pipelined requests, answers and deliveries over one connection
//! (`docs/protocol.md`, "The session").
//!
//! Every unit is a 29-byte header, a key and a payload. The header's offset field carries the correlation id, its
//! record-count field the [`Operation`] of a request, or the [`Status`] of a response or delivery. Correlation id 0
//! belongs to the session itself: a response with it concerns no single request, and the broker closes behind it.
//!
//! ```
//! use bytes::BytesMut;
//! use hermit_proto::session::{DeleteTopicRequest, Message, Request};
//! use hermit_proto::{CorrelationId, HEADER_SIZE};
//!
//! let request = DeleteTopicRequest { name: "orders".into() };
//! let mut out = BytesMut::new();
//! request.encode(CorrelationId(7), &mut out)?;
//! assert_eq!(DeleteTopicRequest::decode(b"", &out[HEADER_SIZE..])?, request);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod alter;
mod body;
mod broker;
mod commit;
mod delivery;
mod error;
mod groups;
mod hello;
mod list_offsets;
mod liveness;
mod membership;
mod message;
mod metadata;
mod operation;
mod partitions;
mod produce;
mod producer_id;
mod rules;
mod status;
mod subscribe;
mod tokens;
mod topic_config;
mod topics;
mod users;
mod who_am_i;

pub use access::{AccessOperations, AccessResource, AccessRule, EVERY_USER, NamePattern};
pub use alter::{AddPartitionsRequest, AddPartitionsResponse, AlterTopicRequest, AlterTopicResponse, TrimRequest, TrimResponse};
pub use body::{BodyError, BodyReader, BodyWriter, EncodeError};
pub use broker::{BrokerFigures, BrokerSetting, DescribeBrokerRequest, DescribeBrokerResponse, ScrubFigures};
pub use commit::{
    CommitEntry, CommitRequest, CommitResponse, CommitResult, CommittedOffset, FetchCommittedRequest, FetchCommittedResponse,
};
pub use delivery::{DeliveryError, DeliveryHead};
pub use error::WireError;
pub use groups::{
    DeleteGroupRequest, DeleteGroupResponse, DescribeGroupRequest, DescribeGroupResponse, GroupMember, GroupPartition, GroupState,
    ListGroupsRequest, ListGroupsResponse, ListedGroup,
};
pub use hello::{FEATURES, HelloRequest, HelloResponse, MECHANISM_PLAIN, MECHANISM_TOKEN, SESSION_VERSION, SessionLimits};
pub use list_offsets::{ListOffsetsRequest, ListOffsetsResponse, OffsetQuery};
pub use liveness::{GoodbyeRequest, GoodbyeResponse, HeartbeatRequest, HeartbeatResponse};
pub use membership::{
    AssignedPartition, AssignedTopic, Assignment, AssignmentStrategy, GroupHeartbeatRequest, GroupHeartbeatResponse,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
};
pub use message::{Message, Request, Response, ResponseError};
pub use metadata::{MetadataRequest, MetadataResponse, MissingTopic, PartitionMetadata, TopicMetadata, TopicSelection};
pub use operation::Operation;
pub use produce::{Acks, ProduceResponse, ProduceTarget};
pub use producer_id::{InitProducerIdRequest, InitProducerIdResponse};
pub use rules::{AddRulesRequest, AddRulesResponse, DeleteRulesRequest, DeleteRulesResponse, ListRulesRequest, ListRulesResponse};
pub use status::Status;
pub use subscribe::{CreditRequest, SubscribeRequest, SubscribeResponse, UnsubscribeRequest, UnsubscribeResponse};
pub use tokens::{CreateTokenRequest, CreateTokenResponse, DeleteTokenRequest, DeleteTokenResponse};
pub use topic_config::{Durability, TopicConfig};
pub use topics::{
    CreateTopicRequest, CreateTopicResponse, DeleteTopicRequest, DeleteTopicResponse, ListTopicsRequest, ListTopicsResponse,
    ListedTopic,
};
pub use users::{
    DeleteUserRequest, DeleteUserResponse, ListUsersRequest, ListUsersResponse, ListedToken, ListedUser, PasswordChange,
    PutUserMode, PutUserRequest, PutUserResponse,
};
pub use who_am_i::{LoginKind, WhoAmIRequest, WhoAmIResponse};

/// The first byte of a version-2 session: the magic of the hello request.
///
/// 1, 2 and 3 are the roles of version 1, 0x14–0x17 stay free for TLS, and `A` for AMQP.
pub const FIRST_BYTE: u8 = crate::header::magic::REQUEST;

/// Most bytes of key and payload together in a request that is not produce.
pub const MAX_PLAIN_REQUEST_BYTES: u64 = 1 << 20;
