//! The memory of another process, as Linux counts it.

use anyhow::{Context, Result};

/// Resident memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes now.
    pub now_bytes: u64,
    /// The most it ever had, since it began or since [`reset_peak`].
    pub peak_bytes: u64,
}

impl Memory {
    /// Reads it from `/proc/PID/status`.
    ///
    /// # Errors
    ///
    /// When the process is gone.
    pub fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/status");
        let status = std::fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
        Self::parse(&status).with_context(|| format!("{path} is not understood"))
    }

    fn parse(status: &str) -> Option<Self> {
        let bytes = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(Self { now_bytes: bytes("VmRSS")?, peak_bytes: bytes("VmHWM")? })
    }
}

/// Makes the peak begin anew, from what the process has now.
///
/// # Errors
///
/// When the process is gone, or belongs to somebody else.
pub fn reset_peak(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    std::fs::write(&path, "5").with_context(|| format!("{path} cannot be written"))
}

/// Bytes as `12.3 MiB`.
#[must_use]
pub fn mib(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10).div_ceil(1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_and_present_are_read_from_their_lines() {
        let status = "Name:\thermitd\nVmPeak:\t  999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(Memory::parse(status), Some(Memory { now_bytes: 1 << 20, peak_bytes: 2 << 20 }));
        assert_eq!(Memory::parse("VmHWM:\t 1 kB\n"), None);
    }

    #[test]
    fn this_process_has_some() {
        let memory = Memory::of(std::process::id()).unwrap();
        assert!(memory.now_bytes > 0 && memory.peak_bytes >= memory.now_bytes);
    }

    #[test]
    fn mebibytes_are_rounded_up() {
        assert_eq!([0, 1, 1 << 20, (64 << 20) + 1].map(mib), ["0.0 MiB", "0.1 MiB", "1.0 MiB", "64.1 MiB"]);
    }
}
