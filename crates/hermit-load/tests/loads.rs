//! Loads against a real broker: what they report is what was done.
#![expect(clippy::unwrap_used, reason = "a test may")]

use hermit_broker::testing::TestBroker;
use hermit_client::{Client, Durability, ProducerRecord, TopicConfig};
use hermit_load::{
    Compression, ConsumeLoad, ConsumeReport, Contents, Counts, EndToEndLoad, Meter, ProduceLoad, ProduceReport, Results, Spread,
    StartAt, Target,
};

async fn topic(partitions: u32) -> (TestBroker, Target) {
    let broker = TestBroker::start_async().await.unwrap();
    let server = broker.addr().to_string();
    let client = Client::connect(&server).await.unwrap();
    let config = TopicConfig { durability: Some(Durability::Os), ..TopicConfig::default() };
    client.admin().create_topic("t", partitions, config).await.unwrap();
    client.close().await;
    (broker, Target::new(server, "t"))
}

async fn produce(load: ProduceLoad) -> ProduceReport {
    let meter = Meter::default();
    let report = load.prepare().await.unwrap().run(&meter).await.unwrap();
    assert_eq!((report.failed, &report.first_error), (0, &None));
    assert_eq!((meter.records(), meter.bytes()), (report.records, report.bytes));
    assert_eq!(report.latency.count, report.records);
    report
}

