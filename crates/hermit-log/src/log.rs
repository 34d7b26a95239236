//! One partition's log.

mod alter;
mod append;
mod close;
mod compact;
mod cursor;
mod fence;
mod find;
mod flush;
mod gap;
mod open;
mod preallocate;
mod producers;
mod range;
mod retain;
mod scrub;
mod sound;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermit_proto::{LeaderEpoch, Offset, PartitionId, TopicId};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::checkpoint::CheckpointWriter;
use crate::clock::{Clock, SteadyTime, SystemClock};
use crate::config::LogConfig;
use crate::dir_watch::DirWatch;
use crate::disk::{DirLock, Disk, FileSystems, RealDisk, SharedFileSystem};
use crate::error::LogError;
use crate::fenced::FencedRange;
use crate::files::{FileCache, PinnedFile};
use crate::flusher::Flusher;
use crate::line_gate::{Line, Lines};
use crate::maps::IndexMaps;
use crate::metrics::{Counts, LogTimes};
use crate::producers::ProducerTable;
use crate::segment::{Segment, SegmentEnv};
use crate::view::{Bounds, View};
use preallocate::Room;
pub(crate) use turn::Next;
use turn::Turn;

pub use append::Appended;
pub use compact::Compacted;
pub use cursor::{Cursor, Ready};
pub use open::Start;
pub use range::Range;
pub use retain::Removed;
pub use scrub::{Scrub, ScrubStep, ScrubVerdict};

/// What the logs of a process share.
#[derive(Clone, Debug)]
pub struct LogEnv {
    /// File access.
    pub disk: Arc<dyn Disk>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The open files.
    pub files: FileCache,
    /// The threads that flush.
    pub flusher: Flusher,
    /// How long appends and flushes took.
    pub times: Arc<LogTimes>,
    maps: IndexMaps,
    time: Arc<SteadyTime>,
    file_systems: FileSystems,
    lines: Arc<Lines>,
}

impl LogEnv {
    /// Logs on `disk` with at most `open_files` descriptors, and half as many mapped indexes.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, flusher: Flusher, open_files: usize) -> Self {
        let files = FileCache::new(Arc::clone(&disk), open_files);
        let time = Arc::new(SteadyTime::new(Arc::clone(&clock)));
        let file_systems = FileSystems::new(Arc::clone(&clock));
        let (times, maps) = (Arc::default(), IndexMaps::new(open_files / 2));
        Self { disk, clock, files, flusher, times, maps, time, file_systems, lines: Arc::default() }
    }

    /// The operating system's files and clocks, `flush_threads` threads, and room for `open_files` descriptors.
    ///
    /// # Errors
    /// Those of starting threads.
    pub fn real(flush_threads: usize, open_files: usize) -> std::io::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let flusher = Flusher::start(flush_threads, Arc::clone(&clock))?;
        Ok(Self::new(Arc::new(RealDisk), clock, flusher, open_files))
    }
}

/// Told of what others wait for. Called under the log's lock, in order: it must return at once and not call the log.
pub trait LogListener: std::fmt::Debug + Send + Sync + 'static {
    /// An end of the log has moved: the high watermark, the flushed end, or the log start.
    fn advanced(&self, bounds: Bounds);
    /// The log is read-only from now on.
    fn failed(&self, reason: &LogError);
}

/// Which partition a log is; part of every frame's checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogIdentity {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
}

/// An append-only log of frames in a directory. Clones are the same log.
///
/// ```
/// use bytes::BytesMut;
/// use hermit_log::{Batch, Log, LogConfig};
/// use hermit_proto::{Offset, ProducedFrame};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dir = tempfile::tempdir()?;
/// let (log, _report) = Log::open(dir.path(), LogConfig::default())?;
/// let frame = ProducedFrame::message(0, Some(b"key"), b"hello").to_vec()?;
/// let mut batch = Batch::parse(BytesMut::from(&frame[..]), &log.config().frame_limits)?;
/// let appended = log.append(&mut batch)?;
/// log.wait_flushed(appended.next_offset)?;
///
/// let mut frames = Vec::new();
/// let range = log.cursor(Offset::ZERO)?.next(1 << 20)?.expect("one frame is there");
/// range.read_into(&mut frames)?;
/// assert!(frames.ends_with(b"keyhello"));
/// log.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Log {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Its disk is `watch`.
    env: LogEnv,
    watch: Arc<DirWatch>,
    /// Where it can be synced as a whole.
    file_system: Option<Arc<SharedFileSystem>>,
    dir: PathBuf,
    /// See [`Disk::overwrites_in_place`].
    overwrites_in_place: bool,
    identity: LogIdentity,
    segment_env: SegmentEnv,
    listener: Arc<dyn LogListener>,
    /// Taken in this order: `maintaining`, `flushing`, `state`, `fencing`, `view`.
    flushing: Mutex<Flushing>,
    /// Held by whoever replaces or removes segments.
    maintaining: Mutex<Maintaining>,
    state: Mutex<State>,
    flushed: Condvar,
    /// Held while the fenced ranges are stored, so that an older state of them does not replace a newer one.
    fencing: Mutex<()>,
    view: RwLock<View>,
    counts: Counts,
    /// Keeps other processes away from a log that was opened by itself.
    lock: Mutex<Option<Box<dyn DirLock>>>,
}

