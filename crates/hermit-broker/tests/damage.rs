//! Damage stays where it is: no damaged file keeps the broker from starting, or costs data that it does not hold.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerConfig, BrokerError, Committed, Position, TopicConfig};
use hermit_log::disk::sim::{Fault, Op, Rng, SimDisk, Survival};
use hermit_log::disk::{Disk, Open, read_file};
use hermit_log::{Clock, Flusher, LogConfig, LogEnv, ManualClock};
use hermit_proto::session::{AccessOperations, AccessResource, AccessRule, ListRulesRequest};
use hermit_proto::{GroupName, LeaderEpoch, Offset, PartitionId, ProducedFrame, ProducerEpoch, ProducerId, TopicName};

struct World {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    flusher: Flusher,
    preallocate_bytes: u64,
}

impl World {
    fn on(disk: SimDisk) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
        let flusher = Flusher::manual(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { disk, clock, flusher, preallocate_bytes: LogConfig::default().preallocate_bytes }
    }

    fn open(&self) -> Result<Broker, BrokerError> {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let env = LogEnv::new(Arc::new(self.disk.clone()), clock, self.flusher.clone(), 64);
        let mut config = BrokerConfig::new("/data");
        config.recovery_threads = 1;
        config.reserve_bytes = 64 << 10;
        config.limits.disk_low_bytes = 0;
        config.log.preallocate_bytes = self.preallocate_bytes;
        Broker::open_with(config, env)
    }

    fn append(&self, broker: &Broker, topic: &str, payload: &str) {
        let topic = broker.topic(&TopicName::new(topic).unwrap()).unwrap();
        let frame = ProducedFrame::message(1, None, payload.as_bytes()).to_vec().unwrap();
        let mut batch = broker.parse(BytesMut::from(&frame[..])).unwrap();
        let ticket = broker.append(topic.partition(PartitionId(0)).unwrap(), &mut batch).unwrap();
        self.flusher.run_until_idle();
        assert!(ticket.poll().is_ready());
    }

    fn flip(&self, path: &Path, bit: usize) {
        let file = self.disk.open(path, Open::ReadWrite).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, (bit / 8) as u64).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << (bit % 8))], (bit / 8) as u64).unwrap();
    }

    fn fork(&self) -> Self {
        Self::on(self.disk.fork())
    }
}

fn messages(broker: &Broker, topic: &str) -> usize {
    let topic = broker.topic(&TopicName::new(topic).unwrap()).unwrap();
    let bounds = topic.partition(PartitionId(0)).unwrap().bounds().unwrap();
    usize::try_from(bounds.high_watermark.0).unwrap()
}

fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

fn committed(broker: &Broker, topic: &str) -> Option<Committed> {
    let topic = broker.topic(&TopicName::new(topic).unwrap()).unwrap().meta.id;
    broker.committed(&group(), topic, PartitionId(0)).unwrap()
}

/// Two topics with messages, one with a position, one deleted; stopped cleanly or not.
fn populated(clean: bool) -> World {
    populate(World::on(SimDisk::new(1)), clean)
}

fn populate(world: World, clean: bool) -> World {
    let broker = world.open().unwrap();
    for name in ["a", "gone", "b"] {
        broker.create_topic(name, 1, &TopicConfig::default()).unwrap();
        world.append(&broker, name, "one");
        world.append(&broker, name, "two");
    }
    broker.delete_topic(&TopicName::new("gone").unwrap()).unwrap();
    broker.init_producer(ProducerId::NONE, ProducerEpoch(-1)).unwrap();
    let topic = broker.topic(&TopicName::new("a").unwrap()).unwrap().meta.id;
    let position = Position { topic, partition: PartitionId(0), offset: Offset(1), leader_epoch: LeaderEpoch::UNKNOWN };
    broker.commit(&group(), &[position]).unwrap();
    world.flusher.run_until_idle();
    if clean {
        broker.close().unwrap();
    }
    drop(broker);
    world.disk.kill();
    world
}

fn check_nothing_lost(world: &World, what: &str) -> Broker {
    let broker = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
    for name in ["a", "b"] {
        assert_eq!(messages(&broker, name), 2, "{what}");
    }
    assert!(broker.topic(&TopicName::new("gone").unwrap()).is_err(), "{what}");
    assert_eq!(committed(&broker, "a").map(|committed| committed.offset), Some(Offset(1)), "{what}");
    // Neither an epoch nor a producer id is given out again.
    assert!(broker.report().leader_epoch >= LeaderEpoch(1), "{what}");
    let (id, _) = broker.init_producer(ProducerId::NONE, ProducerEpoch(-1)).unwrap();
    assert!(id.0 > 0, "{what}: producer id {id}");
    world.append(&broker, "b", "three");
    broker
}