async fn consume(load: ConsumeLoad) -> ConsumeReport {
    let report = load.prepare().await.unwrap().run(&Meter::default()).await.unwrap();
    assert_eq!((report.failed, &report.first_error), (0, &None));
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_produced_is_found_complete_in_order_and_unchanged() {
    let (_broker, target) = topic(3).await;
    let target = Target { connections: 2, ..target };
    let base = ProduceLoad { records: Some(5001), batch_records: 100, ..ProduceLoad::new(target.clone()) };
    let loads = [
        base.clone(),
        ProduceLoad { results: Results::PerRecord, ..base.clone() },
        ProduceLoad { in_flight: 1, size_bytes: 16, records: Some(500), ..base.clone() },
        ProduceLoad { spread: Spread::Keys(10), compression: Compression::Zstd, ..base.clone() },
        ProduceLoad { spread: Spread::Keys(7), results: Results::PerRecord, compression: Compression::Lz4, ..base.clone() },
        ProduceLoad { rate: Some(50_000.0), records: Some(2000), ..base.clone() },
        ProduceLoad { size_bytes: 200_000, records: Some(9), ..base.clone() },
    ];
    let mut sent = 0;
    for load in loads {
        let (records, size) = (load.records.unwrap(), load.size_bytes as u64);
        let report = produce(load).await;
        assert_eq!((report.records, report.bytes), (records, records * size));
        sent += records;
    }
    for connections in [1, 2, 5] {
        let target = Target { connections, ..target.clone() };
        let read = consume(ConsumeLoad { until_end: true, ..ConsumeLoad::new(target) }).await;
        assert_eq!((read.records, read.counts), (sent, Counts { good: sent, ..Counts::default() }));
        assert!(read.bytes > 0 && read.elapsed_us >= read.first_us && read.age.count > 0);
    }
    let some = consume(ConsumeLoad { records: Some(300), owned: true, ..ConsumeLoad::new(target.clone()) }).await;
    assert!((300..sent).contains(&some.records) && some.counts.is_sound(), "{some:?}");
    let later = consume(ConsumeLoad { start: StartAt::Offset(100), until_end: true, ..ConsumeLoad::new(target) }).await;
    assert!(later.counts.is_sound() && later.counts.before == 300 && later.records == sent - 300, "{later:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_records_are_foreign_and_records_sent_again_are_doubled() {
    let (broker, target) = topic(1).await;
    produce(ProduceLoad { records: Some(3), contents: Contents::Text, ..ProduceLoad::new(target.clone()) }).await;
    let client = Client::connect(&broker.addr().to_string()).await.unwrap();
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, hermit_client::Start::Earliest).await.unwrap();
    let mut values = Vec::new();
    while values.len() < 3 {
        values.push(consumer.recv().await.unwrap().unwrap().value.unwrap().to_vec());
    }
    let producer = client.producer().build().unwrap();
    let mut changed = values[1].clone();
    changed[50] ^= 1;
    for value in [&values[1], &changed, &b"somebody else's, and long enough for a head".to_vec()] {
        producer.send("t", ProducerRecord::new(value)).await.unwrap();
    }
    let read = consume(ConsumeLoad { until_end: true, ..ConsumeLoad::new(target) }).await;
    assert_eq!(read.counts, Counts { good: 3, doubled: 1, corrupted: 1, foreign: 1, ..Counts::default() });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_commits_what_its_members_received() {
    let (_broker, target) = topic(2).await;
    produce(ProduceLoad { records: Some(1000), batch_records: 10, ..ProduceLoad::new(target.clone()) }).await;
    let load = ConsumeLoad { group: Some("g".into()), records: Some(400), ..ConsumeLoad::new(target) };
    let first = consume(load.clone()).await;
    let rest = consume(ConsumeLoad { records: Some(1000 - first.records), ..load }).await;
    assert_eq!(first.records + rest.records, 1000, "nothing twice, nothing left out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_to_end_everything_sent_is_received_and_timed_from_when_it_was_due() {
    let (_broker, target) = topic(3).await;
    let target = Target { connections: 2, ..target };
    let load = EndToEndLoad { duration_ms: 300, warm_up_ms: 100, rate: Some(10_000.0), ..EndToEndLoad::new(target) };
    let paced = load.clone().prepare().await.unwrap().run(&Meter::default()).await.unwrap();
    assert!(paced.is_sound(), "{paced:?}");
    assert_eq!((paced.sent, paced.latency.count), (3000, 2000), "10 a ms, without those of the warm-up");
    assert!(paced.latency.p50_us > 0.0 && paced.lateness.count > 0, "{paced:?}");

    let unpaced = EndToEndLoad { rate: None, window: 2000, ..load.clone() };
    let unpaced = unpaced.prepare().await.unwrap().run(&Meter::default()).await.unwrap();
    assert!(unpaced.is_sound() && unpaced.sent > 3000, "{unpaced:?}");

    let found = EndToEndLoad { duration_ms: 200, ..load }.max_rate(&Meter::default()).await.unwrap();
    assert!(found.rate > 0.0 && found.probes.iter().filter(|probe| probe.kept_up).count() == 1, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_is_stopped_tells_what_it_did() {
    let (_broker, target) = topic(1).await;
    for rate in [None, Some(1.0)] {
        let (meter, load) = (Meter::default(), ProduceLoad { rate, ..ProduceLoad::new(target.clone()) });
        let ready = load.prepare().await.unwrap();
        let stop = async {
            while meter.records() == 0 {
                tokio::task::yield_now().await;
            }
            meter.stop();
        };
        let (report, ()) = tokio::join!(ready.run(&meter), stop);
        assert!(report.unwrap().records > 0);
    }
    let meter = Meter::default();
    let ready = ConsumeLoad::new(target).prepare().await.unwrap();
    let stop = async {
        while meter.records() == 0 {
            tokio::task::yield_now().await;
        }
        meter.stop();
    };
    let (report, ()) = tokio::join!(ready.run(&meter), stop);
    assert!(report.unwrap().records > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_fail_are_counted_with_their_reason() {
    let (mut broker, target) = topic(1).await;
    let load = ProduceLoad { records: Some(2), batch_records: 1, size_bytes: 100 << 20, ..ProduceLoad::new(target) };
    let meter = Meter::default();
    let report = load.prepare().await.unwrap().run(&meter).await.unwrap();
    assert_eq!((report.records, report.failed, meter.records()), (0, 2, 0));
    assert!(report.first_error.is_some());
    broker.stop().unwrap();
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_its_field() {
    let target = Target::new("127.0.0.1:1", "t");
    let bad = |error: hermit_load::Error| error.to_string();
    let produce = ProduceLoad::new(target.clone());
    let loads = [
        (ProduceLoad { size_bytes: 15, ..produce.clone() }, "`size_bytes`"),
        (ProduceLoad { batch_records: 0, ..produce.clone() }, "`batch_records`"),
        (ProduceLoad { rate: Some(0.0), ..produce.clone() }, "`rate`"),
        (ProduceLoad { in_flight: 0, ..produce.clone() }, "`in_flight`"),
        (ProduceLoad { spread: Spread::Keys(0), ..produce.clone() }, "`spread`"),
        (ProduceLoad { target: Target { connections: 0, ..target.clone() }, ..produce }, "`connections`"),
    ];
    for (load, field) in loads {
        let told = bad(load.prepare().await.unwrap_err());
        assert!(told.starts_with(field), "{told}");
    }
    let load = ConsumeLoad { until_end: true, group: Some("g".into()), ..ConsumeLoad::new(target) };
    assert!(bad(load.prepare().await.unwrap_err()).starts_with("`until_end`"));
}

#[test]
fn loads_are_told_in_json_with_defaults_for_what_is_left_out() {
    let text = r#"{"server":"a:1","topic":"t","records":7,"spread":{"keys":3},"compression":"lz4","results":"per_record"}"#;
    let load: ProduceLoad = serde_json::from_str(text).unwrap();
    let expected = ProduceLoad {
        records: Some(7),
        spread: Spread::Keys(3),
        compression: Compression::Lz4,
        results: Results::PerRecord,
        ..ProduceLoad::new(Target::new("a:1", "t"))
    };
    assert_eq!(load, expected);
    assert_eq!(serde_json::from_str::<ProduceLoad>(&serde_json::to_string(&load).unwrap()).unwrap(), load);
    let least = r#"{"server":"a:1","topic":"t"}"#;
    assert_eq!(serde_json::from_str::<ConsumeLoad>(least).unwrap(), ConsumeLoad::new(Target::new("a:1", "t")));
    assert_eq!(serde_json::from_str::<EndToEndLoad>(least).unwrap(), EndToEndLoad::new(Target::new("a:1", "t")));
}
