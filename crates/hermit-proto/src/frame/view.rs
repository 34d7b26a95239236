//! A whole frame within a buffer.

use super::attributes::Attributes;
use super::error::{FrameError, FrameLimits};
use super::layout::{PREFIX_SIZE, body_crc};
use super::prefix::FramePrefix;
use super::stamp::FrameSalt;

/// A whole frame within a buffer.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// Header and extension, decoded.
    pub prefix: FramePrefix,
    bytes: &'a [u8],
}

impl<'a> FrameView<'a> {
    /// The frame at the start of `bytes`, checked but for its checksums, and the bytes behind it.
    ///
    /// # Errors
    /// Every [`FrameError`] but the checksums'; the limits are checked before the body is asked for.
    pub fn split(bytes: &'a [u8], limits: &FrameLimits) -> Result<(Self, &'a [u8]), FrameError> {
        let have_bytes = bytes.len() as u64;
        let Some(prefix) = bytes.first_chunk::<PREFIX_SIZE>() else {
            return Err(FrameError::Truncated { needed_bytes: PREFIX_SIZE as u64, have_bytes });
        };
        let prefix = FramePrefix::decode(prefix);
        prefix.check(limits)?;
        let needed_bytes = prefix.frame_bytes();
        let split = usize::try_from(needed_bytes).ok().and_then(|size| bytes.split_at_checked(size));
        let Some((frame, rest)) = split else {
            return Err(FrameError::Truncated { needed_bytes, have_bytes });
        };
        Ok((Self { prefix, bytes: frame }, rest))
    }

    /// The frame at the start of `bytes`, whose sizes and fields the frame CRC vouches for, perhaps under other limits than today's, and the
    /// bytes behind it. The body is not checked.
    ///
    /// # Errors
    /// [`FrameError::Magic`], [`FrameError::FrameCrc`] and [`FrameError::Truncated`].
    pub fn split_stamped(bytes: &'a [u8], salt: &FrameSalt) -> Result<(Self, &'a [u8]), FrameError> {
        let have_bytes = bytes.len() as u64;
        let Some(prefix) = bytes.first_chunk::<PREFIX_SIZE>() else {
            return Err(FrameError::Truncated { needed_bytes: PREFIX_SIZE as u64, have_bytes });
        };
        let prefix = FramePrefix::verify(prefix, salt)?;
        let needed_bytes = prefix.frame_bytes();
        let split = usize::try_from(needed_bytes).ok().and_then(|size| bytes.split_at_checked(size));
        let Some((frame, rest)) = split else {
            return Err(FrameError::Truncated { needed_bytes, have_bytes });
        };
        Ok((Self { prefix, bytes: frame }, rest))
    }

    /// The frame that is exactly `bytes`, without a check of its fields: for what a frame CRC vouched for, perhaps under other limits
    /// than today's. `None` where the sizes do not fit.
    #[must_use]
    pub fn trusted(bytes: &'a [u8]) -> Option<Self> {
        let prefix = FramePrefix::decode(bytes.first_chunk()?);
        (prefix.frame_bytes() == bytes.len() as u64).then_some(Self { prefix, bytes })
    }

    /// The frame's bytes, prefix and all.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn body(&self) -> &'a [u8] {
        self.bytes.get(PREFIX_SIZE..).unwrap_or_default()
    }

    /// The key; `None` is not the same as empty.
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        if !self.prefix.has(Attributes::HAS_KEY) {
            return None;
        }
        self.body().get(..self.prefix.header.key_size as usize)
    }

    /// The message, or the record set.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.body().get(self.prefix.header.key_size as usize..).unwrap_or_default()
    }

    /// Checks the producer's checksum.
    ///
    /// # Errors
    /// [`FrameError::BodyCrc`].
    pub fn verify_body(&self) -> Result<(), FrameError> {
        let expected = self.prefix.extension.body_crc;
        let actual = self.bytes.first_chunk().map_or(!expected, |prefix| body_crc(prefix, [self.body(), &[]]));
        if expected == actual { Ok(()) } else { Err(FrameError::BodyCrc { expected, actual }) }
    }

    /// Checks the broker's checksum.
    ///
    /// # Errors
    /// [`FrameError::FrameCrc`].
    pub fn verify_frame(&self, salt: &FrameSalt) -> Result<(), FrameError> {
        match self.bytes.first_chunk() {
            Some(prefix) => FramePrefix::verify(prefix, salt).map(|_prefix| ()),
            None => Ok(()),
        }
    }
}
