//! Fills a partition with as much as is needed, fast.

use anyhow::Result;
use hermit_proto::{Offset, PREFIX_SIZE, PartitionId, ProducedFrame, TopicId};

use super::Session;

/// Bytes of frames in one request.
const REQUEST_BYTES: usize = 1 << 20;

/// What a partition holds then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// The offset behind the last record.
    pub end: Offset,
    /// Bytes of all frames.
    pub frame_bytes: u64,
}

/// Appends messages with payloads of `payload_bytes` to the empty first partition of a topic, until their frames have at least
/// `total_bytes`.
///
/// # Errors
///
/// When the broker refuses, or is gone.
pub async fn fill(session: &mut Session, topic: TopicId, total_bytes: u64, payload_bytes: usize) -> Result<Filled> {
    let payload: Vec<u8> = (0..=u8::MAX).cycle().take(payload_bytes).collect();
    let frame = ProducedFrame::message(0, None, &payload).to_vec()?;
    let request = frame.repeat((REQUEST_BYTES / (PREFIX_SIZE + payload_bytes)).max(1));

    let mut filled = Filled { end: Offset(0), frame_bytes: 0 };
    while filled.frame_bytes < total_bytes {
        filled.end = session.produce(topic, PartitionId(0), &request).await?.end_offset;
        filled.frame_bytes += request.len() as u64;
    }
    Ok(filled)
}
