//! What is shown of a real broker.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use bytes::BytesMut;
use hermit_broker::metrics::{BrokerMetrics, GroupMetrics, PartitionMetrics};
use hermit_broker::proto::session::TopicConfig;
use hermit_broker::proto::{GroupName, LeaderEpoch, Offset, PartitionId, ProducedFrame, TopicName};
use hermit_broker::{BrokerConfig, Position};

use super::families::Kind;
use super::*;

/// A broker with a topic of three partitions, and a group that is behind in one of them.
fn broker(dir: &std::path::Path) -> Broker {
    let mut config = BrokerConfig::new(dir);
    (config.reserve_bytes, config.scrub_bytes_per_second) = (0, 0);
    let broker = Broker::open(config).unwrap();
    let topic = broker.create_topic("orders", 3, &TopicConfig::default()).unwrap().meta.id;
    let partition = broker.writable(topic, PartitionId(1)).unwrap();
    let frames = ProducedFrame::message(7, None, b"hello").to_vec().unwrap().repeat(5);
    let mut batch = broker.parse(BytesMut::from(&frames[..])).unwrap();
    broker.append(&partition, &mut batch).unwrap().wait().unwrap();
    let position = Position { topic, partition: PartitionId(1), offset: Offset(2), leader_epoch: LeaderEpoch::UNKNOWN };
    broker.commit(&GroupName::new("billing").unwrap(), &[position]).unwrap().wait().unwrap();
    broker
}

/// Its numbers, as if the topic had 3,000 partitions.
fn wide(broker: &Broker) -> BrokerMetrics {
    let mut metrics = broker.metrics();
    let orders = metrics.topics.iter_mut().find(|topic| topic.topic.meta.name.as_str() == "orders").unwrap();
    let one = orders.partitions[0];
    orders.partitions = (0..3000).map(|number| PartitionMetrics { partition: PartitionId(number), ..one }).collect();
    metrics
}

/// What HTTP tells of itself.
fn http() -> HttpMetrics {
    HttpMetrics { responses: vec![(200, 7)], certificate_end: None }
}

fn text(broker: &Broker, format: Format, shows_partitions: bool) -> String {
    exposition(broker, http(), format, shows_partitions).collect()
}

/// The values by series.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series, value.parse().unwrap())
    });
    let all: Vec<_> = samples.collect();
    let by_series: BTreeMap<_, _> = all.iter().copied().collect();
    assert_eq!(all.len(), by_series.len(), "a series is there twice");
    by_series
}

#[test]
fn each_metric_of_the_table_is_shown_once_and_in_one_piece() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = text(&broker, format, true);
        let types: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let expected: BTreeSet<_> = families::ALL
            .iter()
            .map(|family| if format == Format::OpenMetrics { family.name.to_owned() } else { family.shown_name() })
            .collect();
        assert_eq!(types.len(), expected.len());
        assert_eq!(types.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), expected);
        assert_eq!(text.ends_with("# EOF\n"), format == Format::OpenMetrics);
        samples(&text);
    }
}

#[test]
fn partitions_topics_and_groups_tell_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let text = text(&broker, Format::Prometheus, true);
    let samples = samples(&text);
    for (series, value) in [
        ("hermit_partition_received_messages_total{topic=\"orders\",partition=\"0\"}", 0.0),
        ("hermit_partition_received_messages_total{topic=\"orders\",partition=\"1\"}", 5.0),
        ("hermit_partition_high_watermark_offset{topic=\"orders\",partition=\"1\"}", 5.0),
        ("hermit_partition_writable{topic=\"orders\",partition=\"2\"}", 1.0),
        ("hermit_topic_received_messages_total{topic=\"orders\"}", 5.0),
        ("hermit_topic_partitions{topic=\"orders\"}", 3.0),
        ("hermit_partitions{health=\"good\"}", 4.0),
        ("hermit_partitions{health=\"read_only\"}", 0.0),
        ("hermit_group_members{group=\"billing\"}", 0.0),
        ("hermit_group_lag_messages{group=\"billing\",topic=\"orders\"}", 3.0),
        ("hermit_group_partition_lag_messages{group=\"billing\",topic=\"orders\",partition=\"1\"}", 3.0),
        ("hermit_connections{state=\"open\"}", 0.0),
        ("hermit_http_responses_total{code=\"200\"}", 7.0),
    ] {
        assert_eq!(samples.get(series), Some(&value), "{series}");
    }
    let missed = "hermit_group_missed_messages{group=\"billing\",topic=\"orders\"}";
    assert_eq!(samples[missed], 0.0);
    assert!(samples["hermit_group_lag_seconds{group=\"billing\",topic=\"orders\"}"] > 0.0);
    // Retention has passed the group by.
    let topic = broker.topic(&TopicName::new("orders").unwrap()).unwrap().meta.id;
    broker.trim(topic, PartitionId(1), Offset(4)).unwrap();
    assert_eq!(self::samples(&self::text(&broker, Format::Prometheus, true))[missed], 2.0);
    assert!(samples["hermit_flush_duration_seconds_count"] >= 1.0 && samples["hermit_disk_free_bytes"] > 0.0);
}

