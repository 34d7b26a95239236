//! The blocking facade at a real broker, in programs without a runtime of their own.
#![expect(clippy::unwrap_used, reason = "the helpers below are a test's too")]

mod support;

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::Duration;

use hermit_client::blocking::{Client, Consumer};
use hermit_client::{
    AutoCommit, Codec, Error, Offset, OffsetQuery, Otherwise, Parallel, PartitionId, ProducerRecord, Record, Start, Subscription,
    TopicConfig,
};
use support::{PATIENCE, TestBroker, text};

/// A broker beside the test's own thread.
struct Beside {
    runtime: tokio::runtime::Runtime,
    broker: Option<TestBroker>,
}

impl Beside {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let broker = Some(runtime.block_on(TestBroker::start()));
        Self { runtime, broker }
    }

    fn client(&self) -> Client {
        let address = self.broker.as_ref().unwrap().address.to_string();
        Client::builder().server(address).request_timeout(PATIENCE).connect().unwrap()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(broker) = self.broker.take() {
            self.runtime.block_on(async { drop(broker) });
        }
    }
}

fn values(consumer: &mut Consumer) -> Vec<String> {
    consumer.stop_at_present_end().unwrap();
    consumer.map(|record| text(record.unwrap().value.as_ref()).unwrap()).collect()
}

#[test]
fn a_program_without_a_runtime_produces_and_consumes() {
    let beside = Beside::start();
    let client = beside.client();
    assert!(client.broker().unwrap().broker.contains("hermit"));
    client.admin().create_topic("t", 1, TopicConfig::default()).unwrap();
    let producer = client.producer().codec(Codec::Lz4).linger(Duration::ZERO).build().unwrap();
    assert_eq!(producer.send("t", ProducerRecord::new("0")).unwrap().offset, Some(Offset(0)));
    let deliveries: Vec<_> = (1..100).map(|n: u32| producer.enqueue("t", ProducerRecord::new(&n.to_string())).unwrap()).collect();
    for (delivery, offset) in deliveries.into_iter().zip(1..) {
        assert_eq!(delivery.wait().unwrap().offset, Some(Offset(offset)));
    }
    let batch: Vec<_> = (100..200).map(|n: u32| n.to_string()).collect();
    let records: Vec<_> = batch.iter().map(ProducerRecord::new).collect();
    let stored = producer.send_batch("t", &records).unwrap();
    assert_eq!(stored.iter().map(|part| part.records).sum::<u32>(), 100);
    let outcomes = producer.enqueue_batch("t", &records).unwrap().outcomes().unwrap();
    assert!(outcomes.iter().all(|part| part.result.is_ok()));
    let identity = producer.identity().unwrap();
    assert!(identity.id.is_some());
    producer.close().unwrap();
    assert!(matches!(producer.send("t", ProducerRecord::new("late")), Err(Error::Closed { .. })));

    let start = Start::Committed { or: Otherwise::Earliest };
    let mut consumer = client.consumer().group("g").build().unwrap();
    consumer.assign("t", 0, start).unwrap();
    for number in 0..10 {
        let record = consumer.recv().unwrap().unwrap();
        assert_eq!(record.offset, Offset(number));
        consumer.commit_through(&record).unwrap();
    }
    assert_eq!(client.admin().committed("g", "t", 0).unwrap().unwrap().offset, Offset(10));
    drop(consumer);
    let mut next = client.consumer().group("g").build().unwrap();
    next.assign_topic("t", start).unwrap();
    assert_eq!(next.assignment().collect::<Vec<_>>(), [("t", PartitionId(0))]);
    assert_eq!(values(&mut next).len(), 290);
    assert_eq!(client.admin().list_offsets("t", 0, OffsetQuery::Last(5)).unwrap().offset, Offset(295));
    client.close().unwrap();
}

#[test]
fn threads_share_a_producer() {
    let beside = Beside::start();
    let client = beside.client();
    client.admin().create_topic("t", 3, TopicConfig::default()).unwrap();
    let producer = client.producer().build().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let producer = &producer;
            scope.spawn(move || {
                for number in 0..50 {
                    let value = format!("{thread} {number}");
                    producer.send("t", ProducerRecord::new(&value).key(&thread.to_string())).unwrap();
                }
            });
        }
    });
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("t", Start::Earliest).unwrap();
    assert_eq!(values(&mut consumer).len(), 200);
}

#[test]
fn waiting_for_a_record_has_an_end_where_that_is_wanted() {
    let beside = Beside::start();
    let client = beside.client();
    client.admin().create_topic("t", 1, TopicConfig::default()).unwrap();
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, Start::Earliest).unwrap();
    let before = tokio::time::Instant::now();
    assert!(consumer.recv_timeout(Duration::from_millis(50)).unwrap().is_none());
    assert!(before.elapsed() >= Duration::from_millis(50));
    client.producer().build().unwrap().send("t", ProducerRecord::new("x")).unwrap();
    assert_eq!(consumer.recv_timeout(PATIENCE).unwrap().unwrap().offset, Offset(0));
}

