//! Reading a set that is not, or no longer, compressed.

use super::RecordSetError;
use super::varint::{self, VarintFault};

/// Nanoseconds in a millisecond: headers count in the former, records in the latter.
const NS_PER_MS: u64 = 1_000_000;

/// An uncompressed record set.
#[derive(Clone, Copy, Debug)]
pub struct RecordSet<'a> {
    bytes: &'a [u8],
}

impl<'a> RecordSet<'a> {
    /// The set in these bytes; nothing is checked yet.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Its records, one after the other. Allocates nothing.
    #[must_use]
    #[inline]
    pub const fn records(&self) -> Records<'a> {
        Records { rest: self.bytes, index: 0 }
    }

    /// Checks that every record can be read, that there are `expected` of them, and that their offset deltas count up
    /// from 0. One pass, without allocating; ends at the first record too many.
    ///
    /// # Errors
    /// The first fault found.
    pub fn verify_count(&self, expected: u32) -> Result<(), RecordSetError> {
        let mut found = 0;
        let mut records = self.records();
        loop {
            while found < expected && records.pass(found) {
                found += 1;
            }
            let Some(record) = records.next() else { break };
            let record = record?;
            if found == expected {
                return Err(RecordSetError::Count { expected, found: found.saturating_add(1) });
            }
            if record.offset_delta != found {
                return Err(RecordSetError::OffsetDelta { index: found, delta: record.offset_delta });
            }
            found += 1;
        }
        if found == expected { Ok(()) } else { Err(RecordSetError::Count { expected, found }) }
    }
}

/// One record, borrowed from its set.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Reserved by Kafka; 0.
    pub attributes: u8,
    /// Milliseconds since the frame's timestamp.
    pub timestamp_delta_ms: i64,
    /// Offsets since the frame's offset.
    pub offset_delta: u32,
    /// `None` is not the same as empty.
    pub key: Option<&'a [u8]>,
    /// `None`, a tombstone, is not the same as empty.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

impl Record<'_> {
    /// The record's time in ms since the Unix epoch, in a frame with this timestamp (ns); saturates.
    #[must_use]
    pub fn timestamp_ms(&self, frame_timestamp: u64) -> i64 {
        frame_ms(frame_timestamp).saturating_add(self.timestamp_delta_ms)
    }

    /// The record's time in ns since the Unix epoch, in a frame with this timestamp (ns); saturates at 0 and `u64::MAX`.
    /// The frame's own time, to the nanosecond, if the delta is 0.
    #[must_use]
    #[inline]
    pub fn timestamp_ns(&self, frame_timestamp: u64) -> u64 {
        if self.timestamp_delta_ms == 0 {
            return frame_timestamp;
        }
        u64::try_from(self.timestamp_ms(frame_timestamp)).unwrap_or(0).saturating_mul(NS_PER_MS)
    }
}

/// A frame's timestamp in whole ms: fits, since 2⁶⁴ ns are fewer than 2⁶³ ms.
pub(super) const fn frame_ms(frame_timestamp: u64) -> i64 {
    (frame_timestamp / NS_PER_MS).cast_signed()
}

/// The records of a set. Ends behind the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    index: u32,
}

impl<'a> Records<'a> {
    /// The bytes of the records that were not read yet; none behind an error.
    #[must_use]
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }

    /// Passes over the next record, where it is sound and has this offset delta, and is of the kind that nearly all are: without headers, and
    /// short. `false` where it is not, or there is none: then [`Iterator::next`] tells. For whoever counts records and wants nothing of them.
    #[inline]
    pub fn pass(&mut self, offset_delta: u32) -> bool {
        match read_plain(self.rest) {
            Some((record, behind)) if record.offset_delta == offset_delta => {
                self.rest = behind;
                self.index = self.index.wrapping_add(1);
                true
            }
            _ => false,
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordSetError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = read_record(&mut self.rest, self.index);
        if record.is_err() {
            self.rest = &[];
        }
        self.index = self.index.wrapping_add(1);
        Some(record)
    }
}

impl std::iter::FusedIterator for Records<'_> {}

/// Reads a record. Nearly all have no headers and lengths of a few bytes: those take a path that is small enough to be inlined, the others, and faults, the
/// one that says what is wrong.
#[inline]
fn read_record<'a>(set: &mut &'a [u8], index: u32) -> Result<Record<'a>, RecordSetError> {
    match read_plain(set) {
        Some((record, behind)) => {
            *set = behind;
            Ok(record)
        }
        None => read_any(set, index),
    }
}

/// A record without headers and without a fault, of less than 1 MiB, and what is behind it.
#[inline(always)]
fn read_plain(set: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let mut rest = set;
    let size = u32::try_from(varint::read_short(&mut rest)?).ok()?;
    let (record, behind) = rest.split_at_checked(size as usize)?;
    let [attributes, rest @ ..] = record else { return None };
    let mut rest = rest;
    let timestamp_delta_ms = i64::from(varint::read_short(&mut rest)?);
    let offset_delta = u32::try_from(varint::read_short(&mut rest)?).ok()?;
    let key = plain_nullable(&mut rest)?;
    let value = plain_nullable(&mut rest)?;
    // The number of headers, and nothing behind it.
    let [0] = rest else { return None };
    let headers = Headers { rest: &[], count: 0, index: 0 };
    Some((Record { attributes: *attributes, timestamp_delta_ms, offset_delta, key, value, headers }, behind))
}

