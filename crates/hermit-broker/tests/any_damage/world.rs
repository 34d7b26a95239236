//! A data directory with one of everything, and what it holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerConfig, Position, TopicConfig};
use hermit_log::disk::sim::SimDisk;
use hermit_log::{Clock, Flusher, LogEnv, LogError, ManualClock};
use hermit_proto::{
    FrameLimits, FrameView, GroupName, LeaderEpoch, Offset, PartitionId, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp,
    Sequence, TopicId, TopicName,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Clean,
    Killed,
}

/// So many of these fill a segment.
const PAYLOAD_BYTES: usize = 9_000;
pub(crate) const SEGMENT_RECORDS: u64 = 7;
/// Where the segments begin.
pub(crate) const SEGMENTS: [u64; 4] = [0, 7, 14, 21];
pub(crate) const TOPICS: [(&str, u32); 5] = [("plain", 1), ("twin", 2), ("keyed", 1), ("trimmed", 1), ("rotten", 1)];
/// Where `trimmed` begins: within a segment.
pub(crate) const TRIMMED_TO: u64 = 9;
/// What `rotten` has lost, known since before.
pub(crate) const ROTTEN: u64 = 10;

/// A partition's records by offset.
pub(crate) type Records = BTreeMap<u64, Vec<u8>>;

pub(crate) struct Partition {
    pub(crate) dir: PathBuf,
    pub(crate) records: Records,
    /// What it held before it was trimmed or compacted, as well.
    pub(crate) ever: Records,
    pub(crate) log_end: u64,
}

pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) stop: Stop,
    pub(crate) partitions: BTreeMap<(&'static str, u32), Partition>,
    pub(crate) plain: TopicId,
    pub(crate) producer: ProducerId,
}

pub(crate) fn open(disk: &SimDisk, clock: &Arc<ManualClock>) -> (Result<Broker, hermit_broker::BrokerError>, Flusher) {
    let flusher = Flusher::manual(Arc::clone(clock) as Arc<dyn Clock>);
    let env = LogEnv::new(Arc::new(disk.clone()), Arc::clone(clock) as _, flusher.clone(), 64);
    let mut config = BrokerConfig::new("/data");
    config.recovery_threads = 1;
    config.reserve_bytes = 0;
    config.limits.disk_low_bytes = 0;
    (Broker::open_with(config, env), flusher)
}

pub(crate) fn name(topic: &str) -> TopicName {
    TopicName::new(topic).unwrap()
}

pub(crate) fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

pub(crate) fn append(broker: &Broker, topic: &str, partition: u32, frame: ProducedFrame<'_>) -> Result<u64, String> {
    let told = |error: hermit_broker::BrokerError| error.to_string();
    let topic = broker.topic(&name(topic)).map_err(told)?;
    let mut batch = broker.parse(BytesMut::from(&frame.to_vec().unwrap()[..])).map_err(told)?;
    let ticket = broker.append(topic.partition(PartitionId(partition)).map_err(told)?, &mut batch).map_err(told)?;
    Ok(ticket.appended().base_offset.0)
}

fn payload(topic: &str, partition: u32, number: u64) -> Vec<u8> {
    let mut payload = format!("{topic}-{partition}-{number}-").into_bytes();
    payload.resize(PAYLOAD_BYTES, b'x');
    payload
}

/// What a consumer that goes past damage gets, and what it is told is damaged.
pub(crate) fn read(broker: &Broker, topic: &str, partition: u32) -> Result<(Records, Vec<(u64, u64)>), String> {
    let told = |error: hermit_broker::BrokerError| error.to_string();
    let topic = broker.topic(&name(topic)).map_err(told)?;
    let log = topic.partition(PartitionId(partition)).map_err(told)?.log().map_err(told)?.clone();
    let (mut records, mut corrupt) = (Records::new(), Vec::new());
    let mut at = log.bounds().log_start;
    let mut rounds = 0;
    'from: while at < log.bounds().high_watermark {
        rounds += 1;
        assert!(rounds < 1000, "reading does not end, at {at}");
        let mut cursor = match log.cursor(at) {
            Ok(cursor) => cursor,
            Err(LogError::Corrupt { from, next }) => {
                assert!(next > at, "reading goes on at {next}, which is not behind {at}");
                corrupt.push((from.0, next.0));
                at = next;
                continue;
            }
            Err(error) => return Err(format!("at {at}: {error:?}")),
        };
        loop {
            match cursor.next(100_000) {
                Ok(None) => break 'from,
                Ok(Some(range)) => {
                    if range.verify().is_err() {
                        // It is fenced now.
                        continue 'from;
                    }
                    let mut bytes = Vec::new();
                    range.read_into(&mut bytes).unwrap();
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let (view, behind) = FrameView::split(rest, &FrameLimits::default()).unwrap();
                        assert!(records.insert(view.prefix.offset().0, view.payload().to_vec()).is_none(), "read twice");
                        rest = behind;
                        at = view.prefix.next_offset();
                    }
                    at = at.max(range.next_offset());
                }
                Err(LogError::Corrupt { from, next }) => {
                    corrupt.push((from.0, next.0));
                    at = at.max(next);
                    continue 'from;
                }
                Err(error) => return Err(format!("at {at}: {error:?}")),
            }
        }
    }
    Ok((records, corrupt))
}

