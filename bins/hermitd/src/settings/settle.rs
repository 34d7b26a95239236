//! From what was said to settings that hold: defaults, ranges, and values that must fit each other.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use hermit_broker::{BrokerConfig, Durability, Limits, TopicSettings};

use super::Settings;
use super::table::{DurabilityName, Given, ImportName};
use crate::descriptors;

impl Given {
    /// Fills in the defaults, and checks the values against each other.
    pub(super) fn settle(self) -> anyhow::Result<Settings> {
        self.check_ranges()?;
        let threads = self.threads.unwrap_or(2);
        let mut broker = BrokerConfig::new(self.data_dir.clone().unwrap_or_else(|| "./hermit-data".into()));
        let topics = TopicSettings::default();
        broker.topic_defaults = TopicSettings {
            durability: match self.durability {
                None | Some(DurabilityName::Sync) => Durability::Sync,
                Some(DurabilityName::Os) => Durability::Os,
            },
            segment_bytes: self.segment_bytes.unwrap_or(topics.segment_bytes),
            retention_age_ms: self.retention_age_ms.unwrap_or(topics.retention_age_ms),
            retention_bytes: self.retention_bytes.unwrap_or(topics.retention_bytes),
            ..topics
        };
        set(&mut broker.log.os_flush_interval, self.os_flush_interval_ms.map(Duration::from_millis));
        set(&mut broker.create_topics, self.create_topics);
        set(&mut broker.default_partitions, self.default_partitions);
        set(&mut broker.maintenance_interval, self.maintenance_interval_s.map(Duration::from_secs));
        set(&mut broker.scrub_bytes_per_second, self.scrub_bytes_per_second);
        set(&mut broker.scrub_interval, self.scrub_interval_s.map(Duration::from_secs));
        set(&mut broker.max_open_files, self.max_open_files);
        set(&mut broker.flush_threads, self.flush_threads);
        broker.offsets_retention = self.offsets_retention_ms.map(Duration::from_millis);
        let limits = &mut broker.limits;
        if let Some(bytes) = self.max_frame_bytes {
            limits.max_frame_bytes = bytes;
            // A request must hold the largest frame, and the budget the largest request.
            limits.max_request_bytes = limits.max_request_bytes.max(bytes.saturating_add(REQUEST_ROOM));
        }
        set(&mut limits.max_record_count, self.max_record_count);
        set(&mut limits.max_connections, self.max_connections);
        set(&mut limits.max_connections_per_address, self.max_connections_per_address);
        set(&mut limits.max_handshakes, self.max_handshakes);
        set(&mut limits.min_large_frame_rate, self.min_large_frame_rate);
        set(&mut limits.max_inflight_bytes, self.max_inflight_bytes);
        set(&mut limits.max_subscriptions, self.max_subscriptions);
        set(&mut limits.max_partitions, self.max_partitions);
        self.settle_groups(limits);
        set(&mut limits.handshake_timeout, self.handshake_timeout_ms.map(Duration::from_millis));
        set(&mut limits.frame_timeout, self.frame_timeout_ms.map(Duration::from_millis));
        set(&mut limits.write_timeout, self.write_timeout_ms.map(Duration::from_millis));
        set(&mut limits.heartbeat_interval, self.heartbeat_interval_ms.map(Duration::from_millis));
        set(&mut limits.drain_timeout, self.drain_timeout_ms.map(Duration::from_millis));
        if let Some(low) = self.disk_low_bytes {
            limits.disk_low_bytes = low;
            limits.disk_high_bytes = low.saturating_mul(2);
        }
        set(&mut limits.disk_high_bytes, self.disk_high_bytes);
        self.settle_access(&mut broker.access)?;
        broker.tls = self.settle_tls()?;
        check_dir(&broker.data_dir)?;
        check_frame_fits(&broker.limits)?;
        broker.check()?;
        let listen = self.listen.unwrap_or_else(|| "127.0.0.1:9092".into());
        check_address("listen", &listen, "such as 127.0.0.1:9092")?;
        let http = super::http::settle(self.http.as_deref())?;
        let log = self.log.unwrap_or_else(|| "info".into());
        super::log::check(&log)?;
        let import = self.import.unwrap_or(ImportName::Auto);
        let insecure = self.insecure.unwrap_or(false);
        Ok(Settings { broker, listen, http, insecure, threads, log, import, notes: Vec::new() })
    }

