//! Rates, from one sample to the next.

use std::collections::HashMap;
use std::time::Duration;

use hermit_client::TopicId;
use serde_json::{Value, json};

use crate::observe::{Sample, lag, state};
use crate::time::seconds;

/// A topic at one moment. Rates are per second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TopicRow {
    pub(super) name: String,
    pub(super) partitions: usize,
    /// Partitions that are not in order.
    pub(super) unhealthy: usize,
    pub(super) records_in: u64,
    /// By how much the log grew; not at all where retention took more than came.
    pub(super) bytes_in: u64,
    /// Of all groups together, by what they commit.
    pub(super) records_out: u64,
    pub(super) records: u64,
    pub(super) log_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupRow {
    pub(super) name: String,
    pub(super) state: &'static str,
    pub(super) members: usize,
    pub(super) lag: u64,
    pub(super) lag_ms: u64,
    /// Records that it commits, per second.
    pub(super) records_out: u64,
}

/// All that is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) broker: String,
    pub(super) listen: Option<String>,
    pub(super) uptime: Option<Duration>,
    pub(super) topics: Vec<TopicRow>,
    /// The one that is furthest behind first.
    pub(super) groups: Vec<GroupRow>,
    /// Of the whole broker, by its own counters; an older one has none.
    pub(super) totals: Option<Totals>,
    pub(super) connections: (u64, u64),
    pub(super) memory: (u64, u64),
    /// Used and all; all is 0 where it is not known.
    pub(super) disk: (u64, u64),
    pub(super) free_bytes: u64,
    pub(super) log_bytes: u64,
    pub(super) unhealthy_partitions: u64,
    /// Why groups are missing, if they are.
    pub(super) groups_unknown: Option<String>,
}

/// What the whole broker takes and gives, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) records_in: u64,
    pub(super) bytes_in: u64,
    pub(super) records_out: u64,
    pub(super) bytes_out: u64,
}

/// What happened in so long a time, per second.
fn rate(before: u64, now: u64, elapsed: Duration) -> u64 {
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let grown = u128::from(now.saturating_sub(before)) * 1000 / u128::from(ms);
    u64::try_from(grown).unwrap_or(u64::MAX)
}

/// A topic's records and bytes.
fn extent(topic: &hermit_client::TopicMetadata) -> (u64, u64, u64) {
    let partitions = || topic.partitions.iter();
    let end = partitions().map(|partition| partition.high_watermark.0).fold(0, u64::saturating_add);
    let start = partitions().map(|partition| partition.log_start.0).fold(0, u64::saturating_add);
    (end, end.saturating_sub(start), partitions().map(|partition| partition.log_bytes).fold(0, u64::saturating_add))
}

type Positions<'a> = HashMap<(&'a str, TopicId, u32), u64>;

/// Where groups stand.
fn positions(sample: &Sample) -> Positions<'_> {
    sample
        .groups
        .iter()
        .flat_map(|(name, group)| {
            group.partitions.iter().filter_map(move |at| Some(((name.as_str(), at.topic, at.partition.0), at.committed?.0)))
        })
        .collect()
}

