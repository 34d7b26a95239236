//! Following a log without waiting for the disk: what is not in the page cache is read, and verified, by the [`super::Warmer`].

use std::sync::Arc;

use bytes::BytesMut;
use hermit_log::{Cursor, Log, LogError, Range, Ready};
use hermit_proto::Offset;

use crate::error::BrokerError;
use crate::limits::FIRST_RANGE_BYTES;
use crate::partition::Partition;

/// A consumer's place in a partition.
#[derive(Debug)]
pub(super) struct Reader {
    partition: Arc<Partition>,
    /// The first offset that was not given out.
    next: Offset,
    /// Where the last range ended. It holds no descriptor.
    place: Option<Cursor>,
}

/// What there is to read next.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing, up to the high watermark.
    AtEnd,
    /// This, without waiting for the disk.
    Found(Range),
    /// Something that has to be read by others first.
    Cold(Cold),
}

/// The same, where what is short was asked for at once.
#[derive(Debug)]
pub(super) enum StepInto {
    /// This, which was read into the buffer.
    Read(Range),
    /// Anything else.
    Other(Step),
}

/// A read that may wait for the disk.
#[derive(Debug)]
pub(super) struct Cold {
    log: Log,
    from: Offset,
    cursor: Option<Cursor>,
    /// The high watermark before the read.
    until: Offset,
    max_bytes: u64,
}

/// What came of it: a range and the cursor behind it, or nothing up to an offset.
pub(super) type Warmed = Result<Read, LogError>;

/// A read that went well.
#[derive(Debug)]
pub(super) enum Read {
    Range(Cursor, Range),
    NothingBefore(Offset),
}

impl Cold {
    /// The directory of the log that is read.
    pub(super) fn dir(&self) -> &std::path::Path {
        self.log.dir()
    }

    /// Finds the range, reads it, and checks every frame.
    pub(super) fn read(self) -> Warmed {
        let mut cursor = match self.cursor {
            Some(cursor) => cursor,
            None => self.log.cursor(self.from)?,
        };
        let Some(range) = cursor.next(self.max_bytes)? else { return Ok(Read::NothingBefore(self.until)) };
        range.verify()?;
        Ok(Read::Range(cursor, range))
    }
}

impl Reader {
    pub(super) const fn new(partition: Arc<Partition>, next: Offset) -> Self {
        Self { partition, next, place: None }
    }

    pub(super) const fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    pub(super) const fn next(&self) -> Offset {
        self.next
    }

    /// Goes on elsewhere.
    pub(super) fn seek(&mut self, next: Offset) {
        self.next = next;
        self.place = None;
    }

    /// What comes next: at most `max_bytes`, or one frame.
    pub(super) fn step(&mut self, max_bytes: u64) -> Result<Step, BrokerError> {
        match self.step_into(max_bytes, 0, &mut BytesMut::new())? {
            // Whatever was read is in the file as well.
            StepInto::Read(range) => Ok(Step::Found(range)),
            StepInto::Other(step) => Ok(step),
        }
    }

    /// The same; what has no more than `short_bytes` is appended to `buffer`.
    pub(super) fn step_into(&mut self, max_bytes: u64, short_bytes: u64, buffer: &mut BytesMut) -> Result<StepInto, BrokerError> {
        loop {
            let log = self.partition.log()?;
            let until = self.partition.progress().high_watermark();
            if self.next >= until {
                // Whoever has read everything goes on here, and need not have the place found when something comes.
                if self.place.is_none() {
                    self.place = Some(log.cursor_at_end()).filter(|end| end.next_offset() == self.next);
                }
                return Ok(StepInto::Other(Step::AtEnd));
            }
            let cold = |cursor, max_bytes| {
                StepInto::Other(Step::Cold(Cold { log: log.clone(), from: self.next, cursor, until, max_bytes }))
            };
            let Some(cursor) = &mut self.place else { return Ok(cold(None, max_bytes.min(FIRST_RANGE_BYTES))) };
            match cursor.next_ready(max_bytes, short_bytes, buffer) {
                Ready::Cold => return Ok(cold(self.place.take(), max_bytes)),
                Ready::Range(range) => {
                    self.advance(&range);
                    return Ok(StepInto::Other(Step::Found(range)));
                }
                Ready::Read(range) => {
                    self.advance(&range);
                    return Ok(StepInto::Read(range));
                }
                // Offsets without frames, as after compaction.
                Ready::AtEnd => self.seek(self.next.max(until)),
            }
        }
    }

    /// The range is given out.
    fn advance(&mut self, range: &Range) {
        let from = self.next;
        self.next = from.max(range.next_offset());
        self.partition.delivered().add(from.max(range.first_offset()), self.next, range.len_bytes());
    }

    /// Takes over what was read. `None`: ask again.
    pub(super) fn take(&mut self, read: Warmed) -> Result<Option<Range>, BrokerError> {
        if let Err(LogError::Corrupt { from, next }) = read {
            self.partition.progress().damaged(from, next);
        }
        match read {
            Ok(Read::Range(cursor, range)) => {
                self.place = Some(cursor);
                self.advance(&range);
                Ok(Some(range))
            }
            // Offsets without frames, as after compaction. What was appended since the look is not among them.
            Ok(Read::NothingBefore(offset)) => {
                self.seek(self.next.max(offset));
                Ok(None)
            }
            // What lies before the damage comes first: the log knows the damage now, and ends the range there.
            Err(LogError::Corrupt { from, .. }) if from > self.next => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
