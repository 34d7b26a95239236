//! From the broker's numbers to samples: one metric after the other, in pieces, so that no more than a piece of the text is held.

use std::collections::HashMap;
use std::time::SystemTime;

use hermit_broker::metrics::{
    BrokerMetrics, ByName, ConnectionMetrics, DiskMetrics, GroupMetrics, Health, MemoryMetrics, PartitionMetrics, ProcessMetrics,
    RecoveryMetrics, TopicMetrics, UpkeepMetrics,
};
use hermit_broker::proto::{PartitionId, TopicId, TopicName};

use super::encode::{Encoder, Format, Labels};
use super::families::{self, Family};

/// All metrics as text, piece by piece. It holds the numbers of one moment, and nothing of the broker.
pub(super) struct Exposition {
    metrics: BrokerMetrics,
    http: HttpMetrics,
    process: Option<ProcessMetrics>,
    topics: Vec<TopicTotals>,
    groups: Vec<GroupTotals>,
    /// Empty where partitions are not shown.
    partition_labels: Vec<Labels>,
    encoder: Encoder,
    shows_partitions: bool,
    step: usize,
    /// How far the metric at hand is, in samples.
    at: usize,
}

/// What the server over HTTP tells of itself.
#[derive(Default)]
pub(super) struct HttpMetrics {
    /// Counts of answers, by status.
    pub(super) responses: Vec<(u16, u64)>,
    /// When the certificate ends to be valid that is shown.
    pub(super) certificate_end: Option<SystemTime>,
}

/// A topic's partitions added up.
struct TopicTotals {
    labels: Labels,
    received: u64,
    received_bytes: u64,
    batches: u64,
    delivered: u64,
    delivered_bytes: u64,
    messages: u64,
    size_bytes: u64,
    segments: u64,
    partitions: u64,
    unwritable: u64,
    damaged_ranges: u64,
}

/// A group's lag in one topic.
struct GroupTotals {
    labels: Labels,
    messages: u64,
    missed: u64,
    /// In seconds, of the partition that is longest behind.
    seconds: Option<f64>,
    partitions: Vec<PartitionLag>,
}

struct PartitionLag {
    partition: PartitionId,
    messages: u64,
    seconds: Option<f64>,
}

type PartitionValue = fn(&PartitionMetrics) -> u64;
type TopicValue = fn(&TopicTotals) -> u64;

const TOPIC_FAMILIES: [(Family, TopicValue); 11] = [
    (families::TOPIC_RECEIVED, |topic| topic.received),
    (families::TOPIC_RECEIVED_BYTES, |topic| topic.received_bytes),
    (families::TOPIC_BATCHES, |topic| topic.batches),
    (families::TOPIC_DELIVERED, |topic| topic.delivered),
    (families::TOPIC_DELIVERED_BYTES, |topic| topic.delivered_bytes),
    (families::TOPIC_MESSAGES, |topic| topic.messages),
    (families::TOPIC_SIZE, |topic| topic.size_bytes),
    (families::TOPIC_SEGMENTS, |topic| topic.segments),
    (families::TOPIC_PARTITIONS, |topic| topic.partitions),
    (families::TOPIC_UNWRITABLE, |topic| topic.unwritable),
    (families::TOPIC_DAMAGED, |topic| topic.damaged_ranges),
];

const PARTITION_FAMILIES: [(Family, PartitionValue); 11] = [
    (families::PARTITION_RECEIVED, |partition| partition.log.appended_records),
    (families::PARTITION_RECEIVED_BYTES, |partition| partition.log.appended_bytes),
    (families::PARTITION_DELIVERED, |partition| partition.delivered_records),
    (families::PARTITION_DELIVERED_BYTES, |partition| partition.delivered_bytes),
    (families::PARTITION_START, |partition| partition.log.bounds.log_start.0),
    (families::PARTITION_HIGH_WATERMARK, |partition| partition.log.bounds.high_watermark.0),
    (families::PARTITION_END, |partition| partition.log.bounds.log_end.0),
    (families::PARTITION_SIZE, |partition| partition.log.size_bytes),
    (families::PARTITION_SEGMENTS, |partition| partition.log.segments),
    (families::PARTITION_WRITABLE, |partition| u64::from(partition.health == Health::Good)),
    (families::PARTITION_DAMAGED, |partition| partition.log.fenced_ranges),
];

