//! Bytes that change on the disk: one flipped bit anywhere is harmless, or fenced and reported, and never takes another frame with it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermit_log::disk::sim::{Rng, SimDisk, Survival};
use hermit_log::{LogConfig, ManualClock, RecoveryReport};

use crate::for_seeds;
use crate::model::{Found, Frame, Promise};
use crate::reading::read_all;
use crate::rig::{Rig, dir, open};

/// A log that has stopped, and what is known of it.
struct Stopped {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    config: LogConfig,
    /// What it holds when nothing is damaged.
    whole: Found,
    rig: Rig,
    /// Frames from here on were in the last group commit before a stop that was not clean.
    last_group: u64,
}

/// What became of the log after the disk was tampered with.
struct Outcome {
    found: Found,
    report: RecoveryReport,
    disk: SimDisk,
}

/// The base offset of a segment, by its name.
fn base_of(path: &Path) -> Option<u64> {
    path.extension().filter(|extension| *extension == "wal")?;
    path.file_stem()?.to_str()?.parse().ok()
}

impl Stopped {
    fn new(seed: u64, clean: bool) -> Self {
        let disk = SimDisk::new(seed);
        let mut rig = Rig::new(disk.clone(), seed).unwrap();
        rig.plan.config.compaction = None;
        rig.plan.config.retention_age = None;
        rig.plan.config.retention_bytes = None;
        rig.plan.config.segment_bytes = 1500;
        rig.log.set_config(rig.plan.config.clone()).unwrap();
        rig.model.compacts = false;
        let mut rng = Rng::new(seed);
        let mut last_group = 0;
        for _ in 0..6 {
            let flushed_end = rig.log.bounds().flushed_end.0;
            for _ in 0..=rng.below(2) {
                rig.append().unwrap();
            }
            // A client may have had nothing to send.
            if rig.log.bounds().log_end.0 > flushed_end {
                last_group = flushed_end;
            }
            rig.flush().unwrap();
        }
        if rng.one_in(2) {
            rig.trim_to(rng.below(6) as u64).unwrap();
        }
        if clean {
            rig.log.close().unwrap();
            assert!(disk.put(Path::new("/data/clean"), &[]));
            last_group = u64::MAX;
        }
        // What is not synced need not survive the rot, but it makes for more files to damage.
        disk.crash_with(if rng.one_in(2) { Survival::Everything } else { Survival::Nothing }, seed);
        let config = rig.plan.config.clone();
        let clock = Arc::clone(&rig.clock);
        let image = disk.fork();
        let (log, report) = open(&image, &clock, &config).unwrap();
        assert!(report.fenced.is_empty() && report.cut.is_none(), "{report:?}");
        let whole = read_all(&log, 700).unwrap();
        Self { disk: disk.fork(), clock, config, whole, rig, last_group }
    }

    fn partition_files(&self) -> Vec<(PathBuf, u64)> {
        self.disk.files().into_iter().filter(|(path, _)| path.starts_with(dir())).collect()
    }

    /// Opens a tampered copy, reads all, and checks what must hold however it was tampered with.
    fn after(&self, what: &str, tamper: impl FnOnce(&SimDisk)) -> Outcome {
        let disk = self.disk.fork();
        tamper(&disk);
        let (log, report) = open(&disk, &self.clock, &self.config)
            .unwrap_or_else(|stop| panic!("{what}: damage keeps the log from opening: {stop:?}\n{}", disk.dump()));
        let found = read_all(&log, 700).unwrap_or_else(|stop| panic!("{what}: {stop:?}\n{}", disk.trace()));
        let mut at = 0;
        for frame in &found.frames {
            let known = self.whole_frame(frame.offset).is_some_and(|known| known == frame);
            // A damaged log start lets frames be seen again that had been trimmed.
            let trimmed = self.rig.model.frames.get(&frame.offset).is_some_and(|known| **known == *frame);
            assert!(known || trimmed, "{what}: {frame:?} was made up\n{report:?}");
            assert!(frame.offset >= at, "{what}: {frame:?} is out of order, or there twice");
            at = frame.next();
        }
        // Only the last group commit may take the end back.
        let kept_end = self.whole.end.min(self.last_group);
        assert!(found.end >= kept_end, "{what}: the end went back to {}", found.end);
        // The log takes more, behind all that was ever answered, and that is there after the next start.
        let next = Promise { end: found.end, ..Promise::default() };
        let mut rig = self.rig.resume(disk.clone(), log, self.rig.model.clone(), 1);
        rig.model.now = next;
        rig.append().unwrap_or_else(|stop| panic!("{what}: {stop:?}"));
        rig.flush().unwrap_or_else(|stop| panic!("{what}: {stop:?}"));
        let appended = rig.model.now.end;
        drop(rig);
        disk.crash_with(Survival::Nothing, 0);
        let (log, _) = open(&disk, &self.clock, &self.config).unwrap_or_else(|stop| panic!("{what}, again: {stop:?}"));
        let again = read_all(&log, 700).unwrap_or_else(|stop| panic!("{what}, again: {stop:?}\n{}", disk.trace()));
        assert_eq!(again.high_watermark, appended, "{what}: {again:?}");
        let kept = again.frames.iter().filter(|frame| frame.offset < found.end);
        assert!(kept.eq(found.frames.iter()), "{what}: the second start finds other frames\n{found:#?}\n{again:#?}");
        Outcome { found, report, disk }
    }

