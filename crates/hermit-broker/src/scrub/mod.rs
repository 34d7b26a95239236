//! The scrub: one segment after the other, of all partitions in turn, is read and verified while all else goes on.
//!
//! A pass goes through the partitions in the order of their ids, so that a restart goes on where the last one was: the file `scrub` tells, a hint that
//! is never synced. What cannot be read is tried again, and fenced like rot where that lasts.

mod retries;
mod stored;
mod thread;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermit_log::{FencedRange, LogError, Scrub, ScrubPace, ScrubVerdict};
use hermit_proto::session::ScrubFigures;
use hermit_proto::{Offset, PartitionId, TopicId};
use parking_lot::Mutex;

use self::retries::{Retries, What};
use self::stored::{Place, Stored};
pub(crate) use self::thread::spawn;
use crate::broker::{Broker, Phase};
use crate::partition::Partition;

/// Bytes of one step: some milliseconds of a disk's time.
const STEP_BYTES: u64 = 512 << 10;
/// Partitions without anything to verify that are passed in one step.
const PASSED_IN_STEP: usize = 1000;
/// Rest where nothing can be done just now.
const IDLE_REST: Duration = Duration::from_secs(1);
/// Time between two notes of where the pass is.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Counters {
    segments: AtomicU64,
    bytes: AtomicU64,
    damaged_ranges: AtomicU64,
    rebuilt_indexes: AtomicU64,
    read_errors: AtomicU64,
    passes: AtomicU64,
    pass_began_at: AtomicU64,
    pass_ended_at: AtomicU64,
}

/// The scrub of one broker.
#[derive(Debug)]
pub(crate) struct Scrubber {
    pace: ScrubPace,
    state: Mutex<State>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct State {
    pass: Option<Pass>,
    current: Option<Current>,
    retries: Retries,
    noted_at: Duration,
}

/// One time through all partitions.
#[derive(Debug, Default)]
struct Pass {
    /// In ns since the Unix epoch.
    began_at: u64,
    /// What is to come, in order; the first is under way.
    partitions: VecDeque<(TopicId, PartitionId)>,
    /// Segments of the first from this base offset on were not verified yet.
    from: Offset,
}

/// A segment that is being verified.
#[derive(Debug)]
struct Current {
    partition: Arc<Partition>,
    scrub: Scrub,
    /// It was not the pass's turn.
    is_retry: bool,
}

impl Current {
    fn segment(&self) -> retries::Segment {
        (self.partition.topic(), self.partition.id(), self.scrub.base())
    }
}

impl Scrubber {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { pace: ScrubPace::new(bytes_per_second), state: Mutex::default(), counters: Counters::default() }
    }

    fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

impl Broker {
    /// One step of the scrub; answers how long to rest before the next, or `None` where there is none, because the broker is closed or the settings switch it off. [`Broker::open`] starts a thread
    /// that does this; with [`Broker::open_with`] it is the caller's to do. Reads 512 KiB, or one frame, and waits for the disk.
    pub fn scrub(&self) -> Option<Duration> {
        if self.config().scrub_bytes_per_second == 0 {
            return None;
        }
        let mut state = self.scrubber().state.lock();
        // Under the lock: who closes the broker waits for it, so that nothing is written once another may have the directory.
        if *self.phase().borrow() >= Phase::Closed {
            return None;
        }
        let rest = self.scrub_step(&mut state);
        drop(state);
        self.tell_waiting();
        Some(rest)
    }

    /// What the scrub has done since the start.
    #[must_use]
    pub fn scrub_status(&self) -> ScrubFigures {
        let counters = &self.scrubber().counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ScrubFigures {
            segments: get(&counters.segments),
            bytes: get(&counters.bytes),
            damaged_ranges: get(&counters.damaged_ranges),
            rebuilt_indexes: get(&counters.rebuilt_indexes),
            read_errors: get(&counters.read_errors),
            passes: get(&counters.passes),
            pass_began_at: get(&counters.pass_began_at),
            pass_ended_at: get(&counters.pass_ended_at),
        }
    }