    fn settle_groups(&self, limits: &mut Limits) {
        set(&mut limits.max_active_groups, self.max_active_groups);
        set(&mut limits.max_group_members, self.max_group_members);
        set(&mut limits.max_member_subscriptions, self.max_member_subscriptions);
        set(&mut limits.max_pattern_bytes, self.max_pattern_bytes);
        set(&mut limits.max_group_positions, self.max_group_positions);
        set(&mut limits.max_membership_bytes, self.max_membership_bytes);
        set(&mut limits.min_session_timeout, self.min_session_timeout_ms.map(Duration::from_millis));
        set(&mut limits.default_session_timeout, self.default_session_timeout_ms.map(Duration::from_millis));
        set(&mut limits.max_session_timeout, self.max_session_timeout_ms.map(Duration::from_millis));
        set(&mut limits.min_processing_timeout, self.min_processing_timeout_ms.map(Duration::from_millis));
        set(&mut limits.default_processing_timeout, self.default_processing_timeout_ms.map(Duration::from_millis));
        set(&mut limits.max_processing_timeout, self.max_processing_timeout_ms.map(Duration::from_millis));
        set(&mut limits.group_initial_delay, self.group_initial_delay_ms.map(Duration::from_millis));
        set(&mut limits.group_return_delay, self.group_return_delay_ms.map(Duration::from_millis));
    }

    /// Refuses values that would make the broker useless, or more than a machine has.
    fn check_ranges(&self) -> anyhow::Result<()> {
        let files = self.max_open_files.map(|files| files as u64);
        within("threads", self.threads.map(|threads| threads as u64), 1..=MOST_THREADS)?;
        within("flush_threads", self.flush_threads.map(|threads| threads as u64), 1..=MOST_THREADS)?;
        within("max_open_files", files, descriptors::FEWEST_FILES as u64..=u64::from(u32::MAX))?;
        within("os_flush_interval_ms", self.os_flush_interval_ms, 1..=HOUR_MS)?;
        within("maintenance_interval_s", self.maintenance_interval_s, 1..=YEAR_MS / 1000)?;
        within("scrub_interval_s", self.scrub_interval_s, 1..=YEAR_MS / 1000)?;
        within("handshake_timeout_ms", self.handshake_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("frame_timeout_ms", self.frame_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("write_timeout_ms", self.write_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("drain_timeout_ms", self.drain_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("max_session_timeout_ms", self.max_session_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("max_processing_timeout_ms", self.max_processing_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("group_initial_delay_ms", self.group_initial_delay_ms, 0..=HOUR_MS)?;
        within("group_return_delay_ms", self.group_return_delay_ms, 0..=HOUR_MS)?;
        within("heartbeat_interval_ms", self.heartbeat_interval_ms, 0..=YEAR_MS)
    }
}

/// What a request may be larger than the largest frame.
const REQUEST_ROOM: u32 = 1 << 20;
/// More threads are a slip of the keyboard.
const MOST_THREADS: u64 = 1024;
/// A shorter timeout cuts off clients that are merely far away.
const SHORTEST_MS: u64 = 100;
/// Whoever wants more than an hour unflushed wants no flush at all.
const HOUR_MS: u64 = 3600 * 1000;
const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

fn within(name: &str, value: Option<u64>, allowed: RangeInclusive<u64>) -> anyhow::Result<()> {
    match value {
        Some(value) if !allowed.contains(&value) => {
            bail!("`{name}` is {value}: it must be at least {} and at most {}", allowed.start(), allowed.end())
        }
        _ => Ok(()),
    }
}

/// Refuses a largest frame that cannot be received, in terms of settings: the largest request is none, and follows the frame.
fn check_frame_fits(limits: &Limits) -> anyhow::Result<()> {
    let frame = u64::from(limits.max_frame_bytes);
    within("max_frame_bytes", Some(frame), 1024..=u64::from(u32::MAX - REQUEST_ROOM))?;
    let least = u64::from(limits.max_request_bytes) + (64 << 10);
    if limits.max_inflight_bytes < least {
        let inflight = limits.max_inflight_bytes;
        bail!(
            "`max_inflight_bytes` is {inflight}: with `max_frame_bytes` of {frame} it must be at least {least}; raise it, or lower `max_frame_bytes`"
        );
    }
    Ok(())
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

pub(super) fn check_address(setting: &str, address: &str, such_as: &str) -> anyhow::Result<()> {
    match address.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => Ok(()),
        _ => bail!("`{setting}` is `{address}`: give an address and a port, {such_as}"),
    }
}

fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let address = inner.unwrap_or(host).split('%').next().unwrap_or_default();
    let is_name = || !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    address.parse::<std::net::Ipv6Addr>().is_ok() || (inner.is_none() && is_name())
}

fn check_dir(dir: &Path) -> anyhow::Result<()> {
    if dir.as_os_str().is_empty() || dir.as_os_str().as_encoded_bytes().contains(&0) {
        bail!("`data_dir` is {dir:?}: name a directory, such as ./hermit-data");
    }
    Ok(())
}
