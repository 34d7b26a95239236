//! What is in an old data directory, by the names of its files alone.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use hermit_log::disk::{Disk, Entry, TMP_SUFFIX};
use hermit_proto::{NameError, Offset, PartitionId, TopicName};

use super::findings::{Finding, Problem};
use crate::layout;
use crate::offsets::OFFSETS_TOPIC;

const WAL: &str = ".wal";
const INDEX: &str = ".idx";
/// Digits of a base offset.
const BASE_DIGITS: usize = 20;

/// One old segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OldSegment {
    pub(super) base: Offset,
    pub(super) len_bytes: u64,
}

/// One old partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OldPartition {
    pub(super) dir: PathBuf,
    /// In the order of their base offsets.
    pub(super) segments: Vec<OldSegment>,
}

impl OldPartition {
    pub(super) fn wal(&self, segment: &OldSegment) -> PathBuf {
        self.dir.join(wal_name(segment.base))
    }
}

/// All that is there.
#[derive(Debug, Default)]
pub(super) struct OldDir {
    /// The topics by name, each with its partitions by number.
    pub(super) topics: BTreeMap<TopicName, BTreeMap<PartitionId, OldPartition>>,
    /// The older broker's committed positions.
    pub(super) positions: Option<OldPartition>,
    pub(super) findings: Vec<Finding>,
    pub(super) problems: Vec<Problem>,
}

/// The name of an old segment's log.
pub(super) fn wal_name(base: Offset) -> String {
    format!("{:020}{WAL}", base.0)
}

/// The base offset of a segment's file.
fn parse_base(name: &OsStr, suffix: &str) -> Option<Offset> {
    let digits = name.to_str()?.strip_suffix(suffix)?;
    let all_digits = digits.len() == BASE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().ok().map(Offset)).flatten()
}

/// The topic and the partition number of a directory's name, not looked at any further.
fn split(name: &OsStr) -> Option<(&[u8], &[u8])> {
    let name = name.as_bytes();
    let at = name.iter().rposition(|byte| *byte == b'_')?;
    let (topic, number) = (name.get(..at)?, name.get(at + 1..)?);
    (!number.is_empty() && number.iter().all(u8::is_ascii_digit)).then_some((topic, number))
}

/// A partition number, written as the older broker writes it.
fn parse_number(digits: &[u8]) -> Option<PartitionId> {
    let digits = std::str::from_utf8(digits).ok()?;
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(PartitionId(number))
}

/// Files and directories of a data directory of this release.
fn is_ours(entry: &Entry) -> bool {
    let Some(name) = entry.name.to_str() else { return false };
    if entry.is_dir {
        // Any other can be a topic's: `manifest_0`.
        return name == layout::PARTITIONS;
    }
    let known = [layout::LOCK, layout::CLEAN, layout::RESERVE, layout::PARTITIONS, layout::MANIFEST, layout::IMPORTING];
    known.contains(&name) || name.starts_with(layout::MANIFEST) || name.ends_with(TMP_SUFFIX)
}

