//! What the broker checks of record sets: that a frame does not claim offsets its records do not fill.

use std::sync::Arc;

use hermit_log::Batch;
use hermit_proto::record_set::RecordSet;
use hermit_proto::{Attributes, Codec, PREFIX_SIZE};

use crate::error::BrokerError;

/// Checks every uncompressed set from the frame `first` on, from which errors count. A compressed one is not unpacked here: its count is bounded by the limit, and its consumer reports a
/// mismatch.
pub(crate) fn check(batch: &Batch, first: usize) -> Result<(), BrokerError> {
    for (index, frame) in batch.frames().iter().skip(first).enumerate() {
        let attributes = frame.prefix.extension.attributes;
        if !attributes.has(Attributes::RECORD_SET) || attributes.codec() != Some(Codec::None) {
            continue;
        }
        // A set has no frame key, so that the payload follows the prefix.
        let payload = frame.start.saturating_add(PREFIX_SIZE)..frame.start.saturating_add(frame.size());
        let set = RecordSet::new(batch.as_bytes().get(payload).unwrap_or_default());
        set.verify_count(frame.prefix.header.record_count)
            .map_err(|source| BrokerError::RecordSet { index, source: Arc::new(source) })?;
    }
    Ok(())
}

/// Checks that a batch may go to a compacted topic.
pub(crate) fn check_compacted(batch: &Batch) -> Result<(), BrokerError> {
    let several = |frame: &hermit_log::BatchFrame| frame.prefix.has(Attributes::RECORD_SET) || frame.prefix.header.record_count > 1;
    match batch.frames().iter().position(several) {
        Some(index) => Err(BrokerError::RecordSetNotAllowed { index }),
        None => Ok(()),
    }
}
