//! A commit: one position, one byte in answer once it is on disk; a refused one gets none.

use hermit_proto::session::AccessOperations;
use hermit_proto::v1::COMMIT_STORED;
use hermit_proto::{GroupName, LeaderEpoch, Offset, PartitionId, TopicName};

use super::access::Guard;
use crate::broker::Position;
use crate::error::BrokerError;
use crate::server::connection::{Connection, End};

pub(in crate::server) async fn commit(
    connection: Connection<'_>,
    group: GroupName,
    topic: TopicName,
    partition: PartitionId,
    offset: Offset,
) -> End {
    // Looked at for this one commit.
    let signal = std::sync::Arc::new(crate::signal::Signal::new());
    if let Err(end) = Guard::new(connection.broker, Some(group.as_str()), &topic, AccessOperations::CONSUME, &signal) {
        return end;
    }
    match store(&connection, &group, &topic, partition, offset).await {
        Ok(()) => match connection.write_all(&[COMMIT_STORED]).await {
            Ok(()) => End::Peer,
            Err(end) => end,
        },
        Err(error) => End::Refused(format!(
            "commit of {offset} for group {group}, topic {topic}, partition {partition}: {}",
            crate::error::line(&error)
        )),
    }
}

async fn store(
    connection: &Connection<'_>,
    group: &GroupName,
    topic: &TopicName,
    partition: PartitionId,
    offset: Offset,
) -> Result<(), BrokerError> {
    let topic = connection.broker.topic(topic)?.meta.id;
    let position = Position { topic, partition, offset, leader_epoch: LeaderEpoch::UNKNOWN };
    connection.broker.commit(group, &[position])?.committed().await
}
