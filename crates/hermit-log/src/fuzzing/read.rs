//! All that a log serves.

use hermit_proto::{FrameLimits, FrameSalt, FrameView, Offset};

use crate::error::LogError;
use crate::log::{Log, LogIdentity};

/// More turns than any input of the fuzzer has frames and damages: reading must come to an end.
const MAX_TURNS: usize = 100_000;

/// What was read of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) offset: Offset,
    pub(super) next: Offset,
    pub(super) body_crc: u32,
}

/// Every frame that can be read, in order. What is handed out unverified and turns out damaged is reported, as a consumer does.
pub(super) fn read_all(log: &Log, identity: LogIdentity) -> Result<Vec<Seen>, LogError> {
    let salt = FrameSalt::new(identity.topic, identity.partition);
    let (mut seen, mut at) = (Vec::<Seen>::new(), log.bounds().log_start);
    let mut turns = 0;
    'cursors: loop {
        let end = log.bounds().high_watermark;
        let mut cursor = match log.cursor(at) {
            Ok(cursor) => cursor,
            Err(LogError::Corrupt { next, .. }) => {
                assert!(next > at, "reading goes on behind the damage, not at {next}, where {at} was asked for");
                at = next;
                continue;
            }
            Err(error) => return Err(error),
        };
        loop {
            turns += 1;
            assert!(turns < MAX_TURNS, "reading does not end");
            let range = match cursor.next(512) {
                Ok(None) => return Ok(seen),
                Ok(Some(range)) => range,
                Err(LogError::Corrupt { next, .. }) if next >= end => return Ok(seen),
                Err(LogError::Corrupt { next, .. }) => {
                    assert!(next > at, "reading goes on behind the damage, not at {next}, where {at} was asked for");
                    at = next;
                    continue 'cursors;
                }
                Err(error) => return Err(error),
            };
            let mut bytes = Vec::new();
            range.read_into(&mut bytes)?;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let sound = FrameView::split(rest, &FrameLimits { max_body_bytes: u64::MAX, max_record_count: u32::MAX })
                    .ok()
                    .filter(|(view, _)| view.verify_frame(&salt).is_ok() && view.verify_body().is_ok());
                let Some((view, behind)) = sound else {
                    assert!(range.verify().is_err(), "a damaged frame is found by whoever verifies");
                    continue 'cursors;
                };
                let (offset, next) = (view.prefix.offset(), view.prefix.next_offset());
                rest = behind;
                // A new cursor begins at a frame that has the offset, which may have been read.
                if seen.last().is_some_and(|last| offset < last.next) {
                    assert!(seen.iter().any(|other| other.offset == offset), "offset {offset} comes behind a higher one");
                    continue;
                }
                seen.push(Seen { offset, next, body_crc: view.prefix.extension.body_crc });
                at = at.max(next);
            }
        }
    }
}
