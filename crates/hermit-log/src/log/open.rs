//! Opening and closing.

use std::path::Path;
use std::sync::Arc;

use hermit_proto::{FrameSalt, LeaderEpoch, Offset};
use parking_lot::{Condvar, Mutex, RwLock};

use super::{Active, Flushing, Inner, Log, LogEnv, LogIdentity, LogListener, Maintaining, NobodyListens, Room, State, Turn};
use crate::checkpoint::{Checkpoint, CheckpointWriter};
use crate::compacted;
use crate::config::LogConfig;
use crate::dir_watch::DirWatch;
use crate::disk::{DirLock, Disk, JointSync};
use crate::error::LogError;
use crate::metrics::Counts;
use crate::names::{self, FileName};
use crate::recovery::{Opening, RecoveryReport, recover};
use crate::segment::SegmentEnv;
use crate::view::{End, View};

/// What the opener knows of the last stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Everything had been flushed and [`Log::close`] had returned: nothing need be read, and damage is rot.
    pub clean: bool,
    /// The epoch of new frames; higher than any before after a stop that was not clean.
    pub leader_epoch: LeaderEpoch,
}

impl Log {
    /// Opens the log in `dir` for this process alone, creating it where there is none, with threads of its own. A log of a broker is opened with
    /// [`Log::open_in`].
    ///
    /// # Errors
    /// [`LogError::Io`] where the directory cannot be used or another process uses it.
    pub fn open(dir: &Path, config: LogConfig) -> Result<(Self, RecoveryReport), LogError> {
        let env = LogEnv::real(1, 256).map_err(|source| LogError::io("start the flush threads for", dir, source))?;
        let disk = Arc::clone(&env.disk);
        create_dir(&*disk, dir)?;
        let lock_path = dir.join(names::LOCK);
        let lock = disk.lock(&lock_path).map_err(|source| LogError::io("lock", &lock_path, source))?;
        let marker = dir.join(names::CLEAN);
        let clean = disk.exists(&marker).map_err(|source| LogError::io("look for", &marker, source))?;
        if clean {
            disk.remove_file(&marker)
                .and_then(|()| disk.sync_dir(dir))
                .map_err(|source| LogError::io("remove", &marker, source))?;
        }
        let start = Start { clean, leader_epoch: LeaderEpoch::UNKNOWN };
        Self::open_as(&env, dir, LogIdentity::default(), config, start, Arc::new(NobodyListens), Some(lock))
    }

    /// Opens a log of many. The directory is created where there is none; the caller keeps other processes away from it.
    ///
    /// A `leader_epoch` of [`LeaderEpoch::UNKNOWN`] stands for one more than the log has seen, or the same after a clean stop.
    ///
    /// # Errors
    /// [`LogError::Io`] where the directory cannot be read or written. Damage is no error: it is fenced or cut, and reported.
    pub fn open_in(
        env: &LogEnv,
        dir: &Path,
        identity: LogIdentity,
        config: LogConfig,
        start: Start,
        listener: Arc<dyn LogListener>,
    ) -> Result<(Self, RecoveryReport), LogError> {
        Self::open_as(env, dir, identity, config, start, listener, None)
    }

