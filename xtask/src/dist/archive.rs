//! Archives whose bytes depend on what is in them alone: entries in order of their paths, owned by root, with one time and fixed modes.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

/// Files by their paths, relative and with `/`, and their modes. Folders come to be by what is in them.
#[derive(Debug, Default)]
pub(super) struct Tree(BTreeMap<String, (u32, Vec<u8>)>);

/// What may be run.
pub(super) const PROGRAM: u32 = 0o755;
/// What may be read by everybody.
pub(super) const FILE: u32 = 0o644;

impl Tree {
    pub(super) fn add(&mut self, path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), (mode, bytes.into()));
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(path, (_, bytes))| (path.as_str(), bytes.as_slice()))
    }

    /// Space that it takes once unpacked, in KiB, as Debian counts it: a block more for each file.
    pub(super) fn installed_kib(&self) -> u64 {
        self.0.values().map(|(_, bytes)| bytes.len() as u64 / 1024 + 1).sum()
    }

    /// All of it as `tar`, gzipped, below `top`, which ends in `/`.
    pub(super) fn tar_gz(&self, top: &str, time: u64, effort: Compression) -> Result<Vec<u8>> {
        let mut builder = tar::Builder::new(GzBuilder::new().write(Vec::new(), effort));
        let mut last_folders = Vec::new();
        for (path, (mode, bytes)) in &self.0 {
            let whole = format!("{top}{path}");
            let folders: Vec<_> = whole.match_indices('/').map(|(at, _)| whole[..=at].to_owned()).collect();
            for folder in folders.iter().filter(|folder| !last_folders.contains(*folder)) {
                builder.append(&header(folder, EntryType::Directory, PROGRAM, 0, time)?, &[][..])?;
            }
            last_folders = folders;
            builder.append(&header(&whole, EntryType::Regular, *mode, bytes.len() as u64, time)?, bytes.as_slice())?;
        }
        Ok(builder.into_inner()?.finish()?)
    }
}

fn header(path: &str, kind: EntryType, mode: u32, size: u64, time: u64) -> Result<Header> {
    let mut header = Header::new_gnu();
    // As it is, with `./` where it begins so: `set_path` would take that away, and some tools look for it.
    let name = &mut header.as_old_mut().name;
    ensure!(path.len() < name.len(), "{path} is too long for an archive that every tool reads");
    name.get_mut(..path.len()).context("a name that fits")?.copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    header.set_mtime(time);
    header.set_size(size);
    header.set_cksum();
    Ok(header)
}

/// One file, gzipped, without a name or a time.
pub(super) fn gz(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// An `ar` archive in its common form, of files with short names, as `.deb` is one.
pub(super) fn ar(files: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in files {
        let length = bytes.len();
        archive.extend_from_slice(format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{length:<10}`\n", 0, 0, 100_644).as_bytes());
        archive.extend_from_slice(bytes);
        // Each begins at an even place.
        archive.extend((length % 2 == 1).then_some(b'\n'));
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.add("usr/bin/x", PROGRAM, *b"program");
        tree.add("etc/x.toml", FILE, *b"");
        tree.add("usr/bin/a", PROGRAM, *b"a");
        tree
    }

    #[test]
    fn entries_are_in_order_with_each_folder_once_and_before_what_is_in_it() {
        let packed = tree().tar_gz("./", 7, Compression::fast()).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 7));
            format!("{} {:o}", String::from_utf8_lossy(&entry.path_bytes()), header.mode().unwrap())
        });
        let entries: Vec<_> = entries.collect();
        let wanted =
            ["./ 755", "./etc/ 755", "./etc/x.toml 644", "./usr/ 755", "./usr/bin/ 755", "./usr/bin/a 755", "./usr/bin/x 755"];
        assert_eq!(entries, wanted);
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        assert_eq!(tree().tar_gz("./", 7, Compression::fast()).unwrap(), tree().tar_gz("./", 7, Compression::fast()).unwrap());
    }

    #[test]
    fn files_of_an_ar_archive_begin_at_even_places() {
        let archive = ar(&[("a", b"1"), ("b", b"22")], 9);
        assert_eq!(archive.len(), 8 + 60 + 2 + 60 + 2);
        assert!(archive[70..].starts_with(b"b               9           0     0     100644  2         `\n22"));
    }
}
