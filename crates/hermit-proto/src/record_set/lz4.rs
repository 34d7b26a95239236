//! Unpacking LZ4 frames (LZ4 frame format 1.6) without trusting the sizes they declare.
//!
//! A frame's header names a block size of up to 4 MiB, and decoders usually allocate it. Here a block gets room only for
//! what its bytes can unpack to. The checksums within the frame are passed over: the body CRC covers them and all else.

use lz4_flex::block::decompress_into_with_dict;
use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
use std::io::Write;

use super::RecordSetError;

const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
const VERSION_MASK: u8 = 0b1100_0000;
const VERSION_1: u8 = 0b0100_0000;
const INDEPENDENT_BLOCKS: u8 = 1 << 5;
const BLOCK_CHECKSUMS: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const DICTIONARY: u8 = 1;
const UNCOMPRESSED_BLOCK: u32 = 1 << 31;
/// How far back a match can reach.
const WINDOW_BYTES: usize = 64 << 10;

pub(super) fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes)?;
    encoder.finish().map_err(std::io::Error::other)
}

/// Appends the content of the one frame in `bytes` to the empty `out`, of at most `max_bytes`.
pub(super) fn unpack(mut bytes: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> Result<(), RecordSetError> {
    let rest = &mut bytes;
    if take::<4>(rest)? != MAGIC {
        return Err(damaged("it is no LZ4 frame"));
    }
    let [flags, block_size] = take(rest)?;
    if flags & VERSION_MASK != VERSION_1 {
        return Err(damaged("its version is unknown"));
    }
    if flags & DICTIONARY != 0 {
        return Err(damaged("it needs a dictionary"));
    }
    let max_block_bytes: usize = match block_size >> 4 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return Err(damaged("its block size is unknown")),
    };
    if flags & CONTENT_SIZE != 0 {
        take::<8>(rest)?;
    }
    let [_header_checksum] = take(rest)?;
    loop {
        let word = u32::from_le_bytes(take(rest)?);
        if word == 0 {
            break;
        }
        let size = (word & !UNCOMPRESSED_BLOCK) as usize;
        let (block, behind) = rest.split_at_checked(size).ok_or_else(|| damaged("a block is cut"))?;
        *rest = behind;
        if flags & BLOCK_CHECKSUMS != 0 {
            take::<4>(rest)?;
        }
        let room = max_block_bytes.min(max_bytes.saturating_sub(out.len()));
        if word & UNCOMPRESSED_BLOCK == 0 {
            unpack_block(block, flags & INDEPENDENT_BLOCKS != 0, room, max_block_bytes, max_bytes, out)?;
        } else if size > max_block_bytes {
            return Err(damaged("a block is larger than its frame allows"));
        } else if size > room {
            return Err(RecordSetError::UnpackedTooLarge { limit_bytes: max_bytes });
        } else {
            out.extend_from_slice(block);
        }
    }
    if flags & CONTENT_CHECKSUM != 0 {
        take::<4>(rest)?;
    }
    if rest.is_empty() { Ok(()) } else { Err(damaged("bytes are left over behind the frame")) }
}

fn unpack_block(
    block: &[u8],
    independent: bool,
    room: usize,
    max_block_bytes: usize,
    max_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), RecordSetError> {
    // A byte of input gives 255 of output at most, but for the first of a sequence, which gives fewer than 64.
    let most = block.len().saturating_mul(255).saturating_add(64).min(room);
    let begin = out.len();
    out.resize(begin.saturating_add(most), 0);
    let (before, unpacked) = out.split_at_mut(begin);
    let window = if independent { &[] } else { before.get(begin.saturating_sub(WINDOW_BYTES)..).unwrap_or_default() };
    match decompress_into_with_dict(block, unpacked, window) {
        Ok(size) => {
            out.truncate(begin.saturating_add(size));
            Ok(())
        }
        Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if room < max_block_bytes => {
            Err(RecordSetError::UnpackedTooLarge { limit_bytes: max_bytes })
        }
        Err(error) => Err(RecordSetError::Compressed { codec: "lz4", reason: error.to_string() }),
    }
}

fn damaged(reason: &str) -> RecordSetError {
    RecordSetError::Compressed { codec: "lz4", reason: reason.to_owned() }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], RecordSetError> {
    let (bytes, behind) = rest.split_first_chunk().ok_or_else(|| damaged("it is cut"))?;
    *rest = behind;
    Ok(*bytes)
}
