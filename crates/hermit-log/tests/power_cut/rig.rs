//! A log on a simulated disk, driven by a seed, with its model beside it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hermit_log::disk::sim::{Rng, SimDisk, is_power_cut};
use hermit_log::disk::{Disk, write_atomically};
use hermit_log::{
    Batch, Bounds, CompactionConfig, Durability, Flusher, Log, LogConfig, LogEnv, LogError, LogIdentity, LogListener, ManualClock,
    RecoveryReport, Start,
};
use hermit_proto::{LeaderEpoch, Offset, PartitionId, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence, TopicId};

use crate::model::{Frame, Model, Promise, split_frames};
use crate::reading::{check_lookups, read_all};

pub(crate) const SECOND: u64 = 1_000_000_000;
const KEYS: usize = 5;
pub(crate) const IDENTITY: LogIdentity = LogIdentity { topic: TopicId(7), partition: PartitionId(3) };

pub(crate) fn partitions() -> &'static Path {
    Path::new("/data/partitions")
}

pub(crate) fn dir() -> &'static Path {
    Path::new("/data/partitions/p")
}

/// Why a run ended before its time.
#[derive(Debug)]
pub(crate) enum Stop {
    PowerCut,
    Failed(LogError),
}

impl From<LogError> for Stop {
    fn from(error: LogError) -> Self {
        let mut at: &LogError = &error;
        loop {
            match at {
                LogError::Io { source, .. } if is_power_cut(source) => return Self::PowerCut,
                LogError::ReadOnly { source } => at = source,
                _ => return Self::Failed(error),
            }
        }
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        let path = partitions().to_owned();
        LogError::Io { operation: "do what a broker does for", path, source: Arc::new(error) }.into()
    }
}

#[derive(Debug)]
pub(crate) struct Deaf;

impl LogListener for Deaf {
    fn advanced(&self, _bounds: Bounds) {}
    fn failed(&self, _reason: &LogError) {}
}

/// What a run is like; all of it from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) config: LogConfig,
    /// Compaction is switched on and off, and on again.
    pub(crate) switches: bool,
    pub(crate) steps: usize,
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let compaction = rng.one_in(3).then(|| some_compaction(rng));
        let config = LogConfig {
            segment_bytes: 300 + rng.below(3000) as u64,
            segment_age: rng.one_in(4).then(|| Duration::from_secs(10)),
            index_interval_bytes: u32::try_from(1 + rng.below(600)).unwrap(),
            retention_age: rng.one_in(4).then(|| Duration::from_secs(20)),
            retention_bytes: rng.one_in(4).then(|| 2000 + rng.below(4000) as u64),
            compaction,
            preallocate_bytes: [0, 600, 6000, 1 << 20][rng.below(4)],
            durability: if rng.one_in(5) { Durability::Os } else { Durability::Sync },
            ..LogConfig::default()
        };
        Self { config, switches: rng.one_in(4), steps: 8 + rng.below(16) }
    }
}

fn some_compaction(rng: &mut Rng) -> CompactionConfig {
    CompactionConfig { tombstone_age: Duration::from_secs(rng.below(20) as u64), ..CompactionConfig::default() }
}

pub(crate) struct Rig {
    pub(crate) disk: SimDisk,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) rng: Rng,
    pub(crate) plan: Plan,
    pub(crate) model: Model,
    pub(crate) log: Log,
    /// The process is between two lives: the last attempt to open failed.
    pub(crate) down: bool,
    /// The log start that was acknowledged, where that which a restart found came from a trim that was not.
    pub(crate) acked_start: Option<u64>,
    /// The log start that some attempt, failed or not, would have led to.
    pub(crate) attempted_start: u64,
    /// The furthest offset that some attempt, failed or not, was to go on at.
    skipped_to: u64,
    /// The idempotent producer has lost its connection, and sends again what was not answered before it goes on.
    pub(crate) retries: bool,
    /// Tells all frames ever made apart.
    serial: u64,
}

/// Opens the log as a broker does: what was left clean is marked, and the mark is gone before anything is written.
pub(crate) fn open(disk: &SimDisk, clock: &Arc<ManualClock>, config: &LogConfig) -> Result<(Log, RecoveryReport), Stop> {
    let data = Path::new("/data");
    disk.create_dir_all(partitions())?;
    for dir in [Path::new("/"), data, partitions()] {
        disk.sync_dir(dir)?;
    }
    let marker = data.join("clean");
    let clean = disk.exists(&marker)?;
    if clean {
        disk.remove_file(&marker)?;
        disk.sync_dir(data)?;
    }
    let flusher = Flusher::manual(Arc::clone(clock) as _);
    let env = LogEnv::new(Arc::new(disk.clone()), Arc::clone(clock) as _, flusher, 6);
    let start = Start { clean, leader_epoch: LeaderEpoch::UNKNOWN };
    Ok(Log::open_in(&env, dir(), IDENTITY, config.clone(), start, Arc::new(Deaf))?)
}

