//! A list of partitions, each named by its topic's id and its number.

use super::body::{BodyError, BodyReader, BodyWriter};
use crate::ids::{PartitionId, TopicId};

pub(super) fn write(body: &mut BodyWriter<'_>, field: &'static str, partitions: &[(TopicId, PartitionId)]) {
    body.list(field, partitions, |body, (topic, partition)| {
        body.u128(topic.0);
        body.u32(partition.0);
    });
}

pub(super) fn read(body: &mut BodyReader<'_>, field: &'static str) -> Result<Vec<(TopicId, PartitionId)>, BodyError> {
    body.list(field, |item| Ok((TopicId(item.u128("topic")?), PartitionId(item.u32("partition")?))))
}
