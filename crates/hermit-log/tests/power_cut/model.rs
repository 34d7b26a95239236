//! What a log must hold after a crash, kept apart from the log itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hermit_proto::{Attributes, FrameLimits, FrameSalt, FrameView, LeaderEpoch, PREFIX_SIZE};

/// One frame: what the producer made, and where it was put.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) offset: u64,
    pub(crate) record_count: u32,
    pub(crate) tombstone: bool,
    pub(crate) append_time: u64,
    pub(crate) epoch: u32,
    pub(crate) key: Option<Vec<u8>>,
    /// The frame with the broker's fields set to 0: what the producer sent.
    pub(crate) produced: Vec<u8>,
    /// The sequence of an idempotent producer's frame.
    pub(crate) sequence: Option<i32>,
}

impl Frame {
    pub(crate) const fn next(&self) -> u64 {
        self.offset + self.record_count as u64
    }

    /// Frames of several records stay, with a key or without.
    fn compaction_key(&self) -> Option<&[u8]> {
        self.key.as_deref().filter(|_| self.record_count == 1)
    }

    pub(crate) fn of_view(view: &FrameView<'_>) -> Self {
        let prefix = view.prefix;
        let mut produced = view.as_bytes().to_vec();
        let mut cleared = prefix;
        cleared.header.offset = 0;
        cleared.extension.leader_epoch = LeaderEpoch(0);
        cleared.extension.append_time = 0;
        cleared.extension.flushed_distance = 0;
        cleared.extension.frame_crc = 0;
        produced[..PREFIX_SIZE].copy_from_slice(&cleared.encode());
        Self {
            offset: prefix.header.offset,
            record_count: prefix.header.record_count,
            tombstone: prefix.has(Attributes::TOMBSTONE),
            append_time: prefix.extension.append_time,
            epoch: prefix.extension.leader_epoch.0,
            key: view.key().map(<[u8]>::to_vec),
            produced,
            sequence: prefix.producer().map(|stamp| stamp.first_sequence.0),
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, record_count, epoch, key, produced, .. } = self;
        let key = key.as_deref().map(String::from_utf8_lossy);
        write!(f, "[{offset}+{record_count}, {} bytes, epoch {epoch}, key {key:?}]", produced.len())
    }
}

/// Splits whole frames.
pub(crate) fn split_frames(bytes: &[u8]) -> Vec<Frame> {
    split_checked(bytes, None).0
}

/// Splits whole frames, up to the first that is damaged; answers whether there is one. As a consumer does, who checks what he gets.
pub(crate) fn split_checked(mut bytes: &[u8], salt: Option<&FrameSalt>) -> (Vec<Frame>, bool) {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let Ok((view, rest)) = FrameView::split(bytes, &FrameLimits::default()) else { return (frames, true) };
        if view.verify_body().is_err() || salt.is_some_and(|salt| view.verify_frame(salt).is_err()) {
            return (frames, true);
        }
        frames.push(Frame::of_view(&view));
        bytes = rest;
    }
    (frames, false)
}

/// What was promised by some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    /// The disk's mutations up to this moment.
    pub(crate) mutations: u64,
    /// Nothing from here on was removed on purpose.
    pub(crate) start: u64,
    /// Acknowledged as flushed, and shown to consumers; exclusive.
    pub(crate) acked_end: u64,
    /// Appended; exclusive.
    pub(crate) end: u64,
    /// How many frames of [`Model::client`] had been sent.
    pub(crate) client_sent: usize,
    /// How many of them had been answered.
    pub(crate) client_acked: usize,
}

/// One history of a log: everything that was put into it, and the promises as they were made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// The frames of this history, by offset; the newest where an offset was given again.
    pub(crate) frames: BTreeMap<u64, Arc<Frame>>,
    /// Everything that was ever handed to the log at an offset, taken or not.
    pub(crate) sent: BTreeMap<u64, Vec<Arc<Frame>>>,
    pub(crate) now: Promise,
    pub(crate) promises: Vec<Promise>,
    /// What an idempotent producer sends, in order, as it sends it; after a crash it sends again what was not answered.
    pub(crate) client: Vec<Arc<Vec<u8>>>,
    /// Offsets that were, or were to be, left out on purpose.
    pub(crate) gaps: Vec<(u64, u64)>,
    /// Those of them that have come to be.
    pub(crate) made_gaps: Vec<(u64, u64)>,
    pub(crate) compacts: bool,
    /// In nanoseconds.
    pub(crate) tombstone_age: u64,
}