impl Rig {
    pub(crate) fn new(disk: SimDisk, seed: u64) -> Result<Self, Stop> {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(&mut rng);
        let clock = Arc::new(ManualClock::new(1_000_000 * SECOND));
        let mut model = Model {
            compacts: plan.config.compaction.is_some() || plan.switches,
            tombstone_age: plan.config.compaction.map_or(u64::MAX, |config| config.tombstone_age.as_secs() * SECOND),
            ..Model::default()
        };
        model.promise(0);
        let (log, _) = open(&disk, &clock, &plan.config)?;
        model.promise(disk.mutations());
        Ok(Self {
            disk,
            clock,
            rng,
            plan,
            model,
            log,
            down: false,
            acked_start: None,
            attempted_start: 0,
            skipped_to: 0,
            retries: false,
            serial: 0,
        })
    }

    /// Goes on after a crash, from what was found then.
    pub(crate) fn resume(&self, disk: SimDisk, log: Log, model: Model, seed: u64) -> Self {
        Self {
            disk,
            clock: Arc::clone(&self.clock),
            rng: Rng::new(seed),
            plan: self.plan.clone(),
            model,
            log,
            down: false,
            acked_start: self.acked_start,
            attempted_start: self.attempted_start,
            skipped_to: self.skipped_to,
            retries: true,
            serial: self.serial + 1_000_000,
        }
    }

    pub(crate) fn run(&mut self) -> Result<(), Stop> {
        for _ in 0..self.plan.steps {
            self.step()?;
        }
        Ok(())
    }

    pub(crate) fn step(&mut self) -> Result<(), Stop> {
        match self.rng.below(22) {
            0..=8 => self.append()?,
            9..=12 => self.flush()?,
            13 => self.trim()?,
            14 => self.retain()?,
            15 => self.compact()?,
            16 => self.clock.advance(Duration::from_secs(self.rng.below(12) as u64)),
            17 => self.read()?,
            18 => self.restart_clean()?,
            19 => self.skip()?,
            20 => self.alter()?,
            _ => self.restart_killed()?,
        }
        self.model.promise(self.disk.mutations());
        Ok(())
    }

    /// All that was appended is durable, and answered. What has to be sent again was not appended by this process.
    fn note_flushed(&mut self) {
        if !self.retries {
            self.model.now.client_acked = self.model.now.client_sent;
        }
    }

    /// What the log says of itself is what it has promised.
    pub(crate) fn note_bounds(&mut self) {
        let bounds = self.log.bounds();
        self.model.now.start = self.acked_start.unwrap_or(bounds.log_start.0);
        // In a log that does not wait for the flush, what is shown may be lost with the power; what is flushed may not.
        self.model.now.acked_end = bounds.flushed_end.0;
        self.model.now.end = bounds.log_end.0;
    }

    fn frame(&mut self, producer: Option<ProducerStamp>) -> Vec<u8> {
        self.serial += 1;
        let key = format!("key {}", self.rng.below(KEYS));
        let size = match self.rng.below(8) {
            0 => 0,
            1..=4 => self.rng.below(40),
            5 | 6 => self.rng.below(700),
            _ => self.rng.below(2500),
        };
        let mut payload: Vec<u8> = self.serial.to_be_bytes().iter().copied().cycle().take(size).collect();
        // Zeros and text look different from holes, and some end as the room behind a log does.
        if self.rng.one_in(4) {
            payload.fill(0);
        } else if self.rng.one_in(4) {
            let phase = self.rng.below(8);
            payload = b"prealloc".iter().copied().cycle().skip(phase).take(size).collect();
        }
        let timestamp = self.serial;
        // What a client may have to send again is taken whatever the settings are then.
        let is_keyed = self.plan.config.compaction.is_some() || (self.plan.switches && producer.is_some());
        let key = (is_keyed || self.rng.one_in(2)).then_some(key.as_bytes());
        let mut frame = ProducedFrame::message(timestamp, key, &payload);
        if !is_keyed {
            if self.rng.one_in(4) {
                frame.record_count = u32::try_from(1 + self.rng.below(5)).unwrap();
            }
        } else if self.rng.one_in(6) {
            frame = ProducedFrame::tombstone(timestamp, key.unwrap());
        }
        frame.producer = producer;
        frame.to_vec().unwrap()
    }

