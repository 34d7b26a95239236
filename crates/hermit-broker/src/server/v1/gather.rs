//! Many small frames, or a record set, for one write to a version-1 consumer.

use std::cell::RefCell;
use std::io;

use hermit_log::Range;
use hermit_proto::{Attributes, FrameError, FramePrefix, FrameSalt, FrameView, Offset};

use super::outgoing::{Left, Outgoing, Place};
use super::unfold::{Sink, unfold};
use crate::limits::{V1_GATHER_BYTES, V1_SENDFILE_FROM_BYTES};
use crate::partition::Partition;
use crate::server::connection::End;
use crate::server::stream::Stream;
use crate::server::{Line, LineGate};

/// Room that a thread keeps.
const KEEP_BYTES: usize = 2 * V1_GATHER_BYTES;

/// Least that is read at a time.
const LEAST_ROOM_BYTES: u64 = 8 << 10;

thread_local! {
    /// Where frames are read. A gathering waits for nothing, so that all consumers of a thread use the same room in turn.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Why a range was not sent, or not all of it.
pub(super) enum Fault {
    /// Something in it is not what was written.
    Damaged,
    /// The connection ends.
    Ends(End),
}

impl From<End> for Fault {
    fn from(end: End) -> Self {
        Self::Ends(end)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Ends(error.into())
    }
}

/// Where to gather, and for whom.
pub(super) struct Gathering<'a> {
    pub(super) range: &'a Range,
    /// The position of the first frame, within the range.
    pub(super) at: u64,
    pub(super) partition: &'a Partition,
    /// What the consumer is to get next.
    pub(super) next: Place,
    /// Most bytes that a record set may unpack to.
    pub(super) max_set_bytes: usize,
    /// Bytes that are read.
    pub(super) room_bytes: u64,
    pub(super) stream: &'a Stream,
    /// Tells of what cannot be read.
    pub(super) lines: &'a LineGate,
}

/// What a gathering came to.
pub(super) struct Gathered {
    /// The position of the first frame that was not taken, or not all of it.
    pub(super) at: u64,
    pub(super) next: Place,
    /// Whether the frame there is not what was written.
    pub(super) is_damaged: bool,
    /// Whether the frame there is a large one.
    pub(super) before_large: bool,
}

/// Bytes that the next gathering reads, where one of `taken_bytes` ended before a large frame, or did not: small frames among large ones are
/// often few.
pub(super) fn next_room_bytes(taken_bytes: u64, before_large: bool) -> u64 {
    let most = V1_GATHER_BYTES as u64;
    if before_large { taken_bytes.saturating_mul(2).clamp(LEAST_ROOM_BYTES, most) } else { most }
}

/// Whether a frame is not worth copying: key and payload lie side by side in the file, as version 1 gets them.
pub(super) fn is_large(prefix: &FramePrefix) -> bool {
    let as_it_is = !prefix.has(Attributes::RECORD_SET) && !prefix.has(Attributes::CONTROL);
    as_it_is && prefix.header.body_bytes() >= V1_SENDFILE_FROM_BYTES
}