/// Whether there is at least one old partition with a log in it.
pub(super) fn is_old(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    let entries = match disk.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    for entry in entries.iter().filter(|entry| split(&entry.name).is_some()) {
        let files = files(disk, &dir.join(&entry.name), entry)?.unwrap_or_default();
        if files.iter().any(|file| parse_base(&file.name, WAL).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is in a directory, or in the one that a link leads to; `None` where it is neither.
fn files(disk: &dyn Disk, path: &Path, entry: &Entry) -> io::Result<Option<Vec<Entry>>> {
    match disk.list(path) {
        Ok(files) => Ok(Some(files)),
        Err(error) if entry.is_dir => Err(error),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists the directory. Nothing is read but names and sizes.
pub(super) fn list(disk: &dyn Disk, dir: &Path) -> Result<OldDir, (PathBuf, io::Error)> {
    let mut old = OldDir::default();
    for entry in disk.list(dir).map_err(|error| (dir.to_owned(), error))? {
        if is_ours(&entry) {
            continue;
        }
        let path = dir.join(&entry.name);
        let Some((topic, number)) = split(&entry.name) else {
            old.findings.push(Finding::Stray { path });
            continue;
        };
        let Some(mut files) = files(disk, &path, &entry).map_err(|error| (path.clone(), error))? else {
            old.findings.push(Finding::Stray { path });
            continue;
        };
        for file in files.iter_mut().filter(|file| !file.is_dir && parse_base(&file.name, WAL).is_some()) {
            // Of what a link leads to, where it is one.
            let wal = path.join(&file.name);
            file.len_bytes = disk.file_len(&wal).map_err(|error| (wal, error))?;
        }
        let has_log = files.iter().any(|file| parse_base(&file.name, WAL).is_some() || parse_base(&file.name, INDEX).is_some());
        if !has_log && !files.is_empty() {
            old.findings.push(Finding::Stray { path });
            continue;
        }
        old.add(topic, number, path, &files);
    }
    old.check_numbers();
    Ok(old)
}

impl OldDir {
    fn add(&mut self, topic: &[u8], number: &[u8], dir: PathBuf, files: &[Entry]) {
        let Some(number) = parse_number(number) else {
            self.problems.push(Problem::PartitionNumber { dir });
            return;
        };
        let partition = self.segments(dir, files);
        if topic == OFFSETS_TOPIC.as_bytes() {
            if number == PartitionId(0) {
                self.positions = Some(partition);
            } else {
                self.findings.push(Finding::Stray { path: partition.dir });
            }
            return;
        }
        match public_name(topic) {
            Ok(name) => drop(self.topics.entry(name).or_default().insert(number, partition)),
            Err(source) => self.problems.push(Problem::Name { dir: partition.dir, source }),
        }
    }

    fn segments(&mut self, dir: PathBuf, files: &[Entry]) -> OldPartition {
        let mut segments = Vec::new();
        for file in files {
            let path = || dir.join(&file.name);
            if let Some(base) = parse_base(&file.name, WAL).filter(|_base| !file.is_dir) {
                segments.push(OldSegment { base, len_bytes: file.len_bytes });
            } else if let Some(base) = parse_base(&file.name, INDEX).filter(|_base| !file.is_dir) {
                let wal = wal_name(base);
                let has_log = files.iter().any(|other| other.name == *wal);
                // An empty one says nothing: it may have been created just before its log.
                if !has_log && file.len_bytes > 0 {
                    self.problems.push(Problem::LogMissing { index: path() });
                }
            } else {
                self.findings.push(Finding::Stray { path: path() });
            }
        }
        segments.sort_by_key(|segment| segment.base);
        OldPartition { dir, segments }
    }

    /// Partitions are numbered from 0 without a gap: for one that is missing nobody can say whether it was ever there.
    fn check_numbers(&mut self) {
        for (topic, partitions) in &self.topics {
            let missing = (0u32..).zip(partitions.keys()).find(|(expected, there)| PartitionId(*expected) != **there);
            if let (Some((missing, _)), Some(highest)) = (missing, partitions.keys().next_back()) {
                let (topic, missing, highest) = (topic.clone(), PartitionId(missing), *highest);
                self.problems.push(Problem::PartitionMissing { topic, missing, highest });
            }
        }
    }
}

fn public_name(topic: &[u8]) -> Result<TopicName, NameError> {
    TopicName::new_public(topic)
}

#[cfg(test)]
mod tests {
    use hermit_log::disk::Open;
    use hermit_log::disk::sim::SimDisk;

    use super::*;

    fn disk(files: &[&str]) -> SimDisk {
        let disk = SimDisk::new(1);
        for file in files {
            let path = Path::new("/old").join(file);
            if file.ends_with('/') {
                disk.create_dir_all(&path).unwrap();
                continue;
            }
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.open(&path, Open::CreateNew).unwrap().write_all_at(b"x", 0).unwrap();
        }
        disk
    }

    fn listed(files: &[&str]) -> OldDir {
        list(&disk(files), Path::new("/old")).unwrap()
    }

    const WAL_0: &str = "00000000000000000000.wal";

    #[test]
    fn topics_may_have_underscores_and_segments_are_in_order() {
        let old = listed(&[
            "a_b_0/00000000000000000006.wal",
            "a_b_0/00000000000000000000.wal",
            "a_b_0/00000000000000000000.idx",
            "a_b_1/",
            "manifest_0/00000000000000000000.wal",
            "manifest.damaged-1",
            "__consumer_offsets_0/00000000000000000000.wal",
            "lock",
            "partitions/x",
        ]);
        assert!(old.problems.is_empty() && old.findings.is_empty(), "{old:?}");
        let names: Vec<_> = old.topics.keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["a_b", "manifest"]);
        let partitions = old.topics.values().next().unwrap();
        assert_eq!(partitions.len(), 2);
        let bases: Vec<_> = partitions[&PartitionId(0)].segments.iter().map(|segment| segment.base.0).collect();
        assert_eq!(bases, [0, 6]);
        assert!(old.positions.is_some());
    }

    #[test]
    fn links_to_directories_and_segments_are_followed() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("elsewhere")).unwrap();
        std::fs::create_dir_all(at("old")).unwrap();
        std::fs::write(at("segment"), [7; 300]).unwrap();
        symlink(at("segment"), at("elsewhere").join(WAL_0)).unwrap();
        symlink(at("elsewhere"), at("old/t_0")).unwrap();
        symlink(at("nowhere"), at("old/u_0")).unwrap();
        std::fs::write(at("old/v_0"), "a file").unwrap();
        let disk = hermit_log::disk::RealDisk;
        assert!(is_old(&disk, &at("old")).unwrap());
        let old = list(&disk, &at("old")).unwrap();
        assert!(old.problems.is_empty(), "{old:?}");
        let topics: Vec<_> = old.topics.iter().map(|(name, partitions)| (name.as_str(), partitions)).collect();
        assert_eq!(topics.len(), 1, "{topics:?}");
        assert_eq!(topics[0].1[&PartitionId(0)].segments, [OldSegment { base: Offset(0), len_bytes: 300 }]);
        let strays = [at("old/u_0"), at("old/v_0")].map(|path| Finding::Stray { path });
        assert_eq!(old.findings, strays);
    }

    #[test]
    fn what_cannot_be_taken_over_is_named() {
        let old = listed(&[
            &format!("a_0/{WAL_0}"),
            &format!("a_2/{WAL_0}"),
            &format!("b_00/{WAL_0}"),
            &format!("c\n_0/{WAL_0}"),
            &format!("__secret_0/{WAL_0}"),
            &format!("_0/{WAL_0}"),
            "d_0/00000000000000000000.idx",
        ]);
        let text: Vec<_> = old.problems.iter().map(ToString::to_string).collect();
        for (part, what) in [
            ("b_00", "written"),
            ("U+000A", "control"),
            ("__secret_0", "reserved"),
            ("/old/_0", "empty"),
            ("d_0", "without"),
            ("topic a", "no partition 1"),
        ] {
            assert!(text.iter().any(|line| line.contains(part) && line.contains(what)), "{part} {what}: {text:#?}");
        }
        assert_eq!(old.problems.len(), 6, "{text:#?}");
    }

    #[test]
    fn strays_are_told_and_make_no_directory_an_old_one() {
        let files = ["notes.txt", "backup_2023/notes.txt", "logs/x", "a_0/readme"];
        let old = listed(&files);
        assert_eq!((old.findings.len(), old.topics.len(), old.problems.len()), (4, 0, 0), "{old:?}");
        assert!(!is_old(&disk(&files), Path::new("/old")).unwrap());
        assert!(is_old(&disk(&[&format!("a_0/{WAL_0}")]), Path::new("/old")).unwrap());
        assert!(!is_old(&disk(&[]), Path::new("/nowhere")).unwrap());
    }
}