#[test]
fn members_of_a_group_share_a_topic_and_handlers_run_side_by_side() {
    let beside = Beside::start();
    let client = beside.client();
    client.admin().create_topic("t", 4, TopicConfig::default()).unwrap();
    let producer = client.producer().build().unwrap();
    let batch: Vec<_> = (0..200).map(|n: u32| n.to_string()).collect();
    let records: Vec<_> = batch.iter().map(|value| ProducerRecord::new(value).key(value)).collect();
    producer.send_batch("t", &records).unwrap();

    let mut reader = client.consumer().group("g").auto_commit(AutoCommit::Processed).build().unwrap();
    reader.subscribe("t").unwrap();
    for _ in 0..100 {
        reader.recv_timeout(PATIENCE).unwrap().unwrap();
    }
    reader.close().unwrap();

    let mut parallel = client.consumer().group("g").build().unwrap();
    parallel.subscribe(Subscription::new().topic("t")).unwrap();
    let (handled, told) = mpsc::channel();
    let (stop, stopped) = mpsc::channel();
    let counting = std::thread::spawn(move || {
        // What the first reader had in hand last is not counted as processed.
        let seen: HashSet<_> = told.iter().take(101).collect();
        stop.send(()).unwrap();
        // Nobody hangs up before the end.
        (seen.len(), told)
    });
    let handler = move |record: Record| handled.send(text(record.value.as_ref()).unwrap());
    parallel.process_parallel(Parallel::new(4), handler, move || stopped.recv().unwrap()).unwrap();
    assert_eq!(counting.join().unwrap().0, 101);
    parallel.close().unwrap();
    let lag: u64 = client.admin().describe_group("g").unwrap().partitions.iter().map(|partition| partition.lag).sum();
    assert_eq!(lag, 0);
}

#[test]
fn parallel_handlers_may_call_the_facade_themselves() {
    let beside = Beside::start();
    let client = beside.client();
    for topic in ["in", "out"] {
        client.admin().create_topic(topic, 1, TopicConfig::default()).unwrap();
    }
    let producer = client.producer().build().unwrap();
    for value in ["a", "b", "c"] {
        producer.send("in", ProducerRecord::new(value)).unwrap();
    }
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("in", Start::Earliest).unwrap();
    consumer.stop_at_present_end().unwrap();
    let forward = move |record: Record| {
        producer.send("out", ProducerRecord { value: record.value.as_deref(), ..ProducerRecord::new("") }).map(drop)
    };
    let (never, stopped) = mpsc::channel::<()>();
    consumer.process_parallel(Parallel::new(2), forward, move || assert!(stopped.recv().is_err())).unwrap();
    drop(never);
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("out", Start::Earliest).unwrap();
    consumer.stop_at_present_end().unwrap();
    let forwarded: HashSet<_> = consumer.map(|record| text(record.unwrap().value.as_ref()).unwrap()).collect();
    assert_eq!(forwarded, ["a", "b", "c"].map(String::from).into());
}

#[test]
fn a_handler_that_panics_is_an_error() {
    let beside = Beside::start();
    let client = beside.client();
    client.admin().create_topic("t", 1, TopicConfig::default()).unwrap();
    client.producer().build().unwrap().send("t", ProducerRecord::new("x")).unwrap();
    let mut consumer = client.consumer().group("g").build().unwrap();
    consumer.subscribe("t").unwrap();
    let (never, stopped) = mpsc::channel::<()>();
    let handler = |record: Record| -> Result<(), std::io::Error> { panic!("offset {}", record.offset) };
    let error = consumer.process_parallel(Parallel::new(2), handler, move || assert!(stopped.recv().is_err())).unwrap_err();
    assert!(matches!(error, Error::Handler { offset: Offset(0), .. }), "{error}");
    drop(never);
}

#[test]
fn within_an_async_runtime_it_says_that_it_does_not_belong_there() {
    let beside = Beside::start();
    let client = beside.client();
    let producer = client.producer().build().unwrap();
    beside.runtime.block_on(async {
        let error = producer.send("t", ProducerRecord::new("x")).unwrap_err();
        assert!(matches!(error, Error::WithinRuntime), "{error}");
        assert!(matches!(Client::connect("127.0.0.1:1"), Err(Error::WithinRuntime)));
        // Nor does dropping it there panic.
        drop((producer, client));
    });
}

#[test]
fn a_broker_that_is_not_there_is_an_error_with_its_cause() {
    let error = Client::connect("127.0.0.1:1").unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && error.to_string().contains("connection refused"), "{error}");
    let error = Client::builder().connect().unwrap_err();
    assert!(matches!(error, Error::Config { setting: "servers", .. }), "{error}");
}
