//! Cuts a stream of bytes into units. Nothing is allocated for bytes that were only announced.

use std::ops::ControlFlow;

use bytes::{Buf as _, BytesMut};

use crate::header::{HEADER_SIZE, Header, magic};
use crate::ids::CorrelationId;
use crate::session::{MAX_PLAIN_REQUEST_BYTES, Operation, Status, WireError};
use crate::unit::{Unit, UnitView, unit_bytes};

/// Least room offered for a read: idle connections cost no more than this.
const MIN_READ_BYTES: usize = 4 << 10;
/// Most room offered for a read, unless the unit that is arriving has brought more than that already.
const MAX_READ_BYTES: usize = 64 << 10;
/// What is left of a buffer keeps an allocation of this size, however little it is: that of reads of small units, or of units of 64 KiB.
const KEEP_BYTES: usize = 2 * MAX_READ_BYTES;

/// Limits on what a unit may announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitLimits {
    /// Bytes of key.
    pub max_key_bytes: u32,
    /// Bytes of key and payload together. Requests other than produce are held to [`MAX_PLAIN_REQUEST_BYTES`] as well.
    pub max_body_bytes: u64,
}

/// A stream that cannot be cut into units: the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeframeError {
    /// A unit of a kind that is not spoken here. The stream cannot be read on.
    #[error("a unit begins with {found:#04x}, which is not spoken here")]
    Magic {
        /// Its first byte.
        found: u8,
    },
    /// A unit that is larger than the limit. It is passed over: call [`Deframer::next_unit`] again to go on behind it.
    #[error("the unit's {what} has {size_bytes} bytes, the limit is {limit_bytes}")]
    TooLarge {
        /// The unit's header.
        header: Header,
        /// "key", or "key and payload".
        what: &'static str,
        /// The size it announces.
        size_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
}

impl DeframeError {
    /// Whether the stream cannot be read on.
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        matches!(self, Self::Magic { .. })
    }

    /// The request to answer; 0, the session itself, where there is none.
    #[must_use]
    pub const fn correlation(&self) -> CorrelationId {
        match self {
            Self::Magic { .. } => CorrelationId(0),
            Self::TooLarge { header, .. } => CorrelationId(header.offset),
        }
    }
}

impl From<DeframeError> for WireError {
    fn from(error: DeframeError) -> Self {
        match error {
            DeframeError::Magic { .. } => Self::new(Status::Malformed, error.to_string()).field("magic"),
            DeframeError::TooLarge { what, size_bytes, limit_bytes, .. } => {
                Self::new(Status::TooLarge, error.to_string()).field(what).detail(limit_bytes).detail(size_bytes)
            }
        }
    }
}

/// Cuts a stream of bytes into [`Unit`]s.
///
/// The memory it holds is at most twice what was received of the unit that is arriving, plus 64 KiB, whatever its
/// header announces. Behind a large unit it is at most four times what was received and not given out, plus 128 KiB.
/// Units are split off the buffer, not copied.
///
/// ```
/// use bytes::BytesMut;
/// use hermit_proto::session::{HeartbeatRequest, Request};
/// use hermit_proto::{CorrelationId, Deframer, UnitLimits, magic};
///
/// let mut sent = BytesMut::new();
/// HeartbeatRequest.encode(CorrelationId(3), &mut sent)?;
///
/// let limits = UnitLimits { max_key_bytes: 1 << 10, max_body_bytes: 1 << 20 };
/// let mut deframer = Deframer::new(&[magic::REQUEST], limits);
/// deframer.extend(&sent[..10]);
/// assert_eq!(deframer.next_unit()?, None);
/// deframer.extend(&sent[10..]);
/// let unit = deframer.next_unit()?.expect("it is all there");
/// assert_eq!(unit.correlation(), CorrelationId(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Deframer {
    buffer: BytesMut,
    accepted: &'static [u8],
    limits: UnitLimits,
    /// Bytes of a refused unit that are still to be thrown away.
    skip_bytes: u64,
    read_bytes: usize,
    /// Whether the last read left most of its room empty.
    was_small: bool,
    offer: Option<Offer>,
    /// The size that the buffer's allocation has grown to. The buffer itself does not tell once something was taken out.
    held_bytes: usize,
}

/// The room last offered for a read. What the read brought is the growth since, with what was taken out added.
#[derive(Debug)]
struct Offer {
    received: usize,
    room: usize,
    taken: usize,
}

impl Deframer {
    /// Accepts units with these magics, within these limits.
    #[must_use]
    pub fn new(accepted: &'static [u8], limits: UnitLimits) -> Self {
        Self {
            buffer: BytesMut::new(),
            accepted,
            limits,
            skip_bytes: 0,
            read_bytes: MIN_READ_BYTES,
            was_small: false,
            offer: None,
            held_bytes: 0,
        }
    }

