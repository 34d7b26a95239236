//! Space that is kept for the time when the disk is full: deleting topics and starting need a little.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermit_log::disk::{Disk, Open};

use crate::error::BrokerError;
use crate::layout;

/// The reserve file.
#[derive(Debug)]
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    pub(crate) fn new(disk: Arc<dyn Disk>, data_dir: &Path, bytes: u64) -> Self {
        Self { disk, path: data_dir.join(layout::RESERVE), bytes }
    }

    /// Takes the space, if there is enough. Without it the broker runs as well, as long as the disk is not full.
    pub(crate) fn refill(&self) {
        if self.bytes == 0 || self.disk.file_len(&self.path).is_ok_and(|len| len >= self.bytes) {
            return;
        }
        let taken = self.disk.open(&self.path, Open::CreateOrOpen).and_then(|file| file.allocate(self.bytes));
        if let Err(error) = taken {
            tracing::warn!(path = %self.path.display(), error = %crate::error::line(&error), "no space can be kept for a full disk");
            self.give_back();
        }
    }

    fn give_back(&self) {
        if let Err(error) = self.disk.remove_file(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), error = %crate::error::line(&error), "the reserve cannot be given back");
        }
    }

    /// Gives the reserve back where the disk has less left than that, before something that takes a little space in many places.
    pub(crate) fn make_room(&self) {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        if self.disk.free_bytes(dir).is_ok_and(|free| free < self.bytes) {
            self.give_back();
        }
    }

    /// Does something small that must be possible on a full disk: a second time, with the reserve given back, if need be.
    pub(crate) fn with<T>(&self, mut action: impl FnMut() -> Result<T, BrokerError>) -> Result<T, BrokerError> {
        match action() {
            Err(error) if error.is_disk_full() => {
                self.give_back();
                action()
            }
            done => done,
        }
    }
}
