//! Reading one old segment: frames back to back, without any checksum. What cannot be a frame ends the reading.

use std::fmt;
use std::io;

use hermit_log::disk::DiskFile;
use hermit_proto::{FrameLimits, HEADER_SIZE, Header, Offset, magic};

/// Bytes that one read asks for.
const WINDOW_BYTES: usize = 128 << 10;

/// Why bytes of an old segment are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The file ends within the header, or within the key or payload that the header promises.
    Cut,
    /// Another first byte than a frame has.
    Magic(u8),
    /// The frame has another offset than the one that comes next.
    Offset {
        /// What would have come next.
        expected: Offset,
        /// What is there.
        found: Offset,
    },
    /// The frame would take offsets beyond the last one.
    Overflow,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("the file ends within a frame"),
            Self::Magic(found) => write!(f, "{found:#04x} begins no frame"),
            Self::Offset { expected, found } => write!(f, "offset {found} stands where {expected} had to follow"),
            Self::Overflow => f.write_str("a frame takes offsets beyond the last one"),
        }
    }
}

/// What comes next in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A frame; its record count is at least 1.
    Frame(Header),
    /// A frame that is sound as far as can be told, and over a limit.
    OverLimit(Header),
    /// The end of the file.
    End,
    /// No frame; nothing behind it is believed.
    Broken(Broken),
}