    /// Other limits for the units to come, for example after a login.
    pub const fn set_limits(&mut self, limits: UnitLimits) {
        self.limits = limits;
    }

    /// Appends bytes that were received.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.held_bytes = self.held_bytes.max(self.buffer.capacity());
        self.skip();
    }

    /// The buffer to append received bytes to, with room for a read. Take nothing out of it.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.skip();
        self.adapt();
        let received = self.buffer.len();
        // Past a header, room for the body as far as it has proved real by arriving; else what reads have filled so far.
        let missing = usize::try_from(self.missing_bytes()).unwrap_or(usize::MAX);
        let room = missing.min(received).max(self.read_bytes);
        // What is left of the last allocation is used up first: asking for more while much is left would double twice. The end of a unit
        // does not make its buffer grow.
        let enough = (self.read_bytes / 4).max(MIN_READ_BYTES);
        let enough = if self.front().is_some() && missing > 0 { enough.min(missing) } else { enough };
        if self.spare_bytes() < enough {
            self.buffer.reserve(room);
            self.held_bytes = self.held_bytes.max(self.buffer.capacity());
        }
        self.offer = Some(Offer { received, room: self.spare_bytes().min(self.read_bytes), taken: 0 });
        &mut self.buffer
    }

    /// How much to read at most, so that a large unit that is arriving ends a read, and has its memory to itself.
    #[must_use]
    pub fn useful_bytes(&self) -> usize {
        match self.announced_bytes() {
            Some(size) if size > KEEP_BYTES as u64 && self.missing_bytes() > 0 => {
                usize::try_from(self.missing_bytes()).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        }
    }

    /// The size of a large unit that is arriving, and for which the buffer has no room yet: if there is one, [`Deframer::go_on_in`] memory that is there
    /// already spares growing step by step.
    #[must_use]
    pub fn wanted_bytes(&self) -> Option<usize> {
        let size = usize::try_from(self.announced_bytes()?).ok()?;
        (size > KEEP_BYTES && size > self.buffer.capacity()).then_some(size)
    }

    /// Goes on in another buffer, whose content goes; what was received moves over.
    pub fn go_on_in(&mut self, mut other: BytesMut) {
        other.clear();
        other.extend_from_slice(&self.buffer);
        self.buffer = other;
        self.held_bytes = self.buffer.capacity();
    }

    fn spare_bytes(&self) -> usize {
        self.buffer.capacity().saturating_sub(self.buffer.len())
    }

    /// Follows the reads: twice the room when the last one filled it, half when two in a row left three quarters empty. One may be the end of
    /// what came together.
    fn adapt(&mut self) {
        let Some(Offer { received, room, taken }) = self.offer.take() else { return };
        let got = self.buffer.len().saturating_add(taken).saturating_sub(received);
        if got >= room {
            self.read_bytes = self.read_bytes.saturating_mul(2).min(MAX_READ_BYTES);
            self.was_small = false;
        } else if got >= room / 4 {
            self.was_small = false;
        } else if std::mem::replace(&mut self.was_small, true) {
            self.read_bytes = (self.read_bytes / 2).max(MIN_READ_BYTES);
        }
    }

    fn take(&mut self, size: usize) -> BytesMut {
        self.note_taken(size);
        let taken = self.buffer.split_to(size.min(self.buffer.len()));
        self.leave();
        taken
    }

    fn drop_front(&mut self, size: usize) {
        self.note_taken(size);
        self.buffer.advance(size.min(self.buffer.len()));
        self.leave();
    }

    /// Little that is left leaves a large allocation: only what was received is counted, and it may stay so for long.
    fn leave(&mut self) {
        if self.held_bytes > KEEP_BYTES && self.buffer.len() < self.held_bytes / 4 {
            self.buffer = BytesMut::from(&self.buffer[..]);
            self.held_bytes = self.buffer.capacity();
        }
    }

    const fn note_taken(&mut self, size: usize) {
        if let Some(offer) = &mut self.offer {
            offer.taken = offer.taken.saturating_add(size);
        }
    }

    /// The next whole unit, or `None` until more bytes have come.
    ///
    /// # Errors
    /// [`DeframeError`], as soon as a header is there to tell.
    pub fn next_unit(&mut self) -> Result<Option<Unit>, DeframeError> {
        self.skip();
        match self.whole(0) {
            Ok(Some((header, size))) => Ok(Some(Unit { header, bytes: self.take(size) })),
            Ok(None) => Ok(None),
            Err(refused) => Err(self.refuse(refused)),
        }
    }

    /// Gives whole units to `each` until that breaks, or until more bytes have to come; what was given is taken out. Costs nothing that
    /// [`Deframer::next_unit`] spends on a unit that outlives the buffer.
    ///
    /// # Errors
    /// As [`Deframer::next_unit`], behind the units that were given.
    pub fn each_unit<B>(&mut self, mut each: impl FnMut(UnitView<'_>) -> ControlFlow<B>) -> Result<ControlFlow<B>, DeframeError> {
        self.skip();
        let mut at = 0;
        let ended = loop {
            match self.whole(at) {
                Ok(Some((header, size))) => {
                    let bytes = self.buffer.get(at..at.saturating_add(size)).unwrap_or_default();
                    at = at.saturating_add(size);
                    if let ControlFlow::Break(value) = each(UnitView { header, bytes }) {
                        break Ok(ControlFlow::Break(value));
                    }
                }
                Ok(None) => break Ok(ControlFlow::Continue(())),
                Err(refused) => break Err(refused),
            }
        };
        self.drop_front(at);
        ended.map_err(|refused| self.refuse(refused))
    }

    /// The header and the size of the whole unit that begins `at` bytes into the buffer.
    fn whole(&self, at: usize) -> Result<Option<(Header, usize)>, DeframeError> {
        let rest = self.buffer.get(at..).unwrap_or_default();
        if let Some(first) = rest.first()
            && !self.accepted.contains(first)
        {
            return Err(DeframeError::Magic { found: *first });
        }
        let Some(header) = Header::peek(rest) else { return Ok(None) };
        self.check(&header)?;
        let size = usize::try_from(unit_bytes(&header)).ok().filter(|size| *size <= rest.len());
        Ok(size.map(|size| (header, size)))
    }

    /// A unit that is too large is passed over.
    fn refuse(&mut self, refused: DeframeError) -> DeframeError {
        if let DeframeError::TooLarge { header, .. } = &refused {
            self.skip_bytes = unit_bytes(header);
            self.skip();
        }
        refused
    }

    // "Sizes and their sum are checked against the limits before anything is allocated."
    fn check(&self, header: &Header) -> Result<(), DeframeError> {
        let too_large = |what, size_bytes, limit_bytes| DeframeError::TooLarge { header: *header, what, size_bytes, limit_bytes };
        if header.key_size > self.limits.max_key_bytes {
            return Err(too_large("key", header.key_size.into(), self.limits.max_key_bytes.into()));
        }
        let limit = self.limits.max_body_bytes.min(kind_limit(header));
        if header.body_bytes() > limit {
            return Err(too_large("key and payload", header.body_bytes(), limit));
        }
        Ok(())
    }

    fn skip(&mut self) {
        if self.skip_bytes > 0 {
            let now = usize::try_from(self.skip_bytes).unwrap_or(usize::MAX).min(self.buffer.len());
            self.drop_front(now);
            self.skip_bytes = self.skip_bytes.saturating_sub(now as u64);
        }
    }

    /// Bytes that must still come to complete the unit, or the header, that has begun; 0 between units, and when a
    /// whole unit waits.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        let received = self.buffer.len() as u64;
        if self.skip_bytes > 0 {
            return self.skip_bytes.saturating_sub(received);
        }
        match Header::peek(&self.buffer) {
            Some(header) => unit_bytes(&header).saturating_sub(received),
            None if self.buffer.is_empty() => 0,
            None => (HEADER_SIZE as u64).saturating_sub(received),
        }
    }

    /// The size of the unit at the front, header included, as that announces it; `None` before it has come, and while a unit is passed over.
    #[must_use]
    pub fn announced_bytes(&self) -> Option<u64> {
        self.front().map(|header| unit_bytes(&header))
    }

    /// The header of the unit at the front; `None` before it has come, and while a unit is passed over.
    #[must_use]
    pub fn front(&self) -> Option<Header> {
        if self.skip_bytes > 0 { None } else { Header::peek(&self.buffer) }
    }

    /// Bytes received and not yet given out.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the stream is between two units, so that it may end here.
    #[must_use]
    pub fn is_between_units(&self) -> bool {
        self.skip_bytes == 0 && self.buffer.is_empty()
    }

    /// Gives back the buffer's memory, if it holds nothing. The next read gets room as the last ones needed it: a peer that sends in bursts, and
    /// rests between them until it is answered, is read in one piece each time.
    pub fn release(&mut self) {
        if self.buffer.is_empty() {
            self.adapt();
            self.buffer = BytesMut::new();
            self.held_bytes = 0;
        }
    }

    /// What was received and not given out, for example to change to another protocol.
    #[must_use]
    pub fn into_rest(self) -> BytesMut {
        self.buffer
    }
}

/// Requests are unfolded into lists of names and ids, which take more memory than their bytes; only frames do not.
const fn kind_limit(header: &Header) -> u64 {
    let plain_request = header.magic == magic::REQUEST && header.record_count != Operation::Produce.number();
    if plain_request { MAX_PLAIN_REQUEST_BYTES } else { u64::MAX }
}