/// What is not of topics, partitions and groups comes first, and the last line last.
const FIRST_TOPIC_STEP: usize = 1;
const FIRST_PARTITION_STEP: usize = FIRST_TOPIC_STEP + TOPIC_FAMILIES.len();
const FIRST_GROUP_STEP: usize = FIRST_PARTITION_STEP + PARTITION_FAMILIES.len();
const LAST_STEP: usize = FIRST_GROUP_STEP + 7;

impl Exposition {
    pub(super) fn new(
        metrics: BrokerMetrics,
        http: HttpMetrics,
        process: Option<ProcessMetrics>,
        format: Format,
        shows_partitions: bool,
    ) -> Self {
        let topics: Vec<_> = metrics.topics.iter().map(TopicTotals::of).collect();
        let partition_labels = if shows_partitions { partition_labels(&metrics.topics, &topics) } else { Vec::new() };
        let names = metrics.topics.iter().map(|topic| (topic.topic.meta.id, &topic.topic.meta.name)).collect();
        let groups = metrics.groups.iter().flat_map(|group| group_totals(group, &names)).collect();
        let encoder = Encoder::new(format);
        Self { metrics, http, process, topics, groups, partition_labels, encoder, shows_partitions, step: 0, at: 0 }
    }

    /// Goes on with the step at hand, until it is done or a piece is full.
    fn take_step(&mut self) {
        let is_done = match self.step {
            0 => {
                let since = self.metrics.started_at;
                self.encoder.count_since(since);
                broker(&mut self.encoder, &self.metrics);
                // These count from before the broker was there.
                let process_start = self.process.as_ref().map(|process| epoch_nanos(process.start_time_seconds));
                self.encoder.count_since(process_start.unwrap_or(since).min(since));
                self.encoder.begin(&families::HTTP_RESPONSES);
                for (code, count) in &self.http.responses {
                    self.encoder.sample(&Labels::of([("code", code.to_string().as_str())]), count);
                }
                certificates(&mut self.encoder, [("native", self.metrics.certificate_end), ("http", self.http.certificate_end)]);
                if let Some(process) = &self.process {
                    show_process(&mut self.encoder, process);
                }
                self.encoder.count_since(since);
                true
            }
            LAST_STEP => {
                self.encoder.end();
                true
            }
            FIRST_GROUP_STEP.. => self.groups(self.step - FIRST_GROUP_STEP),
            FIRST_PARTITION_STEP.. => PARTITION_FAMILIES.get(self.step - FIRST_PARTITION_STEP).is_none_or(|(family, value)| {
                let partitions = self.metrics.topics.iter().flat_map(|topic| &topic.partitions).zip(&self.partition_labels);
                let show = |encoder: &mut Encoder, (partition, labels): (&PartitionMetrics, &Labels)| {
                    encoder.sample(labels, value(partition));
                };
                !self.shows_partitions || go_on(&mut self.encoder, &mut self.at, family, partitions, show)
            }),
            step => TOPIC_FAMILIES.get(step - FIRST_TOPIC_STEP).is_none_or(|(family, value)| {
                go_on(&mut self.encoder, &mut self.at, family, &self.topics, |encoder, topic| {
                    encoder.sample(&topic.labels, value(topic));
                })
            }),
        };
        if is_done {
            (self.step, self.at) = (self.step + 1, 0);
        }
    }