    fn whole_frame(&self, offset: u64) -> Option<&Frame> {
        let at = self.whole.frames.binary_search_by_key(&offset, |frame| frame.offset).ok()?;
        self.whole.frames.get(at)
    }

    fn lost(&self, found: &Found) -> Vec<u64> {
        let there: BTreeSet<u64> = found.frames.iter().map(|frame| frame.offset).collect();
        self.whole.frames.iter().map(|frame| frame.offset).filter(|offset| !there.contains(offset)).collect()
    }

    /// The offset of the frame that has the byte at `position` of a segment, where it has one.
    fn frame_at(&self, path: &Path, position: u64) -> Option<u64> {
        let base = base_of(path)?;
        let mut start = 0;
        // All that was put into the log, trimmed or not, lies in its files in order.
        for frame in self.rig.model.frames.range(base..).map(|(_, frame)| frame) {
            start += frame.produced.len() as u64;
            if position < start {
                return Some(frame.offset);
            }
        }
        None
    }

    /// One flipped bit costs the frame that it is in, or nothing; whatever it costs is reported.
    fn check_flip(&self, path: &Path, bit: u64) {
        let mut what = String::new();
        write!(what, "bit {bit} of {} flipped", path.display()).unwrap();
        let Outcome { found, report, disk } = self.after(&what, |disk| assert!(disk.flip_bit(path, bit)));
        let lost = self.lost(&found);
        if lost.is_empty() {
            return;
        }
        let reported = !report.fenced.is_empty() || report.cut.is_some() || !found.corrupt.is_empty();
        assert!(reported, "{what}: {lost:?} is gone, and nobody is told");
        let is_wal = path.extension().is_some_and(|extension| extension == "wal");
        assert!(is_wal, "{what}: {lost:?} is gone, though it is in none of the log's segments\n{report:?}");
        let hit = self.frame_at(path, bit / 8).unwrap();
        match report.cut {
            // What the last group commit wrote may look torn; a checkpoint can still tell.
            Some(cut) => {
                assert!(hit >= self.last_group, "{what}: {hit} was flushed, which what came later shows; {cut:?}");
                assert!(lost.iter().all(|offset| *offset >= hit), "{what}: {lost:?} is gone, before {hit}");
                let is_kept = |name: &String| disk.bytes(&dir().join(name)).is_some();
                assert!(!cut.kept_in.is_empty() && cut.kept_in.iter().all(is_kept), "{what}: {cut:?}");
            }
            None => assert_eq!(lost, [hit], "{what}: other frames are gone\n{:?}\n{:?}", report.fenced, found.corrupt),
        }
    }
}

fn flip_everywhere(seed: u64, clean: bool) {
    let stopped = Stopped::new(seed, clean);
    let mut rng = Rng::new(seed);
    // Many seeds meet every byte; each meets some of every part of every file.
    for (path, len_bytes) in stopped.partition_files() {
        let mut byte = rng.below(8) as u64;
        while byte < len_bytes {
            stopped.check_flip(&path, byte * 8 + rng.below(8) as u64);
            byte += 1 + rng.below(if base_of(&path).is_some() { 24 } else { 12 }) as u64;
            // Between the slots of the checkpoint there is nothing.
            if path.ends_with("checkpoint") && (64..4096).contains(&byte) {
                byte = 4096;
            }
        }
    }
}

