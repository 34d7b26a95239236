//! Every limit of the broker.

use std::time::Duration;

use hermit_proto::FrameLimits;

/// What the broker allows. Memory is bounded by these numbers, never by what a client declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of key and payload together in one frame. Default 50 MiB, smallest sensible 1 KiB. One connection can make the broker
    /// hold about twice as much, if it really sends it.
    pub max_frame_bytes: u32,
    /// Most offsets that one frame may take. Default 1,000,000, at least 1. A larger number lets one frame burn more offsets.
    pub max_record_count: u32,
    /// Most bytes of key and payload together in one request of a version-2 session. Default 51 MiB; it must hold the largest frame and
    /// 1 KiB more.
    pub max_request_bytes: u32,
    /// Most connections at a time. Default 10,000, at least 1. An idle one costs some KiB and one descriptor.
    pub max_connections: usize,
    /// Most connections at a time from one address (IPv6: from one /64 network). Default 5,000, at least 1. Behind a proxy or an address translation all
    /// clients are one address: then it should be `max_connections`.
    pub max_connections_per_address: usize,
    /// Most connections that have not finished their handshake. Default 1,000, at least 1. They do not count among `max_connections`; where one more
    /// comes, the oldest of the address that has most of them is closed. One costs some KiB, 16 KiB at most for what it sends, and one descriptor.
    pub max_handshakes: usize,
    /// Most bytes *received* and not yet handed on, over all connections. Default 256 MiB; it must hold one request. At the limit the
    /// broker stops reading, so that TCP slows the senders down. Three quarters of it are for frames over 64 KiB, which are read when
    /// there is room for all of them, in turns; a version-1 frame counts twice.
    pub max_inflight_bytes: u64,
    /// Bytes in a second below which the sender of a frame over 64 KiB gives others that wait their turn, and is closed where that is not possible.
    /// Default 4 MiB, at least 1 KiB. A large one closes senders on slow lines under load; a small one has everybody wait for them.
    pub min_large_frame_rate: u64,
    /// Most answers that one connection may be owed. Default 10,000, at least 1. At the limit the broker stops reading from it.
    pub max_pending_answers: usize,
    /// Most subscriptions in one version-2 session. Default 1,024, at least 1. One costs some 300 bytes.
    pub max_subscriptions: u32,
    /// Most partitions of one topic. Default 1,024, at least 1.
    pub max_partitions: u32,
    /// Most partitions of all topics together. Default 100,000. One costs some KiB and, while it is written to, a descriptor.
    pub max_total_partitions: usize,
    /// Most positions (group, topic, partition) that are kept. Default 1,000,000. One costs some 150 bytes.
    pub max_committed_positions: usize,
    /// Most positions of one group. Default 100,000, at least 1. It keeps one group from using up `max_committed_positions`.
    pub max_group_positions: usize,
    /// Most bytes that the members of all groups take together, counted roughly: their names, what they subscribe to, and what they are assigned. Default
    /// 256 MiB, at least 64 KiB.
    pub max_membership_bytes: u64,
    /// Most consumer groups with members at a time. Default 10,000, at least 1. One costs some KiB, and some 200 bytes for each of its partitions.
    pub max_active_groups: u32,
    /// Most members of one group. Default 1,000, at least 1. One costs some KiB, and what its subscription takes.
    pub max_group_members: u32,
    /// Most topics and patterns together that one member subscribes to. Default 256, at least 1. A topic costs its name; the patterns of
    /// all members, shared where they are the same, take 64 MiB at most.
    pub max_member_subscriptions: u32,
    /// Most bytes of one pattern for names of topics. Default 1,024, at least 1.
    pub max_pattern_bytes: u32,
    /// The shortest session timeout that a member may ask for. Default 1 s. A short one fences members that only pause.
    pub min_session_timeout: Duration,
    /// The session timeout of members that do not ask for one. Default 10 s. Members send heartbeats three times as often.
    pub default_session_timeout: Duration,
    /// The longest session timeout that a member may ask for. Default 30 min. For so long a member that vanished keeps its partitions.
    pub max_session_timeout: Duration,
    /// The shortest processing timeout that a member may ask for. Default 1 s.
    pub min_processing_timeout: Duration,
    /// The processing timeout of members that do not ask for one: in this time they give up what they are asked to. Default 5 min.
    pub default_processing_timeout: Duration,
    /// The longest processing timeout that a member may ask for. Default 24 h. For so long a member can hold up the others' rebalancing.
    pub max_processing_timeout: Duration,
    /// Time that a new group waits for more members before its partitions are divided. Default 100 ms; zero: not at all.
    pub group_initial_delay: Duration,
    /// The same where a member claims what it held before, so that others can come back with theirs: after a restart of the broker. What is
    /// claimed is granted at once. Default 3 s; at least `group_initial_delay` is waited.
    pub group_return_delay: Duration,
    /// Time for the whole handshake of a connection. Default 5 s.
    pub handshake_timeout: Duration,
    /// A frame or request once begun must bring a byte in this time. Default 30 s.
    pub frame_timeout: Duration,
    /// A version-2 client must take a byte in this time while something is being sent. Default 60 s.
    pub write_timeout: Duration,
    /// A version-2 session is closed after three times this time without a byte from the client. Default 10 s; zero: never.
    pub heartbeat_interval: Duration,
    /// Time that a graceful stop gives connections to get their answers. Default 10 s.
    pub drain_timeout: Duration,
    /// Below so many free bytes on the disk, produce requests are refused. Default 64 MiB; zero: only when the disk says so.
    pub disk_low_bytes: u64,
    /// From so many free bytes on, they are accepted again. Default 128 MiB, at least `disk_low_bytes`.
    pub disk_high_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame_bytes: 50 << 20,
            max_record_count: 1_000_000,
            max_request_bytes: 51 << 20,
            max_connections: 10_000,
            max_connections_per_address: 5000,
            max_handshakes: 1000,
            max_inflight_bytes: 256 << 20,
            min_large_frame_rate: 4 << 20,
            max_pending_answers: 10_000,
            max_subscriptions: 1024,
            max_partitions: 1024,
            max_total_partitions: 100_000,
            max_committed_positions: 1_000_000,
            max_group_positions: 100_000,
            max_membership_bytes: 256 << 20,
            max_active_groups: 10_000,
            max_group_members: 1000,
            max_member_subscriptions: 256,
            max_pattern_bytes: 1024,
            min_session_timeout: Duration::from_secs(1),
            default_session_timeout: Duration::from_secs(10),
            max_session_timeout: Duration::from_secs(30 * 60),
            min_processing_timeout: Duration::from_secs(1),
            default_processing_timeout: Duration::from_secs(5 * 60),
            max_processing_timeout: Duration::from_secs(24 * 3600),
            group_initial_delay: Duration::from_millis(100),
            group_return_delay: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(5),
            frame_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(10),
            disk_low_bytes: 64 << 20,
            disk_high_bytes: 128 << 20,
        }
    }
}