    /// Goes on with the metric of groups that has this number; whether it is done.
    fn groups(&mut self, number: usize) -> bool {
        let Self { encoder, at, metrics, groups, shows_partitions, .. } = self;
        let lags = || groups.iter().flat_map(|group| group.partitions.iter().map(move |lag| (group, lag)));
        match number {
            0 => {
                encoder.single(&families::GROUPS, metrics.groups.len() as u64 + metrics.groups_left_out);
                encoder.single(&families::GROUPS_LEFT_OUT, metrics.groups_left_out);
                true
            }
            1 => go_on(encoder, at, &families::GROUP_MEMBERS, &metrics.groups, |encoder, group| {
                encoder.sample(&Labels::of([("group", group.name.as_str())]), group.members);
            }),
            2 => go_on(encoder, at, &families::GROUP_LAG, groups.iter(), |encoder, group| {
                encoder.sample(&group.labels, group.messages);
            }),
            3 => go_on(encoder, at, &families::GROUP_LAG_TIME, groups.iter(), |encoder, group| {
                if let Some(seconds) = group.seconds {
                    encoder.sample(&group.labels, seconds);
                }
            }),
            4 => go_on(encoder, at, &families::GROUP_MISSED, groups.iter(), |encoder, group| {
                encoder.sample(&group.labels, group.missed);
            }),
            _ if !*shows_partitions => true,
            5 => go_on(encoder, at, &families::GROUP_PARTITION_LAG, lags(), |encoder, (group, lag)| {
                encoder.sample(&group.labels_of(lag), lag.messages);
            }),
            _ => go_on(encoder, at, &families::GROUP_PARTITION_LAG_TIME, lags(), |encoder, (group, lag)| {
                if let Some(seconds) = lag.seconds {
                    encoder.sample(&group.labels_of(lag), seconds);
                }
            }),
        }
    }
}

/// Goes on with a metric of many samples, of which so many were shown, until it is done or a piece is full; whether it is done.
fn go_on<T>(
    encoder: &mut Encoder,
    at: &mut usize,
    family: &Family,
    items: impl IntoIterator<Item = T>,
    show: impl Fn(&mut Encoder, T),
) -> bool {
    if *at == 0 {
        encoder.begin(family);
    }
    for item in items.into_iter().skip(*at) {
        show(encoder, item);
        *at += 1;
        if encoder.is_full() {
            return false;
        }
    }
    true
}

impl Iterator for Exposition {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        while self.step <= LAST_STEP {
            self.take_step();
            if self.encoder.is_full() {
                break;
            }
        }
        Some(self.encoder.take()).filter(|piece| !piece.is_empty())
    }
}

impl GroupTotals {
    fn labels_of(&self, lag: &PartitionLag) -> Labels {
        self.labels.and("partition", &lag.partition.to_string())
    }
}

impl TopicTotals {
    fn of(topic: &TopicMetrics) -> Self {
        let labels = Labels::of([("topic", topic.topic.meta.name.as_str())]);
        let sum = |value: PartitionValue| topic.partitions.iter().map(value).fold(0, u64::wrapping_add);
        Self {
            labels,
            received: sum(|partition| partition.log.appended_records),
            received_bytes: sum(|partition| partition.log.appended_bytes),
            batches: sum(|partition| partition.log.appended_batches),
            delivered: sum(|partition| partition.delivered_records),
            delivered_bytes: sum(|partition| partition.delivered_bytes),
            messages: sum(|partition| partition.log.bounds.high_watermark.0.saturating_sub(partition.log.bounds.log_start.0)),
            size_bytes: sum(|partition| partition.log.size_bytes),
            segments: sum(|partition| partition.log.segments),
            partitions: topic.partitions.len() as u64,
            unwritable: sum(|partition| u64::from(partition.health != Health::Good)),
            damaged_ranges: sum(|partition| partition.log.fenced_ranges),
        }
    }
}

/// Those of all partitions, in their order.
fn partition_labels(topics: &[TopicMetrics], totals: &[TopicTotals]) -> Vec<Labels> {
    let pairs = topics.iter().zip(totals);
    let labels = pairs.flat_map(|(topic, totals)| {
        topic.partitions.iter().map(|partition| totals.labels.and("partition", &partition.partition.to_string()))
    });
    labels.collect()
}

