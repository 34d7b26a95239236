//! Answers that wait for the high watermark, in order. Frames whose offsets follow each other take one entry. No I/O.

use std::collections::VecDeque;

use bytes::BytesMut;
use hermit_proto::Offset;
use hermit_proto::v1::{ANSWER_SIZE, Answer};

/// The answers that one connection is owed.
#[derive(Debug, Default)]
pub(super) struct Owed {
    runs: VecDeque<Run>,
    count: usize,
}

/// Answers that differ by their offset alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// Frames of `step` records each, the first of them at `first`.
    Stored {
        first: Offset,
        step: u32,
        count: usize,
    },
    Refused {
        count: usize,
    },
}

impl Owed {
    /// How many answers there are.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Owes the answer to a frame that was stored at `offset`, and takes `step` offsets.
    pub(super) fn stored(&mut self, offset: Offset, step: u32) {
        self.count += 1;
        if let Some(Run::Stored { first, step: same, count }) = self.runs.back_mut()
            && *same == step
            && first.0.saturating_add(u64::from(step).saturating_mul(*count as u64)) == offset.0
        {
            *count += 1;
            return;
        }
        self.runs.push_back(Run::Stored { first: offset, step, count: 1 });
    }

    /// Owes refusals.
    pub(super) fn refused(&mut self, count: usize) {
        if count > 0 {
            self.count += count;
            self.runs.push_back(Run::Refused { count });
        }
    }

    /// What the first answer waits for: a high watermark. `None` where there is none, or where it waits for nothing.
    pub(super) fn until(&self) -> Option<Offset> {
        match *self.runs.front()? {
            Run::Stored { first, step, .. } => Some(Offset(first.0.saturating_add(step.into()))),
            Run::Refused { .. } => None,
        }
    }

    /// Appends the answers that wait no longer to `out`.
    pub(super) fn settle(&mut self, high_watermark: Offset, out: &mut BytesMut) {
        while let Some(run) = self.runs.front_mut() {
            let (now, left) = match run {
                Run::Refused { count } => (*count, 0),
                Run::Stored { first, step, count } => {
                    let reached = high_watermark.0.saturating_sub(first.0) / u64::from((*step).max(1));
                    let now = usize::try_from(reached).unwrap_or(usize::MAX).min(*count);
                    (now, *count - now)
                }
            };
            out.reserve(now.saturating_mul(ANSWER_SIZE));
            match run {
                Run::Refused { .. } => (0..now).for_each(|_| out.extend_from_slice(&Answer::Refused.encode())),
                Run::Stored { first, step, count } => {
                    for _ in 0..now {
                        out.extend_from_slice(&Answer::Stored(*first).encode());
                        first.0 = first.0.saturating_add(u64::from(*step));
                    }
                    *count = left;
                }
            }
            self.count = self.count.saturating_sub(now);
            if left > 0 {
                return;
            }
            self.runs.pop_front();
        }
    }

    /// Keeps no room for answers that are not owed.
    pub(super) fn release(&mut self) {
        if self.runs.is_empty() {
            self.runs = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answers(bytes: &[u8]) -> Vec<Answer> {
        bytes.as_chunks().0.iter().map(|answer| Answer::decode(answer).unwrap()).collect()
    }

    proptest! {
        #[test]
        fn answers_come_in_order_and_not_before_their_frame_is_visible(
            frames in prop::collection::vec((0u32..4, 0u64..2), 1..60),
            marks in prop::collection::vec(0u64..200, 0..20),
        ) {
            let mut owed = Owed::default();
            let (mut next, mut expected) = (5, Vec::new());
            for (records, gap) in frames {
                if records == 0 {
                    owed.refused(1);
                    expected.push((0, Answer::Refused));
                } else {
                    next += gap;
                    owed.stored(Offset(next), records);
                    expected.push((next + u64::from(records), Answer::Stored(Offset(next))));
                    next += u64::from(records);
                }
            }
            let (mut out, mut given) = (BytesMut::new(), 0);
            for mark in marks.into_iter().chain([next]) {
                owed.settle(Offset(mark), &mut out);
                given += expected[given..].iter().take_while(|(until, _)| *until <= mark).count();
                let all: Vec<_> = expected[..given].iter().map(|(_, answer)| *answer).collect();
                prop_assert_eq!(answers(&out), all);
                prop_assert_eq!(owed.len(), expected.len() - given);
                prop_assert_eq!(owed.until(), expected.get(given).map(|(until, _)| Offset(*until)));
            }
            prop_assert!(owed.is_empty());
        }
    }

    #[test]
    fn frames_that_follow_each_other_take_one_entry() {
        let mut owed = Owed::default();
        (0..1000).for_each(|offset| owed.stored(Offset(offset * 3), 3));
        assert_eq!((owed.runs.len(), owed.len()), (1, 1000));
    }
}