/// What a log says it holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub(crate) start: u64,
    pub(crate) high_watermark: u64,
    pub(crate) end: u64,
    pub(crate) frames: Vec<Frame>,
    /// Ranges that were answered with "corrupt".
    pub(crate) corrupt: Vec<(u64, u64)>,
}

impl Model {
    /// The step that ran is over; what it promised holds from here on.
    pub(crate) fn promise(&mut self, mutations: u64) {
        self.now.mutations = mutations;
        self.promises.push(self.now);
    }

    /// What held for certain when the disk had seen so many mutations, and what the step that ran then was about to bring.
    pub(crate) fn around(&self, mutations: u64) -> (Promise, Promise) {
        // An answer changes nothing on the disk: at the count of its step's last mutation it may have been given.
        let next = self.promises.partition_point(|promise| promise.mutations <= mutations);
        let last = self.promises.last().copied().unwrap_or_default();
        let before = next.checked_sub(1).map(|at| self.promises[at]).unwrap_or_default();
        let after = self.promises.get(next).copied().unwrap_or(last);
        (before, Promise { start: after.start.max(before.start), end: after.end.max(before.end), ..after })
    }

    /// Why `found` breaks what was promised, if it does. `now` is in nanoseconds.
    pub(crate) fn check(&self, found: &Found, before: Promise, after: Promise, now: u64) -> Result<(), String> {
        let Found { start, high_watermark, end, frames, corrupt } = found;
        let expect = |holds: bool, what: &dyn Fn() -> String| {
            if holds { Ok(()) } else { Err(format!("{}\nbefore {before:?}\nafter {after:?}\nfound {found:#?}", what())) }
        };
        let is_gap =
            |from: u64, next: u64| self.gaps.iter().any(|gap| gap.1 == next && (gap.0 == from || (gap.0 < from && from == *start)));
        let damaged = corrupt.iter().find(|(from, next)| !is_gap(*from, *next));
        expect(damaged.is_none(), &|| format!("{damaged:?} is damaged; left out on purpose were {:?}", self.gaps))?;
        expect(start <= high_watermark && high_watermark <= end, &|| "the ends are out of order".to_owned())?;
        expect(*start >= before.start, &|| "what was trimmed is back".to_owned())?;
        // Where nothing was acknowledged, the first segment may be lost with its name: then nothing that came later may stay.
        let in_place = *start <= after.start || self.compacts || frames.is_empty();
        expect(in_place, &|| "more was trimmed than was asked for".to_owned())?;
        expect(*high_watermark >= before.acked_end, &|| "the high watermark went back".to_owned())?;
        expect(*end <= after.end, &|| "the end lies behind all that was sent".to_owned())?;

        let mut sequence = None;
        let mut at = None;
        let (mut epoch, mut append_time) = (0, 0);
        for frame in frames {
            let sent = self.sent.get(&frame.offset).is_some_and(|all| all.iter().any(|sent| sent.produced == frame.produced));
            expect(sent, &|| format!("{frame:?} was never sent there"))?;
            // What was left out is told of, and nothing else is missing.
            let at_next = at.map(|at| corrupt.iter().fold(at, |at, gap| if gap.0 == at { gap.1 } else { at }));
            let in_order = at_next.is_none_or(|at| if self.compacts { frame.offset >= at } else { frame.offset == at });
            expect(in_order, &|| format!("{frame:?} does not follow {at:?}"))?;
            let in_range = frame.next() > *start && frame.next() <= *high_watermark;
            expect(in_range, &|| format!("{frame:?} is out of range"))?;
            expect(frame.epoch >= epoch, &|| format!("{frame:?}: the leader epoch fell from {epoch}"))?;
            expect(frame.append_time >= append_time, &|| format!("{frame:?}: the append time fell"))?;
            if let Some(first) = frame.sequence {
                let follows = sequence.is_none_or(|next| if self.compacts { first >= next } else { first == next });
                expect(follows, &|| format!("{frame:?}: sequence {first} where {sequence:?} was due: lost, or there twice"))?;
                sequence = Some(first + i32::try_from(frame.record_count).unwrap());
            }
            (at, epoch, append_time) = (Some(frame.next()), frame.epoch, frame.append_time);
        }
        if !self.compacts {
            let first = frames.first().map_or(*high_watermark, |frame| frame.offset);
            let first = corrupt.first().map_or(first, |gap| first.min(gap.0));
            expect(first <= *start, &|| format!("nothing at the start: {first} comes first"))?;
            let last = frames.last().map_or(*start, Frame::next);
            let last = corrupt.last().map_or(last, |gap| last.max(gap.1));
            expect(last >= *high_watermark, &|| format!("nothing up to the high watermark: it ends at {last}"))?;
        }

        let present: BTreeMap<u64, &Frame> = frames.iter().map(|frame| (frame.offset, frame)).collect();
        let newest: BTreeMap<&[u8], u64> =
            frames.iter().filter_map(|frame| Some((frame.compaction_key()?, frame.offset))).collect();
        for (offset, frame) in self.frames.range(..before.acked_end) {
            if frame.next() <= (*start).min(after.start) {
                continue;
            }
            if let Some(there) = present.get(offset) {
                expect(**there == **frame, &|| format!("{frame:?} was acknowledged, and {there:?} is in its place"))?;
                continue;
            }
            let excused = self.compacts && self.may_be_compacted(frame, &newest, before.acked_end, now);
            expect(excused, &|| format!("{frame:?} was acknowledged, and is gone; the history: {:?}", self.frames.values()))?;
        }
        Ok(())
    }