/// A group's lags by topic. A topic that is gone by now is left out.
fn group_totals(group: &GroupMetrics, names: &HashMap<TopicId, &TopicName>) -> Vec<GroupTotals> {
    let by_topic = group.partitions.chunk_by(|a, b| a.topic == b.topic);
    let totals = by_topic.filter_map(|lags| {
        let topic = names.get(&lags.first()?.topic)?;
        let labels = Labels::of([("group", group.name.as_str()), ("topic", topic.as_str())]);
        let partitions = lags.iter().map(|lag| PartitionLag {
            partition: lag.partition,
            messages: lag.messages,
            seconds: lag.time.map(|time| time.as_secs_f64()),
        });
        let partitions: Vec<_> = partitions.collect();
        let messages = partitions.iter().map(|lag| lag.messages).fold(0, u64::saturating_add);
        let missed = lags.iter().map(|lag| lag.missed).fold(0, u64::saturating_add);
        let seconds = partitions.iter().filter_map(|lag| lag.seconds).reduce(f64::max);
        Some(GroupTotals { labels, messages, missed, seconds, partitions })
    });
    totals.collect()
}

#[expect(clippy::cast_precision_loss, reason = "times since 1970 lose less than a microsecond")]
fn epoch_seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times since 1970 are positive, and end at what fits")]
const fn epoch_nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

fn broker(encoder: &mut Encoder, metrics: &BrokerMetrics) {
    encoder.begin(&families::BUILD_INFO).sample(&Labels::of([("version", env!("CARGO_PKG_VERSION"))]), 1);
    encoder.single(&families::START_TIME, epoch_seconds(metrics.started_at));
    encoder.single(&families::TOPICS, metrics.topics.len());
    let partitions = || metrics.topics.iter().flat_map(|topic| &topic.partitions);
    encoder.begin(&families::PARTITIONS);
    for (name, health) in [("good", Health::Good), ("read_only", Health::ReadOnly), ("down", Health::Down)] {
        let count = partitions().filter(|partition| partition.health == health).count();
        encoder.sample(&Labels::of([("health", name)]), count);
    }
    encoder.single(&families::PARTITIONS_DAMAGED, partitions().filter(|partition| partition.log.fenced_ranges > 0).count());
    connections(encoder, &metrics.connections);
    by_name(encoder, &families::LOGINS, "kind", &metrics.logins);
    by_name(encoder, &families::LOGIN_FAILURES, "reason", &metrics.failed_logins);
    by_name(encoder, &families::REQUEST_ERRORS, "status", &metrics.refusals);
    let MemoryMetrics { used_bytes, max_bytes } = metrics.memory;
    encoder.single(&families::MEMORY_USED, used_bytes);
    encoder.single(&families::MEMORY_LIMIT, max_bytes);
    if let Some(metrics) = &metrics.disk {
        disk(encoder, metrics);
    }
    encoder.histogram(&families::APPEND_TIME, &metrics.times.append);
    encoder.single(&families::FLUSH_OLDEST, metrics.times.oldest_flush.as_secs_f64());
    encoder.histogram(&families::FLUSH_TIME, &metrics.times.flush);
    let RecoveryMetrics { clean, partitions, bytes, time } = metrics.recovery;
    encoder.single(&families::RECOVERY_CLEAN, u8::from(clean));
    encoder.single(&families::RECOVERY_PARTITIONS, partitions);
    encoder.single(&families::RECOVERY_BYTES, bytes);
    encoder.single(&families::RECOVERY_TIME, time.as_secs_f64());
    upkeep(encoder, &metrics.upkeep);
}

