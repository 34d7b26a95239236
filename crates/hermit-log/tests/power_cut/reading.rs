//! What a log gives to those who read it, and whether every way to find a frame agrees.

use hermit_log::disk::sim::Rng;
use hermit_log::{Cursor, Log, LogError};
use hermit_proto::{FrameSalt, LeaderEpoch, Offset};

use crate::model::{Found, Frame, split_checked};
use crate::rig::{IDENTITY, Stop};

/// Everything that a consumer can get.
pub(crate) fn read_all(log: &Log, step_bytes: u64) -> Result<Found, Stop> {
    let bounds = log.bounds();
    let mut found =
        Found { start: bounds.log_start.0, high_watermark: bounds.high_watermark.0, end: bounds.log_end.0, ..Found::default() };
    let mut at = bounds.log_start;
    while at < bounds.high_watermark {
        match read_on(log, at, step_bytes, &mut found) {
            Ok(()) => break,
            Err(LogError::Corrupt { from, next }) => {
                assert!(next > at, "reading goes on at {next}, which is not behind {at}");
                found.corrupt.push((from.0, next.0));
                at = next;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Every way to find a frame finds the same ones.
pub(crate) fn check_lookups(log: &Log, found: &Found, rng: &mut Rng) -> Result<(), Stop> {
    let Some(last) = found.frames.last() else { return Ok(()) };
    for _ in 0..6 {
        let frame = &found.frames[rng.below(found.frames.len())];
        let offset = frame.offset.max(found.start) + rng.below(2) as u64;
        let expected = found.frames.iter().find(|frame| frame.next() > offset).map(|frame| frame.offset);
        let first = log.cursor(Offset(offset)).and_then(|mut cursor| cursor.next(1));
        // Whoever asks before what is left out, where nothing stands before it, comes to it as well.
        let comes_first = |gap: &&(u64, u64)| offset < gap.1 && expected.is_none_or(|expected| gap.1 <= expected);
        match found.corrupt.iter().find(comes_first) {
            Some(gap) => {
                let answer = (offset.max(gap.0), gap.1);
                let told = matches!(first, Err(LogError::Corrupt { from, next }) if (from.0, next.0) == answer);
                assert!(told, "{offset} is left out with {gap:?}, and the answer is {first:?}");
            }
            None => assert_eq!(first?.map(|range| range.first_offset().0), expected, "the frame that has offset {offset}"),
        }

        let time = frame.append_time + rng.below(2) as u64;
        // Where the frames at the start are gone, the start is as good as the offset of the first that is there.
        let answer = log.find_time(time)?.0;
        let first = found.frames.iter().find(|frame| frame.next() > answer).map(|frame| frame.offset);
        let expected = found.frames.iter().find(|frame| frame.append_time >= time).map(|frame| frame.offset);
        assert_eq!(first, expected, "the first frame appended at {time} or later; the answer was {answer}");

        let epoch = LeaderEpoch(frame.epoch);
        if let (true, Some(end)) = (frame.epoch < last.epoch, log.epoch_end(epoch)?) {
            let in_epoch = found.frames.iter().filter(|other| other.epoch <= frame.epoch);
            let behind = found.frames.iter().find(|other| other.epoch > frame.epoch).map(|frame| frame.offset);
            let ends_right = in_epoch.map(Frame::next).max() <= Some(end.0) && Some(end.0) <= behind;
            assert!(ends_right, "epoch {epoch} ends at {end}, but {behind:?} is the first behind it");
        }
    }
    Ok(())
}

fn read_on(log: &Log, from: Offset, step_bytes: u64, found: &mut Found) -> Result<(), LogError> {
    let mut cursor: Cursor = log.cursor(from)?;
    while let Some(range) = cursor.next(step_bytes)? {
        let mut bytes = Vec::new();
        range.read_into(&mut bytes)?;
        let (frames, damaged) = split_checked(&bytes, Some(&FrameSalt::new(IDENTITY.topic, IDENTITY.partition)));
        assert_eq!(frames.first().map_or(range.first_offset().0, |frame| frame.offset), range.first_offset().0);
        found.frames.extend(frames);
        if damaged {
            // A consumer that finds damage tells the broker by asking again; here the range is verified at once.
            range.verify()?;
            panic!("a frame is damaged, and the log does not find it");
        }
    }
    Ok(())
}
