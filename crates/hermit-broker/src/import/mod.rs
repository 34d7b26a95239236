//! Taking over the data directory of an older HermitMQ (version 1).
//!
//! | step | what |
//! | --- | --- |
//! | look | [`look`]: whether a data directory is an old one, and none of this release yet |
//! | plan | [`plan`]: everything is read once, and told; nothing is written |
//! | run | [`run`]: the space is checked; the logs are copied; the manifest is written last |
//!
//! The old files are only read. The new ones stand beside them, in `partitions/`, also where the old directory is the new one. Offsets, timestamps,
//! keys and payloads are those of the old log; append times are those of the import, so that retention counts from then. The older format has no
//! checksums: those of the new frames are made here, and the frames say so.
//!
//! **Power cuts.** The file `importing` names, before anything else is written, the topics that the import makes, and where it reads. They count only
//! once the manifest is there, which is written in one step, after everything was flushed. A start that finds `importing` without a manifest removes those
//! topics and begins anew; one that finds both removes the file. So an import is seen whole or not at all, and never done twice.

mod copy;
mod error;
mod findings;
mod marker;
mod old_dir;
mod plan;
mod positions;
mod run;
mod segment;
#[cfg(test)]
mod testing;
mod walk;

use std::io;
use std::path::{Path, PathBuf};

use hermit_log::LogEnv;
use hermit_log::disk::{Disk, RealDisk};
use hermit_proto::{PartitionId, TopicName};

use crate::config::BrokerConfig;
use crate::layout;

pub use error::ImportError;
pub use findings::{Finding, Problem};
pub(crate) use marker::{guard, is_old, refuse_old};
pub use plan::{PartitionPlan, Plan, TopicPlan};
pub use segment::Broken;

/// What a data directory is, as far as an import is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or nothing that HermitMQ has made.
    Nothing,
    /// The data of this release.
    Current,
    /// The data of an older HermitMQ.
    Older,
    /// An import that did not come to its end; [`run`] removes what it has made and begins anew.
    Unfinished {
        /// The old data directory that it reads.
        from: PathBuf,
    },
}

/// How far an import is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The topic that is being copied.
    pub topic: &'a TopicName,
    /// Its partition.
    pub partition: PartitionId,
    /// Bytes of keys and payloads that were copied so far, in all partitions.
    pub done_bytes: u64,
    /// Bytes of keys and payloads in all partitions.
    pub total_bytes: u64,
}

/// Looks what a data directory is; only names are read.
///
/// # Errors
/// [`ImportError::Io`] where it cannot be listed.
pub fn look(data_dir: &Path) -> Result<Found, ImportError> {
    look_on(&RealDisk, data_dir)
}

/// [`look`], on a disk of the caller's.
///
/// # Errors
/// As [`look`].
pub fn look_on(disk: &dyn Disk, data_dir: &Path) -> Result<Found, ImportError> {
    let has = |name| {
        let path = data_dir.join(name);
        disk.exists(&path).map_err(|error| ImportError::io("look for", path, error))
    };
    if has(layout::MANIFEST)? || has(layout::CLEAN)? {
        return Ok(Found::Current);
    }
    if let Some(begun) = marker::read(disk, data_dir)? {
        return Ok(Found::Unfinished { from: begun.from(data_dir) });
    }
    let has_partitions = match disk.list(&layout::partitions_dir(data_dir)) {
        Ok(entries) => !entries.is_empty(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(ImportError::io("list", layout::partitions_dir(data_dir), error)),
    };
    if has_partitions {
        // Its manifest is lost, and its broker makes it good.
        return Ok(Found::Current);
    }
    let is_old = old_dir::is_old(disk, data_dir).map_err(|error| ImportError::io("list", data_dir, error))?;
    Ok(if is_old { Found::Older } else { Found::Nothing })
}

/// Reads an old data directory and tells what [`run`] would make of it, into `config.data_dir`, which may be the same directory. Writes nothing.
///
/// # Errors
/// [`ImportError::NothingThere`], and [`ImportError::Io`] where something cannot be read. What keeps the import from being done is in
/// the plan: see [`Plan::check`].
pub fn plan(old_dir: &Path, config: &BrokerConfig) -> Result<Plan, ImportError> {
    plan_on(&RealDisk, old_dir, config)
}

/// [`plan`], on a disk of the caller's.
///
/// # Errors
/// As [`plan`].
pub fn plan_on(disk: &dyn Disk, old_dir: &Path, config: &BrokerConfig) -> Result<Plan, ImportError> {
    Ok(plan::make(disk, old_dir, config)?.plan)
}

/// Imports an old data directory into `config.data_dir`, which must not hold a broker's data yet and may be the same directory. The topics get the
/// settings `config.topic_defaults`. `tell` is called about once a MiB. Gives the plan that was carried out.
///
/// The old files are left as they are.
///
/// # Errors
/// [`ImportError`] says what to do. What was written is removed then; where it had begun to write, [`Found::Unfinished`] is what is left, so that nobody starts
/// an empty broker there.
pub fn run(old_dir: &Path, config: &BrokerConfig, mut tell: impl FnMut(&Progress<'_>)) -> Result<Plan, ImportError> {
    config.check()?;
    let env = crate::env::real(config)?;
    run::run(old_dir, config, &env, &mut tell)
}

/// [`run`], on a disk, a clock and a flusher of the caller's.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    old_dir: &Path,
    config: &BrokerConfig,
    env: &LogEnv,
    mut tell: impl FnMut(&Progress<'_>),
) -> Result<Plan, ImportError> {
    config.check()?;
    run::run(old_dir, config, env, &mut tell)
}
