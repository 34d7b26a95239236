//! Topics, offsets, consumer groups, users, rules, and the broker itself.

use std::sync::Arc;

use hermit_proto::session::{
    AccessRule, CreateTopicResponse, DescribeBrokerResponse, DescribeGroupResponse, ListOffsetsResponse, ListedGroup, ListedTopic,
    ListedUser, OffsetQuery, TopicConfig, TopicMetadata, WhoAmIResponse,
};
use hermit_proto::{Offset, PartitionId, Secret};

use super::Runtime;
use crate::admin::Committed;
use crate::error::Result;

/// Topics, offsets, consumer groups, users, rules, and the broker itself; see [`crate::Admin`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    pub(super) inner: crate::Admin,
    pub(super) runtime: Arc<Runtime>,
}

macro_rules! operations {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $given:ty),+ $(,)?) => {
        impl Admin {
            $(
                #[doc = concat!("See [`Admin::", stringify!($name), "`](crate::Admin::", stringify!($name), ").")]
                ///
                /// # Errors
                /// Those of the async call; [`Error::WithinRuntime`](crate::Error::WithinRuntime).
                pub fn $name(&self, $($argument: $kind),*) -> Result<$given> {
                    self.runtime.run(self.inner.$name($($argument),*))
                }
            )+
        }
    };
}

operations! {
    create_topic(topic: &str, partitions: u32, config: TopicConfig) -> CreateTopicResponse,
    delete_topic(topic: &str) -> (),
    list_topics() -> Vec<ListedTopic>,
    describe_topic(topic: &str) -> TopicMetadata,
    describe_topics() -> Vec<TopicMetadata>,
    alter_topic(topic: &str, config: TopicConfig) -> TopicConfig,
    add_partitions(topic: &str, partitions: u32) -> u32,
    list_offsets(topic: &str, partition: impl Into<PartitionId>, query: OffsetQuery) -> ListOffsetsResponse,
    trim(topic: &str, partition: impl Into<PartitionId>, offset: Offset) -> Offset,
    committed(group: &str, topic: &str, partition: impl Into<PartitionId>) -> Option<Committed>,
    list_groups() -> Vec<ListedGroup>,
    describe_group(group: &str) -> DescribeGroupResponse,
    delete_group(group: &str) -> (),
    commit_group(group: &str, positions: &[(impl AsRef<str> + Sync, PartitionId, Offset)]) -> (),
    describe_broker() -> DescribeBrokerResponse,
    who_am_i() -> WhoAmIResponse,
    create_user(user: &str, password: Option<&str>) -> (),
    set_password(user: &str, password: &str) -> (),
    remove_password(user: &str) -> (),
    enable_user(user: &str, enabled: bool) -> (),
    delete_user(user: &str) -> (),
    list_users() -> Vec<ListedUser>,
    create_token(user: &str, label: &str) -> Secret,
    delete_token(user: &str, label: &str) -> (),
    add_rules(rules: Vec<AccessRule>) -> u32,
    delete_rules(rules: Vec<AccessRule>) -> u32,
    list_rules(principal: Option<&str>) -> Vec<AccessRule>,
}