#[test]
fn no_flipped_bit_in_the_manifest_costs_anything() {
    for clean in [true, false] {
        let world = populated(clean);
        let path = Path::new("/data/manifest");
        let bits = world.disk.file_len(path).unwrap() * 8;
        // Every byte is hit, and every position within a byte; each single bit is tried where the manifest is read alone.
        let step = if clean { 11 } else { 5 };
        for bit in (0..usize::try_from(bits).unwrap()).step_by(step) {
            let image = world.fork();
            image.flip(path, bit);
            let broker = check_nothing_lost(&image, &format!("bit {bit}"));
            let repair = broker.report().manifest.as_ref().unwrap();
            assert!(image.disk.exists(repair.kept.as_ref().unwrap()).unwrap());
        }
    }
}

#[test]
fn no_cut_in_the_manifest_costs_data_and_none_goes_unnoticed_after_a_clean_stop() {
    for clean in [true, false] {
        let world = populated(clean);
        let path = Path::new("/data/manifest");
        let len = world.disk.file_len(path).unwrap();
        for cut in 0..len {
            let image = world.fork();
            image.disk.open(path, Open::ReadWrite).unwrap().set_len(cut).unwrap();
            let broker = image.open().unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            // After a clean stop a shorter manifest is noticed even where it is whole in itself.
            assert!(broker.report().manifest.is_some() || !clean, "cut at {cut}");
            let kept: Vec<_> = ["a", "b"].into_iter().filter(|name| broker.topic(&TopicName::new(name).unwrap()).is_ok()).collect();
            for name in &kept {
                // A topic that was deleted behind the cut has no data any more; the others have theirs.
                assert_eq!(messages(&broker, name), 2, "cut at {cut}");
            }
            let partitions = image.disk.list(Path::new("/data/partitions")).unwrap();
            assert!(partitions.len() >= 3, "cut at {cut}: data were deleted");
            if broker.report().manifest.is_some() {
                assert_eq!(kept, ["a", "b"], "cut at {cut}");
            }
        }
    }
}

#[test]
fn a_missing_manifest_is_rebuilt_from_the_topics_directories() {
    let world = populated(true);
    world.disk.remove_file(Path::new("/data/manifest")).unwrap();
    let broker = check_nothing_lost(&world, "missing");
    assert_eq!(broker.report().manifest.as_ref().unwrap().adopted.len(), 3);
}

#[test]
fn a_newer_format_is_refused_by_its_number_and_nothing_is_touched() {
    let world = populated(true);
    let path = Path::new("/data/manifest");
    let file = world.disk.open(path, Open::ReadWrite).unwrap();
    let mut header = b"HERMITMQ\0\0\0\x09".to_vec();
    header.extend_from_slice(&hermit_proto::crc32c(&header).to_be_bytes());
    file.write_all_at(&header, 0).unwrap();
    let error = world.open().unwrap_err();
    assert!(matches!(error, BrokerError::NewerFormat { found: 9, supported: hermit_broker::FORMAT_VERSION, .. }), "{error}");
    assert!(world.disk.exists(Path::new("/data/clean")).unwrap());
}

fn files_below(disk: &SimDisk, dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in disk.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            files.extend(files_below(disk, &path));
        } else if entry.len_bytes > 0 {
            files.push(path);
        }
    }
    files
}

#[test]
fn a_flipped_bit_anywhere_never_keeps_the_broker_from_starting_and_serving() {
    for clean in [true, false] {
        let world = populated(clean);
        let mut rng = Rng::new(7);
        for path in files_below(&world.disk, Path::new("/data")) {
            let bits = usize::try_from(world.disk.file_len(&path).unwrap() * 8).unwrap();
            for _ in 0..12 {
                let image = world.fork();
                image.flip(&path, rng.below(bits));
                let what = path.display().to_string();
                let broker = image.open().unwrap_or_else(|error| panic!("{what}: {error}"));
                // At most one of the two topics has lost something.
                let whole = ["a", "b"].into_iter().filter(|name| messages(&broker, name) == 2).count();
                assert!(whole >= 1, "{what}");
                broker.create_topic("new", 1, &TopicConfig::default()).unwrap();
                image.append(&broker, "new", "served");
            }
        }
    }
}

