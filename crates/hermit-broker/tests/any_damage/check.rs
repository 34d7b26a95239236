//! What must hold whatever was done to the files.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use hermit_broker::offline::{Check, OfflineDir, RepairOptions, Selection};
use hermit_broker::{Broker, OFFSETS_TOPIC};
use hermit_log::RecoveryReport;
use hermit_log::disk::sim::SimDisk;
use hermit_proto::{PartitionId, ProducedFrame, ProducerEpoch, ProducerStamp, Sequence};

use crate::harm::Harm;
use crate::world::{
    Partition, ROTTEN, Records, SEGMENT_RECORDS, SEGMENTS, Stop, TRIMMED_TO, World, append, group, name, open, read,
};

pub(crate) fn check(world: &World, harms: &[Harm]) {
    let checked = catch_unwind(AssertUnwindSafe(|| Case { world, harms, disk: world.disk.fork() }.run()));
    if let Err(panic) = checked {
        println!("stopped {:?}, then {harms:#?}", world.stop);
        resume_unwind(panic);
    }
}

struct Case<'a> {
    world: &'a World,
    harms: &'a [Harm],
    disk: SimDisk,
}

impl Case<'_> {
    fn run(&self) {
        self.harms.iter().for_each(|harm| harm.inflict(&self.disk));
        let kept = self.kept_bytes();
        let (broker, flusher) = open(&self.disk, &self.world.clock);
        let broker = broker.unwrap_or_else(|error| panic!("the broker does not start: {error:?}"));
        let mut served = BTreeMap::new();
        for (&(topic, number), partition) in &self.world.partitions {
            let Ok(known) = broker.topic(&name(topic)) else {
                self.check_unknown(&broker, topic, partition);
                continue;
            };
            if known.partition(PartitionId(number)).is_err() {
                // Nothing tells that the topic has more than one.
                assert!(self.hits("manifest") && self.hits("topic"), "{topic}-{number} is not known");
                continue;
            }
            let report = report_of(&broker, topic, number);
            if !self.is_touched(partition) {
                let end = known.partition(PartitionId(number)).unwrap().bounds().unwrap().high_watermark.0;
                assert_eq!((end, &report.cut), (partition.log_end, &None), "{topic}-{number} was not touched");
                continue;
            }
            let (records, corrupt) = read(&broker, topic, number).unwrap_or_else(|error| panic!("{topic}-{number}: {error}"));
            self.check_records(topic, number, partition, &records, &corrupt, &report);
            self.check_append(&broker, topic, number, partition, &report);
            served.insert((topic, number), records);
        }
        self.check_position(&broker);
        broker.create_topic("new", 1, &hermit_broker::TopicConfig::default()).unwrap();
        append(&broker, "new", 0, ProducedFrame::message(1, None, b"served")).unwrap();
        flusher.run_until_idle();
        for (&(topic, number), before) in &mut served {
            *before = read(&broker, topic, number).unwrap().0;
        }
        broker.close().unwrap();
        drop(broker);
        self.disk.kill();
        assert!(self.kept_bytes() >= kept, "files were deleted");
        self.check_repair(&served);
    }

    fn is_touched(&self, partition: &Partition) -> bool {
        self.hits_in(&partition.dir, "")
    }

    fn hits(&self, file: &str) -> bool {
        self.harms.iter().any(|harm| harm.path.ends_with(file) || harm.other.as_ref().is_some_and(|other| other.ends_with(file)))
    }

    fn hits_in(&self, dir: &Path, end: &str) -> bool {
        let is_there = |path: &Path| path.starts_with(dir) && path.to_string_lossy().ends_with(end);
        self.harms.iter().any(|harm| is_there(&harm.path) || harm.other.as_deref().is_some_and(is_there))
    }

    /// Whether the checkpoint was harmed, and each segment that has an offset from this one on.
    fn hits_all_from(&self, dir: &Path, offset: u64) -> bool {
        let mut from = SEGMENTS.iter().filter(|base| **base + SEGMENT_RECORDS > offset);
        self.hits_in(dir, "checkpoint") && from.all(|base| self.hits_in(dir, &format!("{base:020}.wal")))
    }

    /// Whether the segment that has this offset was exchanged with another of its partition.
    fn is_exchanged(&self, dir: &Path, offset: u64) -> bool {
        let Some(base) = SEGMENTS.iter().rfind(|base| **base <= offset) else { return false };
        let is_it = |path: &Path| path == dir.join(format!("{base:020}.wal"));
        self.harms
            .iter()
            .filter_map(|harm| Some((&harm.path, harm.other.as_ref()?)))
            .any(|(path, other)| path.parent() == other.parent() && (is_it(path) || is_it(other)))
    }

    /// Bytes of logs, wherever they are by now.
    fn kept_bytes(&self) -> u64 {
        let is_log = |path: &Path| [".wal", ".cut", ".replaced"].iter().any(|end| path.to_string_lossy().ends_with(end));
        self.disk.files().iter().filter(|(path, _)| is_log(path)).map(|(_, bytes)| bytes).sum()
    }

    /// A topic may be lost where the manifest and all its copies are, or the manifest's end and the marker that knows of it; then its directories are
    /// named, and stay.
    fn check_unknown(&self, broker: &Broker, topic: &str, partition: &Partition) {
        let of_topic = self.world.partitions.iter().filter(|((other, _), _)| *other == topic);
        let all_copies = of_topic.into_iter().all(|(_, partition)| self.hits_in(&partition.dir, "topic"));
        let (manifest, marker) = (self.hits("manifest"), self.hits("clean"));
        assert!((manifest || marker) && all_copies || manifest && marker, "{topic} is not known");
        let dir = partition.dir.file_name().unwrap().to_str().unwrap();
        assert!(broker.report().unknown.iter().any(|unknown| unknown == dir), "{dir} is not named");
    }

    fn check_records(
        &self,
        topic: &str,
        number: u32,
        partition: &Partition,
        records: &Records,
        corrupt: &[(u64, u64)],
        report: &RecoveryReport,
    ) {
        for (offset, payload) in records {
            assert_eq!(partition.ever.get(offset), Some(payload), "{topic}-{number}: wrong data at {offset}");
        }
        let is_hit = self.hits_in(&partition.dir, ".wal");
        let is_told = |offset: u64| {
            corrupt.iter().any(|(from, next)| (*from..*next).contains(&offset))
                || report.fenced.iter().any(|range| (range.from.0..range.next.0).contains(&offset))
                || report.cut.as_ref().is_some_and(|cut| cut.end.0 <= offset)
        };
        for offset in partition.records.keys().filter(|offset| !records.contains_key(offset)) {
            assert!(is_hit, "{topic}-{number}: {offset} is lost, and no segment was touched: {report:?}");
            // A compacted log cannot tell what a compaction took from what somebody else did. And where all that tells of the end is gone, nothing tells of the loss.
            // Neither does a damaged log start tell what should come first; that it is damaged is told.
            let is_before_start = report.damaged_state.iter().any(|name| name == "start")
                && records.first_key_value().is_none_or(|(first, _)| offset < first);
            // Nor do whole frames in the place of others: a segment may begin behind its base.
            let nothing_tells = is_before_start
                || topic == "keyed"
                || self.hits_all_from(&partition.dir, *offset)
                || self.is_exchanged(&partition.dir, *offset);
            assert!(
                is_told(*offset) || nothing_tells,
                "{topic}-{number}: the loss of {offset} is not told: {corrupt:?} {report:?}"
            );
        }
        if topic == "trimmed" && !self.hits_in(&partition.dir, "start") {
            assert!(records.keys().all(|offset| *offset >= TRIMMED_TO), "what was trimmed is back");
        }
        if topic == "rotten" && !is_hit {
            assert_eq!(corrupt, [(ROTTEN, ROTTEN + 1)], "known damage is not told");
        }
        if !is_hit && topic != "rotten" {
            assert_eq!(corrupt, [], "{topic}-{number}: sound data are called damaged: {report:?}");
        }
    }

    /// What is appended is read back, gets no offset again, and no producer's batch is taken for a double that it is not, or stored twice.
    fn check_append(&self, broker: &Broker, topic: &str, number: u32, partition: &Partition, report: &RecoveryReport) {
        let is_hit = self.hits_in(&partition.dir, ".wal");
        if (topic == "plain" || topic == "twin") && !is_hit {
            let stamp =
                |sequence| ProducerStamp { id: self.world.producer, epoch: ProducerEpoch(0), first_sequence: Sequence(sequence) };
            let payload = &partition.ever[&23];
            let again = ProducedFrame { producer: Some(stamp(23)), ..ProducedFrame::message(1, None, payload) };
            assert_eq!(append(broker, topic, number, again), Ok(23), "{topic}-{number}: a batch that comes again");
            let next = ProducedFrame { producer: Some(stamp(24)), ..ProducedFrame::message(1, None, b"next") };
            assert_eq!(append(broker, topic, number, next), Ok(24), "{topic}-{number}: the batch that comes next");
            return;
        }
        let key = (topic == "keyed").then_some(&b"new"[..]);
        let offset = append(broker, topic, number, ProducedFrame::message(1, key, b"appended")).unwrap();
        let nothing_tells = is_hit && self.hits_in(&partition.dir, "checkpoint");
        let is_torn = self.world.stop == Stop::Killed && report.cut.is_some();
        assert!(
            offset >= partition.log_end || nothing_tells || is_torn,
            "{topic}-{number}: offset {offset} is given out again, behind {}: {report:?}",
            partition.log_end
        );
    }

    fn check_position(&self, broker: &Broker) {
        let offsets = broker.topic(&name(OFFSETS_TOPIC));
        let is_hit = offsets.is_err()
            || self.harms.iter().any(|harm| {
                let of_world = |path: &Path| self.world.partitions.values().any(|partition| path.starts_with(&partition.dir));
                !of_world(&harm.path) || harm.other.as_ref().is_some_and(|other| !of_world(other))
            });
        let found = broker.committed(&group(), self.world.plain, PartitionId(0));
        if !is_hit && broker.topic(&name("plain")).is_ok() {
            assert_eq!(found.unwrap().map(|committed| committed.offset.0), Some(5), "the committed position");
        }
    }

    /// Verifying names what is left, repairing mends it, and what was served before is served then.
    fn check_repair(&self, served: &BTreeMap<(&str, u32), Records>) {
        let dir = OfflineDir::open_on(Arc::new(self.disk.clone()), Path::new("/data")).unwrap();
        for partition in dir.partitions(&Selection::default()).unwrap() {
            if !self.hits_in(&partition.dir, "") {
                continue;
            }
            let what = || format!("{} {}", partition.topic, partition.partition);
            if !hermit_log::disk::Disk::exists(&self.disk, &partition.dir).unwrap() {
                continue;
            }
            for drop_damage in [false, true] {
                let options = RepairOptions { drop_damage, ..RepairOptions::default() };
                dir.repair(&partition, &options).unwrap_or_else(|error| panic!("{}: {error}", what()));
            }
            let found = dir.inspect(&partition, Check::Everything).unwrap();
            assert!(found.is_sound(), "{} after its repair: {found:#?}", what());
        }
        drop(dir);
        let (broker, _) = open(&self.disk, &self.world.clock);
        let broker = broker.unwrap();
        for (&(topic, number), before) in served {
            let (records, corrupt) = read(&broker, topic, number).unwrap();
            assert_eq!(corrupt, [], "{topic}-{number} after its repair");
            assert!(records == *before, "{topic}-{number}: other data after the repair");
            let report = report_of(&broker, topic, number);
            assert!(report.cut.is_none() && report.fenced.is_empty(), "{topic}-{number} after its repair: {report:?}");
        }
    }
}

fn report_of(broker: &Broker, topic: &str, number: u32) -> RecoveryReport {
    let of = |report: &&hermit_broker::PartitionReport| report.topic.as_str() == topic && report.partition.0 == number;
    let report = broker.report().partitions.iter().find(of).unwrap();
    report.recovery.clone().unwrap_or_else(|error| panic!("{topic}-{number} is down: {error:?}"))
}
