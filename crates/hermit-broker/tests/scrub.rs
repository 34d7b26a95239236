//! The scrub of a whole broker, stepped by hand on a simulated disk.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerConfig, Event, Hooks, ScrubFigures, TopicConfig};
use hermit_log::disk::Disk;
use hermit_log::disk::sim::{Fault, Op, SimDisk};
use hermit_log::{Clock, Flusher, LogEnv, LogError, ManualClock};
use hermit_proto::{Offset, PartitionId, ProducedFrame, TopicName};

const HOUR: Duration = Duration::from_secs(3600);
/// Seven of these fill a segment.
const PAYLOAD_BYTES: usize = 9_000;

#[derive(Debug, Default)]
struct Damages(Mutex<Vec<(String, u64, u64)>>);

impl Hooks for Damages {
    fn on_event(&self, event: &Event) {
        if let Event::PartitionDamaged { topic, from, next, .. } = event {
            self.0.lock().unwrap().push((topic.to_string(), from.0, next.0));
        }
    }
}

struct World {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    damages: Arc<Damages>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
        Self { disk: SimDisk::new(1), clock, damages: Arc::default() }
    }

    fn open(&self) -> (Broker, Flusher) {
        let flusher = Flusher::manual(Arc::clone(&self.clock) as Arc<dyn Clock>);
        let env = LogEnv::new(Arc::new(self.disk.clone()), Arc::clone(&self.clock) as _, flusher.clone(), 64);
        let mut config = BrokerConfig::new("/data");
        config.recovery_threads = 1;
        config.reserve_bytes = 0;
        config.limits.disk_low_bytes = 0;
        config.hooks = Some(Arc::clone(&self.damages) as Arc<dyn Hooks>);
        (Broker::open_with(config, env).unwrap(), flusher)
    }

    /// Topics with three closed segments each, and one that is written to.
    fn filled(&self, topics: &[&str]) -> Broker {
        let (broker, flusher) = self.open();
        for name in topics {
            let config = TopicConfig { segment_bytes: Some(64 << 10), ..TopicConfig::default() };
            let topic = broker.create_topic(name, 1, &config).unwrap();
            for _ in 0..24 {
                let frame = ProducedFrame::message(1, None, &[7; PAYLOAD_BYTES]).to_vec().unwrap();
                let mut batch = broker.parse(BytesMut::from(&frame[..])).unwrap();
                broker.append(topic.partition(PartitionId(0)).unwrap(), &mut batch).unwrap();
            }
            flusher.run_until_idle();
        }
        broker
    }

    fn damaged(&self) -> Vec<(String, u64, u64)> {
        std::mem::take(&mut *self.damages.0.lock().unwrap())
    }

    fn wal(&self, broker: &Broker, topic: &str, base: u64) -> PathBuf {
        let id = broker.topic(&topic.parse().unwrap()).unwrap().meta.id;
        let path = PathBuf::from(format!("/data/partitions/{id}-0/{base:020}.wal"));
        assert!(self.disk.exists(&path).unwrap());
        path
    }
}

/// Steps until a pass has ended.
fn pass(broker: &Broker) -> ScrubFigures {
    let before = broker.scrub_status().passes;
    for _ in 0..1000 {
        broker.scrub().unwrap();
        if broker.scrub_status().passes > before {
            return broker.scrub_status();
        }
    }
    unreachable!("no pass ends: {:?}", broker.scrub_status());
}

fn steps(broker: &Broker, count: usize) {
    for _ in 0..count {
        broker.scrub();
    }
}

#[test]
fn rot_is_found_told_and_fenced_and_everything_else_is_served() {
    let world = World::new();
    let broker = world.filled(&["a", "b"]);
    assert!(world.disk.flip_bit(&world.wal(&broker, "a", 7), 8 * 20_000));
    let done = pass(&broker);
    assert_eq!((done.segments, done.damaged_ranges, done.rebuilt_indexes, done.read_errors, done.passes), (6, 1, 0, 0, 1));
    assert_eq!(done.bytes, 6 * 7 * (PAYLOAD_BYTES as u64 + 69));
    assert_eq!(world.damaged(), [("a".to_owned(), 9, 10)]);
    let read = |topic: &str, offset| {
        let topic = broker.topic(&TopicName::new(topic).unwrap()).unwrap();
        topic.partition(PartitionId(0)).unwrap().log().unwrap().cursor(Offset(offset)).map(drop)
    };
    assert!(matches!(read("a", 9), Err(LogError::Corrupt { from: Offset(9), next: Offset(10) })));
    (0..24).for_each(|offset| read("b", offset).unwrap());
    read("a", 8).unwrap();
    read("a", 10).unwrap();
}

