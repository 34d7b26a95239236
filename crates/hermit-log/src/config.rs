//! What a log can be told.

use std::time::Duration;

use hermit_proto::FrameLimits;

/// What an acknowledged append survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Power cuts: the high watermark moves only with the flush.
    #[default]
    Sync,
    /// The end of the process, not of the machine: the high watermark is the log end, and the flush follows within
    /// [`LogConfig::os_flush_interval`] or [`LogConfig::os_flush_bytes`].
    Os,
}

/// Keep only the newest frame of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionConfig {
    /// How long a tombstone stays readable after its append. Default 24 h. A consumer that starts at the log start and takes longer
    /// than this to reach the end may miss that a key was deleted.
    pub tombstone_age: Duration,
    /// Memory that one compaction may use for keys, in bytes. Default 64 MiB. Keys beyond that wait for the next run.
    pub key_memory_bytes: usize,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self { tombstone_age: Duration::from_secs(24 * 3600), key_memory_bytes: 64 << 20 }
    }
}

/// How idempotent producers are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerConfig {
    /// A producer that has appended nothing for so long is forgotten. Default 24 h.
    pub expiry: Duration,
    /// Producers that one partition remembers, at about 200 bytes each; the longest idle one makes room. Default 10,000.
    pub max: usize,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self { expiry: Duration::from_secs(24 * 3600), max: 10_000 }
    }
}

/// The settings of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// What an acknowledged append survives. Default: power cuts.
    pub durability: Durability,
    /// A segment is closed before the append that would make it larger, in bytes. Default 256 MiB; at most 2 GiB. Retention and compaction work
    /// in whole segments.
    pub segment_bytes: u64,
    /// A segment is closed before the append that finds its first frame older. Default: never.
    pub segment_age: Option<Duration>,
    /// Log bytes from one index entry to the next. Default 4 KiB: 16 bytes of index for each, and as much to read for a search.
    pub index_interval_bytes: u32,
    /// Segments whose newest frame was appended longer ago are removed. Default: kept for ever.
    pub retention_age: Option<Duration>,
    /// The oldest segments are removed while the rest still has this many bytes. Default: no bound.
    pub retention_bytes: Option<u64>,
    /// Keep only the newest frame of each key; such a log takes single-record frames with a key only. Frames without a key, frames of several records and
    /// record sets, which are there from a time when this was off, stay as they are. Default: off.
    pub compaction: Option<CompactionConfig>,
    /// What one frame may declare.
    pub frame_limits: FrameLimits,
    /// How idempotent producers are remembered.
    pub producers: ProducerConfig,
    /// With [`Durability::Sync`]: the most room that is written ahead of the log's end while it is flushed often, in bytes; 0 for none. A flush then writes data alone, and not
    /// also where it lies and how long the file is. At least a sixteenth of it is written at a time, so that many busy logs take a lot of space. Used where [`crate::disk::Disk::overwrites_in_place`];
    /// given back when the segment is closed, and by [`crate::Log::apply_retention`] where nothing was appended for ten seconds. Default 1 MiB.
    pub preallocate_bytes: u64,
    /// With [`Durability::Os`]: unflushed bytes that start a flush. Default 4 MiB: a file system may hold up appends while it finds room on the disk for what it
    /// writes back, and for longer the more that is. Where the disk is slower than the appends, a flush covers what has come since the last one began.
    pub os_flush_bytes: u64,
    /// With [`Durability::Os`]: how long a frame may stay unflushed. Default 1 s.
    pub os_flush_interval: Duration,
}

impl LogConfig {
    /// The largest segment: positions are kept in 32 bits, and one batch may overshoot.
    pub const MAX_SEGMENT_BYTES: u64 = 2 << 30;
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            segment_bytes: 256 << 20,
            segment_age: None,
            index_interval_bytes: 4096,
            retention_age: None,
            retention_bytes: None,
            compaction: None,
            frame_limits: FrameLimits::default(),
            producers: ProducerConfig::default(),
            preallocate_bytes: 1 << 20,
            os_flush_bytes: 4 << 20,
            os_flush_interval: Duration::from_secs(1),
        }
    }
}