    /// Waits for a step that is under way, the last one: the broker is closed. With `note`, where the pass is remains known.
    pub(crate) fn end_scrub(&self, note: bool) {
        let mut state = self.scrubber().state.lock();
        state.current = None;
        if note {
            self.note_pass(&mut state);
        }
    }

    fn scrub_step(&self, state: &mut State) -> Duration {
        if state.current.is_none() {
            match self.next_segment(state) {
                Ok(current) => state.current = Some(current),
                Err(rest) => return rest,
            }
        }
        let Some(current) = &mut state.current else { return IDLE_REST };
        let began = self.clock().monotonic();
        let stepped = current.scrub.step(STEP_BYTES);
        let mut bytes = 0;
        match stepped {
            Ok(step) => {
                bytes = step.bytes;
                let counters = &self.scrubber().counters;
                Scrubber::add(&counters.bytes, bytes);
                step.damaged.iter().for_each(|range| self.scrub_found(&current.partition, range));
                if let ScrubVerdict::Done { rebuilt_index } = step.verdict {
                    Scrubber::add(&counters.segments, 1);
                    Scrubber::add(&counters.rebuilt_indexes, rebuilt_index.into());
                    state.retries.forget(&current.segment());
                    self.segment_done(state, true);
                } else if step.verdict == ScrubVerdict::Gone {
                    // What has taken its place is verified in its stead.
                    self.segment_done(state, false);
                } else if bytes == 0 {
                    // Its index waits for a compaction to end.
                    return IDLE_REST;
                }
            }
            Err(error) => self.scrub_failed(state, &error),
        }
        self.scrubber().pace.rest(bytes, self.clock().monotonic().saturating_sub(began))
    }

    fn scrub_found(&self, partition: &Partition, range: &FencedRange) {
        Scrubber::add(&self.scrubber().counters.damaged_ranges, 1);
        partition.progress().damaged(range.from, range.next);
    }

    /// The segment at hand is done with; `passes` unless it is to be looked for again.
    fn segment_done(&self, state: &mut State, passes: bool) {
        let Some(current) = state.current.take() else { return };
        if let Some(pass) = state.pass.as_mut().filter(|_| passes && !current.is_retry) {
            pass.from = Offset(current.scrub.base().0.saturating_add(1));
        }
        if self.clock().monotonic().saturating_sub(state.noted_at) >= NOTE_INTERVAL {
            self.note_pass(state);
        }
    }

    fn scrub_failed(&self, state: &mut State, error: &LogError) {
        let Some(current) = &mut state.current else { return };
        // The topic was deleted, or the log closed.
        let is_gone = matches!(error, LogError::Closed) || current.partition.log().is_err();
        if is_gone {
            state.retries.forget(&current.segment());
            return self.segment_done(state, true);
        }
        Scrubber::add(&self.scrubber().counters.read_errors, 1);
        let segment = current.segment();
        let error_line = crate::error::line(error);
        match state.retries.failed(segment, self.clock().monotonic()) {
            What::TryLater => {
                let (topic, partition, base) = segment;
                tracing::error!(%topic, %partition, %base, error = %error_line, "a segment cannot be verified; it is tried again later");
            }
            What::GiveUp => match current.scrub.give_up() {
                // What cannot be read may lie farther on: it goes on there.
                Ok(None) => return,
                Ok(Some(range)) => {
                    tracing::error!(error = %error_line, from = %range.from, next = %range.next, "what cannot be read for so long counts as damaged");
                    self.scrub_found(&current.partition, &range);
                    // It goes on behind that.
                    return;
                }
                Err(error) => tracing::error!(error = %crate::error::line(&error), "what cannot be read cannot be fenced either"),
            },
        }
        self.segment_done(state, true);
    }

