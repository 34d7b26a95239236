//! Partitions of a topic.

use std::sync::Arc;

use hermit_broker::proto::session::AccessOperations;
use hermit_broker::proto::{Offset, PartitionId, TopicName};
use hermit_broker::{BrokerError, Partition};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::answer::Answer;
use crate::auth::Client;
use crate::blocking::{blocking, searching};
use crate::body::Unread;
use crate::params::{Path, Query};
use crate::problem::Problem;
use crate::schema::{PartitionInfo, Trim, Trimmed};

const NS_PER_MS: u64 = 1_000_000;

/// A partition by the names in a path.
pub(super) fn find(client: &Client, topic: &str, partition: u32) -> Result<Arc<Partition>, Problem> {
    let topic = client.broker.topic(&TopicName::new(topic)?)?;
    Ok(Arc::clone(topic.partition(PartitionId(partition))?))
}

/// All partitions of a topic.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PartitionList {
    /// In the order of their numbers.
    partitions: Vec<PartitionInfo>,
}

/// Lists the partitions of a topic.
#[utoipa::path(get, path = "/api/v1/topics/{topic}/partitions", tag = "partitions", params(("topic" = String, Path, description = "The topic")), responses((status = 200, body = PartitionList), (status = "default", body = Problem)))]
pub(super) async fn list(client: Client, Path(topic): Path<String>) -> Result<Answer<PartitionList>, Problem> {
    client.caller.check_sees_topic(&topic)?;
    let topic = client.broker.topic(&TopicName::new(&topic)?)?;
    Ok(Answer(PartitionList { partitions: topic.partitions().iter().map(|partition| PartitionInfo::of(partition)).collect() }))
}

/// Describes a partition.
#[utoipa::path(get, path = "/api/v1/topics/{topic}/partitions/{partition}", tag = "partitions", params(("topic" = String, Path, description = "The topic"), ("partition" = u32, Path, description = "Its number")), responses((status = 200, body = PartitionInfo), (status = "default", body = Problem)))]
pub(super) async fn describe(
    client: Client,
    Path((topic, partition)): Path<(String, u32)>,
) -> Result<Answer<PartitionInfo>, Problem> {
    client.caller.check_sees_topic(&topic)?;
    Ok(Answer(PartitionInfo::of(&*find(&client, &topic, partition)?)))
}

/// Deletes the records of a partition before an offset, for good.
#[utoipa::path(post, path = "/api/v1/topics/{topic}/partitions/{partition}/trim", tag = "partitions", params(("topic" = String, Path, description = "The topic"), ("partition" = u32, Path, description = "Its number")), request_body = Trim, responses((status = 200, body = Trimmed), (status = "default", body = Problem)))]
pub(super) async fn trim(
    mut client: Client,
    Path((topic, partition)): Path<(String, u32)>,
    body: Unread,
) -> Result<Answer<Trimmed>, Problem> {
    client.caller.check_topic(&topic, AccessOperations::ADMINISTER)?;
    let trim: Trim = body.json(&client.broker).await?;
    client.check_topic_now(&topic, AccessOperations::ADMINISTER)?;
    let (partition, broker) = (find(&client, &topic, partition)?, client.broker.clone());
    blocking(move || {
        let before = Offset(trim.before.unwrap_or(u64::MAX));
        let log_start = broker.trim(partition.topic(), partition.id(), before)?.0;
        Ok(Answer(Trimmed { log_start }))
    })
    .await
}

/// Which offset is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OffsetQuery {
    /// That of the first record appended at this time or later, in ms since the Unix epoch.
    time_ms: u64,
}

/// An offset that was asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OffsetFound {
    /// The offset; the high watermark, where there is no such record.
    offset: u64,
}

/// Finds the offset of a time.
#[utoipa::path(get, path = "/api/v1/topics/{topic}/partitions/{partition}/offset", tag = "partitions", params(("topic" = String, Path, description = "The topic"), ("partition" = u32, Path, description = "Its number"), OffsetQuery), responses((status = 200, body = OffsetFound), (status = "default", body = Problem)))]
pub(super) async fn offset(
    client: Client,
    Path((topic, partition)): Path<(String, u32)>,
    Query(query): Query<OffsetQuery>,
) -> Result<Answer<OffsetFound>, Problem> {
    client.caller.check_sees_topic(&topic)?;
    let partition = find(&client, &topic, partition)?;
    let offset = searching(&client.broker, move || Ok(at_time(&partition, query.time_ms)?)).await?;
    Ok(Answer(OffsetFound { offset }))
}

/// Blocks: it searches in the log.
pub(super) fn at_time(partition: &Partition, time_ms: u64) -> Result<u64, BrokerError> {
    Ok(partition.log()?.find_time(time_ms.saturating_mul(NS_PER_MS))?.0)
}
