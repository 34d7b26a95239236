//! What is done to a file behind the broker's back.

use std::path::{Path, PathBuf};

use hermit_log::disk::sim::{Rng, SimDisk};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deleted,
    Emptied,
    Cut,
    Flipped,
    Swapped,
    Extended,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [Self::Deleted, Self::Emptied, Self::Cut, Self::Flipped, Self::Swapped, Self::Extended];
}

#[derive(Clone, Debug)]
pub(crate) struct Harm {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    /// The file that it is swapped with.
    pub(crate) other: Option<PathBuf>,
    number: u64,
}

/// What files are that can be taken for one another.
fn role(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.split_once('.').map_or(name, |(_, extension)| extension).to_owned()
}

impl Harm {
    pub(crate) fn new(path: &Path, kind: Kind, files: &[PathBuf], rng: &mut Rng) -> Self {
        let same_name = |other: &&PathBuf| *other != path && other.file_name() == path.file_name();
        let same_role = |other: &&PathBuf| *other != path && role(other) == role(path);
        let mut others: Vec<_> = files.iter().filter(same_name).collect();
        if others.is_empty() || rng.below(4) == 0 {
            others = files.iter().filter(same_role).collect();
        }
        let other = (kind == Kind::Swapped && !others.is_empty()).then(|| others[rng.below(others.len())].clone());
        Self { path: path.to_owned(), kind, other, number: rng.below(1 << 30) as u64 }
    }

    pub(crate) fn inflict(&self, disk: &SimDisk) {
        let Some(bytes) = disk.bytes(&self.path) else { return };
        let within = |len: usize| usize::try_from(self.number).unwrap() % len.max(1);
        match self.kind {
            Kind::Deleted => drop(disk.remove(&self.path)),
            Kind::Emptied => drop(disk.put(&self.path, b"")),
            Kind::Cut => drop(disk.truncate(&self.path, within(bytes.len()))),
            Kind::Flipped => drop(disk.flip_bit(&self.path, within(bytes.len() * 8) as u64)),
            Kind::Swapped => {
                if let Some(other) = &self.other
                    && let Some(theirs) = disk.bytes(other)
                {
                    assert!(disk.put(other, &bytes) && disk.put(&self.path, &theirs));
                }
            }
            Kind::Extended => {
                let mut longer = bytes;
                let garbage = self.number.to_be_bytes();
                longer.extend(garbage.iter().cycle().take(1 + within(5000)));
                disk.put(&self.path, &longer);
            }
        }
    }
}