impl World {
    pub(crate) fn filled(stop: Stop) -> Self {
        let disk = SimDisk::new(1);
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
        let (broker, flusher) = open(&disk, &clock);
        let broker = broker.unwrap();
        let (producer_id, _) = broker.init_producer(ProducerId::NONE, ProducerEpoch(-1)).unwrap();
        let mut ever: BTreeMap<(&str, u32), Records> = BTreeMap::new();
        for (topic, partitions) in TOPICS {
            let config =
                TopicConfig { segment_bytes: Some(64 << 10), compaction: Some(topic == "keyed"), ..TopicConfig::default() };
            let id = broker.create_topic(topic, partitions, &config).unwrap().meta.id;
            for partition in 0..partitions {
                for number in 0..24 {
                    let payload = payload(topic, partition, number);
                    let key = format!("{}", number % 9);
                    let key = (topic == "keyed").then_some(key.as_bytes());
                    let stamp = ProducerStamp {
                        id: producer_id,
                        epoch: ProducerEpoch(0),
                        first_sequence: Sequence(i32::try_from(number).unwrap()),
                    };
                    let producer = (topic == "plain" || topic == "twin").then_some(stamp);
                    let frame = ProducedFrame { producer, ..ProducedFrame::message(1, key, &payload) };
                    let offset = append(&broker, topic, partition, frame).unwrap();
                    ever.entry((topic, partition)).or_default().insert(offset, payload);
                    // Later frames prove what was flushed before.
                    flusher.run_until_idle();
                    clock.advance(Duration::from_secs(1));
                }
            }
            let log = broker.topic(&name(topic)).unwrap().partition(PartitionId(0)).unwrap().log().unwrap().clone();
            match topic {
                "trimmed" => drop(log.trim(Offset(TRIMMED_TO)).unwrap()),
                "rotten" => {
                    // The fourth frame of the second segment.
                    let wal = PathBuf::from(format!("/data/partitions/{id}-0/{:020}.wal", 7));
                    assert!(disk.flip_bit(&wal, 8 * (3 * (PAYLOAD_BYTES as u64 + 69) + 5000)));
                    assert_eq!(read(&broker, topic, 0).unwrap().1, [(ROTTEN, ROTTEN + 1)]);
                }
                _ => {}
            }
        }
        let plain = broker.topic(&name("plain")).unwrap().meta.id;
        let position = Position { topic: plain, partition: PartitionId(0), offset: Offset(5), leader_epoch: LeaderEpoch::UNKNOWN };
        broker.commit(&group(), &[position]).unwrap();
        flusher.run_until_idle();
        broker.maintain();
        let mut partitions = BTreeMap::new();
        for (topic, count) in TOPICS {
            for partition in 0..count {
                let (records, _) = read(&broker, topic, partition).unwrap();
                let known = broker.topic(&name(topic)).unwrap();
                let dir = PathBuf::from(format!("/data/partitions/{}-{partition}", known.meta.id));
                let log_end = known.partition(PartitionId(partition)).unwrap().bounds().unwrap().log_end.0;
                let ever = ever.remove(&(topic, partition)).unwrap();
                partitions.insert((topic, partition), Partition { dir, records, ever, log_end });
            }
        }
        if stop == Stop::Clean {
            broker.close().unwrap();
        }
        drop(broker);
        disk.kill();
        Self { disk, clock, stop, partitions, plain, producer: producer_id }
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let all = self.disk.files().into_iter().map(|(path, _)| path);
        all.filter(|path| path != Path::new("/data/lock")).collect()
    }
}
