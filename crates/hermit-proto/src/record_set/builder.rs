//! Writing a set.

use super::RecordSetError;
use super::compress::{compress, compress_at};
use super::records::frame_ms;
use super::varint;
use crate::frame::Codec;

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// `None` is not the same as empty.
    pub key: Option<&'a [u8]>,
    /// `None`, a tombstone, is not the same as empty.
    pub value: Option<&'a [u8]>,
    /// Names and values.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

/// Gathers records into a set.
#[derive(Clone, Debug)]
pub struct RecordSetBuilder {
    bytes: Vec<u8>,
    count: u32,
    timestamp: u64,
    timestamp_ms: i64,
}

impl RecordSetBuilder {
    /// An empty set for a frame with this timestamp, in ns since the Unix epoch.
    #[must_use]
    pub const fn new(frame_timestamp: u64) -> Self {
        Self { bytes: Vec::new(), count: 0, timestamp: frame_timestamp, timestamp_ms: frame_ms(frame_timestamp) }
    }

    /// Makes room for so many bytes of records to come, to spare the copies that growing costs.
    pub fn reserve(&mut self, additional_bytes: usize) {
        self.bytes.reserve(additional_bytes);
    }

    /// Empties the set for the next frame, and keeps its memory.
    pub fn reset(&mut self, frame_timestamp: u64) {
        self.bytes.clear();
        self.count = 0;
        self.timestamp = frame_timestamp;
        self.timestamp_ms = frame_ms(frame_timestamp);
    }

    /// The frame's timestamp.
    #[must_use]
    pub const fn frame_timestamp(&self) -> u64 {
        self.timestamp
    }

    /// Records so far.
    #[must_use]
    #[inline]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes so far, uncompressed.
    #[must_use]
    #[inline]
    pub const fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that the record would add. O(number of headers).
    #[must_use]
    pub fn added_bytes(&self, record: &NewRecord<'_>) -> usize {
        let body = self.body_bytes(record);
        varint::size(length(body)).saturating_add(body)
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`RecordSetError::TooLarge`] if a length or the count does not fit 31 bits; the set is then as it was.
    pub fn append(&mut self, record: &NewRecord<'_>) -> Result<(), RecordSetError> {
        let count = self.count + 1;
        if i32::try_from(count).is_err() {
            return Err(RecordSetError::TooLarge { field: "count", size: count as usize });
        }
        let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
        // What stands before the key, and between key and value: gathered, so that most records are three copies.
        let mut head = Piece::default();
        head.push(0);
        head.varint(record.timestamp_ms.saturating_sub(self.timestamp_ms));
        head.varint(self.count.into());
        head.varint(nullable_length(record.key));
        let mut middle = Piece::default();
        middle.varint(nullable_length(record.value));
        let headers = if record.headers.is_empty() { 1 } else { headers_bytes(record) };
        let body = [key.len(), middle.len, value.len(), headers].into_iter().fold(head.len, usize::saturating_add);
        // Every length within a record is smaller than the record's own.
        if i32::try_from(body).is_err() {
            return Err(RecordSetError::TooLarge { field: "record", size: body });
        }
        let mut size = Piece::default();
        size.varint(length(body));
        let out = &mut self.bytes;
        out.reserve(body.saturating_add(size.len));
        out.extend_from_slice(size.as_bytes());
        out.extend_from_slice(head.as_bytes());
        if !key.is_empty() {
            out.extend_from_slice(key);
        }
        out.extend_from_slice(middle.as_bytes());
        out.extend_from_slice(value);
        if record.headers.is_empty() {
            out.push(0);
        } else {
            write_headers(out, record);
        }
        self.count = count;
        Ok(())
    }

    fn body_bytes(&self, record: &NewRecord<'_>) -> usize {
        let headers = headers_bytes(record);
        // One byte of attributes.
        [
            varint::size(record.timestamp_ms.saturating_sub(self.timestamp_ms)),
            varint::size(self.count.into()),
            nullable_bytes(record.key),
            nullable_bytes(record.value),
            headers,
        ]
        .into_iter()
        .fold(1, usize::saturating_add)
    }

    /// The set so far, uncompressed.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The frame's payload: the set, compressed as a whole. The builder keeps its records.
    ///
    /// # Errors
    /// [`RecordSetError::Compressed`] if the compressor fails, for example for want of memory.
    pub fn finish(&self, codec: Codec) -> Result<Vec<u8>, RecordSetError> {
        compress(codec, &self.bytes)
    }

    /// As [`RecordSetBuilder::finish`], with a level for zstd; see [`compress_at`].
    ///
    /// # Errors
    /// As [`RecordSetBuilder::finish`].
    pub fn finish_at(&self, codec: Codec, zstd_level: i32) -> Result<Vec<u8>, RecordSetError> {
        compress_at(codec, zstd_level, &self.bytes)
    }

    /// The set, uncompressed, without a copy.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A length as the number that is written; no slice in memory is longer than that.
#[inline]
fn length(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

#[inline]
fn nullable_length(field: Option<&[u8]>) -> i64 {
    field.map_or(-1, |bytes| length(bytes.len()))
}

fn headers_bytes(record: &NewRecord<'_>) -> usize {
    let headers = record.headers.iter();
    headers
        .map(|(name, value)| nullable_bytes(Some(name.as_bytes())).saturating_add(nullable_bytes(*value)))
        .fold(varint::size(length(record.headers.len())), usize::saturating_add)
}

fn write_headers(out: &mut Vec<u8>, record: &NewRecord<'_>) {
    varint::write(out, length(record.headers.len()));
    for (name, value) in record.headers {
        write_nullable(out, Some(name.as_bytes()));
        write_nullable(out, *value);
    }
}

/// Room for one byte and three numbers of any size.
#[derive(Default)]
struct Piece {
    bytes: [u8; 32],
    len: usize,
}

impl Piece {
    #[inline]
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    #[inline]
    fn varint(&mut self, value: i64) {
        varint::each_byte(value, |byte| self.push(byte));
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

fn nullable_bytes(field: Option<&[u8]>) -> usize {
    field.map_or(varint::size(-1), |bytes| varint::size(length(bytes.len())).saturating_add(bytes.len()))
}

fn write_nullable(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => varint::write(out, -1),
        Some(bytes) => {
            varint::write(out, length(bytes.len()));
            out.extend_from_slice(bytes);
        }
    }
}
