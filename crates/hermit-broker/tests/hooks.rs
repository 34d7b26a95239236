//! What an embedder's hooks see, refuse, and cannot break.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use hermit_broker::log::Batch;
use hermit_broker::{AppendContext, Broker, BrokerConfig, BrokerError, Event, Hooks, Rejection};
use hermit_log::disk::sim::{Fault, Op, SimDisk};
use hermit_log::{Flusher, LogEnv, ManualClock};
use hermit_proto::session::{Status, TopicConfig};
use hermit_proto::{PartitionId, TopicName};
use support::v2::{Session, message};
use support::{Server, config, eventually, v1};

/// Refuses `bad`, panics at `panic`, and notes everything.
#[derive(Debug, Default)]
struct Rules {
    seen: Mutex<Vec<String>>,
    events: Mutex<Vec<Event>>,
}

impl Hooks for Rules {
    fn before_append(&self, context: &AppendContext<'_>, batch: &Batch) -> Result<(), Rejection> {
        let who = context.client.map_or_else(|| "in process".to_owned(), |client| format!("client {:?}", client.name));
        self.seen.lock().unwrap().push(format!("{}-{} {who} {}", context.topic, context.partition, batch.frames().len()));
        let contains = |what: &[u8]| batch.as_bytes().windows(what.len()).any(|bytes| bytes == what);
        assert!(!contains(b"panic"), "a hook that fails");
        if contains(b"bad") { Err(Rejection::new("bad records are not taken")) } else { Ok(()) }
    }

    fn on_event(&self, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
        assert!(!matches!(event, Event::TopicGrown { .. }), "a hook that fails");
    }
}

impl Rules {
    /// The events by name, but for connections.
    fn told(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let names = events.iter().map(|event| format!("{event:?}").split([' ', '{']).next().unwrap().to_owned());
        names.filter(|name| !name.starts_with("Connection")).collect()
    }

    fn count(&self, name: &str) -> usize {
        self.events.lock().unwrap().iter().filter(|event| format!("{event:?}").starts_with(name)).count()
    }
}

fn append(broker: &Broker, topic: &str, payload: &[u8]) -> Result<(), BrokerError> {
    let topic = broker.topic(&TopicName::new(topic).unwrap())?;
    let partition = Arc::clone(topic.partition(PartitionId(0))?);
    let mut batch = broker.parse(BytesMut::from(&message(payload)[..]))?;
    broker.append(&partition, &mut batch).map(drop)
}

#[tokio::test]
async fn every_way_to_append_is_asked_for_and_a_panic_is_a_refusal() {
    let dir = tempfile::tempdir().unwrap();
    let rules = Arc::new(Rules::default());
    let server = Server::with(BrokerConfig { hooks: Some(rules.clone()), ..config(dir.path()) }).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    session.produce(topic, 0, &message(b"good")).await.unwrap();
    let refused = session.produce(topic, 0, &message(b"bad")).await.unwrap_err();
    assert_eq!((refused.status, refused.message.as_str()), (Status::Rejected, "bad records are not taken"));
    assert!(!refused.is_retryable());
    assert_eq!(session.produce(topic, 0, &message(b"panic")).await.unwrap_err().status, Status::Rejected);
    session.produce(topic, 0, &message(b"good")).await.unwrap();

    let mut producer = v1::producer(&server, "t").await;
    tokio::io::AsyncWriteExt::write_all(&mut producer, &v1::frame(1, b"", b"good", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 2));
    tokio::io::AsyncWriteExt::write_all(&mut producer, &v1::frame(1, b"", b"bad", 1)).await.unwrap();
    assert!(v1::is_closed(&mut producer).await);

    append(&server.broker, "t", b"good").unwrap();
    assert!(matches!(append(&server.broker, "t", b"bad"), Err(BrokerError::Rejected { .. })));
    let seen = rules.seen.lock().unwrap().clone();
    let expected = ["t-0 client \"test\" 1"; 4].iter().chain(&["t-0 client \"\" 1"; 2]).chain(&["t-0 in process 1"; 2]);
    assert!(seen.iter().eq(expected), "{seen:?}");
    let log_end = server.broker.partition(topic, PartitionId(0)).unwrap().bounds().unwrap().log_end;
    assert_eq!(log_end.0, 4, "what was refused is in the log");

    drop((session, producer));
    eventually("both connections are told", || rules.count("ConnectionClosed") == 2).await;
    assert_eq!(rules.count("ConnectionOpened"), 2);
    server.stop().await;
    assert_eq!(rules.told(), ["Started", "TopicCreated", "Stopping", "Stopped"]);
}

#[test]
fn events_are_told_in_order_and_one_that_panics_ends_nothing() {
    let rules = Arc::new(Rules::default());
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
    let flusher = Flusher::manual(clock.clone());
    let disk = SimDisk::new(1);
    let env = LogEnv::new(Arc::new(disk.clone()), clock, flusher.clone(), 64);
    let mut config =
        BrokerConfig { recovery_threads: 1, reserve_bytes: 0, hooks: Some(rules.clone()), ..BrokerConfig::new("/data") };
    (config.limits.disk_low_bytes, config.limits.disk_high_bytes) = (100_000, 200_000);
    let broker = Broker::open_with(config, env).unwrap();
    let name = TopicName::new("t").unwrap();
    broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
    broker.add_partitions(&name, 2).unwrap();
    broker.alter_topic(&name, &TopicConfig { retention_bytes: Some(9), ..TopicConfig::default() }).unwrap();
    disk.set_capacity(Some(disk.used_bytes() + 50_000));
    broker.maintain();
    assert!(matches!(append(&broker, "t", b"x"), Err(BrokerError::LowSpace { .. })));
    disk.set_capacity(None);
    broker.maintain();
    append(&broker, "t", b"x").unwrap();
    disk.fail(Fault::error(Op::Sync, rustix::io::Errno::IO));
    flusher.run_until_idle();
    broker.maintain();
    broker.delete_topic(&name).unwrap();
    broker.close().unwrap();
    let expected = [
        "Started",
        "TopicCreated",
        "TopicGrown",
        "TopicAltered",
        "LowSpace",
        "SpaceAgain",
        "PartitionReadOnly",
        "TopicDeleted",
        "Stopping",
        "Stopped",
    ];
    assert_eq!(rules.told(), expected);
}
