//! Writing the imported logs.

use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use hermit_log::{Batch, Log, LogEnv, LogIdentity, Start};
use hermit_proto::v1::opaque_frame;
use hermit_proto::{FrameLimits, Header, LeaderEpoch, Offset, PartitionId};

use super::positions::OldPosition;
use super::walk::Visitor;
use super::{ImportError, Progress};
use crate::config::BrokerConfig;
use crate::error::BrokerError;
use crate::layout;
use crate::offsets::{self, Committed, PositionKey};
use crate::progress;
use crate::topic::TopicMeta;

/// Most bytes of one append, but for a single frame that is larger.
const BATCH_BYTES: u64 = 1 << 20;
/// Positions in one append.
const POSITIONS_BATCH: usize = 1000;

/// The epoch of everything that was imported: the first one of a new data directory.
pub(super) const EPOCH: LeaderEpoch = LeaderEpoch(1);

/// Opens a new, empty log for an import.
pub(super) fn open(config: &BrokerConfig, env: &LogEnv, meta: &TopicMeta, id: PartitionId) -> Result<Log, ImportError> {
    let dir = layout::partition_dir(&config.data_dir, meta.id, id);
    let mut log_config = meta.settings.log_config(&config.log, config.limits.frame_limits());
    // Nothing is answered before the end, and the close flushes: syncs in between would only take time.
    log_config.durability = hermit_log::Durability::Os;
    let identity = LogIdentity { topic: meta.id, partition: id };
    let start = Start { clean: true, leader_epoch: EPOCH };
    let nobody = Arc::new(progress::Progress::default());
    let (log, _report) = Log::open_in(env, &dir, identity, log_config, start, nobody)?;
    Ok(log)
}

/// Appends the frames that a walk reads.
pub(super) struct Copy<'a> {
    log: &'a Log,
    limits: FrameLimits,
    max_batch_bytes: u64,
    batch: BytesMut,
    /// The offsets that the batch takes.
    offsets: u64,
    told: Progress<'a>,
    tell: &'a mut dyn FnMut(&Progress<'_>),
}

impl<'a> Copy<'a> {
    pub(super) fn new(log: &'a Log, told: Progress<'a>, tell: &'a mut dyn FnMut(&Progress<'_>)) -> Self {
        let config = log.config();
        // A batch goes into one segment: a large one would make small segments pointless.
        let max_batch_bytes = BATCH_BYTES.min(config.segment_bytes / 4);
        Self { log, limits: config.frame_limits, max_batch_bytes, batch: BytesMut::new(), offsets: 0, told, tell }
    }

    /// Appends what is left, flushes, and closes the log. Gives what has been told.
    pub(super) fn finish(mut self) -> Result<u64, ImportError> {
        self.append()?;
        self.log.close()?;
        Ok(self.told.done_bytes)
    }

    fn append(&mut self) -> Result<(), ImportError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::parse(std::mem::take(&mut self.batch), &self.limits)?;
        self.log.append(&mut batch)?;
        self.batch = batch.into_bytes();
        self.batch.clear();
        self.offsets = 0;
        (self.tell)(&self.told);
        Ok(())
    }
}

impl Visitor for Copy<'_> {
    const BODIES: bool = true;

    fn skip_to(&mut self, to: Offset) -> Result<(), ImportError> {
        self.append()?;
        self.log.skip_to(to)?;
        Ok(())
    }

    fn frame(&mut self, header: &Header, body: &[u8]) -> Result<(), ImportError> {
        let count = u64::from(header.record_count);
        let key_size = usize::try_from(header.key_size).unwrap_or(usize::MAX);
        let (key, payload) = body.split_at_checked(key_size).unwrap_or((body, &[]));
        let frame = opaque_frame(header, key, payload);
        let prefix = frame.prefix().map_err(|source| hermit_log::LogError::Frame { index: 0, source })?;
        let size = prefix.len() + body.len();
        let full = (self.batch.len() + size) as u64 > self.max_batch_bytes || self.offsets + count > u64::from(u32::MAX);
        if full {
            self.append()?;
        }
        self.batch.reserve(size);
        self.batch.extend_from_slice(&prefix);
        self.batch.extend_from_slice(body);
        self.offsets += count;
        self.told.done_bytes = self.told.done_bytes.saturating_add(body.len() as u64);
        Ok(())
    }
}

/// Writes the committed positions.
pub(super) fn write_positions(
    log: &Log,
    positions: &[OldPosition],
    id_of: impl Fn(&OldPosition) -> Option<hermit_proto::TopicId>,
    committed_at: u64,
) -> Result<(), ImportError> {
    let limits = log.config().frame_limits;
    for chunk in positions.chunks(POSITIONS_BATCH) {
        let entries = chunk.iter().filter_map(|position| {
            let key = PositionKey { group: position.group.clone(), topic: id_of(position)?, partition: position.partition };
            Some((key, Some(Committed { offset: position.offset, leader_epoch: EPOCH, committed_at })))
        });
        let bytes = offsets::frames(&entries.collect::<Vec<_>>()).map_err(BrokerError::from)?;
        log.append(&mut Batch::parse(bytes, &limits)?)?;
    }
    log.close()?;
    Ok(())
}

/// Whether a directory of partitions is there and holds something.
pub(super) fn holds_partitions(env: &LogEnv, data_dir: &Path) -> Result<bool, ImportError> {
    let partitions = layout::partitions_dir(data_dir);
    match env.disk.list(&partitions) {
        Ok(entries) => Ok(!entries.is_empty()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(ImportError::io("list", partitions, error)),
    }
}
