//! The envelope of small state files: magic, format version, body, CRC-32C over all of that. Written with `disk::write_atomically`.

use std::io;
use std::path::Path;

use hermit_proto::{Crc32c, FrameSalt, crc32c};

use crate::disk::{Disk, read_file};

const HEAD_SIZE: usize = 8;
const CRC_SIZE: usize = 4;
/// No state file is larger: a million producers have some 200 MB.
const MAX_STATE_FILE_BYTES: u64 = 1 << 30;

/// One kind of state file. Its checksum is tied to the partition, as those of frames are: what a mistake has put into another partition's directory must
/// not decide there what is deleted, hidden, or a duplicate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) magic: [u8; 4],
    /// The version before is the same without the tie, and still read.
    pub(crate) version: u32,
}

/// A checksum that holds for one partition alone.
pub(crate) fn tied_crc(covered: &[u8], salt: &FrameSalt) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(covered);
    crc.update(salt.as_bytes());
    crc.finish()
}

impl Kind {
    pub(crate) fn seal(self, body: &[u8], salt: &FrameSalt) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_SIZE + body.len() + CRC_SIZE);
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(body);
        let crc = tied_crc(&bytes, salt);
        bytes.extend_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The body, or `None` where the bytes are not a whole file of this kind and partition.
    pub(crate) fn open<'a>(self, bytes: &'a [u8], salt: &FrameSalt) -> Option<&'a [u8]> {
        let (covered, crc) = bytes.split_last_chunk::<CRC_SIZE>()?;
        let (version, body) = covered.strip_prefix(&self.magic)?.split_first_chunk()?;
        let expected = match u32::from_be_bytes(*version) {
            version if version == self.version => tied_crc(covered, salt),
            version if version.checked_add(1) == Some(self.version) => crc32c(covered),
            _newer_or_none => return None,
        };
        (u32::from_be_bytes(*crc) == expected).then_some(body)
    }

    /// Reads a file: `Ok(None)` where there is none, `Ok(Some(None))` where it is damaged.
    pub(crate) fn read(self, disk: &dyn Disk, path: &Path, salt: &FrameSalt) -> io::Result<Option<Option<Vec<u8>>>> {
        match read_file(disk, path, MAX_STATE_FILE_BYTES) {
            Ok(bytes) => Ok(Some(self.open(&bytes, salt).map(<[u8]>::to_vec))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Takes numbers off the front of a body; `None` where it ends first.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*head))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*head))
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.u64().map(u64::cast_signed)
    }

    pub(crate) fn u32_signed(&mut self) -> Option<i32> {
        self.u32().map(u32::cast_signed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_proto::{PartitionId, TopicId};

    #[test]
    fn a_file_holds_in_its_own_partition_only_and_those_of_older_releases_hold_anywhere() {
        let kind = Kind { magic: *b"TEST", version: 2 };
        let salt = FrameSalt::new(TopicId(7), PartitionId(1));
        let sealed = kind.seal(b"body", &salt);
        assert_eq!(kind.open(&sealed, &salt), Some(&b"body"[..]));
        for (topic, partition) in [(7, 0), (8, 1), (0, 0)] {
            assert_eq!(kind.open(&sealed, &FrameSalt::new(TopicId(topic), PartitionId(partition))), None);
        }
        let mut older = [&b"TEST"[..], &1_u32.to_be_bytes(), b"body"].concat();
        older.extend_from_slice(&crc32c(&older).to_be_bytes());
        assert_eq!(kind.open(&older, &salt), Some(&b"body"[..]));
        for bit in 0..sealed.len() * 8 {
            for bytes in [&sealed, &older] {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(kind.open(&bad, &salt), None, "bit {bit}");
            }
        }
    }
}