#[test]
fn a_partition_whose_directory_is_missing_answers_errors_and_its_offsets_are_not_given_out_again() {
    let world = populated(true);
    let broker = world.open().unwrap();
    let id = broker.topic(&TopicName::new("a").unwrap()).unwrap().meta.id;
    broker.close().unwrap();
    drop(broker);
    let dir = PathBuf::from(format!("/data/partitions/{id}-0"));
    for entry in world.disk.list(&dir).unwrap() {
        world.disk.remove_file(&dir.join(entry.name)).unwrap();
    }
    world.disk.remove_dir(&dir).unwrap();
    world.disk.kill();
    let broker = world.open().unwrap();
    let topic = broker.topic(&TopicName::new("a").unwrap()).unwrap();
    let error = topic.partition(PartitionId(0)).unwrap().bounds().unwrap_err();
    assert!(matches!(error, BrokerError::PartitionDown { .. }), "{error}");
    assert!(!world.disk.exists(&dir).unwrap());
    assert_eq!(messages(&broker, "b"), 2);
    // It can still be deleted.
    broker.delete_topic(&TopicName::new("a").unwrap()).unwrap();
    broker.create_topic("a", 1, &TopicConfig::default()).unwrap();
}

#[test]
fn directories_that_nobody_claims_are_reported_and_left_alone() {
    let world = populated(true);
    let stray = PathBuf::from(format!("/data/partitions/{:032x}-0", 5));
    world.disk.create_dir_all(&stray).unwrap();
    world.disk.open(&stray.join("00000000000000000000.wal"), Open::CreateNew).unwrap().write_all_at(b"data", 0).unwrap();
    let broker = check_nothing_lost(&world, "stray");
    assert_eq!(broker.report().unknown.len(), 1);
    assert_eq!(read_file(&world.disk, &stray.join("00000000000000000000.wal"), 100).unwrap(), b"data");
}

#[test]
fn two_brokers_on_one_directory_are_one_too_many() {
    let world = populated(false);
    let first = world.open().unwrap();
    assert!(matches!(world.open().unwrap_err(), BrokerError::Locked { .. }));
    first.close().unwrap();
    let second = world.open().unwrap();
    assert!(second.report().clean);
    drop(first);
    assert!(matches!(world.open().unwrap_err(), BrokerError::Locked { .. }));
}

/// After the sync that failed the manifest's end is in the page cache, where it looks clean: no later sync writes it.
#[test]
fn what_a_start_has_read_of_the_manifest_survives_a_power_cut_also_after_a_failed_sync() {
    let mut shown = 0;
    for seed in 0..20 {
        let world = World::on(SimDisk::new(seed));
        let broker = world.open().unwrap();
        broker.create_topic("a", 1, &TopicConfig::default()).unwrap();
        world.disk.fail(Fault::error(Op::Sync, rustix::io::Errno::IO).on("manifest"));
        broker.create_topic("b", 1, &TopicConfig::default()).unwrap_err();
        drop(broker);
        world.disk.kill();

        let broker = world.open().unwrap();
        let b = TopicName::new("b").unwrap();
        let there = broker.topic(&b).is_ok();
        shown += usize::from(there);
        broker.create_topic("c", 1, &TopicConfig::default()).unwrap();
        broker.delete_topic(&TopicName::new("a").unwrap()).unwrap();
        drop(broker);
        world.disk.crash_with(Survival::Nothing, seed);

        let broker = world.open().unwrap();
        assert!(broker.report().manifest.is_none(), "{:?}", broker.report().manifest);
        let names: Vec<_> = broker.topics().iter().map(|topic| topic.meta.name.to_string()).collect();
        let expected: &[&str] = if there { &["__consumer_offsets", "b", "c"] } else { &["__consumer_offsets", "c"] };
        assert_eq!(names, expected, "seed {seed}");
    }
    assert!(shown > 0);
}

#[test]
fn what_a_start_has_read_of_users_and_rules_survives_a_power_cut_also_after_a_failed_sync() {
    let rule = |principal: &str| AccessRule {
        principal: principal.into(),
        resource: AccessResource::Broker,
        operations: AccessOperations::ADMINISTER,
    };
    let rules = |broker: &Broker| broker.list_rules(&ListRulesRequest::default()).rules;
    let mut shown = 0;
    for seed in 0..20 {
        let world = World::on(SimDisk::new(seed));
        let broker = world.open().unwrap();
        broker.add_rules(&[rule("a")]).unwrap();
        world.disk.fail(Fault::error(Op::SyncDir, rustix::io::Errno::IO).on("data"));
        broker.add_rules(&[rule("b")]).unwrap_err();
        drop(broker);
        world.disk.kill();
        let broker = world.open().unwrap();
        let read = rules(&broker);
        shown += usize::from(read.len() == 2);
        drop(broker);
        world.disk.crash_with(Survival::Nothing, seed);
        assert_eq!(rules(&world.open().unwrap()), read, "seed {seed}");
    }
    assert!(shown > 0);
}

