//! Frames of a version-1 producer, on their way to become one batch of version-2 frames. No I/O.

use bytes::BytesMut;
use hermit_proto::v1::{accept_header, opaque_frame};
use hermit_proto::{Deframer, FrameLimits, UnitLimits, magic};

/// A batch is ended at this size, so that one read of many frames does not become one huge write.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// Cuts the stream into frames.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) deframer: Deframer,
    limits: FrameLimits,
}

/// What a read brought.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Version-2 frames, back to back.
    pub(super) frames: BytesMut,
    /// How many.
    pub(super) count: usize,
    /// Why nothing can follow them, if so.
    pub(super) refused: Option<String>,
    /// Whether whole frames may be left in the buffer.
    pub(super) more: bool,
}

impl Incoming {
    pub(super) fn new(limits: FrameLimits, already_read: &[u8]) -> Self {
        let max_key_bytes = u32::try_from(limits.max_body_bytes).unwrap_or(u32::MAX);
        let units = UnitLimits { max_key_bytes, max_body_bytes: limits.max_body_bytes };
        let mut deframer = Deframer::new(&[magic::DATA_V1], units);
        deframer.extend(already_read);
        Self { deframer, limits }
    }

    /// Takes whole frames out of the buffer, `most` at most, for a topic that is compacted or is not. Those before a bad one are good.
    pub(super) fn gather(&mut self, most: usize, compacted: bool) -> Gathered {
        let mut gathered = Gathered::default();
        while gathered.refused.is_none() {
            if gathered.count >= most || gathered.frames.len() >= MAX_BATCH_BYTES {
                gathered.more = true;
                break;
            }
            match self.deframer.next_unit() {
                Ok(None) => break,
                Err(error) => gathered.refused = Some(error.to_string()),
                Ok(Some(unit)) => match self.take(unit.header(), unit.key(), unit.payload(), compacted, &mut gathered.frames) {
                    Ok(()) => gathered.count += 1,
                    Err(reason) => gathered.refused = Some(reason),
                },
            }
        }
        gathered
    }

    fn take(
        &self,
        header: &hermit_proto::Header,
        key: &[u8],
        payload: &[u8],
        compacted: bool,
        frames: &mut BytesMut,
    ) -> Result<(), String> {
        let accepted = accept_header(header, &self.limits).map_err(|error| error.to_string())?;
        if compacted && (key.is_empty() || accepted.record_count != 1) {
            return Err("a compacted topic takes single records with a key".into());
        }
        let frame = opaque_frame(&accepted, key, payload);
        let prefix = frame.prefix().map_err(|error| error.to_string())?;
        frames.reserve(prefix.len() + key.len() + payload.len());
        frames.extend_from_slice(&prefix);
        frames.extend_from_slice(key);
        frames.extend_from_slice(payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_proto::{FrameView, Header};

    fn frame(key: &[u8], payload: &[u8], record_count: u32) -> Vec<u8> {
        let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let header = Header { magic: 1, timestamp: 5, offset: 0, key_size: size(key), payload_size: size(payload), record_count };
        [&header.encode()[..], key, payload].concat()
    }

    fn limits() -> FrameLimits {
        FrameLimits { max_body_bytes: 10, max_record_count: 3 }
    }

    fn gather(bytes: &[u8], compacted: bool) -> (Vec<u32>, Option<String>) {
        let gathered = Incoming::new(limits(), bytes).gather(100, compacted);
        let mut counts = Vec::new();
        let mut rest: &[u8] = &gathered.frames;
        while !rest.is_empty() {
            let (view, behind) = FrameView::split(rest, &limits()).unwrap();
            view.verify_body().unwrap();
            counts.push(view.prefix.header.record_count);
            rest = behind;
        }
        assert_eq!(counts.len(), gathered.count);
        (counts, gathered.refused)
    }

    #[test]
    fn good_frames_before_a_bad_one_are_kept() {
        let good = [frame(b"", b"x", 0), frame(b"k", b"", 3)].concat();
        assert_eq!(gather(&good, false), (vec![1, 3], None));
        for bad in [frame(b"", &[0; 11], 1), frame(b"", b"", 4), vec![2; 29]] {
            let (counts, refused) = gather(&[good.clone(), bad].concat(), false);
            assert_eq!(counts, [1, 3]);
            assert!(refused.is_some());
        }
    }

    #[test]
    fn a_compacted_topic_takes_single_records_with_a_key() {
        assert_eq!(gather(&frame(b"k", b"", 1), true), (vec![1], None));
        for bad in [frame(b"", b"x", 1), frame(b"k", b"x", 2)] {
            assert!(gather(&bad, true).1.is_some());
        }
    }

    #[test]
    fn a_cut_frame_waits_for_the_rest() {
        let whole = frame(b"k", b"pay", 1);
        for cut in 0..whole.len() {
            assert_eq!(gather(&whole[..cut], false), (vec![], None), "cut at {cut}");
        }
    }
}
