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

/// A broker's figures. Counts are those since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerFigures {
    /// When they were taken, in ns since the Unix epoch by the broker's clock.
    pub taken_at: u64,
    /// Size in bytes of the file system that has the data; 0 if it is not known.
    pub disk_bytes: u64,
    /// Below so many free bytes produce requests are refused; 0: never.
    pub disk_low_bytes: u64,
    /// Whether they are refused now.
    pub disk_is_low: bool,
    /// Partitions, internal ones included, that take no writes until a restart.
    pub read_only_partitions: u32,
    /// Partitions that could not be opened.
    pub down_partitions: u32,
    /// Partitions with ranges that are known to be damaged, or were left out on purpose.
    pub damaged_partitions: u32,
    /// Records that were stored.
    pub appended_records: u64,
    /// Bytes of their frames.
    pub appended_bytes: u64,
    /// Records that were handed to consumers; one that two read counts twice.
    pub delivered_records: u64,
    /// Bytes of their frames.
    pub delivered_bytes: u64,
    /// The scrub.
    pub scrub: ScrubFigures,
}

/// What the scrub has done since the broker's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubFigures {
    /// Segments that were verified to their ends.
    pub segments: u64,
    /// Bytes of them that were read.
    pub bytes: u64,
    /// Ranges that were found damaged, and were not known to be.
    pub damaged_ranges: u64,
    /// Indexes that were damaged or missing, and were made again.
    pub rebuilt_indexes: u64,
    /// How often a segment could not be read.
    pub read_errors: u64,
    /// Passes over all partitions that came to their ends.
    pub passes: u64,
    /// When the pass that is under way, or else the last one, began, in ns since the Unix epoch, also where that was before a restart; 0: there was none.
    pub pass_began_at: u64,
    /// When the last pass ended, in ns since the Unix epoch; 0: none has since the start.
    pub pass_ended_at: u64,
}

impl BrokerFigures {
    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u64(self.taken_at);
        body.u64(self.disk_bytes);
        body.u64(self.disk_low_bytes);
        body.flag(self.disk_is_low);
        body.u32(self.read_only_partitions);
        body.u32(self.down_partitions);
        body.u32(self.damaged_partitions);
        body.u64(self.appended_records);
        body.u64(self.appended_bytes);
        body.u64(self.delivered_records);
        body.u64(self.delivered_bytes);
        let ScrubFigures { segments, bytes, damaged_ranges, rebuilt_indexes, read_errors, passes, pass_began_at, pass_ended_at } =
            self.scrub;
        [segments, bytes, damaged_ranges, rebuilt_indexes, read_errors, passes, pass_began_at, pass_ended_at]
            .into_iter()
            .for_each(|figure| body.u64(figure));
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            taken_at: body.u64("taken_at")?,
            disk_bytes: body.u64("disk_bytes")?,
            disk_low_bytes: body.u64("disk_low_bytes")?,
            disk_is_low: body.flag("disk_is_low")?,
            read_only_partitions: body.u32("read_only_partitions")?,
            down_partitions: body.u32("down_partitions")?,
            damaged_partitions: body.u32("damaged_partitions")?,
            appended_records: body.u64("appended_records")?,
            appended_bytes: body.u64("appended_bytes")?,
            delivered_records: body.u64("delivered_records")?,
            delivered_bytes: body.u64("delivered_bytes")?,
            scrub: ScrubFigures {
                segments: body.u64("scrub_segments")?,
                bytes: body.u64("scrub_bytes")?,
                damaged_ranges: body.u64("scrub_damaged_ranges")?,
                rebuilt_indexes: body.u64("scrub_rebuilt_indexes")?,
                read_errors: body.u64("scrub_read_errors")?,
                passes: body.u64("scrub_passes")?,
                pass_began_at: body.u64("scrub_pass_began_at")?,
                pass_ended_at: body.u64("scrub_pass_ended_at")?,
            },
        })
    }
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
    /// Its figures; `None` from a broker of before there were any.
    pub figures: Option<BrokerFigures>,
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
        if let Some(figures) = &self.figures {
            figures.write(body);
        }
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
            figures: if body.rest().is_empty() { None } else { Some(BrokerFigures::read(body)?) },
        })
    }
}

impl Response for DescribeBrokerResponse {}