    /// Whether a newer frame stands for this one, or a tombstone that has had its time did.
    fn may_be_compacted(&self, frame: &Frame, newest: &BTreeMap<&[u8], u64>, acked_end: u64, now: u64) -> bool {
        let Some(key) = frame.compaction_key() else { return false };
        if newest.get(key).is_some_and(|newer| *newer > frame.offset) {
            return true;
        }
        let mut behind = self.frames.range(frame.offset..acked_end).rev();
        let last = behind.find(|(_, other)| other.compaction_key() == Some(key));
        last.is_some_and(|(_, last)| last.tombstone && now.saturating_sub(last.append_time) >= self.tombstone_age)
    }

    /// The history that goes on from what was found after a cut, at which `before` and `after` held: until the log was open, after
    /// `mutations`, it had promised no more than before; then all that was found is promised.
    pub(crate) fn resume(&self, found: &Found, before: Promise, after: Promise, mutations: u64) -> Self {
        let mut frames = self.frames.clone();
        frames.split_off(&before.acked_end);
        frames.extend(found.frames.iter().map(|frame| (frame.offset, Arc::new(frame.clone()))));
        let client_sent = after.client_sent.max(before.client_sent);
        let now = Promise { mutations, start: found.start, acked_end: found.high_watermark, end: found.end, client_sent, ..before };
        // A cut while it was being opened may leave anything up to what was sent.
        let opening = Promise { mutations: 0, end: after.end.max(before.end), client_sent, ..before };
        let opened = Promise { end: opening.end, start: after.start, ..now };
        let client = self.client.iter().take(client_sent).cloned().collect();
        // One that was not answered, and did not come to be, is not to come later.
        let there = |gap: &&(u64, u64)| found.corrupt.iter().any(|(_, next)| *next == gap.1);
        let gaps: Vec<_> = self.gaps.iter().filter(there).copied().collect();
        let made_gaps = gaps.clone();
        Self { frames, now, client, gaps, made_gaps, promises: vec![opening, opened, now], ..self.clone() }
    }
}