/// What the holder of the append lock owns.
#[derive(Debug)]
struct State {
    config: LogConfig,
    leader_epoch: LeaderEpoch,
    /// `None` until the first append after a start that begins a new segment.
    active: Option<Active>,
    log_end: Offset,
    /// Log bytes appended since the log was opened.
    appended_bytes: u64,
    /// The part of `appended_bytes` that is flushed.
    flushed_bytes: u64,
    last_append_time: u64,
    /// Sealed, and not yet synced.
    unsynced: Vec<(Arc<Segment>, PinnedFile)>,
    /// A segment was created whose directory entry is not yet synced.
    unsynced_dir: bool,
    /// All that is not flushed was written after a sync of the whole file system had failed: that cannot have taken it.
    is_past_failure: bool,
    /// Loaded by the first idempotent append.
    producers: Option<ProducerTable>,
    /// Producer state at a roll, to be stored once that is flushed.
    snapshot: Option<(Offset, ProducerTable)>,
    /// `appended_bytes` when the last snapshot was taken.
    snapshot_at_bytes: u64,
    failed: Option<LogError>,
    closed: bool,
    turn: Turn,
}

#[derive(Debug)]
struct Active {
    segment: Arc<Segment>,
    /// Held while something in it is not synced.
    file: Option<PinnedFile>,
    position: u64,
    first_append_time: Option<u64>,
    room: Room,
}

#[derive(Debug)]
struct Flushing {
    checkpoint: CheckpointWriter,
    checkpointed_at: Option<Duration>,
}

#[derive(Debug, Default)]
struct Maintaining {
    /// The next compaction notes keys from here on.
    compact_from: Offset,
    /// Gaps before this are known to be a compaction's.
    compacted_end: Offset,
}

#[derive(Debug)]
struct NobodyListens;

impl LogListener for NobodyListens {
    fn advanced(&self, _bounds: Bounds) {}
    fn failed(&self, _reason: &LogError) {}
}

impl Log {
    /// The ends of the log.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.inner.view.read().bounds()
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> LogConfig {
        self.inner.state.lock().config.clone()
    }

    /// The epoch that new frames are appended under.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.inner.state.lock().leader_epoch
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// The way to other files in the log's directory: whoever syncs that, and fails, may take the name of a new segment with it, so that the log must be told.
    #[must_use]
    pub fn disk(&self) -> &dyn Disk {
        &*self.inner.watch
    }

    /// Which partition this is.
    #[must_use]
    pub fn identity(&self) -> LogIdentity {
        self.inner.identity
    }

    /// Ranges that are known to be damaged.
    #[must_use]
    pub fn fenced(&self) -> Vec<FencedRange> {
        self.inner.view.read().fenced.ranges().to_vec()
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.figures().size_bytes
    }

    /// The number of segments.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.inner.view.read().segments.len()
    }

    pub(crate) fn view_and_counts(&self) -> (&RwLock<View>, &Counts) {
        (&self.inner.view, &self.inner.counts)
    }

    /// Why the log is read-only, if it is.
    #[must_use]
    pub fn failure(&self) -> Option<LogError> {
        self.inner.state.lock().failed.clone()
    }
}

impl State {
    fn writable(&self) -> Result<(), LogError> {
        if let Some(failure) = &self.failed {
            return Err(LogError::ReadOnly { source: Arc::new(failure.clone()) });
        }
        if self.closed { Err(LogError::Closed) } else { Ok(()) }
    }

    /// Whether a flush would find nothing to do.
    const fn is_flushed(&self) -> bool {
        self.appended_bytes == self.flushed_bytes && self.unsynced.is_empty() && !self.unsynced_dir
    }
}

impl Inner {
    /// Tells that something could not be stored that can be made again.
    fn unstored(&self, error: &dyn std::error::Error, what: &'static str) {
        if let Line::Write { left_out } = self.env.lines.unstored.line_at(self.env.clock.monotonic()) {
            tracing::warn!(dir = %self.dir.display(), what, error = %crate::error::error_line(error), left_out, "what can be made again could not be stored");
        }
    }

    /// Makes the log read-only for good.
    fn fail(&self, state: &mut State, reason: LogError) {
        if state.failed.is_none() {
            tracing::error!(dir = %self.dir.display(), error = %crate::error::error_line(&reason), "the log is read-only until a restart");
            self.listener.failed(&reason);
            state.failed = Some(reason);
        }
        self.flushed.notify_all();
    }
}