/// A clean stop would have the next start take it as it is.
#[test]
fn a_stop_with_a_manifest_that_could_not_be_synced_is_no_clean_one() {
    let world = World::on(SimDisk::new(1));
    let broker = world.open().unwrap();
    world.disk.fail(Fault::error(Op::Sync, rustix::io::Errno::IO).on("manifest"));
    broker.create_topic("a", 1, &TopicConfig::default()).unwrap_err();
    broker.close().unwrap_err();
    drop(broker);
    assert!(!world.open().unwrap().report().clean);
}

/// The copy of a topic's settings is synced with the directory in which a new segment's name waits for its own sync.
#[test]
fn a_copy_that_cannot_be_synced_takes_no_answered_message_with_it() {
    for seed in 0..20 {
        let world = World::on(SimDisk::new(seed));
        let broker = world.open().unwrap();
        let topic = broker.create_topic("a", 1, &TopicConfig::default()).unwrap();
        let frame = ProducedFrame::message(1, None, b"first").to_vec().unwrap();
        let mut batch = broker.parse(BytesMut::from(&frame[..])).unwrap();
        let ticket = broker.append(topic.partition(PartitionId(0)).unwrap(), &mut batch).unwrap();
        let dir = format!("{}-0", topic.meta.id);
        world.disk.fail(Fault::error(Op::SyncDir, rustix::io::Errno::IO).on(&dir));
        let config = TopicConfig { retention_bytes: Some(1 << 40), ..TopicConfig::default() };
        broker.alter_topic(&TopicName::new("a").unwrap(), &config).unwrap();
        world.flusher.run_until_idle();
        assert!(matches!(ticket.poll(), std::task::Poll::Ready(Err(_))), "answered, though nobody knows of its segment's name");
    }
}

#[test]
fn on_a_full_disk_the_broker_starts_reads_and_deletes() {
    // The room behind the logs, which a start gives back, would be space.
    let world = populate(World { preallocate_bytes: 0, ..World::on(SimDisk::new(1)) }, false);
    world.disk.set_capacity(Some(world.disk.used_bytes() + 600));
    let broker = world.open().unwrap();
    assert_eq!(messages(&broker, "a"), 2);
    let error = broker.create_topic("c", 3, &TopicConfig::default()).unwrap_err();
    assert!(error.is_retryable(), "{error}");
    broker.delete_topic(&TopicName::new("b").unwrap()).unwrap();
    assert_eq!(messages(&broker, "a"), 2);
    world.disk.set_capacity(None);
    broker.create_topic("b", 1, &TopicConfig::default()).unwrap();
    assert_eq!(messages(&broker, "b"), 0);
}

#[test]
fn on_a_disk_without_a_free_byte_a_stop_is_a_clean_one() {
    let world = World::on(SimDisk::new(3));
    let broker = world.open().unwrap();
    broker.create_topic("a", 3, &TopicConfig::default()).unwrap();
    for number in 0..30 {
        world.append(&broker, "a", &format!("message {number}"));
    }
    world.disk.set_capacity(Some(world.disk.used_bytes()));
    broker.close().unwrap();
    drop(broker);
    let broker = world.open().unwrap();
    assert!(broker.report().clean, "the stop was not a clean one");
    assert_eq!(messages(&broker, "a"), 30);
}

#[test]
fn creating_and_deleting_are_finished_or_undone_wherever_the_power_goes() {
    let world = World::on(SimDisk::new(3));
    let broker = world.open().unwrap();
    broker.create_topic("kept", 2, &TopicConfig::default()).unwrap();
    world.append(&broker, "kept", "one");
    world.disk.keep_images();
    broker.create_topic("t", 3, &TopicConfig::default()).unwrap();
    world.append(&broker, "t", "old");
    broker.delete_topic(&TopicName::new("t").unwrap()).unwrap();
    broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
    drop(broker);
    for (at, disk) in world.disk.take_images() {
        for seed in 0..4 {
            let image = World::on(disk.fork());
            image.disk.crash(seed);
            let broker = image.open().unwrap_or_else(|error| panic!("cut at {at}: {error}"));
            assert!(broker.report().unknown.is_empty() && broker.report().unfinished.is_empty(), "cut at {at}");
            assert_eq!(messages(&broker, "kept"), 1, "cut at {at}");
            let topics = broker.topics();
            let directories = image.disk.list(Path::new("/data/partitions")).unwrap().len();
            let expected: u32 = topics.iter().map(|topic| topic.meta.partitions).sum();
            assert_eq!(directories, usize::try_from(expected).unwrap(), "cut at {at}: directories for ever");
            if let Ok(topic) = broker.topic(&TopicName::new("t").unwrap()) {
                assert!(topic.partitions().iter().all(|partition| partition.bounds().is_ok()), "cut at {at}");
                assert!(topic.meta.partitions == 3 || messages(&broker, "t") == 0, "cut at {at}: old data under a new name");
            }
        }
    }
}
