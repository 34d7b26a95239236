//! Power cuts at every change that an import makes: what is served afterwards is all of the old data, once, or nothing.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::path::Path;
use std::sync::Arc;

use hermit_broker::import::{self, Found, ImportError, Plan};
use hermit_broker::{Broker, BrokerConfig};
use hermit_log::disk::sim::{Fault, Op, SimDisk};
use hermit_log::disk::{Disk, Open};
use hermit_log::{Clock, Flusher, LogEnv, ManualClock};
use hermit_proto::{FrameLimits, FrameView, GroupName, Header, Offset};

const DIR: &str = "/data";
/// Where old data are that are imported into another directory.
const OTHER: &str = "/other";

fn frame(offset: u64, key: &[u8], payload: &[u8], record_count: u32) -> Vec<u8> {
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
    let header = Header { magic: 1, timestamp: 7, offset, key_size: size(key), payload_size: size(payload), record_count };
    [&header.encode()[..], key, payload].concat()
}

fn position(at: u64, key: &str, offset: u64) -> Vec<u8> {
    frame(at, key.as_bytes(), &offset.to_be_bytes(), 0)
}

/// The old files: a topic of two partitions, one of them damaged in the middle and torn at its end, and committed positions.
fn old_files(in_dir: &str) -> Vec<(String, Vec<u8>)> {
    let wal = |dir: &str, base: u64| format!("{in_dir}/{dir}/{base:020}.wal");
    vec![
        (wal("orders_0", 5), [frame(5, b"k", b"five", 1), frame(6, b"", b"six", 2), frame(8, b"", &[8; 40_000], 1)].concat()),
        (wal("orders_0", 9), frame(9, b"", b"nine", 1)),
        (wal("orders_1", 0), [frame(0, b"", b"zero", 1), vec![0xEE; 50]].concat()),
        (wal("orders_1", 4), [frame(4, b"", b"four", 1), frame(5, b"", b"torn", 1)[..20].to_vec()].concat()),
        (wal("bills_0", 0), Vec::new()),
        (
            wal("__consumer_offsets_0", 0),
            [position(0, "g:orders:0", 6), position(1, "g:orders:1", 99), position(2, "g:orders:0", 8)].concat(),
        ),
    ]
}

struct World {
    disk: SimDisk,
    clock: Arc<ManualClock>,
}

impl World {
    fn new(old_dir: &str) -> Self {
        let world = Self::on(SimDisk::new(3));
        for (path, bytes) in old_files(old_dir) {
            let path = Path::new(&path);
            world.disk.create_dir_all(path.parent().unwrap()).unwrap();
            let file = world.disk.open(path, Open::CreateNew).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            file.sync_data().unwrap();
            path.parent().unwrap().ancestors().for_each(|dir| world.disk.sync_dir(dir).unwrap());
        }
        world
    }

    fn on(disk: SimDisk) -> Self {
        Self { disk, clock: Arc::new(ManualClock::new(1_700_000_000_000_000_000)) }
    }

    fn env(&self) -> LogEnv {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        LogEnv::new(Arc::new(self.disk.clone()), Arc::clone(&clock), Flusher::manual(clock), 64)
    }

    fn config(&self, start: u64) -> BrokerConfig {
        let mut config = BrokerConfig::new(DIR);
        config.recovery_threads = 1;
        config.reserve_bytes = 0;
        config.limits.disk_low_bytes = 0;
        config.limits.disk_high_bytes = 0;
        config.topic_defaults.segment_bytes = hermit_broker::MIN_SEGMENT_BYTES;
        config.id_seed = Some(self.disk.mutations() << 8 | start);
        config
    }

    fn import(&self, old_dir: &str, start: u64) -> Result<Plan, ImportError> {
        import::run_with(Path::new(old_dir), &self.config(start), &self.env(), |_| ())
    }

    /// As hermitd starts.
    fn start(&self, start: u64) -> Broker {
        match import::look_on(&self.disk, Path::new(DIR)).unwrap() {
            Found::Older => drop(self.import(DIR, start).unwrap()),
            Found::Unfinished { from } => drop(self.import(from.to_str().unwrap(), start).unwrap()),
            Found::Nothing => panic!("the old data are gone"),
            Found::Current => {}
        }
        Broker::open_with(self.config(start), self.env()).unwrap()
    }
}

