//! A frame as its producer makes it.

use bytes::BufMut;

use super::attributes::{Attributes, Codec};
use super::error::FrameError;
use super::layout::{BODY_CRC_AT, PREFIX_SIZE, body_crc};
use super::prefix::{Extension, FramePrefix};
use super::stamp::ProducerStamp;
use crate::header::{Header, magic, put};
use crate::ids::{LeaderEpoch, ProducerEpoch, ProducerId, Sequence};

/// What a producer says in a frame; key and payload stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedFrame<'a> {
    /// Nanoseconds since the Unix epoch by the producer's clock.
    pub timestamp: u64,
    /// Codec and flags; [`Attributes::HAS_KEY`] is set from `key`.
    pub attributes: Attributes,
    /// Offsets that the frame takes.
    pub record_count: u32,
    /// For idempotent producers.
    pub producer: Option<ProducerStamp>,
    /// `None` is not the same as empty.
    pub key: Option<&'a [u8]>,
    /// The message, or the record set.
    pub payload: &'a [u8],
}

impl<'a> ProducedFrame<'a> {
    /// One raw message.
    #[must_use]
    pub const fn message(timestamp: u64, key: Option<&'a [u8]>, payload: &'a [u8]) -> Self {
        Self { timestamp, attributes: Attributes(0), record_count: 1, producer: None, key, payload }
    }

    /// A tombstone: the key's earlier values are void.
    #[must_use]
    pub const fn tombstone(timestamp: u64, key: &'a [u8]) -> Self {
        Self { attributes: Attributes(Attributes::TOMBSTONE), ..Self::message(timestamp, Some(key), &[]) }
    }

    /// A record set of `record_count` records, compressed with `codec`.
    #[must_use]
    pub const fn record_set(timestamp: u64, codec: Codec, record_count: u32, payload: &'a [u8]) -> Self {
        let attributes = Attributes(Attributes::RECORD_SET).with_codec(codec);
        Self { timestamp, attributes, record_count, producer: None, key: None, payload }
    }

    /// Header and extension with the body CRC; the broker's fields are 0. Key and payload follow them.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] where key or payload does not fit its 32-bit size.
    pub fn prefix(&self) -> Result<[u8; PREFIX_SIZE], FrameError> {
        let key = self.key.unwrap_or_default();
        let too_large = || FrameError::TooLarge {
            body_bytes: (key.len() as u64).saturating_add(self.payload.len() as u64),
            limit_bytes: u64::from(u32::MAX),
        };
        let key_size = u32::try_from(key.len()).map_err(|_over_u32| too_large())?;
        let payload_size = u32::try_from(self.payload.len()).map_err(|_over_u32| too_large())?;
        let attributes = if self.key.is_some() { self.attributes.with(Attributes::HAS_KEY) } else { self.attributes };
        let none = ProducerStamp { id: ProducerId::NONE, epoch: ProducerEpoch(-1), first_sequence: Sequence(-1) };
        let producer = self.producer.unwrap_or(none);
        let prefix = FramePrefix {
            header: Header {
                magic: magic::DATA_V2,
                timestamp: self.timestamp,
                offset: 0,
                key_size,
                payload_size,
                record_count: self.record_count,
            },
            extension: Extension {
                attributes,
                producer_epoch: producer.epoch,
                producer_id: producer.id,
                first_sequence: producer.first_sequence,
                body_crc: 0,
                leader_epoch: LeaderEpoch(0),
                append_time: 0,
                flushed_distance: 0,
                frame_crc: 0,
            },
        };
        let mut bytes = prefix.encode();
        let crc = body_crc(&bytes, [key, self.payload]);
        put(&mut bytes, BODY_CRC_AT, &crc.to_be_bytes());
        Ok(bytes)
    }

    /// Appends the whole frame to `out`.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] where key or payload does not fit its 32-bit size.
    pub fn encode_into(&self, out: &mut impl BufMut) -> Result<(), FrameError> {
        let prefix = self.prefix()?;
        out.put_slice(&prefix);
        out.put_slice(self.key.unwrap_or_default());
        out.put_slice(self.payload);
        Ok(())
    }

    /// The whole frame.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] where key or payload does not fit its 32-bit size.
    pub fn to_vec(&self) -> Result<Vec<u8>, FrameError> {
        let prefix = self.prefix()?;
        let key = self.key.unwrap_or_default();
        let mut frame = Vec::with_capacity(PREFIX_SIZE.saturating_add(key.len()).saturating_add(self.payload.len()));
        frame.extend_from_slice(&prefix);
        frame.extend_from_slice(key);
        frame.extend_from_slice(self.payload);
        Ok(frame)
    }
}