    pub(crate) fn append(&mut self) -> Result<(), Stop> {
        if self.rng.one_in(3) {
            return self.append_as_client();
        }
        let count = 1 + self.rng.below(4);
        let frames: Vec<_> = (0..count).map(|_| self.frame(None)).collect();
        self.append_frames(&frames.concat()).map(|_duplicates| ())
    }

    /// The idempotent producer sends something new, and before it what it has no answer for.
    fn append_as_client(&mut self) -> Result<(), Stop> {
        /// As many as the log remembers of each producer.
        const WINDOW: usize = 5;
        if self.retries {
            for at in self.model.now.client_acked..self.model.now.client_sent {
                let frame = Arc::clone(&self.model.client[at]);
                self.append_frames(&frame)?;
            }
            self.retries = false;
        }
        let waiting = self.model.now.client_sent - self.model.now.client_acked;
        for _ in 0..self.rng.below(WINDOW - waiting + 1) {
            let last = self.model.client.last().map(|frame| split_frames(frame).remove(0));
            let next = last.map_or(0, |last| last.sequence.unwrap() + i32::try_from(last.record_count).unwrap());
            let stamp = ProducerStamp { id: ProducerId(9), epoch: ProducerEpoch(0), first_sequence: Sequence(next) };
            let frame = self.frame(Some(stamp));
            self.model.client.push(Arc::new(frame.clone()));
            self.model.now.client_sent = self.model.client.len();
            // Until it is answered, it is among those to be sent again.
            self.retries = true;
            assert_eq!(self.append_frames(&frame)?, 0, "a new frame is taken for one that came before");
            self.retries = false;
        }
        Ok(())
    }