fn connections(encoder: &mut Encoder, metrics: &ConnectionMetrics) {
    encoder.begin(&families::CONNECTIONS);
    encoder.sample(&Labels::of([("state", "open")]), metrics.now.open);
    encoder.sample(&Labels::of([("state", "handshake")]), metrics.now.in_handshake);
    encoder.single(&families::CONNECTIONS_LIMIT, metrics.max_open);
    encoder.single(&families::CONNECTIONS_ACCEPTED, metrics.accepted);
    encoder.single(&families::ACCEPT_ERRORS, metrics.not_taken_in);
    by_name(encoder, &families::CONNECTIONS_CLOSED, "reason", &metrics.ended);
}

/// Those of the ports that have one.
fn certificates(encoder: &mut Encoder, ends: [(&'static str, Option<SystemTime>); 2]) {
    encoder.begin(&families::CERTIFICATE_END);
    for (port, end) in ends {
        let Some(end) = end else { continue };
        let seconds = end.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        encoder.sample(&Labels::of([("port", port)]), seconds);
    }
}

fn by_name(encoder: &mut Encoder, family: &Family, label: &'static str, counts: &ByName) {
    encoder.begin(family);
    for (name, count) in counts {
        encoder.sample(&Labels::of([(label, *name)]), count);
    }
}

fn disk(encoder: &mut Encoder, metrics: &DiskMetrics) {
    let DiskMetrics { free_bytes, total_bytes, low_bytes, is_low, held_bytes } = *metrics;
    encoder.single(&families::DISK_FREE, free_bytes);
    encoder.single(&families::DISK_SIZE, total_bytes);
    encoder.single(&families::DISK_THRESHOLD, low_bytes);
    encoder.single(&families::DISK_LOW, u8::from(is_low));
    encoder.single(&families::DISK_HELD, held_bytes);
}

fn upkeep(encoder: &mut Encoder, metrics: &UpkeepMetrics) {
    let UpkeepMetrics { retention, trims, compaction, compaction_rounds, compaction_frames, scrub } = metrics;
    let all = [("retention", retention), ("trim", trims), ("compaction", compaction)];
    let families = [families::FREED_SEGMENTS, families::FREED_BYTES, families::UPKEEP_FAILURES];
    for (at, family) in families.iter().enumerate() {
        encoder.begin(family);
        for (by, freed) in all {
            let value = [freed.segments, freed.bytes, freed.failures];
            // Who trims is told himself when that fails.
            if let Some(value) = value.get(at).filter(|_| at < 2 || by != "trim") {
                encoder.sample(&Labels::of([("by", by)]), value);
            }
        }
    }
    encoder.single(&families::COMPACTION_ROUNDS, compaction_rounds);
    encoder.single(&families::COMPACTION_FRAMES, compaction_frames);
    encoder.single(&families::SCRUB_SEGMENTS, scrub.segments);
    encoder.single(&families::SCRUB_BYTES, scrub.bytes);
    encoder.single(&families::SCRUB_DAMAGED, scrub.damaged_ranges);
    encoder.single(&families::SCRUB_INDEXES, scrub.rebuilt_indexes);
    encoder.single(&families::SCRUB_ERRORS, scrub.read_errors);
    encoder.single(&families::SCRUB_PASSES, scrub.passes);
    encoder.single(&families::SCRUB_BEGAN, epoch_seconds(scrub.pass_began_at));
    encoder.single(&families::SCRUB_ENDED, epoch_seconds(scrub.pass_ended_at));
}

fn show_process(encoder: &mut Encoder, process: &ProcessMetrics) {
    encoder.single(&families::CPUS, process.cpus);
    encoder.single(&families::PROCESS_CPU, process.cpu_seconds);
    encoder.single(&families::PROCESS_RESIDENT, process.resident_bytes);
    encoder.single(&families::PROCESS_VIRTUAL, process.virtual_bytes);
    encoder.single(&families::PROCESS_THREADS, process.threads);
    encoder.single(&families::PROCESS_OPEN_FDS, process.open_fds);
    encoder.single(&families::PROCESS_MAX_FDS, process.max_fds);
    encoder.single(&families::PROCESS_START, process.start_time_seconds);
}