/// Offsets, counts and payloads of a partition, and the ends of damaged ranges.
fn read(broker: &Broker, topic: &str, partition: usize) -> Vec<String> {
    let topic = broker.topic(&topic.parse().unwrap()).unwrap();
    let partition = &topic.partitions()[partition];
    let log = partition.log().unwrap();
    let mut seen = vec![format!("from {}", log.bounds().log_start)];
    let mut cursor = log.cursor(log.bounds().log_start).unwrap();
    loop {
        let mut bytes = Vec::new();
        match cursor.next(1 << 20) {
            Ok(Some(range)) => range.read_into(&mut bytes).unwrap(),
            Ok(None) => break,
            Err(hermit_log::LogError::Corrupt { from, next }) => {
                seen.push(format!("lost {from} to {next}"));
                cursor = log.cursor(next).unwrap();
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (view, behind) = FrameView::split(rest, &FrameLimits::default()).unwrap();
            view.verify_frame(&partition.salt()).unwrap();
            view.verify_body().unwrap();
            let (header, payload) = (view.prefix.header, view.payload());
            assert_eq!(header.timestamp, 7);
            let text =
                if payload.len() > 100 { format!("{} bytes", payload.len()) } else { String::from_utf8_lossy(payload).into() };
            seen.push(format!("{}+{} {text}", header.offset, header.record_count));
            rest = behind;
        }
    }
    seen.push(format!("to {}", log.bounds().high_watermark));
    seen
}

fn check(world: &World, broker: &Broker) {
    let report = broker.report();
    assert!(report.manifest.is_none() && report.unknown.is_empty() && report.positions_down.is_none(), "{report:?}");
    let names: Vec<_> = broker.topics().iter().map(|topic| topic.meta.name.to_string()).collect();
    assert_eq!(names, ["__consumer_offsets", "bills", "orders"]);
    assert_eq!(read(broker, "orders", 0), ["from 5", "5+1 five", "6+2 six", "8+1 40000 bytes", "9+1 nine", "to 10"]);
    assert_eq!(read(broker, "orders", 1), ["from 0", "0+1 zero", "lost 1 to 4", "4+1 four", "to 5"]);
    assert_eq!(read(broker, "bills", 0), ["from 0", "to 0"]);
    let orders = broker.topic(&"orders".parse().unwrap()).unwrap();
    let positions = broker.committed_of_group(&GroupName::new("g").unwrap()).unwrap();
    let mut positions: Vec<_> = positions.iter().map(|(topic, partition, at)| (*topic, partition.0, at.offset)).collect();
    positions.sort();
    assert_eq!(positions, [(orders.meta.id, 0, Offset(8)), (orders.meta.id, 1, Offset(5))]);
    let used = world.disk.list(&Path::new(DIR).join("partitions")).unwrap().len();
    assert_eq!(used, 4, "what an earlier import had made is gone");
    for old_dir in [DIR, OTHER].into_iter().filter(|dir| world.disk.exists(&Path::new(dir).join("orders_0")).unwrap()) {
        for (path, bytes) in old_files(old_dir) {
            assert!(world.disk.bytes(Path::new(&path)) == Some(bytes), "{path} changed");
        }
    }
}

#[test]
fn an_import_is_seen_whole_or_not_at_all_wherever_the_power_goes() {
    let world = World::new(DIR);
    world.disk.keep_images();
    check(&world, &world.start(1));
    let images = world.disk.take_images();
    assert!(images.len() > 50, "{}", images.len());
    for (mutations, disk) in images {
        let image = World::on(disk);
        image.disk.crash(mutations);
        // The power goes again during the second try, then nothing more happens.
        let again = World::on(image.disk.fork());
        again.disk.cut_after(mutations % 40);
        if import::look_on(&again.disk, Path::new(DIR)).is_ok_and(|found| found != Found::Current) {
            let _cut = again.import(DIR, 2);
        }
        again.disk.crash(mutations ^ 5);
        for world in [image, again] {
            let broker = world.start(3);
            check(&world, &broker);
            broker.close().unwrap();
            drop(broker);
            assert_eq!(import::look_on(&world.disk, Path::new(DIR)).unwrap(), Found::Current);
            check(&world, &world.start(4));
        }
    }
}

#[test]
fn an_import_that_fails_leaves_nothing_that_a_broker_would_serve() {
    for (op, after) in [(Op::Write, 3), (Op::Sync, 2), (Op::Sync, 9), (Op::SyncDir, 6), (Op::Rename, 1), (Op::Create, 4)] {
        let world = World::new(DIR);
        world.disk.fail(Fault::error(op, rustix::io::Errno::IO).after(after));
        let failed = world.import(DIR, 1).unwrap_err();
        world.disk.heal();
        let refused = Broker::open_with(world.config(2), world.env()).unwrap_err();
        assert!(matches!(refused, hermit_broker::BrokerError::NotImported { .. }), "{op:?} {after}: {failed}: {refused}");
        check(&world, &world.start(3));
    }
}

/// Whatever the call, and whatever it fails with: the import goes on, or is taken up again by the next start, and nothing of the old data is missed.
#[test]
fn an_import_in_which_any_call_fails_costs_nothing() {
    let mut refused = 0;
    for call in 0.. {
        let world = World::new(DIR);
        world.disk.fail(Fault::any(call).after(call));
        let imported = world.import(DIR, 1);
        world.disk.heal();
        let struck = world.disk.take_struck();
        if struck.is_empty() {
            assert!(call > 100 && refused > 50, "{refused} of {call}");
            return;
        }
        refused += u64::from(imported.is_err());
        let broker = world.start(3);
        check(&world, &broker);
    }
}

#[test]
fn an_import_from_another_directory_that_failed_is_not_taken_for_an_empty_data_directory() {
    let world = World::new(OTHER);
    world.disk.fail(Fault::error(Op::Sync, rustix::io::Errno::IO).after(8));
    world.import(OTHER, 1).unwrap_err();
    world.disk.heal();
    let found = import::look_on(&world.disk, Path::new(DIR)).unwrap();
    assert_eq!(found, Found::Unfinished { from: OTHER.into() });
    let refused = Broker::open_with(world.config(2), world.env()).unwrap_err();
    assert!(matches!(refused, hermit_broker::BrokerError::NotImported { begun: true, .. }), "{refused}");
    let refused = world.import("/elsewhere", 3).unwrap_err();
    assert!(matches!(refused, ImportError::OtherBegun { .. }), "{refused}");
    check(&world, &world.start(4));
}

#[test]
fn a_disk_that_fills_up_all_the_same_takes_the_import_back() {
    let world = World::new(DIR);
    let plan = import::plan_on(&world.disk, Path::new(DIR), &world.config(1)).unwrap();
    world.disk.set_capacity(Some(world.disk.used_bytes() + plan.need_bytes / 2));
    let refused = world.import(DIR, 1).unwrap_err();
    assert!(matches!(refused, ImportError::NoSpace { .. }), "{refused}");
    world.disk.set_capacity(Some(world.disk.used_bytes() + plan.need_bytes + plan.margin_bytes));
    check(&world, &world.start(2));
}
