//! The process, as Linux tells of it under `/proc`.

use std::fs;
use std::io;

/// What the process takes. Numbers that the system does not tell are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessMetrics {
    /// Processor time in user and system mode, of all threads, in seconds.
    pub cpu_seconds: f64,
    /// Processors that it may use.
    pub cpus: u64,
    /// Memory that is really there, in bytes.
    pub resident_bytes: u64,
    /// Address space, in bytes.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// The limit on them.
    pub max_fds: u64,
    /// When it was started, in seconds since the Unix epoch.
    pub start_time_seconds: f64,
}

impl ProcessMetrics {
    /// As it is now.
    ///
    /// # Errors
    /// `/proc` cannot be read, or is not what Linux writes.
    pub fn read() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        let fields = Fields::parse(&stat).ok_or(io::ErrorKind::InvalidData)?;
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let seconds = |count: u64| seconds(count, ticks);
        Ok(Self {
            cpu_seconds: seconds(fields.user_ticks.saturating_add(fields.system_ticks)),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64),
            resident_bytes: fields.resident_pages.saturating_mul(rustix::param::page_size() as u64),
            virtual_bytes: fields.virtual_bytes,
            threads: fields.threads,
            // One of them reads the directory.
            open_fds: fs::read_dir("/proc/self/fd").map_or(0, |fds| (fds.count() as u64).saturating_sub(1)),
            max_fds: rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX),
            start_time_seconds: boot_time().map_or(0.0, |booted| booted + seconds(fields.start_ticks)),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a process are far fewer than 2^53")]
fn seconds(count: u64, per_second: u64) -> f64 {
    count as f64 / per_second as f64
}

#[derive(Debug, PartialEq, Eq)]
struct Fields {
    user_ticks: u64,
    system_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Fields {
    /// proc(5): numbered from 1, of which the second, the name in brackets, may hold anything.
    fn parse(stat: &str) -> Option<Self> {
        let (_, behind_name) = stat.rsplit_once(')')?;
        let fields: Vec<_> = behind_name.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number.checked_sub(3)?)?.parse().ok();
        Some(Self {
            user_ticks: field(14)?,
            system_ticks: field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// In seconds since the Unix epoch.
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets_and_blanks() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 170 0 0 0 11 12 0 0 20 0 3 0 555 4096000 250 18446744073709551615 1 1";
        let fields = Fields {
            user_ticks: 11,
            system_ticks: 12,
            threads: 3,
            start_ticks: 555,
            virtual_bytes: 4_096_000,
            resident_pages: 250,
        };
        assert_eq!(Fields::parse(stat), Some(fields));
        assert_eq!(Fields::parse("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_is_told_as_it_is() {
        let told = ProcessMetrics::read().unwrap();
        assert!(told.resident_bytes > 1 << 20 && told.virtual_bytes > told.resident_bytes, "{told:?}");
        assert!(told.threads > 0 && told.open_fds > 2 && told.max_fds >= told.open_fds && told.cpus > 0, "{told:?}");
        assert!(told.start_time_seconds > 1.6e9, "{told:?}");
    }
}