/// Two limits, or a limit and its use, that do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is {value}: {rule}")]
pub struct LimitError {
    /// The limit's name.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// What it has to be.
    pub rule: String,
}

impl Limits {
    /// What a frame may declare.
    #[must_use]
    pub const fn frame_limits(&self) -> FrameLimits {
        FrameLimits { max_body_bytes: self.max_frame_bytes as u64, max_record_count: self.max_record_count }
    }

    /// Checks the limits against each other.
    ///
    /// # Errors
    /// The first one that breaks its rule.
    pub fn check(&self) -> Result<(), LimitError> {
        let at_least = |name, value: u64, least: u64| {
            if value >= least { Ok(()) } else { Err(LimitError { name, value, rule: format!("it must be at least {least}") }) }
        };
        let frame = u64::from(self.max_frame_bytes);
        at_least("max_frame_bytes", frame, 1024)?;
        at_least("max_record_count", self.max_record_count.into(), 1)?;
        at_least("max_request_bytes", self.max_request_bytes.into(), frame.saturating_add(1024))?;
        at_least("max_connections", self.max_connections as u64, 1)?;
        at_least("max_connections_per_address", self.max_connections_per_address as u64, 1)?;
        at_least("max_handshakes", self.max_handshakes as u64, 1)?;
        at_least("min_large_frame_rate", self.min_large_frame_rate, 1024)?;
        at_least("max_group_positions", self.max_group_positions as u64, 1)?;
        at_least("max_membership_bytes", self.max_membership_bytes, 64 << 10)?;
        at_least("max_inflight_bytes", self.max_inflight_bytes, u64::from(self.max_request_bytes).saturating_add(64 << 10))?;
        at_least("max_pending_answers", self.max_pending_answers as u64, 1)?;
        at_least("max_subscriptions", self.max_subscriptions.into(), 1)?;
        at_least("max_partitions", self.max_partitions.into(), 1)?;
        at_least("max_total_partitions", self.max_total_partitions as u64, 1)?;
        at_least("max_active_groups", self.max_active_groups.into(), 1)?;
        at_least("max_group_members", self.max_group_members.into(), 1)?;
        at_least("max_member_subscriptions", self.max_member_subscriptions.into(), 1)?;
        at_least("max_pattern_bytes", self.max_pattern_bytes.into(), 1)?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        at_least("min_session_timeout", millis(self.min_session_timeout), SHORTEST_SESSION_MS)?;
        at_least("default_session_timeout", millis(self.default_session_timeout), millis(self.min_session_timeout))?;
        at_least("max_session_timeout", millis(self.max_session_timeout), millis(self.default_session_timeout))?;
        at_least("min_processing_timeout", millis(self.min_processing_timeout), 1)?;
        at_least("default_processing_timeout", millis(self.default_processing_timeout), millis(self.min_processing_timeout))?;
        at_least("max_processing_timeout", millis(self.max_processing_timeout), millis(self.default_processing_timeout))?;
        at_least("disk_high_bytes", self.disk_high_bytes, self.disk_low_bytes)
    }
}

