//! Flushes, while others change the directory.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hermit_log::disk::sim::{SimDisk, Survival};
use hermit_log::disk::{DirLock, Disk, DiskFile, Entry, Mapping, Open};
use hermit_log::{Durability, Flusher, Log, LogConfig, LogEnv, LogIdentity, Start};
use hermit_proto::{LeaderEpoch, Offset};

use crate::rig::{Bench, Deaf, append, append_many, consume, dir};

/// A disk that appends a frame to the log, in a segment of its own, while the first sync of a file runs.
#[derive(Debug)]
struct Intruder {
    disk: SimDisk,
    log: Arc<Mutex<Option<Log>>>,
}

#[derive(Debug)]
struct IntruderFile {
    file: Arc<dyn DiskFile>,
    log: Arc<Mutex<Option<Log>>>,
}

impl Disk for Intruder {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(dir)
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(IntruderFile { file: self.disk.open(path, how)?, log: Arc::clone(&self.log) }))
    }
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.disk.file_len(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        self.disk.lock(path)
    }
}

impl DiskFile for IntruderFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buf, position)
    }
    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        self.file.write_at(buf, position)
    }
    fn sync_data(&self) -> io::Result<()> {
        let log = self.log.lock().unwrap().take();
        if let Some(log) = log {
            append(&log);
        }
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }
    fn map(&self, len: usize) -> io::Result<Mapping> {
        self.file.map(len)
    }
    fn cached(&self, position: u64, len: u64) -> bool {
        self.file.cached(position, len)
    }
    fn will_need(&self, position: u64, len: u64) {
        self.file.will_need(position, len);
    }
    fn drop_cached(&self, position: u64, len: u64) {
        self.file.drop_cached(position, len);
    }
}

#[test]
fn a_segment_that_is_trimmed_while_it_waits_for_a_flush_does_not_end_flushing() {
    let bench = Bench::new();
    let log_slot = Arc::new(Mutex::new(None));
    let clock = Arc::clone(&bench.clock);
    let disk = Intruder { disk: bench.disk.clone(), log: Arc::clone(&log_slot) };
    let env = LogEnv::new(Arc::new(disk), Arc::clone(&clock) as _, Flusher::manual(clock), 64);
    let start = Start { clean: false, leader_epoch: LeaderEpoch(0) };
    let config = LogConfig { segment_bytes: 1000, durability: Durability::Os, ..LogConfig::default() };
    let (log, _) = Log::open_in(&env, dir(), LogIdentity::default(), config, start, Arc::new(Deaf)).unwrap();
    append_many(&log, 10);
    // The trim flushes; while that runs, the next append rolls.
    *log_slot.lock().unwrap() = Some(log.clone());
    log.trim(Offset(10)).unwrap();
    assert_eq!((log.bounds().log_start, log.bounds().log_end), (Offset(10), Offset(11)));
    log.flush().unwrap();
    assert_eq!(log.bounds().flushed_end, Offset(11));
}

#[test]
fn a_directory_that_a_killed_process_left_is_made_durable() {
    let bench = Bench::new();
    bench.disk.create_dir_all(dir()).unwrap();
    bench.disk.kill();
    let (log, _) = bench.open(&LogConfig::default(), false, 0);
    append(&log);
    log.flush().unwrap();
    drop(log);
    bench.disk.crash_with(Survival::Nothing, 1);
    let (log, _) = bench.open(&LogConfig::default(), false, 1);
    assert_eq!(consume(&log, 0, 100).frames, vec![0]);
}
