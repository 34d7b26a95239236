//! DescribeBroker: what a broker is, and how it fares.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response, empty_message};
use super::operation::Operation;
use crate::ids::LeaderEpoch;

empty_message! {
    /// Asks what the broker is and how it fares.
    DescribeBrokerRequest, DescribeBroker
}

impl Request for DescribeBrokerRequest {
    type Response = DescribeBrokerResponse;
}

/// A setting, as it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSetting {
    /// Its name, as in the settings file.
    pub name: String,
    /// Its value, as it could be written there.
    pub value: String,
}

/// A broker, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribeBrokerResponse {
    /// Name and version of the program.
    pub broker: String,
    /// The same for the whole life of a data directory.
    pub broker_id: u128,
    /// Another one after each start.
    pub instance: u64,
    /// Rises at each unclean start.
    pub leader_epoch: LeaderEpoch,
    /// When it was started, in ns since the Unix epoch by its clock.
    pub started_at: u64,
    /// Its topics, without internal ones.
    pub topics: u32,
    /// Their partitions.
    pub partitions: u32,
    /// Groups with members or positions.
    pub groups: u32,
    /// Client connections.
    pub connections: u32,
    /// Their limit.
    pub max_connections: u32,
    /// Bytes received and not yet handed on.
    pub inflight_bytes: u64,
    /// Their limit.
    pub max_inflight_bytes: u64,
    /// Bytes of all logs, internal ones included.
    pub log_bytes: u64,
    /// Free bytes on the disk.
    pub free_bytes: u64,
    /// Bytes of deleted log files that come free when the last reader of them is done.
    pub held_bytes: u64,
    /// The settings that hold, in the order of the reference.
    pub settings: Vec<BrokerSetting>,
}

impl Message for DescribeBrokerResponse {
    const OPERATION: Operation = Operation::DescribeBroker;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("broker", &self.broker);
        body.u128(self.broker_id);
        body.u64(self.instance);
        body.u32(self.leader_epoch.0);
        body.u64(self.started_at);
        body.u32(self.topics);
        body.u32(self.partitions);
        body.u32(self.groups);
        body.u32(self.connections);
        body.u32(self.max_connections);
        body.u64(self.inflight_bytes);
        body.u64(self.max_inflight_bytes);
        body.u64(self.log_bytes);
        body.u64(self.free_bytes);
        body.u64(self.held_bytes);
        body.list("settings", &self.settings, |body, setting| {
            body.string("name", &setting.name);
            body.string("value", &setting.value);
        });
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            broker: body.string("broker")?.to_owned(),
            broker_id: body.u128("broker_id")?,
            instance: body.u64("instance")?,
            leader_epoch: LeaderEpoch(body.u32("leader_epoch")?),
            started_at: body.u64("started_at")?,
            topics: body.u32("topics")?,
            partitions: body.u32("partitions")?,
            groups: body.u32("groups")?,
            connections: body.u32("connections")?,
            max_connections: body.u32("max_connections")?,
            inflight_bytes: body.u64("inflight_bytes")?,
            max_inflight_bytes: body.u64("max_inflight_bytes")?,
            log_bytes: body.u64("log_bytes")?,
            free_bytes: body.u64("free_bytes")?,
            held_bytes: body.u64("held_bytes")?,
            settings: body.list("settings", |item| {
                Ok(BrokerSetting { name: item.string("name")?.to_owned(), value: item.string("value")?.to_owned() })
            })?,
        })
    }
}

impl Response for DescribeBrokerResponse {}