/// Members send heartbeats three times in a session timeout: more often than every few milliseconds is no life.
const SHORTEST_SESSION_MS: u64 = 10;
/// Bytes that one turn of a subscription may send before others get theirs. A delivery is this long at most, or one frame.
pub(crate) const TURN_BYTES: u64 = 1 << 20;
/// Bytes that one turn of a producer may read before others get theirs, consumers of what it has appended among them: less than a millisecond's where frames
/// are small. A read may exceed it.
pub(crate) const READ_TURN_BYTES: u64 = 64 << 10;
/// Bytes that one `sendfile` call is asked for: long enough to cost little, short enough not to hold a worker thread.
pub(crate) const SENDFILE_BYTES: usize = 512 << 10;
/// Bytes of the first range of a reader, which is read and verified whether or not it was in the page cache: finding it may have
/// brought it there, with as much around it as the system reads ahead.
pub(crate) const FIRST_RANGE_BYTES: u64 = 128 << 10;
/// Deliveries of so many bytes at most are copied, and written together with what else there is to write: larger ones are cheaper to
/// send from the page cache.
pub(crate) const SHORT_DELIVERY_BYTES: u64 = 16 << 10;
/// Bytes of answers and short deliveries that are gathered for one write.
pub(crate) const GATHER_BYTES: usize = 32 << 10;
/// From this size of key and payload on, a version-1 consumer gets both by `sendfile`. Below, two copies cost less than a segment of its own for
/// each header: measured, frames of 64 KiB come 1.4 times as fast, those of 128 KiB as fast, those of 256 KiB slower.
pub(crate) const V1_SENDFILE_FROM_BYTES: u64 = 96 << 10;
/// Bytes of smaller frames that are gathered for one write to a version-1 consumer: four frames of 64 KiB with what stands before them.
pub(crate) const V1_GATHER_BYTES: usize = 264 << 10;
/// Bytes of the buffer that serves files without a descriptor.
pub(crate) const COPY_BYTES: usize = 64 << 10;
/// Threads that read cold ranges ahead.
pub(crate) const WARMER_THREADS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_go_together_and_a_request_that_cannot_hold_a_frame_does_not() {
        assert_eq!(Limits::default().check(), Ok(()));
        let limits = Limits { max_request_bytes: 50 << 20, ..Limits::default() };
        assert_eq!(limits.check().unwrap_err().name, "max_request_bytes");
        let limits = Limits { disk_high_bytes: 1, ..Limits::default() };
        assert_eq!(limits.check().unwrap_err().name, "disk_high_bytes");
        let limits = Limits { default_session_timeout: Duration::from_millis(500), ..Limits::default() };
        assert_eq!(limits.check().unwrap_err().name, "default_session_timeout");
    }
}
