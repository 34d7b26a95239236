//! What the log and its consumer must tell, by what is known of every batch.

use std::collections::{BTreeMap, BTreeSet};

use hermit_proto::{FrameLimits, FrameView, Offset};

use crate::net::{Frame, Net, Sent};
use crate::{Stop, WINDOW};

impl Net {
    /// The sequence that comes next in the log.
    pub(crate) fn due(&self, id: i64, epoch: i16) -> i32 {
        let of_id = self.stored.iter().filter(|((number, _), _)| self.batches[*number].id == id);
        let newest = of_id.max_by_key(|(_, offset)| **offset).map(|((number, at), _)| (&self.batches[*number], *at));
        newest.filter(|(batch, _)| batch.epoch == epoch).map_or(0, |(batch, at)| batch.first + i32::from(at) + 1)
    }

    /// The log tells that the batch is there, but not any more where: five or more followed it, or fewer where a power cut tore some, as what was sent
    /// again of those counts as one more.
    pub(crate) fn passed(&self, number: usize) {
        let Sent { id, epoch, first, frames, .. } = self.batches[number];
        assert!((0..frames).all(|at| self.stored.contains_key(&(number, at))), "batch {number} is not there");
        let of_producer = |other: &usize| (self.batches[*other].id, self.batches[*other].epoch) == (id, epoch);
        let follow: BTreeSet<_> = self.stored.keys().map(|(other, _)| *other).filter(of_producer).collect();
        let follow = follow.iter().filter(|other| self.batches[**other].first > first).count();
        let torn: usize =
            self.torn.iter().filter(|other| of_producer(other)).map(|torn| usize::from(self.batches[*torn].frames) - 1).sum();
        assert!(follow + torn >= WINDOW, "batch {number} is forgotten, and {follow} follow");
    }

    /// Every frame from there to the high watermark, which is told too.
    fn read(&self, from: u64) -> (Vec<(Frame, u64)>, u64) {
        let mut cursor = self.log().cursor(Offset(from)).unwrap();
        let mut bytes = Vec::new();
        while let Some(range) = cursor.next(1 << 20).unwrap() {
            range.read_into(&mut bytes).unwrap();
        }
        let mut frames = Vec::new();
        let mut rest = &bytes[..];
        while let Ok((view, behind)) = FrameView::split(rest, &FrameLimits::default()) {
            let (number, at) = std::str::from_utf8(view.payload()).unwrap().split_once('/').unwrap();
            let frame = (number.parse().unwrap(), at.parse().unwrap());
            // A range may begin before what was asked for.
            frames.extend((view.prefix.offset().0 >= from).then_some((frame, view.prefix.offset().0)));
            rest = behind;
        }
        (frames, cursor.next_offset().0)
    }

    /// Reads on, before retention does away with it, and checks the order of everything that was ever there.
    pub(crate) fn consume(&mut self) {
        let (frames, seen_to) = self.read(self.seen_to);
        self.seen.extend(frames);
        self.seen_to = seen_to;
        let mut last: BTreeMap<i64, (i16, i32)> = BTreeMap::new();
        let mut before = None;
        for (frame @ (number, at), offset) in &self.seen {
            assert_eq!(self.stored.get(frame), Some(offset), "{frame:?} is somewhere else, or there twice");
            let Sent { id, epoch, first, .. } = self.batches[*number];
            let sequence = first + i32::from(*at);
            let (before_epoch, next) = last.get(&id).copied().unwrap_or((epoch, 0));
            let due = if epoch == before_epoch { next } else { 0 };
            assert!(epoch >= before_epoch && sequence == due, "producer {id}: {epoch}/{sequence} behind {before_epoch}/{next}");
            last.insert(id, (epoch, sequence + 1));
            let together = *at == 0 || before == Some((*number, at - 1));
            assert!(together || self.torn.contains(number), "batch {number} is torn");
            before = Some((*number, *at));
        }
        let seen: BTreeSet<_> = self.seen.iter().map(|(frame, _)| *frame).collect();
        assert_eq!(seen.len(), self.seen.len(), "something is there twice");
        for (number, batch) in self.batches.iter().enumerate() {
            let there = (0..batch.frames).filter(|at| seen.contains(&(number, *at))).count();
            assert!(there == batch.frames.into() || !batch.acked, "batch {number} was answered, and {there} frames are there");
            assert!(
                [0, batch.frames.into()].contains(&there) || self.torn.contains(&number),
                "of batch {number} {there} frames are there"
            );
        }
    }

    /// What the stop left is all that there was, or where the power was cut all that was flushed, and some of the rest: no later frame without an earlier.
    pub(crate) fn survey(&mut self, stop: Stop) {
        let start = self.log().bounds().log_start.0;
        let (there, end) = self.read(start);
        assert_eq!(end, self.log().bounds().log_end.0);
        assert_eq!(there.iter().map(|(_, offset)| *offset).collect::<Vec<_>>(), (start..end).collect::<Vec<_>>());
        assert!(there.iter().all(|(frame, offset)| self.stored.get(frame) == Some(offset)));
        // The files of all that was never flushed may be gone, but for the name of the last.
        let anew = start > self.seen_to;
        assert!(if anew { start == end } else { self.seen_to <= end }, "{start}–{end} of {}", self.seen_to);
        let kept = if anew { self.seen_to } else { end };
        let lost: Vec<_> = self.stored.extract_if(.., |_, offset| *offset >= kept).collect();
        assert!(lost.is_empty() || matches!(stop, Stop::PowerCut(_)), "{stop:?} took {lost:?}");
        let torn = lost.iter().map(|((number, _), _)| *number).filter(|number| self.stored.contains_key(&(*number, 0)));
        self.torn.extend(torn);
        self.seen_to = self.seen_to.max(start);
    }
}
