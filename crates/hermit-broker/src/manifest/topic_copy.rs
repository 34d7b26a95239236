//! The copy of a topic's metadata in each of its partitions' directories: a lost manifest is rebuilt from these.

use std::io;
use std::path::Path;

use bytes::BytesMut;
use hermit_log::disk::{Disk, read_file, write_atomically};
use hermit_proto::session::{BodyReader, BodyWriter};

use super::record::{decode_checked, encode_checked, read_meta, write_meta};
use super::state::FORMAT_VERSION;
use crate::layout;
use crate::topic::TopicMeta;

const MAX_BYTES: u64 = 8192;

pub(super) fn encode(meta: &TopicMeta) -> Vec<u8> {
    let mut body = BytesMut::new();
    let mut writer = BodyWriter::new(&mut body);
    writer.u32(FORMAT_VERSION);
    write_meta(meta, &mut writer);
    // Names have 255 bytes at most, so that every field fits.
    let _fits = writer.finish();
    let mut bytes = Vec::new();
    encode_checked(&body, &mut bytes);
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> Option<TopicMeta> {
    let (body, size) = decode_checked(bytes).ok()?;
    if size != bytes.len() {
        return None;
    }
    let mut body = BodyReader::new(body);
    if body.u32("version").ok()? > FORMAT_VERSION {
        return None;
    }
    read_meta(&mut body).ok()
}

/// Writes the copy into a partition's directory and makes it durable.
pub(crate) fn write(disk: &dyn Disk, partition_dir: &Path, meta: &TopicMeta) -> io::Result<()> {
    write_atomically(disk, partition_dir, layout::TOPIC, &encode(meta))
}

/// The copy in a partition's directory, where there is a sound one.
pub(crate) fn read(disk: &dyn Disk, partition_dir: &Path) -> Option<TopicMeta> {
    decode(&read_file(disk, &partition_dir.join(layout::TOPIC), MAX_BYTES).ok()?)
}
