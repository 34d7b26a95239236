//! Compressing a set as a whole, and unpacking it under a limit.

use std::borrow::Cow;
use std::io::Read;

use super::{RecordSetError, lz4};
use crate::frame::{Attributes, Codec};

/// Zstandard's default: about the speed of a network, a third of the size for text.
pub const ZSTD_LEVEL: i32 = 3;
/// Frames that want a larger window than 2²³ = 8 MiB are refused: the memory is the reader's. RFC 8878, section 3.1.1.1.2,
/// recommends to support that much. Levels up to 19 stay within it.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Compresses a set.
///
/// # Errors
/// [`RecordSetError::Compressed`] if the compressor fails, for example for want of memory.
pub fn compress(codec: Codec, set: &[u8]) -> Result<Vec<u8>, RecordSetError> {
    compress_at(codec, ZSTD_LEVEL, set)
}

/// Compresses a set; `zstd_level` is brought into 1 to 19: above that, readers would need larger windows than they take.
///
/// # Errors
/// As [`compress`].
pub fn compress_at(codec: Codec, zstd_level: i32, set: &[u8]) -> Result<Vec<u8>, RecordSetError> {
    match codec {
        Codec::None => Ok(set.to_vec()),
        Codec::Lz4 => lz4::compress(set).map_err(|error| failed("lz4", &error)),
        Codec::Zstd => zstd::bulk::compress(set, zstd_level.clamp(1, 19)).map_err(|error| failed("zstd", &error)),
    }
}

/// The uncompressed set of a frame with these attributes: borrowed where it is not compressed.
///
/// # Errors
/// As [`unpack_into`]; [`RecordSetError::UnsupportedCodec`] names a codec that is not spoken.
pub fn unpack(attributes: Attributes, payload: &[u8], max_bytes: usize) -> Result<Cow<'_, [u8]>, RecordSetError> {
    match attributes.codec() {
        None => {
            let number = attributes.0 & 0b111;
            let name = match number {
                1 => "gzip",
                2 => "snappy",
                _ => "unknown",
            };
            Err(RecordSetError::UnsupportedCodec { number, name })
        }
        Some(Codec::None) if payload.len() > max_bytes => Err(RecordSetError::UnpackedTooLarge { limit_bytes: max_bytes }),
        Some(Codec::None) => Ok(Cow::Borrowed(payload)),
        Some(codec) => {
            let mut set = Vec::new();
            unpack_into(codec, payload, max_bytes, &mut set)?;
            Ok(Cow::Owned(set))
        }
    }
}

/// Unpacks a set into `set`, which is emptied first. Memory grows with what is unpacked, never by a declared size, and
/// ends at the limit.
///
/// # Errors
/// [`RecordSetError::UnpackedTooLarge`] and [`RecordSetError::Compressed`].
pub fn unpack_into(codec: Codec, payload: &[u8], max_bytes: usize, set: &mut Vec<u8>) -> Result<(), RecordSetError> {
    set.clear();
    match codec {
        Codec::None if payload.len() <= max_bytes => set.extend_from_slice(payload),
        Codec::None => return Err(RecordSetError::UnpackedTooLarge { limit_bytes: max_bytes }),
        Codec::Lz4 => lz4::unpack(payload, max_bytes, set)?,
        Codec::Zstd => unpack_zstd(payload, max_bytes, set)?,
    }
    Ok(())
}

fn unpack_zstd(payload: &[u8], max_bytes: usize, set: &mut Vec<u8>) -> Result<(), RecordSetError> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(payload).map_err(|error| failed("zstd", &error))?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(|error| failed("zstd", &error))?;
    // One byte more than allowed tells that there is more.
    let limit = (max_bytes as u64).saturating_add(1);
    decoder.take(limit).read_to_end(set).map_err(|error| failed("zstd", &error))?;
    if set.len() > max_bytes { Err(RecordSetError::UnpackedTooLarge { limit_bytes: max_bytes }) } else { Ok(()) }
}

fn failed(codec: &'static str, error: &std::io::Error) -> RecordSetError {
    RecordSetError::Compressed { codec, reason: error.to_string() }
}