    /// Answers how many of the frames were in the log before.
    fn append_frames(&mut self, frames: &[u8]) -> Result<usize, Stop> {
        let mut batch = Batch::parse(BytesMut::from(frames), &self.plan.config.frame_limits).unwrap();
        let end = self.log.bounds().log_end.0;
        let mut offset = end;
        for frame in split_frames(batch.as_bytes()) {
            let frame = Frame { offset, ..frame };
            offset = frame.next();
            self.model.sent.entry(frame.offset).or_default().push(Arc::new(frame));
        }
        let appended = self.log.append(&mut batch).inspect_err(|_| {
            assert_eq!(self.log.bounds().log_end.0, end, "a failed append leaves nothing behind");
        })?;
        if appended.duplicates == 0 {
            assert_eq!((appended.base_offset.0, appended.next_offset.0), (end, offset));
            for frame in split_frames(batch.as_bytes()) {
                self.model.frames.insert(frame.offset, Arc::new(frame));
            }
        } else {
            assert_eq!(appended.duplicates, batch.frames().len());
            let known = self.model.frames.get(&appended.base_offset.0).map(|known| known.produced == frames);
            assert!(known.unwrap_or(true), "the answer to a repetition names another frame");
        }
        self.note_bounds();
        assert_eq!(self.model.now.end, if appended.duplicates == 0 { offset } else { end });
        Ok(appended.duplicates)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Stop> {
        if self.rng.one_in(2) {
            self.log.flush()?;
        } else {
            Log::flush_all(std::slice::from_ref(&self.log))?;
        }
        self.note_flushed();
        self.note_bounds();
        assert_eq!(self.model.now.acked_end, self.model.now.end);
        Ok(())
    }

    fn trim(&mut self) -> Result<(), Stop> {
        let bounds = self.log.bounds();
        let span = usize::try_from(bounds.high_watermark.0 - bounds.log_start.0).unwrap();
        let to = bounds.log_start.0 + self.rng.below(span + 1) as u64;
        self.trim_to(to)
    }

    pub(crate) fn trim_to(&mut self, to: u64) -> Result<(), Stop> {
        let bounds = self.log.bounds();
        self.attempted_start = self.attempted_start.max(to);
        self.log.trim(Offset(to))?;
        self.note_start(bounds);
        assert_eq!(self.log.bounds().log_start.0, to.max(bounds.log_start.0));
        Ok(())
    }

    fn retain(&mut self) -> Result<(), Stop> {
        let bounds = self.log.bounds();
        self.attempted_start = self.attempted_start.max(bounds.high_watermark.0);
        self.log.apply_retention()?;
        self.note_start(bounds);
        Ok(())
    }

    /// The settings change while the log is in use.
    fn alter(&mut self) -> Result<(), Stop> {
        let rng = &mut self.rng;
        let config = &mut self.plan.config;
        config.segment_bytes = 300 + rng.below(3000) as u64;
        config.retention_age = rng.one_in(3).then(|| Duration::from_secs(rng.below(40) as u64));
        config.retention_bytes = rng.one_in(3).then(|| rng.below(6000) as u64);
        let was_os = config.durability == Durability::Os;
        config.durability = if rng.one_in(3) { Durability::Os } else { Durability::Sync };
        if self.plan.switches {
            config.compaction = rng.one_in(2).then(|| some_compaction(rng));
        }
        if let Some(compaction) = config.compaction {
            self.model.tombstone_age = self.model.tombstone_age.min(compaction.tombstone_age.as_secs() * SECOND);
        }
        let config = config.clone();
        self.log.set_config(config.clone())?;
        assert_eq!(self.log.config(), config);
        if was_os && config.durability == Durability::Sync {
            // What was shown is flushed now.
            self.note_flushed();
        }
        self.note_bounds();
        Ok(())
    }

    fn note_start(&mut self, before: Bounds) {
        if self.log.bounds().log_start > before.log_start {
            self.acked_start = None;
        }
        self.note_bounds();
    }

    fn compact(&mut self) -> Result<(), Stop> {
        if self.plan.config.compaction.is_some() {
            self.log.compact()?;
            self.note_bounds();
        }
        Ok(())
    }

    /// Leaves out some offsets. A log without any segment has its start moved.
    fn skip(&mut self) -> Result<(), Stop> {
        let before = self.log.bounds();
        let to = before.log_end.0 + 1 + self.rng.below(9) as u64;
        let gap = (before.log_end.0, to);
        self.model.gaps.push(gap);
        self.skipped_to = self.skipped_to.max(to);
        if self.log.segment_count() == 0 {
            self.attempted_start = self.attempted_start.max(to);
        }
        self.log.skip_to(Offset(to))?;
        self.model.made_gaps.push(gap);
        let bounds = self.log.bounds();
        assert_eq!([bounds.log_end.0, bounds.flushed_end.0, bounds.high_watermark.0], [to; 3]);
        self.note_flushed();
        self.note_start(before);
        Ok(())
    }

    /// The end of everything that was ever handed to the log.
    pub(crate) fn sent_end(&self) -> u64 {
        self.model.sent.values().flatten().map(|frame| frame.next()).max().unwrap_or(0).max(self.skipped_to)
    }

    /// Reads all there is, and checks it against the model.
    pub(crate) fn read(&mut self) -> Result<(), Stop> {
        let step_bytes = self.rng.below(2000) as u64;
        let found = read_all(&self.log, step_bytes)?;
        let now = self.model.now;
        let after = Promise { start: found.start, ..now };
        for gap in self.model.made_gaps.iter().filter(|gap| gap.1 <= now.end && gap.1 > found.start && found.start <= gap.0) {
            assert!(found.corrupt.contains(gap), "{gap:?} was left out, and nobody is told: {found:?}");
        }
        self.model.check(&found, now, after, self.now()).unwrap_or_else(|why| panic!("while the log was open: {why}"));
        check_lookups(&self.log, &found, &mut self.rng)
    }

    pub(crate) fn now(&self) -> u64 {
        use hermit_log::Clock;
        self.clock.now()
    }

    fn restart_clean(&mut self) -> Result<(), Stop> {
        self.down = true;
        if self.rng.one_in(2) {
            self.log.close()?;
        } else {
            Log::close_all(std::slice::from_ref(&self.log)).remove(0)?;
        }
        let end = self.log.bounds().log_end.0;
        self.model.now.acked_end = end;
        self.note_flushed();
        self.retries = true;
        self.model.promise(self.disk.mutations());
        write_atomically(&self.disk, Path::new("/data"), "clean", &[])?;
        self.reopen(end)
    }

    /// SIGKILL: the page cache stays, and nothing in it is any safer.
    fn restart_killed(&mut self) -> Result<(), Stop> {
        self.down = true;
        let end = self.log.bounds().log_end.0;
        self.disk.kill();
        self.retries = true;
        self.reopen(end)
    }

    fn reopen(&mut self, end: u64) -> Result<(), Stop> {
        let (log, report) = open(&self.disk, &self.clock, &self.plan.config)?;
        self.log = log;
        self.down = false;
        assert!(report.fenced.is_empty() && report.cut.is_none(), "damage after a restart without a crash: {report:?}");
        self.note_bounds();
        assert_eq!(self.model.now.end, end, "a restart without a power cut loses nothing");
        self.read()
    }
}
