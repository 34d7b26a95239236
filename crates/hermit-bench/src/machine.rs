//! What the figures were measured on.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The machine, its system, and the program's version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor, as it calls itself.
    pub processor: String,
    /// How many of its cores there are.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: String,
    /// The file system of the data, and the device that it lies on.
    pub file_system: String,
    /// The commit that this was built from, if it is known; with `+` if files were changed since.
    pub commit: String,
}

impl Machine {
    /// Of the folder's disk. What cannot be found out is "unknown".
    #[must_use]
    pub fn of(dir: &Path) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let kernel = rustix::system::uname();
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            memory_bytes: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|kib| kib.strip_suffix(" kB")?.parse::<u64>().ok())
                .unwrap_or(0)
                * 1024,
            kernel: format!("{} {}", kernel.sysname().to_string_lossy(), kernel.release().to_string_lossy()),
            file_system: std::fs::canonicalize(dir)
                .ok()
                .and_then(|dir| mounted(&read("/proc/self/mounts"), &dir))
                .unwrap_or_else(unknown),
            commit: commit().unwrap_or_else(unknown),
        }
    }
}

/// The value behind `name :` in a file of such lines.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Type and device of the mount that a folder lies in: the one with the longest path.
fn mounted(mounts: &str, dir: &Path) -> Option<String> {
    let rows = mounts.lines().filter_map(|row| {
        let mut words = row.split(' ');
        let (device, place, kind) = (words.next()?, words.next()?, words.next()?);
        dir.starts_with(place).then_some((place.len(), format!("{kind} on {device}")))
    });
    rows.max_by_key(|(length, _)| *length).map(|(_, what)| what)
}

fn commit() -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(git(&["rev-parse", "--short=12", "HEAD"])? + if changed.is_empty() { "" } else { "+" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_the_innermost_one() {
        let mounts = "/dev/a / ext4 rw 0 0\n/dev/b /data xfs rw 0 0\ntmpfs /data/tmp tmpfs rw 0 0\n";
        assert_eq!(mounted(mounts, Path::new("/data/x")).unwrap(), "xfs on /dev/b");
        assert_eq!(mounted(mounts, Path::new("/home")).unwrap(), "ext4 on /dev/a");
        assert_eq!(field("a : 1\nMemTotal:  5 kB\n", "MemTotal").unwrap(), "5 kB");
    }
}