/// Reads the frames of a segment in order. Holds one window of the file, whatever the headers say.
#[derive(Debug)]
pub(super) struct SegmentReader<'a> {
    file: &'a dyn DiskFile,
    len_bytes: u64,
    limits: FrameLimits,
    position: u64,
    /// Key and payload of the frame last given.
    body_at: u64,
    body_bytes: u64,
    next: Offset,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> SegmentReader<'a> {
    /// A reader of the first `len_bytes` of `file`, whose first frame has the offset `base`.
    pub(super) const fn new(file: &'a dyn DiskFile, len_bytes: u64, base: Offset, limits: FrameLimits) -> Self {
        Self { file, len_bytes, limits, position: 0, body_at: 0, body_bytes: 0, next: base, window: Vec::new(), window_at: 0 }
    }

    /// Where the next frame begins, in bytes.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// The offset of the next frame.
    pub(super) const fn next_offset(&self) -> Offset {
        self.next
    }

    /// The next frame.
    pub(super) fn advance(&mut self) -> io::Result<Next> {
        let left = self.len_bytes.saturating_sub(self.position);
        if left == 0 {
            return Ok(Next::End);
        }
        let expected = self.next;
        let bytes = self.view(self.position, HEADER_SIZE)?;
        let first = bytes.first().copied().unwrap_or_default();
        if first != magic::DATA_V1 {
            return Ok(Next::Broken(Broken::Magic(first)));
        }
        let Some(header) = Header::peek(bytes) else { return Ok(Next::Broken(Broken::Cut)) };
        let found = Offset(header.offset);
        if found != expected {
            return Ok(Next::Broken(Broken::Offset { expected, found }));
        }
        let header = Header { record_count: header.record_count.max(1), ..header };
        let frame_bytes = header.body_bytes() + HEADER_SIZE as u64;
        if frame_bytes > left {
            return Ok(Next::Broken(Broken::Cut));
        }
        let Some(next) = expected.0.checked_add(header.record_count.into()) else { return Ok(Next::Broken(Broken::Overflow)) };
        let behind = self.position + frame_bytes;
        let too_large = header.body_bytes() > self.limits.max_body_bytes || header.record_count > self.limits.max_record_count;
        if too_large && !self.proves(behind, Offset(next))? {
            // A damaged number is far more likely than a frame that no setting had allowed.
            return Ok(Next::Broken(Broken::Cut));
        }
        (self.body_at, self.body_bytes) = (self.position + HEADER_SIZE as u64, header.body_bytes());
        (self.position, self.next) = (behind, Offset(next));
        Ok(if too_large { Next::OverLimit(header) } else { Next::Frame(header) })
    }

    /// Appends key and payload of the frame last given.
    pub(super) fn read_body(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        // Bounded twice: the file has these bytes, and the limits allow them.
        let size = usize::try_from(self.body_bytes).map_err(|_too_large| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let at = self.body_at;
        if size <= WINDOW_BYTES {
            let bytes = self.view(at, size)?;
            if bytes.len() < size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            out.extend_from_slice(bytes);
            return Ok(());
        }
        let start = out.len();
        out.resize(start + size, 0);
        self.file.read_exact_at(out.get_mut(start..).unwrap_or_default(), at)
    }

    /// Whether the file ends at `position`, or a frame with that offset seems to begin there.
    fn proves(&mut self, position: u64, offset: Offset) -> io::Result<bool> {
        let bytes = self.view(position, HEADER_SIZE)?;
        let Some(header) = Header::peek(bytes) else { return Ok(position == self.len_bytes) };
        Ok(header.magic == magic::DATA_V1 && header.offset == offset.0)
    }

    /// Up to `size` bytes from `position` on; fewer where the file ends.
    fn view(&mut self, position: u64, size: usize) -> io::Result<&[u8]> {
        let end = position.saturating_add(size as u64).min(self.len_bytes);
        let wanted = end.saturating_sub(position);
        let window_end = self.window_at + self.window.len() as u64;
        if position < self.window_at || end > window_end {
            let left = self.len_bytes.saturating_sub(position);
            let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(WINDOW_BYTES);
            self.window.resize(bytes, 0);
            let read = self.file.read_full_at(&mut self.window, position)?;
            self.window.truncate(read);
            self.window_at = position;
        }
        let start = usize::try_from(position.saturating_sub(self.window_at)).unwrap_or(usize::MAX);
        let rest = self.window.get(start..).unwrap_or_default();
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(rest.len());
        Ok(rest.get(..wanted).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use hermit_log::disk::sim::SimDisk;
    use hermit_log::disk::{Disk, Open};

    use proptest::prelude::*;

    use super::super::testing::frame;
    use super::*;

    fn file(bytes: &[u8]) -> Arc<dyn DiskFile> {
        let file = SimDisk::new(1).open(Path::new("/x"), Open::CreateNew).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    /// The record counts and bodies of the frames, and how it ends.
    fn read(bytes: &[u8], base: u64, limits: FrameLimits) -> (Vec<(u32, Vec<u8>)>, Next) {
        let file = file(bytes);
        let mut reader = SegmentReader::new(&*file, bytes.len() as u64, Offset(base), limits);
        let mut frames = Vec::new();
        loop {
            match reader.advance().unwrap() {
                Next::Frame(header) => {
                    let mut body = Vec::new();
                    reader.read_body(&mut body).unwrap();
                    frames.push((header.record_count, body));
                }
                end => return (frames, end),
            }
        }
    }

    fn limits() -> FrameLimits {
        FrameLimits { max_body_bytes: 1 << 20, max_record_count: 10 }
    }

    #[test]
    fn frames_come_back_whatever_their_size() {
        let large = vec![7; 300_000];
        let bytes = [frame(5, b"k", b"v", 0), frame(6, b"", &large, 3), frame(9, b"", b"", 1)].concat();
        let (frames, end) = read(&bytes, 5, limits());
        assert_eq!(end, Next::End);
        assert_eq!(frames, [(1, b"kv".to_vec()), (3, large), (1, Vec::new())]);
    }

    #[test]
    fn every_cut_gives_the_whole_frames_before_it() {
        let bytes = [frame(0, b"k", b"value", 1), frame(1, b"", b"x", 2)].concat();
        let first = frame(0, b"k", b"value", 1).len();
        for len in 0..bytes.len() {
            let (frames, end) = read(&bytes[..len], 0, limits());
            assert_eq!(frames.len(), usize::from(len >= first), "cut at {len}");
            let whole = len == 0 || len == first;
            assert_eq!(end, if whole { Next::End } else { Next::Broken(Broken::Cut) }, "cut at {len}");
        }
    }

    #[test]
    fn what_is_no_frame_ends_the_reading_and_hostile_sizes_allocate_nothing() {
        let good = frame(0, b"", b"x", 1);
        let mut hostile = frame(1, b"", b"", 1);
        hostile[17..25].fill(0xFF);
        assert_eq!(read(&[&good[..], &hostile].concat(), 0, limits()).1, Next::Broken(Broken::Cut));
        assert_eq!(read(&[&good[..], &[0; 64]].concat(), 0, limits()).1, Next::Broken(Broken::Magic(0)));
        let other = Broken::Offset { expected: Offset(1), found: Offset(7) };
        assert_eq!(read(&[good, frame(7, b"", b"", 1)].concat(), 0, limits()).1, Next::Broken(other));
        assert_eq!(read(&frame(u64::MAX - 1, b"", b"", 2), u64::MAX - 1, limits()).1, Next::Broken(Broken::Overflow));
    }

    proptest! {
        /// Whatever the bytes are: the reading ends, offsets follow each other, and no frame reaches beyond the file.
        #[test]
        fn any_bytes_are_read_to_an_end(start in any::<bool>(), noise in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..120, byte in any::<u8>()) {
            let mut bytes = if start { [frame(3, b"k", b"value", 1), frame(4, b"", b"x", 2), frame(6, b"", b"", 0)].concat() } else { Vec::new() };
            bytes.extend_from_slice(&noise);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let file = file(&bytes);
            let mut reader = SegmentReader::new(&*file, bytes.len() as u64, Offset(3), limits());
            let mut next = Offset(3);
            while let Next::Frame(header) = reader.advance().unwrap() {
                prop_assert_eq!(Offset(header.offset), next);
                next = reader.next_offset();
                prop_assert!(next.0 > header.offset && reader.position() <= bytes.len() as u64);
                let mut body = Vec::new();
                reader.read_body(&mut body).unwrap();
                prop_assert_eq!(body.len() as u64, header.body_bytes());
            }
        }
    }

    #[test]
    fn a_frame_over_a_limit_counts_only_where_what_follows_proves_it() {
        let large = frame(0, b"", b"", 11);
        assert!(matches!(read(&large, 0, limits()).1, Next::OverLimit(_)));
        assert!(matches!(read(&[&large[..], &frame(11, b"", b"", 1)].concat(), 0, limits()).1, Next::OverLimit(_)));
        let damaged = [&large[..], &frame(1, b"", b"", 1)].concat();
        assert_eq!(read(&damaged, 0, limits()).1, Next::Broken(Broken::Cut));
    }
}
