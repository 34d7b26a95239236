//! What a process has of what must not grow.

use anyhow::{Context, Result};

use crate::memory::Memory;

/// Memory and descriptors of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vitals {
    pub(super) memory_bytes: u64,
    pub(super) descriptors: u64,
    /// Those of the descriptors that are sockets.
    pub(super) connections: u64,
}

impl Vitals {
    pub(super) fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/fd");
        let (mut descriptors, mut connections) = (0, 0);
        for entry in std::fs::read_dir(&path).with_context(|| format!("{path} cannot be read"))? {
            descriptors += 1;
            // One that was closed meanwhile is none.
            if let Ok(target) = std::fs::read_link(entry?.path())
                && target.to_string_lossy().starts_with("socket:")
            {
                connections += 1;
            }
        }
        Ok(Self { memory_bytes: Memory::of(pid)?.now_bytes, descriptors, connections })
    }
}
