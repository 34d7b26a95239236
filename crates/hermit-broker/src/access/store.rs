//! The file of users and rules on its disk: read at start, replaced at each change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermit_log::disk::{Disk, read_file, write_atomically};
use hermit_proto::Secret;

use super::file::{self, Unreadable};
use super::state::State;
use crate::error::BrokerError;
use crate::layout;

/// 10,000 users with 16 tokens each, and as many rules, take some 30 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Where users and rules are kept.
#[derive(Debug)]
pub(crate) struct Store {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Why nothing is written any more, once it was not known what is on the disk.
    failed: Option<String>,
}

/// The damaged file, and what was wrong with it.
#[derive(Debug, Clone)]
pub struct AccessDamage {
    /// What was wrong.
    pub what: String,
    /// Where a copy is kept; `None` where the disk did not take one.
    pub kept: Option<PathBuf>,
}

impl Store {
    /// Reads what there is. A damaged file is kept aside, and then there are no users and no rules: nobody is let in by what cannot be read.
    ///
    /// # Errors
    /// A newer release wrote it. It cannot be read at all, and it `matters`.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, matters: bool) -> Result<(Self, State, Option<AccessDamage>), BrokerError> {
        let mut store = Self { disk, dir: dir.to_owned(), failed: None };
        let path = dir.join(layout::ACCESS);
        let bytes = match read_file(&*store.disk, &path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((store, State::default(), None)),
            Err(error) if matters => return Err(BrokerError::io("read", path, error)),
            Err(error) => {
                store.failed = Some(format!("it could not be read: {error}"));
                return Ok((store, State::default(), None));
            }
        };
        match file::decode(&bytes) {
            Ok(state) => Ok((store, state, None)),
            Err(Unreadable::Newer(found)) => Err(BrokerError::NewerFormat { path, found, supported: file::FORMAT }),
            Err(Unreadable::Damaged(what)) => {
                let kept = store.keep(&bytes);
                Ok((store, State::default(), Some(AccessDamage { what, kept })))
            }
        }
    }

    /// Keeps a damaged file, and takes it out of the way. While the disk refuses either, the damaged one stays, and nothing replaces it.
    fn keep(&mut self, bytes: &[u8]) -> Option<PathBuf> {
        let kept = (1..=u32::MAX).find_map(|number| {
            let name = layout::damaged_access(number);
            match self.disk.exists(&self.dir.join(&name)) {
                Ok(true) => None,
                Ok(false) => Some(write_atomically(&*self.disk, &self.dir, &name, bytes).map(|()| self.dir.join(&name))),
                Err(error) => Some(Err(error)),
            }
        });
        let path = self.dir.join(layout::ACCESS);
        let removed = |kept: PathBuf| {
            self.disk.remove_file(&path)?;
            self.disk.sync_dir(&self.dir)?;
            Ok::<_, io::Error>(kept)
        };
        match kept.unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into())).and_then(removed) {
            Ok(kept) => Some(kept),
            Err(error) => {
                self.failed = Some(format!("the damaged file could not be kept aside: {error}"));
                None
            }
        }
    }

    /// Whether it is known what the next start will find.
    ///
    /// # Errors
    /// [`BrokerError::AccessReadOnly`].
    pub(crate) fn is_sure(&self) -> Result<(), BrokerError> {
        match &self.failed {
            Some(reason) => Err(BrokerError::AccessReadOnly { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Replaces the file. When this returns, the new one survives a power cut.
    pub(crate) fn save(&mut self, state: &State) -> Result<(), BrokerError> {
        self.is_sure()?;
        let bytes = file::encode(state).map_err(|error| BrokerError::InvalidConfig { field: "access", rule: error.to_string() })?;
        let path = self.dir.join(layout::ACCESS);
        write_atomically(&*self.disk, &self.dir, layout::ACCESS, &bytes).map_err(|error| {
            // Once the new file has the name, which of the two the next start will find is not known.
            if self.content().is_none_or(|content| content == bytes) {
                self.failed = Some(format!("writing it failed: {error}"));
            }
            BrokerError::io("write", path, error)
        })
    }

    /// Writes what was read once more, after an unclean stop: if a sync had failed before that, what is in the page cache is on no disk, and who was put out would be
    /// back with the next power cut. A full disk keeps nobody from starting: then it stays as it is.
    pub(crate) fn write_anew(&mut self) {
        let Some(bytes) = self.content().filter(|bytes| !bytes.is_empty() && self.failed.is_none()) else { return };
        if let Err(error) = write_atomically(&*self.disk, &self.dir, layout::ACCESS, &bytes) {
            tracing::error!(error = %crate::error::line(&error), "users and rules could not be written once more after an unclean stop");
            if error.kind() != io::ErrorKind::StorageFull {
                self.failed = Some(format!("writing it after an unclean stop failed: {error}"));
            }
        }
    }

    /// What the file holds, nothing where there is none; `None` where that cannot be told.
    fn content(&self) -> Option<Vec<u8>> {
        match read_file(&*self.disk, &self.dir.join(layout::ACCESS), MAX_BYTES) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Vec::new()),
            Err(_unknown) => None,
        }
    }

    /// Writes the token of the first administrator into its file; gives the file's path.
    pub(crate) fn write_first_token(&self, token: &Secret) -> Result<PathBuf, BrokerError> {
        let path = self.dir.join(layout::FIRST_ADMIN_TOKEN);
        let line = zeroize::Zeroizing::new(format!("{}\n", token.expose()));
        write_atomically(&*self.disk, &self.dir, layout::FIRST_ADMIN_TOKEN, line.as_bytes())
            .map_err(|error| BrokerError::io("write", &path, error))?;
        Ok(path)
    }

    /// Removes that file. The token in it is void already.
    pub(crate) fn remove_first_token(&self) {
        let path = self.dir.join(layout::FIRST_ADMIN_TOKEN);
        let removed = match self.disk.exists(&path) {
            Ok(false) => Ok(()),
            Ok(true) => self.disk.remove_file(&path).and_then(|()| self.disk.sync_dir(&self.dir)),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(path = %path.display(), error = %crate::error::line(&error), "the one-time token is void, but its file cannot be removed");
        }
    }
}
