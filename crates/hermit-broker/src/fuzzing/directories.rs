//! Whole directories, of this release and of older ones.

use std::path::Path;

use hermit_log::disk::Disk as _;
use hermit_log::disk::sim::SimDisk;
use hermit_proto::{Header, PartitionId};

use super::steps::Steps;
use super::world::{DIR, World};
use crate::import::{self, Found};
use crate::{Broker, TopicConfig, layout};

/// A directory has so many files at most.
const MAX_STEPS: usize = 24;

/// Damages the files of a data directory with two topics and a group, takes some away and puts others there: the broker starts or tells why not; then it can be written to, and
/// starts again without finding more damage.
///
/// # Panics
/// Where that does not hold.
pub fn data_directory(data: &[u8]) {
    let mut steps = Steps(data);
    let world = World::on(template().fork());
    for _ in 0..MAX_STEPS {
        if steps.is_empty() {
            break;
        }
        damage(&world.disk, &mut steps);
    }
    let Ok(broker) = world.open(2) else { return };
    let topics = broker.topics().len();
    // Names may be taken, or there are as many partitions as may be: what counts is an answer.
    let _created = broker.create_topic("another", 1, &TopicConfig::default());
    let _read: usize = broker.topics().iter().map(|topic| read(&broker, topic)).sum();
    broker.close().expect("the disk has no faults");
    drop(broker);
    let broker = world.open(3).expect("what was closed opens");
    assert!(broker.report().clean && broker.report().manifest.is_none(), "{:?}", broker.report());
    assert!(broker.topics().len() >= topics);
    broker.close().expect("the disk has no faults");
}

/// Reads all that a topic serves; answers how many bytes.
fn read(_broker: &Broker, topic: &crate::Topic) -> usize {
    let mut bytes = Vec::new();
    for partition in topic.partitions() {
        let Ok(log) = partition.log() else { continue };
        let mut at = log.bounds().log_start;
        // A damage is passed over once; whoever goes in circles is found by the time limit.
        while let Ok(mut cursor) = log.cursor(at) {
            match cursor.next(1 << 16) {
                Ok(Some(range)) => {
                    range.read_into(&mut bytes).expect("the disk has no faults");
                    if range.next_offset() <= at {
                        break;
                    }
                    at = range.next_offset();
                }
                Ok(None) | Err(_) => break,
            }
        }
    }
    bytes.len()
}

fn template() -> &'static SimDisk {
    static TEMPLATE: std::sync::OnceLock<SimDisk> = std::sync::OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let world = World::new();
        let broker = world.open(1).expect("the disk has no faults");
        for name in ["orders", "bills"] {
            broker.create_topic(name, 1, &TopicConfig::default()).expect("it is not there yet");
            let topic = broker.topic(&name.parse().expect("a name")).expect("it is there");
            for payload in [&b"first"[..], &[7; 3000], b"last"] {
                let frame = hermit_proto::ProducedFrame::message(5, None, payload).to_vec().expect("it is small");
                let mut batch = broker.parse(bytes::BytesMut::from(&*frame)).expect("it is sound");
                let partition = topic.partition(PartitionId(0)).expect("it has one");
                broker.append(partition, &mut batch).and_then(|ticket| ticket.wait()).expect("the disk has no faults");
            }
        }
        broker.close().expect("the disk has no faults");
        world.disk
    })
}

fn damage(disk: &SimDisk, steps: &mut Steps<'_>) {
    let files = disk.files();
    let Some((path, len)) = files.get(steps.below(files.len())) else { return };
    let len = usize::try_from(*len).unwrap_or(0);
    match steps.u8() % 6 {
        0 => drop(disk.remove(path)),
        1 => drop(disk.truncate(path, steps.below(len + 1))),
        2 => drop(disk.flip_bit(path, steps.below(len * 8) as u64)),
        3 => drop(disk.put(path, steps.bytes())),
        4 => {
            let at = steps.below(len) as u64;
            let bytes = steps.bytes();
            if usize::try_from(at).is_ok_and(|at| at + bytes.len() <= len) {
                disk.overwrite(path, at, bytes);
            }
        }
        _ => {
            let names = [layout::CLEAN, layout::IMPORTING, layout::MANIFEST, layout::RESERVE, "access"];
            let name = names[usize::from(steps.u8()) % names.len()];
            disk.put(&Path::new(DIR).join(name), steps.bytes());
        }
    }
}

/// A directory of an older release, made up: it is taken over or refused by name, in the time that its size allows, and is untouched either way.
///
/// # Panics
/// Where that does not hold.
pub fn old_directory(data: &[u8]) {
    let mut steps = Steps(data);
    let world = World::new();
    let mut next = 0_u64;
    for _ in 0..MAX_STEPS {
        if steps.is_empty() {
            break;
        }
        put_old(&world.disk, &mut steps, &mut next);
    }
    let before: Vec<_> = world.disk.files().into_iter().map(|(path, _)| (world.disk.bytes(&path), path)).collect();
    if !matches!(import::look_on(&world.disk, Path::new(DIR)), Ok(Found::Older)) {
        return;
    }
    let config = World::config(5);
    let planned = import::plan_on(&world.disk, Path::new(DIR), &config);
    let done = import::run_with(Path::new(DIR), &config, &world.env(), |_| ());
    for (bytes, path) in before {
        assert!(world.disk.bytes(&path) == bytes, "{} was changed", path.display());
    }
    assert!(planned.is_ok() || done.is_err(), "what cannot be planned was done");
    if done.is_ok() {
        let broker = world.open(6).expect("what was taken over opens");
        broker.close().expect("the disk has no faults");
    }
}

fn put_old(disk: &SimDisk, steps: &mut Steps<'_>, next: &mut u64) {
    let directories = ["orders_0", "orders_1", "a_b_0", "__consumer_offsets_0", "x", "_7", "orders_00", "\u{e4}_4294967295"];
    let which = steps.u8();
    let dir = Path::new(DIR).join(directories[usize::from(which) % directories.len()]);
    disk.create_dir_all(&dir).expect("the disk has no faults");
    let base = if which & 0x40 == 0 { *next } else { u64::from(steps.u8()) };
    let name = match steps.u8() % 8 {
        0 => format!("{base:020}.index"),
        1 => "metadata.json".to_owned(),
        2 => format!("{base}.wal"),
        _ => format!("{base:020}.wal"),
    };
    let mut bytes = Vec::new();
    let mut offset = base;
    for _ in 0..steps.u8() % 6 {
        let (flags, key, payload) = (steps.u8(), steps.bytes(), steps.bytes());
        let record_count = u32::from(flags % 4);
        let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(0);
        let header = Header { magic: 1, timestamp: 5, offset, key_size: size(key), payload_size: size(payload), record_count };
        let key = if flags & 0x80 == 0 { key } else { b"g:orders:0" };
        let header = Header { key_size: size(key), ..header };
        bytes.extend_from_slice(&[&header.encode()[..], key, payload].concat());
        // A commit has count 0, and takes an offset all the same.
        offset = offset.wrapping_add(u64::from(record_count.max(1))).wrapping_add(u64::from(flags >> 4 & 1));
    }
    bytes.extend_from_slice(steps.bytes());
    *next = offset;
    disk.put(&dir.join(name), &bytes);
}