#[test]
fn a_flipped_bit_after_a_clean_stop_costs_one_frame_at_most() {
    for_seeds(2, |seed| flip_everywhere(seed, true));
}

#[test]
fn a_flipped_bit_after_a_crash_costs_one_frame_or_a_reported_tail() {
    for_seeds(2, |seed| flip_everywhere(seed + 100, false));
}

/// {log, index, state} × {missing, empty, short, one entry too many, zeros, another's}.
#[test]
fn derived_files_may_be_in_any_state() {
    for_seeds(6, |seed| {
        for clean in [true, false] {
            let stopped = Stopped::new(seed, clean);
            let files = stopped.partition_files();
            let is_wal = |path: &Path| path.extension().is_some_and(|extension| extension == "wal");
            let derived: Vec<_> = files.iter().filter(|(path, _)| !is_wal(path) && !path.ends_with("start")).collect();
            for (path, len_bytes) in &derived {
                let len = usize::try_from(*len_bytes).unwrap();
                let name = path.display();
                let bytes = stopped.disk.bytes(path).unwrap();
                let mut outcomes = vec![
                    stopped.after(&format!("{name} missing"), |disk| assert!(disk.remove(path))),
                    stopped.after(&format!("{name} empty"), |disk| assert!(disk.truncate(path, 0))),
                    stopped.after(&format!("{name} short"), |disk| assert!(disk.truncate(path, len / 2))),
                    stopped.after(&format!("{name} an entry short"), |disk| assert!(disk.truncate(path, len.saturating_sub(16)))),
                    stopped.after(&format!("{name} an entry too long"), |disk| {
                        let more = bytes.get(..16.min(len)).unwrap_or_default();
                        assert!(disk.put(path, &[more, &bytes].concat()));
                    }),
                    stopped.after(&format!("{name} zeros"), |disk| assert!(disk.put(path, &vec![0; len]))),
                    stopped.after(&format!("{name} zeros behind"), |disk| assert!(disk.truncate(path, len + 64))),
                ];
                if let Some((other, _)) = derived.iter().find(|(other, _)| other.extension() == path.extension() && other != path) {
                    let others = stopped.disk.bytes(other).unwrap();
                    outcomes.push(stopped.after(&format!("{name} another's"), |disk| assert!(disk.put(path, &others))));
                }
                for outcome in outcomes {
                    assert_eq!(outcome.found.frames, stopped.whole.frames, "{name}: {:?}", outcome.report);
                    assert!(outcome.found.corrupt.is_empty() && outcome.report.fenced.is_empty(), "{name}: {:?}", outcome.report);
                }
            }
        }
    });
}

/// A segment that is gone, empty, short or overwritten takes its own frames, and is reported.
#[test]
fn a_ruined_segment_stays_inside_its_partition_and_its_range() {
    for_seeds(6, |seed| {
        let stopped = Stopped::new(seed, true);
        let mut wals: Vec<_> = stopped.partition_files();
        wals.retain(|(path, len_bytes)| path.extension().is_some_and(|extension| extension == "wal") && *len_bytes > 0);
        for (i, (path, len_bytes)) in wals.iter().enumerate() {
            let len = usize::try_from(*len_bytes).unwrap();
            let base = base_of(path).unwrap();
            let next = wals.get(i + 1).and_then(|(next, _)| base_of(next)).unwrap_or(u64::MAX);
            let name = path.display();
            let ruin = |how: &str, tamper: &dyn Fn(&SimDisk)| stopped.after(&format!("{name} {how}"), tamper);
            let outcomes = [
                ruin("missing", &|disk| assert!(disk.remove(path))),
                ruin("empty", &|disk| assert!(disk.truncate(path, 0))),
                ruin("short", &|disk| assert!(disk.truncate(path, len / 2))),
                ruin("overwritten", &|disk| assert!(disk.overwrite(path, *len_bytes / 2, &[0xff; 4]))),
                ruin("zeros", &|disk| assert!(disk.put(path, &vec![0; len]))),
            ];
            for Outcome { found, report, .. } in outcomes {
                let lost = stopped.lost(&found);
                assert!(lost.iter().all(|offset| (base..next).contains(offset)), "{name}: {lost:?} is gone\n{report:?}");
                let reported = !report.fenced.is_empty() || !found.corrupt.is_empty();
                assert!(reported || lost.is_empty(), "{name}: {lost:?} is gone, and nobody is told\n{report:?}");
            }
        }
    });
}
