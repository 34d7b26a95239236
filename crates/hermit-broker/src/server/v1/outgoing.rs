//! What a version-1 consumer gets next, until its socket takes it. No I/O.

use hermit_proto::{HEADER_SIZE, Header, Offset};

use crate::limits::V1_GATHER_BYTES;

/// Most bytes that are kept for a consumer that takes nothing: no budget counts them.
pub(super) const KEEP_BYTES: usize = 64 << 10;

/// Where a consumer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The next record, or frame of several.
    pub(super) offset: Offset,
    /// Bytes of it, header included, which the consumer has got already, or which wait for it.
    pub(super) sent_bytes: usize,
    /// What is left of it, where it was begun.
    left_bytes: usize,
}

impl Place {
    /// Before a record.
    pub(super) const fn at(offset: Offset) -> Self {
        Self { offset, sent_bytes: 0, left_bytes: 0 }
    }
}

/// Whole records; the first may have been begun.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// Where they begin.
    head: Place,
    /// What the sink has taken.
    taken_bytes: u64,
}

/// What the sink left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// Little enough to be kept.
    All,
    /// More than that: what is kept ends here.
    Until(Place),
}

impl Outgoing {
    /// Forgets everything; what comes begins at `head`.
    pub(super) fn begin(&mut self, head: Place) {
        self.bytes.clear();
        self.head = head;
        self.taken_bytes = 0;
    }

    /// Appends a record, or its end, if it was begun.
    pub(super) fn push(&mut self, offset: Offset, parts: [&[u8]; 3]) {
        let mut sent_bytes = if offset == self.head.offset && self.bytes.is_empty() { self.head.sent_bytes } else { 0 };
        for part in parts {
            let sent = sent_bytes.min(part.len());
            sent_bytes -= sent;
            self.bytes.extend_from_slice(part.get(sent..).unwrap_or_default());
        }
    }

    /// Gives back the room, as far as it is not needed.
    pub(super) fn release(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes since the beginning, taken or not.
    pub(super) fn total_bytes(&self) -> u64 {
        self.taken_bytes.saturating_add(self.bytes.len() as u64)
    }

    /// Offers everything to `sink`, which answers how many bytes it took. Of what it leaves no more than [`KEEP_BYTES`] are kept.
    pub(super) fn offer(&mut self, sink: &dyn Fn(&[u8]) -> usize) -> Left {
        let taken = sink(&self.bytes).min(self.bytes.len());
        self.taken_bytes = self.taken_bytes.saturating_add(taken as u64);
        if taken == self.bytes.len() {
            self.bytes.clear();
            // One record may be a whole frame's worth.
            self.bytes.shrink_to(2 * V1_GATHER_BYTES);
            self.head = Place::at(self.head.offset);
            return Left::Nothing;
        }
        let end = taken.saturating_add(KEEP_BYTES);
        let place = if end < self.bytes.len() { self.place(end) } else { None };
        if place.is_some() {
            self.bytes.truncate(end);
        }
        self.bytes.drain(..taken);
        self.release();
        place.map_or(Left::All, Left::Until)
    }

    /// The place of a byte.
    fn place(&self, at: usize) -> Option<Place> {
        let (mut start, mut record) = (0_usize, self.head);
        let mut size = record.left_bytes;
        loop {
            let end = start.saturating_add(size);
            if at < end {
                let sent_bytes = record.sent_bytes.saturating_add(at - start);
                return Some(if sent_bytes == 0 { record } else { Place { sent_bytes, left_bytes: end - at, ..record } });
            }
            let header = Header::peek(self.bytes.get(end..)?)?;
            let body_bytes = usize::try_from(header.body_bytes()).ok()?;
            (start, record, size) = (end, Place::at(Offset(header.offset)), HEADER_SIZE.saturating_add(body_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Records of these sizes, header included, back to back.
    fn records(sizes: &[usize]) -> Vec<Vec<u8>> {
        let record = |(at, size): (usize, &usize)| {
            let payload_size = u32::try_from(size - 29).unwrap();
            let header = Header { magic: 1, timestamp: 0, offset: at as u64 * 3, key_size: 0, payload_size, record_count: 1 };
            [&header.encode()[..], &vec![at.to_le_bytes()[0]; size - 29]].concat()
        };
        sizes.iter().enumerate().map(record).collect()
    }

    #[test]
    fn a_stalled_consumer_keeps_little_and_gets_every_byte_once() {
        let records = records(&[100, 90_000, 29, 300_000, 50_000, 64 << 10, 1000, 29, 200_000]);
        for takes in [0, 1, 99, 100, 101, 65_536, 120_000, 500_000] {
            let (mut place, mut got, mut out) = (Place::default(), Vec::new(), Outgoing::default());
            loop {
                out.begin(place);
                for (at, record) in records.iter().enumerate() {
                    let offset = Offset(at as u64 * 3);
                    if offset >= place.offset {
                        out.push(offset, [&record[..29], b"", &record[29..]]);
                    }
                }
                let taken = Cell::new(Vec::new());
                let left = out.offer(&|bytes| {
                    taken.set(bytes[..takes.min(bytes.len())].to_vec());
                    takes
                });
                got.extend(taken.into_inner());
                got.extend_from_slice(out.as_bytes());
                assert!(left == Left::Nothing || out.bytes.capacity() <= KEEP_BYTES, "{} bytes are held", out.bytes.capacity());
                match left {
                    Left::Until(next) => place = next,
                    Left::All | Left::Nothing => break,
                }
            }
            assert!(got == records.concat(), "a sink that takes {takes}");
        }
    }

    #[test]
    fn what_was_taken_counts() {
        let mut out = Outgoing::default();
        for record in records(&[100, 200]) {
            out.push(Offset(0), [&record[..29], b"", &record[29..]]);
            assert_eq!(out.offer(&<[u8]>::len), Left::Nothing);
        }
        let record = &records(&[50])[0];
        out.push(Offset(0), [&record[..29], b"", &record[29..]]);
        assert_eq!(out.offer(&|_| 20), Left::All);
        assert_eq!((out.total_bytes(), out.as_bytes().len()), (350, 30));
    }
}