/// What to show of a sample, with the one before it for the rates; without, they are 0.
pub(super) fn view(before: Option<&Sample>, now: &Sample, elapsed: Duration) -> View {
    // Another life of the broker counts anew.
    let before = before.filter(|before| before.broker.instance == now.broker.instance);
    let (mut by_topic, mut by_group) = (HashMap::<TopicId, u64>::new(), HashMap::<&str, u64>::new());
    if let Some(before) = before {
        let were = positions(before);
        for (key @ (group, topic, _), position) in positions(now) {
            // A group that has just begun has not read all that is behind it.
            let moved = were.get(&key).map_or(0, |was| position.saturating_sub(*was));
            let add = |sum: &mut u64| *sum = sum.saturating_add(moved);
            add(by_topic.entry(topic).or_default());
            add(by_group.entry(group).or_default());
        }
    }
    let were: HashMap<_, _> =
        before.iter().flat_map(|before| before.topics.iter()).map(|topic| (topic.topic, extent(topic))).collect();
    let topics = now.topics.iter().map(|topic| {
        let (end, records, log_bytes) = extent(topic);
        let (was_end, _, was_bytes) = were.get(&topic.topic).copied().unwrap_or((end, records, log_bytes));
        TopicRow {
            name: topic.name.clone(),
            partitions: topic.partitions.len(),
            unhealthy: topic.partitions.iter().filter(|partition| !partition.status.is_ok()).count(),
            records_in: rate(was_end, end, elapsed),
            bytes_in: rate(was_bytes, log_bytes, elapsed),
            records_out: rate(0, by_topic.get(&topic.topic).copied().unwrap_or(0), elapsed),
            records,
            log_bytes,
        }
    });
    let (broker, figures) = (&now.broker, now.figures());
    let totals = broker.figures.map(|figures| {
        let was = before.and_then(|before| before.broker.figures).unwrap_or(figures);
        Totals {
            records_in: rate(was.appended_records, figures.appended_records, elapsed),
            bytes_in: rate(was.appended_bytes, figures.appended_bytes, elapsed),
            records_out: rate(was.delivered_records, figures.delivered_records, elapsed),
            bytes_out: rate(was.delivered_bytes, figures.delivered_bytes, elapsed),
        }
    });
    let ill = broker.figures.map(|figures| u64::from(figures.read_only_partitions) + u64::from(figures.down_partitions));
    View {
        broker: broker.broker.clone(),
        listen: now.setting("listen").map(str::to_owned),
        uptime: now.uptime(),
        topics: topics.collect(),
        groups: groups(now, &by_group, elapsed),
        totals,
        connections: (broker.connections.into(), broker.max_connections.into()),
        memory: (broker.inflight_bytes, broker.max_inflight_bytes),
        disk: (figures.disk_bytes.saturating_sub(broker.free_bytes), figures.disk_bytes),
        free_bytes: broker.free_bytes,
        log_bytes: broker.log_bytes,
        unhealthy_partitions: ill.unwrap_or_else(|| now.unhealthy().count() as u64),
        groups_unknown: now.groups_unknown.first().cloned(),
    }
}

fn groups(now: &Sample, moved: &HashMap<&str, u64>, elapsed: Duration) -> Vec<GroupRow> {
    let row = |(name, group): &(String, hermit_client::DescribeGroupResponse)| {
        let (messages, ms) = lag(group);
        GroupRow {
            name: name.clone(),
            state: state(group.state),
            members: group.members.len(),
            lag: messages,
            lag_ms: ms,
            records_out: rate(0, moved.get(name.as_str()).copied().unwrap_or(0), elapsed),
        }
    };
    let mut rows: Vec<_> = now.groups.iter().map(row).collect();
    rows.sort_by(|one, other| other.lag.cmp(&one.lag).then_with(|| one.name.cmp(&other.name)));
    rows
}

impl View {
    /// For programs.
    pub(super) fn json(&self) -> Value {
        let topic = |topic: &TopicRow| {
            json!({
                "topic": topic.name,
                "partitions": topic.partitions,
                "unhealthy_partitions": topic.unhealthy,
                "records_in_per_second": topic.records_in,
                "bytes_in_per_second": topic.bytes_in,
                "records_out_per_second": topic.records_out,
                "records": topic.records,
                "log_bytes": topic.log_bytes,
            })
        };
        let group = |group: &GroupRow| {
            json!({
                "group": group.name,
                "state": group.state,
                "members": group.members,
                "lag": group.lag,
                "lag_seconds": seconds(group.lag_ms),
                "records_out_per_second": group.records_out,
            })
        };
        json!({
            "broker": self.broker,
            "uptime_seconds": self.uptime.map(|up| up.as_secs()),
            "records_in_per_second": self.totals.map(|totals| totals.records_in),
            "bytes_in_per_second": self.totals.map(|totals| totals.bytes_in),
            "records_out_per_second": self.totals.map(|totals| totals.records_out),
            "bytes_out_per_second": self.totals.map(|totals| totals.bytes_out),
            "connections": self.connections.0,
            "max_connections": self.connections.1,
            "inflight_bytes": self.memory.0,
            "max_inflight_bytes": self.memory.1,
            "free_bytes": self.free_bytes,
            "log_bytes": self.log_bytes,
            "unhealthy_partitions": self.unhealthy_partitions,
            "topics": self.topics.iter().map(topic).collect::<Vec<_>>(),
            "groups_unknown": self.groups_unknown,
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
        })
    }
}