    fn open_as(
        env: &LogEnv,
        dir: &Path,
        identity: LogIdentity,
        config: LogConfig,
        start: Start,
        listener: Arc<dyn LogListener>,
        lock: Option<Box<dyn DirLock>>,
    ) -> Result<(Self, RecoveryReport), LogError> {
        let watch = Arc::new(DirWatch::new(Arc::clone(&env.disk)));
        let env = LogEnv { disk: Arc::clone(&watch) as Arc<dyn Disk>, ..env.clone() };
        let disk = &*env.disk;
        create_dir(disk, dir)?;
        let segment_env = SegmentEnv {
            files: env.files.clone(),
            maps: env.maps.clone(),
            salt: FrameSalt::new(identity.topic, identity.partition),
            index_interval_bytes: config.index_interval_bytes.max(1),
        };
        let joint = env.file_systems.of(disk, dir);
        let compacted_end = compacted::read(disk, dir, &segment_env.salt)
            .map_err(|source| LogError::io("read", &dir.join(names::COMPACTED), source))?;
        let mut opening = Opening {
            disk,
            dir,
            env: &segment_env,
            joining: JointSync::begin(joint.as_deref()),
            compacted_end,
            clean: start.clean,
            leader_epoch: start.leader_epoch,
        };
        if start.leader_epoch == LeaderEpoch::UNKNOWN {
            opening.leader_epoch = crate::recovery::next_epoch(&opening)?;
        }
        let recovered = recover(&opening)?;
        let leader_epoch = opening.leader_epoch;
        let last = recovered.segments.last();
        let end = End {
            offset: recovered.log_end,
            segment: last.map_or(recovered.log_end, |last| last.base),
            position: last.map_or(0, |_| recovered.last_len_bytes),
        };
        let active = last.filter(|_| recovered.continues).map(|segment| Active {
            segment: Arc::clone(segment),
            file: None,
            position: recovered.last_len_bytes,
            first_append_time: None,
            room: Room::default(),
        });
        let state = State {
            config,
            leader_epoch,
            active,
            log_end: recovered.log_end,
            appended_bytes: 0,
            flushed_bytes: 0,
            last_append_time: recovered.last_append_time,
            unsynced: Vec::new(),
            unsynced_dir: false,
            is_past_failure: false,
            producers: None,
            snapshot: None,
            snapshot_at_bytes: 0,
            failed: None,
            closed: false,
            turn: Turn::default(),
        };
        let last_checkpoint = Checkpoint::read(disk, dir, &segment_env.salt);
        let mut checkpoint = CheckpointWriter::new(dir, segment_env.salt, last_checkpoint, start.clean);
        if last_checkpoint.is_none()
            && compacted_end.is_some()
            && let Err(error) = checkpoint.settle_both(disk, end.offset, end.segment, end.position)
        {
            // Until there is one, a segment that a power cut takes passes for compacted away.
            tracing::warn!(dir = %dir.display(), error = %crate::error::error_line(&error), "cannot store the first checkpoint");
        }
        opening.joining.is_sound()?;
        let view = View::new(recovered.segments, recovered.fenced, recovered.log_start, end);
        let inner = Inner {
            env: env.clone(),
            file_system: joint.map(|joint| Arc::clone(joint.file_system())),
            watch,
            dir: dir.to_owned(),
            // Where it cannot be told, nothing is gained.
            overwrites_in_place: disk.overwrites_in_place(dir).unwrap_or(false),
            identity,
            segment_env,
            listener,
            flushing: Mutex::new(Flushing { checkpoint, checkpointed_at: None }),
            maintaining: Mutex::new(Maintaining { compacted_end: compacted_end.unwrap_or(Offset::ZERO), ..Maintaining::default() }),
            state: Mutex::new(state),
            flushed: Condvar::new(),
            fencing: Mutex::default(),
            view: RwLock::new(view),
            counts: Counts::default(),
            lock: Mutex::new(lock),
        };
        Ok((Self { inner: Arc::new(inner) }, recovered.report))
    }
}

/// Creates the directory and makes its name durable, so that what is acknowledged in it is not lost with it.
pub(super) fn create_dir(disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
    let exists = |dir: &Path| disk.exists(dir).map_err(|source| LogError::io("look for", dir, source));
    let sync_parent = |dir: &Path| {
        let Some(parent) = dir.parent() else { return Ok(()) };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        disk.sync_dir(parent).map_err(|source| LogError::io("sync", parent, source))
    };
    if exists(dir)? {
        // Its name may be not yet durable, where whoever created it came no further. Nothing was written into it then.
        let listed = disk.list(dir).map_err(|source| LogError::io("list", dir, source))?;
        let is_used = listed.iter().any(|entry| matches!(FileName::parse(&entry.name), Some(FileName::Wal(_))));
        return if is_used { Ok(()) } else { sync_parent(dir) };
    }
    let mut missing = vec![dir];
    while let Some(parent) = missing.last().and_then(|dir| dir.parent()).filter(|parent| !parent.as_os_str().is_empty()) {
        if exists(parent)? {
            break;
        }
        missing.push(parent);
    }
    disk.create_dir_all(dir).map_err(|source| LogError::io("create", dir, source))?;
    missing.into_iter().rev().try_for_each(sync_parent)
}