#[test]
fn a_pass_keeps_to_its_rate_and_the_next_begins_when_it_is_time() {
    let world = World::new();
    let broker = world.filled(&["a"]);
    let mut waited = Duration::ZERO;
    while broker.scrub_status().passes == 0 {
        let rest = broker.scrub().unwrap();
        waited += rest;
        world.clock.advance(rest);
    }
    let bytes = broker.scrub_status().bytes;
    let least = Duration::from_nanos(bytes * 1_000_000_000 / broker.config().scrub_bytes_per_second);
    assert!(waited >= least, "{bytes} bytes in {waited:?}");
    let reads = broker.scrub_status().bytes;
    for _ in 0..6 * 24 {
        broker.scrub().unwrap();
        world.clock.advance(HOUR);
    }
    assert_eq!(broker.scrub_status().bytes, reads, "a segment is read more often than the settings say");
    world.clock.advance(25 * HOUR);
    assert_eq!(pass(&broker).bytes, 2 * reads);
}

#[test]
fn a_restart_goes_on_where_the_pass_was() {
    let world = World::new();
    let broker = world.filled(&["a", "b", "c"]);
    while broker.scrub_status().segments < 4 {
        broker.scrub().unwrap();
    }
    broker.close().unwrap();
    let before = world.disk.mutations();
    assert_eq!((broker.scrub(), world.disk.mutations()), (None, before), "nothing is written after the end");
    drop(broker);
    world.disk.kill();
    let (broker, _) = world.open();
    assert_eq!(pass(&broker).segments, 5);
    broker.scrub().unwrap();
    broker.close().unwrap();
    drop(broker);
    world.disk.kill();
    // That it is over is known too. A damaged note costs a pass.
    let (broker, _) = world.open();
    steps(&broker, 10);
    assert_eq!(broker.scrub_status().segments, 0);
    broker.close().unwrap();
    drop(broker);
    world.disk.kill();
    assert!(world.disk.flip_bit(&PathBuf::from("/data/scrub"), 77));
    let (broker, _) = world.open();
    assert_eq!(pass(&broker).segments, 9);
}

#[test]
fn what_cannot_be_read_is_tried_again_and_counts_as_damaged_where_that_lasts() {
    let world = World::new();
    let broker = world.filled(&["a", "b"]);
    let wal = world.wal(&broker, "a", 7);
    world.disk.fail(Fault::error(Op::Read, rustix::io::Errno::IO).on(wal.to_str().unwrap()).forever());
    let done = pass(&broker);
    assert_eq!((done.segments, done.damaged_ranges, done.read_errors), (5, 0, 1), "the others are verified");
    world.clock.advance(Duration::from_secs(601));
    steps(&broker, 5);
    assert_eq!((broker.scrub_status().damaged_ranges, broker.scrub_status().read_errors), (0, 2));
    world.clock.advance(Duration::from_secs(601));
    steps(&broker, 5);
    assert_eq!(broker.scrub_status().damaged_ranges, 1);
    assert_eq!(world.damaged(), [("a".to_owned(), 7, 14)]);
    world.disk.heal();
    // What came to itself in time has lost nothing.
    let wal = world.wal(&broker, "b", 7);
    world.disk.fail(Fault::error(Op::Read, rustix::io::Errno::IO).on(wal.to_str().unwrap()).times(2));
    world.clock.advance(8 * 24 * HOUR);
    pass(&broker);
    for _ in 0..5 {
        world.clock.advance(Duration::from_secs(601));
        steps(&broker, 5);
    }
    assert_eq!(world.damaged(), []);
}

#[test]
fn topics_that_are_deleted_meanwhile_are_passed_over() {
    let world = World::new();
    let broker = world.filled(&["a", "b", "c"]);
    // In the middle of a segment of whichever comes first.
    broker.scrub().unwrap();
    for name in ["a", "b", "c"] {
        broker.delete_topic(&TopicName::new(name).unwrap()).unwrap();
        broker.scrub().unwrap();
    }
    let done = if broker.scrub_status().passes > 0 { broker.scrub_status() } else { pass(&broker) };
    assert_eq!((done.damaged_ranges, done.read_errors), (0, 0));
    assert_eq!(world.damaged(), []);
}

#[test]
fn a_scrub_that_is_switched_off_does_nothing() {
    let world = World::new();
    drop(world.filled(&["a"]));
    world.disk.kill();
    let flusher = Flusher::manual(Arc::clone(&world.clock) as Arc<dyn Clock>);
    let env = LogEnv::new(Arc::new(world.disk.clone()), Arc::clone(&world.clock) as _, flusher, 64);
    let config = BrokerConfig { recovery_threads: 1, scrub_bytes_per_second: 0, ..BrokerConfig::new("/data") };
    assert_eq!(Broker::open_with(config, env).unwrap().scrub(), None);
}