impl Gathering<'_> {
    /// Reads frames, checks both checksums, unfolds them, and sends what the socket takes. Of what it does not take, little is kept in
    /// `out`, to be sent before the next gathering: that reads the rest again. (A set may unpack to a thousand times its bytes.)
    pub(super) fn run(self, out: &mut Outgoing) -> Result<Gathered, Fault> {
        out.begin(self.next);
        let mut room = ROOM.take();
        let gathered = self.gather(&mut room, out);
        if room.capacity() <= KEEP_BYTES {
            ROOM.set(room);
        }
        gathered
    }

    fn gather(self, room: &mut Vec<u8>, out: &mut Outgoing) -> Result<Gathered, Fault> {
        let salt = self.partition.salt();
        let bytes = self.read(room, &salt)?;
        let mut gathered = Gathered { at: self.at, next: self.next, is_damaged: false, before_large: starts_large(bytes) };
        let sink = Sink { take: &|out| self.stream.write_now(out), most_bytes: V1_GATHER_BYTES };
        let (mut rest, mut left) = (bytes, None);
        while !gathered.before_large {
            let (frame, behind) = match FrameView::split_stamped(rest, &salt) {
                Ok(found) => found,
                // The last frame may be cut by the end of the room: it is the first of the next round.
                Err(FrameError::Truncated { .. }) => break,
                Err(_not_what_was_written) => {
                    gathered.is_damaged = true;
                    break;
                }
            };
            // What was sound goes out first.
            gathered.is_damaged = frame.verify_body().is_err();
            gathered.before_large = is_large(&frame.prefix);
            if gathered.is_damaged || gathered.before_large {
                break;
            }
            match unfold(&frame, gathered.next, self.max_set_bytes, out, &sink) {
                Ok(None) => {}
                Ok(Some(place)) => {
                    left = Some(place);
                    break;
                }
                // A record that was begun cannot be ended.
                Err(fault) if gathered.next.sent_bytes > 0 => return Err(Fault::Ends(End::Refused(fault))),
                Err(fault) => {
                    let (topic, partition) = (self.partition.topic(), self.partition.id());
                    if let Line::Write { left_out } = self.lines.line() {
                        tracing::error!(%topic, %partition, offset = %frame.prefix.offset(), fault, left_out, "records of a set cannot be read, and were passed over");
                    }
                }
            }
            if frame.prefix.next_offset() > gathered.next.offset {
                gathered.next = Place::at(frame.prefix.next_offset());
            }
            rest = behind;
        }
        let taken = bytes.len() - rest.len();
        if taken == 0 && !gathered.is_damaged && !gathered.before_large && left.is_none() {
            return Err(Fault::Damaged);
        }
        gathered.at = self.at.saturating_add(taken as u64);
        if left.is_none()
            && let Left::Until(place) = out.offer(sink.take)
        {
            left = Some(place);
        }
        // It goes on there, and the last frame may be another than this.
        if let Some(next) = left {
            let at = self.at.saturating_add(position(bytes, next.offset));
            gathered = Gathered { at, next, is_damaged: false, before_large: false };
        }
        Ok(gathered)
    }

    /// As much as is gathered, or the first frame where that is a set that takes more.
    fn read<'r>(&self, room: &'r mut Vec<u8>, salt: &FrameSalt) -> Result<&'r [u8], Fault> {
        let left_bytes = self.range.position().saturating_add(self.range.len_bytes()).saturating_sub(self.at);
        let bytes = self.read_bytes(room, left_bytes.min(self.room_bytes))?;
        match FrameView::split_stamped(bytes, salt) {
            Err(FrameError::Truncated { needed_bytes, .. }) if needed_bytes <= left_bytes && !starts_large(bytes) => {
                self.read_bytes(room, needed_bytes)
            }
            _ => Ok(room),
        }
    }

    fn read_bytes<'r>(&self, room: &'r mut Vec<u8>, size: u64) -> Result<&'r [u8], Fault> {
        // Within the room nothing is allocated, and little is zeroed.
        room.resize(usize::try_from(size).map_err(|_too_large| Fault::Damaged)?, 0);
        self.range.file().read_exact_at(room, self.at)?;
        Ok(room)
    }
}

/// Whether a large frame comes first. Its prefix was not checked.
fn starts_large(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|prefix| is_large(&FramePrefix::decode(prefix)))
}

/// Where the frame with `offset` begins.
fn position(frames: &[u8], offset: Offset) -> u64 {
    let mut at = 0;
    while let Some(prefix) = frames.get(at..).and_then(<[u8]>::first_chunk).map(FramePrefix::decode)
        && prefix.next_offset() <= offset
    {
        at = at.saturating_add(usize::try_from(prefix.frame_bytes()).unwrap_or(usize::MAX));
    }
    at as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_read_among_large_frames_and_much_among_small_ones() {
        let most = V1_GATHER_BYTES as u64;
        assert_eq!(next_room_bytes(most, false), most);
        assert_eq!(next_room_bytes(100, true), LEAST_ROOM_BYTES);
        assert_eq!(next_room_bytes(20_000, true), 40_000);
        assert_eq!(next_room_bytes(most, true), most);
        assert_eq!(next_room_bytes(100, false), most);
    }
}