#[test]
fn without_partitions_the_topics_stay() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let text = text(&broker, Format::Prometheus, false);
    assert!(!text.contains("partition=\"") && !text.contains("hermit_partition_") && !text.contains("hermit_group_partition_"));
    let samples = samples(&text);
    assert_eq!(samples["hermit_topic_received_messages_total{topic=\"orders\"}"], 5.0);
    assert_eq!(samples["hermit_group_lag_messages{group=\"billing\",topic=\"orders\"}"], 3.0);
}

/// What is shown is held in pieces, however many partitions, topics and groups there are.
#[test]
fn pieces_are_small_and_make_the_same_text() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let mut metrics = wide(&broker);
    let few = metrics.topics.iter().find(|topic| topic.topic.meta.name.as_str() != "orders").unwrap().clone();
    metrics.topics.extend(std::iter::repeat_n(few, 3000));
    let billing = metrics.groups[0].clone();
    metrics.groups.extend(
        (0..3000).map(|number| GroupMetrics { name: GroupName::new(format!("billing-{number}")).unwrap(), ..billing.clone() }),
    );
    let pieces: Vec<_> = Exposition::new(metrics, HttpMetrics::default(), None, Format::Prometheus, true).collect();
    assert!(pieces.len() > 20 && pieces.iter().all(|piece| piece.len() < 2 * (64 << 10)), "{}", pieces.len());
    let text = pieces.concat();
    let shown: BTreeSet<_> = text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    for number in [0, 1499, 2999] {
        for series in [
            format!("hermit_group_members{{group=\"billing-{number}\"}}"),
            format!("hermit_group_lag_messages{{group=\"billing-{number}\",topic=\"orders\"}}"),
        ] {
            assert!(shown.contains(&*series), "{series}");
        }
        assert!(shown.contains(&*format!("hermit_partition_size_bytes{{topic=\"orders\",partition=\"{number}\"}}")), "{number}");
    }
    assert_eq!(text.matches("# TYPE hermit_partition_size_bytes ").count(), 1);
}

#[test]
fn a_count_never_falls() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let before = text(&broker, Format::Prometheus, true);
    broker.trim(broker.topic(&"orders".parse().unwrap()).unwrap().meta.id, PartitionId(1), Offset(5)).unwrap();
    broker.maintain();
    let after = text(&broker, Format::Prometheus, true);
    let after = samples(&after);
    for (series, value) in samples(&before) {
        let name = series.split('{').next().unwrap();
        let is_count = ["_total", "_bucket", "_count", "_sum"].iter().any(|end| name.ends_with(end));
        assert!(!is_count || after[series] >= value, "{series}");
    }
}

/// The metrics of all lists, with how many points each has.
fn listed(pieces: &[String]) -> BTreeMap<String, usize> {
    let mut metrics = BTreeMap::new();
    for piece in pieces {
        let list: Vec<serde_json::Value> = serde_json::from_str(piece).unwrap();
        for metric in list {
            let data = ["sum", "gauge", "histogram"].into_iter().find_map(|kind| metric.get(kind)).unwrap();
            *metrics.entry(metric["name"].as_str().unwrap().to_owned()).or_default() +=
                data["dataPoints"].as_array().unwrap().len();
        }
    }
    metrics
}

