//! Record sets on their way to readers: unpacked within the budget, and once, however small the pieces are in which they are told.

use std::borrow::Cow;

use hermit_broker::proto::record_set::{RecordSetError, unpack_into};
use hermit_broker::proto::{Codec, FrameView};
use hermit_broker::{Broker, Loan};

use crate::room::{NoRoom, Room};

/// What is said of the records of a set together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetHead {
    /// The first offset.
    pub(crate) base: u64,
    /// The offset behind the last one.
    pub(crate) next: u64,
    /// In ns since the Unix epoch.
    pub(crate) timestamp: u64,
}

/// A set of which a part was told. It is kept for who goes on there, as to read and unpack it again takes as long as the first time.
#[derive(Debug)]
pub(crate) struct OpenSet {
    pub(crate) head: SetHead,
    pub(crate) bytes: Vec<u8>,
    /// Where in `bytes` the rest begins.
    pub(crate) position: usize,
    /// The offset to go on at.
    pub(crate) at: u64,
    pub(crate) loan: Option<Loan>,
}

impl OpenSet {
    /// Whether there is room to keep it while its reader does other things.
    pub(crate) fn lend(&mut self, broker: &Broker) -> bool {
        if self.loan.is_none() {
            let mut loan = broker.loan();
            self.loan = loan.grow(self.bytes.len() as u64).then_some(loan);
        }
        self.loan.is_some()
    }
}

/// Why a set cannot be unpacked.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is no room for it.
    Room(NoRoom),
    /// It is not sound.
    Set(RecordSetError),
}

/// The first try: most sets unpack to less than four times their size.
const FIRST_TIMES: u64 = 4;
const FIRST_BYTES: u64 = 16 << 10;

#[cfg(test)]
pub(crate) static UNPACKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// The set of a frame. Where it is unpacked, its bytes are taken from `room`: how many those will be nobody knows before, so that it is tried with more and more.
///
/// At most half of the room is for sets: the other half is for what is made of them.
pub(crate) fn unpack<'a>(frame: &FrameView<'a>, set_bytes: u64, room: &mut Room) -> Result<Cow<'a, [u8]>, Refused> {
    let attributes = frame.prefix.extension.attributes;
    let payload = frame.payload();
    let Some(codec) = attributes.codec().filter(|codec| *codec != Codec::None) else {
        let whole = hermit_broker::proto::record_set::unpack(attributes, payload, payload.len());
        return whole.map_err(Refused::Set);
    };
    let most_bytes = set_bytes.min(room.left_bytes() / 2);
    let mut limit = (payload.len() as u64).saturating_mul(FIRST_TIMES).max(FIRST_BYTES).min(most_bytes);
    loop {
        room.take(limit).map_err(Refused::Room)?;
        let limit_bytes = usize::try_from(limit).unwrap_or(usize::MAX);
        // With room for all of it, and for the byte that tells that there is more: it is not to grow beyond what was taken.
        let mut set = Vec::with_capacity(limit_bytes.saturating_add(1));
        #[cfg(test)]
        UNPACKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let Err(error) = unpack_into(codec, payload, limit_bytes, &mut set) else {
            set.shrink_to_fit();
            room.give_back(limit.saturating_sub(set.len() as u64));
            return Ok(Cow::Owned(set));
        };
        room.give_back(limit);
        match error {
            RecordSetError::UnpackedTooLarge { .. } if limit < most_bytes => {
                limit = limit.saturating_mul(FIRST_TIMES).min(most_bytes);
            }
            RecordSetError::UnpackedTooLarge { .. } => return Err(Refused::Room(NoRoom::Ever)),
            unsound => return Err(Refused::Set(unsound)),
        }
    }
}