/// A key or value; `None` where it cannot be read, or its length is odd.
#[inline(always)]
#[expect(clippy::option_option, reason = "the inner one is the field")]
fn plain_nullable<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = varint::read_short(rest)?;
    if length == -1 {
        return Some(None);
    }
    let (field, behind) = rest.split_at_checked(u32::try_from(length).ok()? as usize)?;
    *rest = behind;
    Some(Some(field))
}

#[inline(never)]
fn read_any<'a>(set: &mut &'a [u8], index: u32) -> Result<Record<'a>, RecordSetError> {
    let size = Fields { rest: set, index }.length_then_rest("length", set)?;
    let (record, behind) = set.split_at_checked(size).ok_or(RecordSetError::Cut { index, field: "length" })?;
    *set = behind;
    let mut fields = Fields { rest: record, index };
    let [attributes, rest @ ..] = fields.rest else { return Err(fields.cut("attributes")) };
    fields.rest = rest;
    let timestamp_delta_ms = varint::read_i64(&mut fields.rest).map_err(|fault| fields.fault(fault, "timestamp delta"))?;
    let offset_delta = fields.count("offset delta")?;
    let key = fields.nullable("key")?;
    let value = fields.nullable("value")?;
    let headers = fields.headers()?;
    Ok(Record { attributes: *attributes, timestamp_delta_ms, offset_delta, key, value, headers })
}

struct Fields<'a> {
    rest: &'a [u8],
    index: u32,
}

impl<'a> Fields<'a> {
    const fn cut(&self, field: &'static str) -> RecordSetError {
        RecordSetError::Cut { index: self.index, field }
    }

    const fn fault(&self, fault: VarintFault, field: &'static str) -> RecordSetError {
        match fault {
            VarintFault::Cut => RecordSetError::Cut { index: self.index, field },
            VarintFault::TooLong => RecordSetError::Number { index: self.index, field },
        }
    }

    fn i32(&mut self, field: &'static str) -> Result<i32, RecordSetError> {
        varint::read_i32(&mut self.rest).map_err(|fault| self.fault(fault, field))
    }

    fn count(&mut self, field: &'static str) -> Result<u32, RecordSetError> {
        let value = self.i32(field)?;
        u32::try_from(value).map_err(|_negative| RecordSetError::Negative { index: self.index, field, value: value.into() })
    }

    /// Reads a length, and moves `behind` past it.
    fn length_then_rest(mut self, field: &'static str, behind: &mut &'a [u8]) -> Result<usize, RecordSetError> {
        let length = self.count(field)?;
        *behind = self.rest;
        Ok(length as usize)
    }

    fn take(&mut self, length: u32, field: &'static str) -> Result<&'a [u8], RecordSetError> {
        let (bytes, rest) = self.rest.split_at_checked(length as usize).ok_or_else(|| self.cut(field))?;
        self.rest = rest;
        Ok(bytes)
    }

    // "Length −1 is null; a length of 0 is empty."
    fn nullable(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, RecordSetError> {
        match self.i32(field)? {
            -1 => Ok(None),
            length => match u32::try_from(length) {
                Ok(length) => self.take(length, field).map(Some),
                Err(_negative) => Err(RecordSetError::Negative { index: self.index, field, value: length.into() }),
            },
        }
    }

    /// Walks over the headers once, so that reading them later cannot fail.
    fn headers(&mut self) -> Result<Headers<'a>, RecordSetError> {
        let count = self.count("header count")?;
        let headers = Headers { rest: self.rest, count, index: self.index };
        for _ in 0..count {
            self.header()?;
        }
        if !self.rest.is_empty() {
            return Err(RecordSetError::LeftOver { index: self.index, bytes: self.rest.len() });
        }
        Ok(headers)
    }

    fn header(&mut self) -> Result<(&'a str, Option<&'a [u8]>), RecordSetError> {
        let length = self.count("header name")?;
        let name = self.take(length, "header name")?;
        let name = std::str::from_utf8(name).map_err(|_position| RecordSetError::HeaderName { index: self.index })?;
        let value = self.nullable("header value")?;
        Ok((name, value))
    }
}

/// The headers of a record: name and value, `None` being another value than empty.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    rest: &'a [u8],
    count: u32,
    index: u32,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let mut fields = Fields { rest: self.rest, index: self.index };
        // They were walked over once when the record was read, so this does not fail.
        let header = fields.header().ok()?;
        self.rest = fields.rest;
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count as usize, Some(self.count as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}
impl std::iter::FusedIterator for Headers<'_> {}