#[test]
fn opentelemetry_gets_every_series_that_prometheus_gets_in_lists_of_bounded_size() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let metrics = wide(&broker);
    let shown = |format| {
        let process = ProcessMetrics::read().ok();
        Exposition::new(metrics.clone(), http(), process, format, true).collect::<Vec<_>>()
    };
    let pieces = shown(Format::Otlp { at: 1 });
    assert!(pieces.len() > 3 && pieces.iter().all(|piece| piece.len() < (1 << 20) + (4 << 10)), "{}", pieces.len());
    let text = shown(Format::Prometheus).concat();
    let mut series = BTreeMap::<_, usize>::new();
    for (sample, _) in samples(&text) {
        let name = sample.split('{').next().unwrap();
        if let Some(family) = families::ALL.iter().find(|family| {
            let is_one = family.kind == Kind::Histogram && name == format!("{}_count", family.name);
            is_one || family.kind != Kind::Histogram && name == family.shown_name()
        }) {
            *series.entry(family.name.to_owned()).or_default() += 1;
        }
    }
    assert_eq!(listed(&pieces), series);
    assert_eq!(series["hermit_partition_size_bytes"], 3000 + 1);
}

/// Debian's package `prometheus` has it. With `CI` set it has to be there.
#[test]
fn promtool_has_nothing_to_say() {
    if Command::new("promtool").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "promtool is missing: install the package `prometheus`");
        eprintln!("SKIPPED: promtool is missing: install the package `prometheus`");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    let mut stdin = promtool.stdin.take().unwrap();
    let text = text(&broker, Format::Prometheus, true);
    std::io::Write::write_all(&mut stdin, text.as_bytes()).unwrap();
    drop(stdin);
    let said = promtool.wait_with_output().unwrap();
    let words = [said.stdout, said.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(said.status.success() && words.trim().is_empty(), "{words}");
}

/// How long 10,000 partitions take: `cargo test --release -p hermit-http --lib scrape_of_10_000 -- --ignored --nocapture`. With a group that has a position in
/// each of them, and is behind in all.
#[test]
#[ignore = "a measurement, for a release build"]
#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn scrape_of_10_000_partitions() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = BrokerConfig::new(dir.path());
    (config.reserve_bytes, config.scrub_bytes_per_second) = (0, 0);
    (config.limits.max_partitions, config.limits.max_total_partitions) = (10_000, 20_000);
    let broker = Broker::open(config).unwrap();
    let settings = TopicConfig { durability: Some(hermit_broker::Durability::Os), ..TopicConfig::default() };
    let topics: Vec<_> = (0..10).map(|number| broker.create_topic(&format!("topic-{number}"), 1000, &settings).unwrap()).collect();
    let frames = ProducedFrame::message(7, None, &[7; 1000]).to_vec().unwrap().repeat(5);
    for partition in topics.iter().flat_map(|topic| topic.partitions()) {
        let mut batch = broker.parse(BytesMut::from(&frames[..])).unwrap();
        broker.append(partition, &mut batch).unwrap();
    }
    let show = |what: &str| {
        let mut times: Vec<_> = (0..7)
            .map(|_| {
                let began = std::time::Instant::now();
                let bytes: usize =
                    exposition(&broker, HttpMetrics::default(), Format::OpenMetrics, true).map(|piece| piece.len()).sum();
                (began.elapsed(), bytes)
            })
            .collect();
        let first = times[0].0;
        times.sort();
        println!("{what}: {} bytes, first {first:?}, median {:?}, longest {:?}", times[3].1, times[3].0, times[6].0);
        times[3].0
    };
    let alone = show("10,000 partitions");
    for offset in [1, 2] {
        for topic in &topics {
            let group = GroupName::new("behind").unwrap();
            let position = |partition: &Arc<hermit_broker::Partition>| Position {
                topic: topic.meta.id,
                partition: partition.id(),
                offset: Offset(offset),
                leader_epoch: LeaderEpoch::UNKNOWN,
            };
            let positions: Vec<_> = topic.partitions().iter().map(position).collect();
            broker.commit(&group, &positions).unwrap().wait().unwrap();
        }
        let with_group = show("with a group that is behind in all");
        assert!(with_group.as_millis() < 100, "{with_group:?}");
    }
    assert!(alone.as_millis() < 100, "{alone:?}");
}

#[test]
fn names_of_histograms_are_those_of_their_series() {
    let names = names();
    assert!(names.iter().any(|name| name == "hermit_flush_duration_seconds_bucket"));
    assert!(names.iter().any(|name| name == "process_cpu_seconds_total"));
    assert!(families::ALL.iter().any(|family| family.kind == Kind::Histogram));
}
