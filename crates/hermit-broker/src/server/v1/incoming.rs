//! Frames of a version-1 producer, on their way to become one batch of version-2 frames. No I/O.

use std::ops::ControlFlow;

use hermit_log::Batch;
use hermit_proto::v1::{accept_header, opaque_frame};
use hermit_proto::{Deframer, FrameLimits, UnitLimits, UnitView, magic};

/// A batch is ended at this size, so that one read of many frames does not become one huge write.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// Cuts the stream into frames.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) deframer: Deframer,
    limits: FrameLimits,
}

/// What a read brought, besides the frames.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// Why nothing can follow them, if so.
    pub(super) refused: Option<String>,
    /// Whether whole frames may be left in the buffer.
    pub(super) more: bool,
}

/// Why frames are left in the buffer.
enum Stop {
    Full,
    Refused(String),
}

impl Incoming {
    pub(super) fn new(limits: FrameLimits, already_read: &[u8]) -> Self {
        let max_key_bytes = u32::try_from(limits.max_body_bytes).unwrap_or(u32::MAX);
        let units = UnitLimits { max_key_bytes, max_body_bytes: limits.max_body_bytes };
        let mut deframer = Deframer::new(&[magic::DATA_V1], units);
        deframer.extend(already_read);
        Self { deframer, limits }
    }

    /// Takes whole frames out of the buffer, `most` at most (at least 1), for a topic that is compacted or is not, and adds them to `batch`,
    /// as version-2 frames. Those before a bad one are good.
    pub(super) fn gather(&mut self, most: usize, compacted: bool, batch: &mut Batch) -> Brought {
        let limits = self.limits;
        let stopped = self.deframer.each_unit(|unit| match push(&unit, &limits, compacted, batch) {
            Ok(()) if batch.frames().len() >= most || batch.as_bytes().len() >= MAX_BATCH_BYTES => ControlFlow::Break(Stop::Full),
            Ok(()) => ControlFlow::Continue(()),
            Err(reason) => ControlFlow::Break(Stop::Refused(reason)),
        });
        match stopped {
            Ok(ControlFlow::Continue(())) => Brought::default(),
            Ok(ControlFlow::Break(Stop::Full)) => Brought { more: true, refused: None },
            Ok(ControlFlow::Break(Stop::Refused(reason))) => Brought { more: false, refused: Some(reason) },
            Err(error) => Brought { more: false, refused: Some(error.to_string()) },
        }
    }
}

fn push(unit: &UnitView<'_>, limits: &FrameLimits, compacted: bool, batch: &mut Batch) -> Result<(), String> {
    let accepted = accept_header(unit.header(), limits).map_err(|error| error.to_string())?;
    if compacted && (unit.key().is_empty() || accepted.record_count != 1) {
        return Err("a compacted topic takes single records with a key".into());
    }
    batch.push(&opaque_frame(&accepted, unit.key(), unit.payload()), limits).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_proto::Header;

    fn frame(key: &[u8], payload: &[u8], record_count: u32) -> Vec<u8> {
        let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let header = Header { magic: 1, timestamp: 5, offset: 0, key_size: size(key), payload_size: size(payload), record_count };
        [&header.encode()[..], key, payload].concat()
    }

    fn limits() -> FrameLimits {
        FrameLimits { max_body_bytes: 10, max_record_count: 3 }
    }

    fn gather(bytes: &[u8], compacted: bool) -> (Vec<u32>, Option<String>) {
        let mut batch = Batch::default();
        let gathered = Incoming::new(limits(), bytes).gather(100, compacted, &mut batch);
        let parsed = Batch::parse(batch.as_bytes().into(), &limits()).unwrap();
        assert_eq!(parsed.frames().len(), batch.frames().len());
        (parsed.frames().iter().map(|frame| frame.prefix.header.record_count).collect(), gathered.refused)
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
    fn no_more_are_taken_than_there_is_room_for() {
        let mut incoming = Incoming::new(limits(), &frame(b"", b"x", 1).repeat(5));
        let mut batch = Batch::default();
        for (most, taken, more) in [(2, 2, true), (2, 2, true), (2, 1, false)] {
            batch.clear();
            assert_eq!(incoming.gather(most, false, &mut batch).more, more);
            assert_eq!(batch.frames().len(), taken);
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
