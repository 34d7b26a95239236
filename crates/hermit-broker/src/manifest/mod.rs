//! The manifest: which topics there are, and what the broker must not forget.
//!
//! One append-only file of checksummed records, synced at each step, and rewritten compactly (aside, then renamed) when it has grown. What
//! is in it decides; that something is *missing* from it decides nothing: data are deleted after a recorded intent only.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod record;
mod state;
mod topic_copy;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermit_log::disk::{Disk, DiskFile, Open, read_file, write_atomically};

pub(crate) use record::Record;
pub use record::RecordError;
pub use state::{Damage, FORMAT_VERSION};
pub(crate) use state::{Entry, Facts, Growth, Stage, State, read};
pub(crate) use topic_copy::{read as read_topic_copy, write as write_topic_copy};

use crate::error::BrokerError;
use crate::layout;

/// 100,000 topics with the longest names take some 40 MB.
const MAX_MANIFEST_BYTES: u64 = 256 << 20;
/// A manifest that is this much longer than it has to be is rewritten.
const SLACK_BYTES: u64 = 64 << 10;

/// The bytes of the manifest; `None` where there is none.
pub(crate) fn load(disk: &dyn Disk, data_dir: &Path) -> io::Result<Option<Vec<u8>>> {
    load_up_to(disk, data_dir, MAX_MANIFEST_BYTES)
}

fn load_up_to(disk: &dyn Disk, data_dir: &Path, most_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let path = data_dir.join(layout::MANIFEST);
    match read_file(disk, &path, most_bytes) {
        Ok(bytes) => Ok(Some(bytes)),
        // No broker has written so much: what comes behind the records is damage, as less of it would be.
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => read_beginning(disk, &path, most_bytes + 1).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What of a file can be a manifest, and a byte more, which cannot.
fn read_beginning(disk: &dyn Disk, path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let most = usize::try_from(most_bytes).map_err(|_over_usize| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; most];
    let read = file.read_full_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Keeps a copy of a damaged manifest for the operator; gives its path.
pub(crate) fn keep_aside(disk: &dyn Disk, data_dir: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let name = layout::damaged_manifest(number);
        let path = data_dir.join(&name);
        if !disk.exists(&path)? {
            write_atomically(disk, data_dir, &name, bytes)?;
            return Ok(path);
        }
        number = number.saturating_add(1);
    }
}

/// The manifest that is being written.
#[derive(Debug)]
pub(crate) struct Manifest {
    disk: Arc<dyn Disk>,
    data_dir: PathBuf,
    file: Arc<dyn DiskFile>,
    state: State,
    len_bytes: u64,
    /// What the file would have if it were rewritten now.
    compact_bytes: u64,
    /// Why nothing can be written any more, once a sync has failed.
    failed: Option<String>,
}

impl Manifest {
    /// Goes on with a sound manifest of `len_bytes` bytes that say `state`.
    pub(crate) fn open(disk: Arc<dyn Disk>, data_dir: &Path, state: State, len_bytes: u64) -> io::Result<Self> {
        let file = disk.open(&data_dir.join(layout::MANIFEST), Open::ReadWrite)?;
        let compact_bytes = state.encode().len() as u64;
        Ok(Self { disk, data_dir: data_dir.to_owned(), file, state, len_bytes, compact_bytes, failed: None })
    }

    /// Writes a manifest that says `state`, in place of what is there.
    pub(crate) fn create(disk: Arc<dyn Disk>, data_dir: &Path, state: State) -> io::Result<Self> {
        let bytes = state.encode();
        write_atomically(&*disk, data_dir, layout::MANIFEST, &bytes)?;
        Self::open(disk, data_dir, state, bytes.len() as u64)
    }

    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    /// The whole file, for the clean marker: there is none where a write or sync of it has failed, so that the next start writes it anew.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        if let Some(reason) = &self.failed {
            return Err(io::Error::other(reason.clone()));
        }
        read_file(&*self.disk, &self.data_dir.join(layout::MANIFEST), MAX_MANIFEST_BYTES)
    }

    /// Appends records with one sync. After an error none of them holds; after a failed sync nobody can say, and nothing is
    /// written any more.
    pub(crate) fn append(&mut self, records: &[Record]) -> Result<(), BrokerError> {
        let path = || self.data_dir.join(layout::MANIFEST);
        if let Some(reason) = &self.failed {
            return Err(BrokerError::ManifestReadOnly { reason: reason.clone() });
        }
        let mut next = self.state.clone();
        let mut bytes = Vec::new();
        for record in records {
            next.apply(record.clone()).map_err(BrokerError::ManifestRecord)?;
            record.encode_into(&mut bytes);
        }
        if let Err(error) = self.file.write_all_at(&bytes, self.len_bytes) {
            // A fragment must not stand before the next record.
            if let Err(cut) = self.file.set_len(self.len_bytes) {
                self.failed = Some(format!("a failed write ({error}) could not be taken back: {cut}"));
            }
            return Err(BrokerError::io("write the manifest", path(), error.into()));
        }
        if let Err(error) = self.file.sync_data() {
            self.failed = Some(format!("a sync failed: {error}"));
            return Err(BrokerError::io("sync the manifest", path(), error));
        }
        self.len_bytes = self.len_bytes.saturating_add(bytes.len() as u64);
        self.state = next;
        if self.len_bytes > self.compact_bytes.saturating_mul(2).saturating_add(SLACK_BYTES) {
            self.compact();
        }
        Ok(())
    }

    /// Rewrites the file as short as it can be. The records hold already, so that a failure before the rename changes nothing.
    fn compact(&mut self) {
        let bytes = self.state.encode();
        self.compact_bytes = bytes.len() as u64;
        let written = write_atomically(&*self.disk, &self.data_dir, layout::MANIFEST, &bytes)
            .and_then(|()| self.disk.open(&self.data_dir.join(layout::MANIFEST), Open::ReadWrite));
        match written {
            Ok(file) => {
                self.file = file;
                self.len_bytes = bytes.len() as u64;
            }
            Err(error) => {
                // Which of the two files has the name is not known now; both say the same, but only one of them will be read.
                self.failed = Some(format!("rewriting it failed: {error}"));
                tracing::error!(error = %crate::error::line(&error), "rewriting the manifest failed: topics cannot be changed until the broker is restarted");
            }
        }
    }
}

#[cfg(test)]
mod tests;
