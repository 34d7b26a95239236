//! Reading the positions back. What is read is checked: one bad record costs one position, never the start of the broker.

use std::collections::HashMap;

use hermit_log::LogError;
use hermit_proto::{Attributes, FrameLimits, FrameView};

use super::record::{Committed, PositionKey};
use crate::error::BrokerError;
use crate::partition::Partition;

const READ_BYTES: u64 = 1 << 20;

/// What was read back from `__consumer_offsets`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Positions that hold.
    pub positions: usize,
    /// Records that make no sense, or are damaged, and were passed over.
    pub refused: usize,
    /// Damaged ranges of the log that were passed over.
    pub damaged_ranges: usize,
}

pub(super) fn replay(
    partition: &Partition,
    limits: &FrameLimits,
) -> Result<(HashMap<PositionKey, Committed>, ReplayReport), BrokerError> {
    let log = partition.log()?;
    let mut positions = HashMap::new();
    let mut report = ReplayReport::default();
    let mut bytes = Vec::new();
    let mut cursor = log.cursor(log.bounds().log_start)?;
    loop {
        let read = cursor.next(READ_BYTES).and_then(|range| {
            let Some(range) = range else { return Ok(false) };
            bytes.clear();
            range.read_into(&mut bytes)?;
            Ok(true)
        });
        match read {
            Ok(true) => take(&bytes, partition, limits, &mut positions, &mut report),
            Ok(false) => break,
            Err(LogError::Corrupt { next, .. }) => {
                report.damaged_ranges += 1;
                cursor = log.cursor(next)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    report.positions = positions.len();
    Ok((positions, report))
}

fn take(
    mut bytes: &[u8],
    partition: &Partition,
    limits: &FrameLimits,
    positions: &mut HashMap<PositionKey, Committed>,
    report: &mut ReplayReport,
) {
    let salt = partition.salt();
    while !bytes.is_empty() {
        let Ok((frame, rest)) = FrameView::split(bytes, limits) else {
            // Where this frame ends cannot be told.
            report.refused += 1;
            return;
        };
        bytes = rest;
        let sound = frame.verify_frame(&salt).is_ok() && frame.verify_body().is_ok();
        let key = frame.key().filter(|_key| sound).and_then(PositionKey::decode);
        match (key, frame.prefix.has(Attributes::TOMBSTONE)) {
            (Some(key), true) => drop(positions.remove(&key)),
            (Some(key), false) => match Committed::decode(frame.payload()) {
                Some(committed) => drop(positions.insert(key, committed)),
                None => report.refused += 1,
            },
            (None, _) => report.refused += 1,
        }
    }
}
