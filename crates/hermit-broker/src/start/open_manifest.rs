//! Opening the manifest: as it is, as a new one, or made good.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermit_log::LogEnv;
use hermit_proto::LeaderEpoch;

use super::rebuild::{self, FoundDir};
use super::report::{ManifestRepair, OpenReport};
use crate::error::BrokerError;
use crate::ids::Ids;
use crate::layout;
use crate::manifest::{self, Damage, Facts, Manifest, Record, State};
use crate::reserve::Reserve;
use crate::topic::TopicMeta;

/// What there is to open it with.
pub(super) struct OpenManifest<'a> {
    pub(super) env: &'a LogEnv,
    pub(super) dir: &'a Path,
    pub(super) ids: &'a Ids,
    pub(super) known: &'a [FoundDir],
    pub(super) reserve: &'a Reserve,
}

impl OpenManifest<'_> {
    /// Opens the manifest that has these `bytes`, which say `facts`; `None` where there was no broker before.
    pub(super) fn open(
        &self,
        bytes: Option<&[u8]>,
        facts: Option<Facts>,
        report: &mut OpenReport,
    ) -> Result<Manifest, BrokerError> {
        let Some(Facts { state, good_bytes, version, damage }) = facts else {
            report.clean = true;
            return self.create(&State::begin(self.ids.next()?, LeaderEpoch(1)));
        };
        if let Some(damage) = damage {
            report.clean = false;
            return self.repair(bytes.unwrap_or_default(), state, damage, report);
        }
        if !report.clean {
            return self.begin_epoch(state, good_bytes as u64, version);
        }
        if version < manifest::FORMAT_VERSION {
            return self.upgrade(&state, version);
        }
        self.go_on(state, good_bytes as u64)
    }

    /// Raises the leader epoch after an unclean stop, in a manifest that is written anew: if that stop followed a sync that failed, what is read of the old one is in
    /// the page cache, looks clean, and is on no disk; topics that are built on it would be gone with the power.
    fn begin_epoch(&self, state: State, good_bytes: u64, version: u32) -> Result<Manifest, BrokerError> {
        let record = Record::Epoch(rebuild::next_epoch(state.epoch));
        let mut next = state.clone();
        next.apply(record.clone()).map_err(BrokerError::ManifestRecord)?;
        match self.create(&next) {
            // No full disk keeps the broker from starting: one record nearly always fits.
            Err(error) if error.is_disk_full() && version == manifest::FORMAT_VERSION => {
                let mut manifest = self.go_on(state, good_bytes)?;
                self.reserve.with(|| manifest.append(std::slice::from_ref(&record)))?;
                Ok(manifest)
            }
            created => created,
        }
    }

    /// Before any record that an older release would take for damage.
    fn upgrade(&self, state: &State, version: u32) -> Result<Manifest, BrokerError> {
        tracing::info!(from = version, to = manifest::FORMAT_VERSION, "the manifest is rewritten in this release's format");
        self.create(state)
    }

    fn go_on(&self, state: State, good_bytes: u64) -> Result<Manifest, BrokerError> {
        let opened = Manifest::open(Arc::clone(&self.env.disk), self.dir, state, good_bytes);
        opened.map_err(|error| BrokerError::io("open", self.path(), error))
    }

    fn path(&self) -> PathBuf {
        self.dir.join(layout::MANIFEST)
    }

    fn create(&self, state: &State) -> Result<Manifest, BrokerError> {
        self.reserve.with(|| {
            Manifest::create(Arc::clone(&self.env.disk), self.dir, state.clone())
                .map_err(|error| BrokerError::io("write", self.path(), error))
        })
    }

    /// Makes a manifest good that says `state` up to the damage.
    fn repair(&self, bytes: &[u8], mut state: State, damage: Damage, report: &mut OpenReport) -> Result<Manifest, BrokerError> {
        let kept = if bytes.is_empty() { None } else { Some(self.keep(bytes)?) };
        if state.broker_id == 0 {
            state.broker_id = self.ids.next()?;
        }
        let copies: Vec<_> = self.known.iter().map(|found| self.read_copy(found)).collect();
        // Where there is no partition at all, a file system is more likely to be missing than every topic to have been deleted.
        let forgotten = if self.known.is_empty() { Vec::new() } else { rebuild::forget_deleted(&mut state, self.known) };
        let renewed = rebuild::renew(&mut state, &copies);
        let adopted = rebuild::adopt(&mut state, &copies);
        rebuild::jump(&mut state, Duration::from_nanos(self.env.clock.now()));
        let names = |topics: Vec<TopicMeta>| topics.into_iter().map(|meta| meta.name).collect();
        report.manifest =
            Some(ManifestRepair { damage, kept, adopted: names(adopted), renewed: names(renewed), forgotten: names(forgotten) });
        self.create(&state)
    }

    fn keep(&self, bytes: &[u8]) -> Result<PathBuf, BrokerError> {
        self.reserve.with(|| {
            manifest::keep_aside(&*self.env.disk, self.dir, bytes)
                .map_err(|error| BrokerError::io("keep a copy of", self.path(), error))
        })
    }

    fn read_copy(&self, found: &FoundDir) -> FoundDir {
        let partition_dir = layout::partition_dir(self.dir, found.topic, found.partition);
        FoundDir { copy: manifest::read_topic_copy(&*self.env.disk, &partition_dir), ..found.clone() }
    }
}