    /// The segment to verify next, or how long to wait for one.
    fn next_segment(&self, state: &mut State) -> Result<Current, Duration> {
        if let Some((topic, partition, base)) = state.retries.due(self.clock().monotonic()) {
            let found = self.partition(topic, partition).ok();
            let scrub = found.as_ref().and_then(|partition| partition.log().ok()?.scrub(base).ok()?);
            return match (found, scrub) {
                (Some(partition), Some(scrub)) if scrub.base() == base => Ok(Current { partition, scrub, is_retry: true }),
                _gone => {
                    state.retries.forget(&(topic, partition, base));
                    Err(Duration::ZERO)
                }
            };
        }
        if state.pass.is_none() {
            state.pass = Some(self.stored_pass());
        }
        let Some(pass) = &mut state.pass else { return Err(IDLE_REST) };
        if pass.partitions.is_empty() {
            self.begin_pass(pass)?;
        }
        for _ in 0..PASSED_IN_STEP {
            let Some((topic, id)) = pass.partitions.front().copied() else { break };
            if let Ok(partition) = self.partition(topic, id)
                && let Ok(log) = partition.log()
            {
                match log.scrub(pass.from) {
                    Ok(Some(scrub)) => return Ok(Current { partition, scrub, is_retry: false }),
                    Ok(None) => {}
                    Err(error) => {
                        Scrubber::add(&self.scrubber().counters.read_errors, 1);
                        tracing::error!(%topic, partition = %id, error = %crate::error::line(&error), "a partition cannot be verified; the next pass tries again");
                    }
                }
            }
            pass.partitions.pop_front();
            pass.from = Offset::ZERO;
            if pass.partitions.is_empty() {
                let ended_at = self.clock().now();
                self.scrubber().counters.pass_ended_at.store(ended_at, Ordering::Relaxed);
                Scrubber::add(&self.scrubber().counters.passes, 1);
                let ScrubFigures { segments, bytes, damaged_ranges, .. } = self.scrub_status();
                tracing::info!(segments, bytes, damaged_ranges, "all closed segments were verified; counted since the start");
                self.note_pass(state);
                return Err(IDLE_REST);
            }
        }
        Err(Duration::ZERO)
    }

    /// A pass over all partitions that are there now, where it is time for one.
    fn begin_pass(&self, pass: &mut Pass) -> Result<(), Duration> {
        let now = self.clock().now();
        let interval = u64::try_from(self.config().scrub_interval.as_nanos()).unwrap_or(u64::MAX);
        // A clock that was set back must not keep it off for years.
        let is_due = pass.began_at == 0 || now < pass.began_at || now - pass.began_at >= interval;
        if !is_due {
            return Err(IDLE_REST);
        }
        *pass = Pass { began_at: now, partitions: self.scrub_order().collect(), from: Offset::ZERO };
        self.scrubber().counters.pass_began_at.store(now, Ordering::Relaxed);
        if pass.partitions.is_empty() { Err(IDLE_REST) } else { Ok(()) }
    }

    /// All partitions in the order of their ids, which a restart does not change.
    fn scrub_order(&self) -> impl Iterator<Item = (TopicId, PartitionId)> {
        let topics = self.topics();
        let mut all: Vec<_> = topics.iter().flat_map(|topic| topic.partitions()).map(|p| (p.topic(), p.id())).collect();
        all.sort_unstable();
        all.into_iter()
    }

    /// The pass that the last broker was at.
    fn stored_pass(&self) -> Pass {
        let Some(Stored { began_at, next }) = Stored::read(&**self.disk(), &self.config().data_dir) else { return Pass::default() };
        self.scrubber().counters.pass_began_at.store(began_at, Ordering::Relaxed);
        let Some(next) = next else { return Pass { began_at, ..Pass::default() } };
        let here = (next.topic, next.partition);
        let partitions: VecDeque<_> = self.scrub_order().skip_while(|partition| *partition < here).collect();
        let from = if partitions.front() == Some(&here) { next.from } else { Offset::ZERO };
        Pass { began_at, partitions, from }
    }

    /// Notes where the pass is. A hint: where that fails, a restart verifies again what was verified already.
    fn note_pass(&self, state: &mut State) {
        let Some(pass) = &state.pass else { return };
        let next =
            pass.partitions.front().map(|(topic, partition)| Place { topic: *topic, partition: *partition, from: pass.from });
        let noted = Stored { began_at: pass.began_at, next }.write(&**self.disk(), &self.config().data_dir);
        if let Err(error) = noted {
            tracing::debug!(error = %crate::error::line(&error), "where the scrub is cannot be noted");
        }
        state.noted_at = self.clock().monotonic();
    }
}
