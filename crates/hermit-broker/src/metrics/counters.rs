//! What the broker counts outside its logs. Each is one relaxed addition, by connection, login, refusal or round of maintenance, never by record.

use std::sync::atomic::{AtomicU64, Ordering};

use hermit_log::{Compacted, Removed};
use hermit_proto::session::{LoginKind, Status};

use crate::access::LoginError;

/// Why a connection ended, or was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum ConnectionEnd {
    Peer,
    Stopping,
    Broken,
    Timeout,
    Refused,
    Failed,
    TooMany,
    TooManyOfAddress,
    PutOut,
    Administrator,
    Panicked,
}

impl ConnectionEnd {
    /// In the order of the variants, by the names that metrics show.
    const NAMES: [&str; 11] = [
        "peer",
        "stopping",
        "broken",
        "timeout",
        "protocol",
        "broker",
        "max_connections",
        "max_connections_per_address",
        "max_handshakes",
        "administrator",
        "panic",
    ];
}

/// What became of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum LoginOutcome {
    Password,
    Token,
    FirstAdministrator,
    Mechanism,
    Unencrypted,
    Malformed,
    Wrong,
    Later,
}

impl LoginOutcome {
    const NAMES: [&str; 8] =
        ["password", "token", "first_administrator", "mechanism", "unencrypted", "malformed", "wrong", "throttled"];
    /// So many of them are good.
    const GOOD: usize = 3;
}

impl From<LoginKind> for LoginOutcome {
    fn from(kind: LoginKind) -> Self {
        match kind {
            LoginKind::Token => Self::Token,
            LoginKind::FirstAdministrator => Self::FirstAdministrator,
            _ => Self::Password,
        }
    }
}

impl From<&LoginError> for LoginOutcome {
    fn from(error: &LoginError) -> Self {
        match error {
            LoginError::Mechanism => Self::Mechanism,
            LoginError::Unencrypted => Self::Unencrypted,
            LoginError::Malformed => Self::Malformed,
            LoginError::Wrong => Self::Wrong,
            LoginError::Later(_) => Self::Later,
        }
    }
}

/// Counts by name: the name, and how many.
pub type ByName = Vec<(&'static str, u64)>;

/// How many statuses there are room for; more than there are.
const STATUSES: usize = Status::ALL.len() + 1;

/// All counters of a broker.
#[derive(Debug)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    not_taken_in: AtomicU64,
    ends: [AtomicU64; ConnectionEnd::NAMES.len()],
    logins: [AtomicU64; LoginOutcome::NAMES.len()],
    /// By place in [`Status::ALL`], and those that are not in it.
    refusals: [AtomicU64; STATUSES],
    /// By retention.
    retention: Freed,
    /// By trims.
    trims: Freed,
    compaction_rounds: AtomicU64,
    compaction: Freed,
    compaction_frames: AtomicU64,
}

/// What was removed from logs.
#[derive(Debug, Default)]
struct Freed {
    segments: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
}

/// What was removed from logs since the broker was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreedMetrics {
    /// Segments that were removed, or rewritten.
    pub segments: u64,
    /// Bytes that came free by that.
    pub bytes: u64,
    /// Rounds that failed for a partition.
    pub failures: u64,
}

impl Freed {
    fn add(&self, segments: u64, bytes: u64) {
        add(&self.segments, segments);
        add(&self.bytes, bytes);
    }

    fn read(&self) -> FreedMetrics {
        FreedMetrics { segments: get(&self.segments), bytes: get(&self.bytes), failures: get(&self.failures) }
    }
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            accepted: AtomicU64::default(),
            not_taken_in: AtomicU64::default(),
            ends: Default::default(),
            logins: Default::default(),
            refusals: std::array::from_fn(|_| AtomicU64::default()),
            retention: Freed::default(),
            trims: Freed::default(),
            compaction_rounds: AtomicU64::default(),
            compaction: Freed::default(),
            compaction_frames: AtomicU64::default(),
        }
    }
}

impl Counters {
    pub(crate) fn accepted(&self) {
        add(&self.accepted, 1);
    }

    /// The system gave no connection where one was waiting.
    pub(crate) fn not_taken_in(&self) {
        add(&self.not_taken_in, 1);
    }

    pub(crate) fn ended(&self, end: ConnectionEnd) {
        if let Some(counter) = self.ends.get(end as usize) {
            add(counter, 1);
        }
    }

    pub(crate) fn login(&self, outcome: LoginOutcome) {
        if let Some(counter) = self.logins.get(outcome as usize) {
            add(counter, 1);
        }
    }

    /// A request was answered with an error, or a subscription ended by one.
    pub(crate) fn refused(&self, status: Status) {
        let at = Status::ALL.iter().position(|other| *other == status).unwrap_or(STATUSES - 1);
        if let Some(counter) = self.refusals.get(at) {
            add(counter, 1);
        }
    }

    pub(crate) fn retained(&self, removed: Removed) {
        self.retention.add(removed.segments as u64, removed.bytes);
    }

    pub(crate) fn retention_failed(&self) {
        add(&self.retention.failures, 1);
    }

    pub(crate) fn trimmed(&self, removed: Removed) {
        self.trims.add(removed.segments as u64, removed.bytes);
    }

    pub(crate) fn compacted(&self, compacted: &Compacted) {
        add(&self.compaction_rounds, 1);
        self.compaction.add(compacted.segments as u64, compacted.bytes);
        add(&self.compaction_frames, compacted.frames);
    }

    pub(crate) fn compaction_failed(&self) {
        add(&self.compaction.failures, 1);
    }

    pub(super) fn connections(&self) -> (u64, u64, ByName) {
        (get(&self.accepted), get(&self.not_taken_in), named(&ConnectionEnd::NAMES, &self.ends))
    }

    /// Those that were good, and the others.
    pub(super) fn logins(&self) -> (ByName, ByName) {
        let mut all = named(&LoginOutcome::NAMES, &self.logins);
        let failed = all.split_off(LoginOutcome::GOOD);
        (all, failed)
    }

    /// Those that there were.
    pub(super) fn refusals(&self) -> ByName {
        let names = Status::ALL.iter().map(|status| status.name()).chain(["Other"]);
        names.zip(&self.refusals).map(|(name, counter)| (name, get(counter))).filter(|(_, count)| *count > 0).collect()
    }

    pub(super) fn freed(&self) -> [FreedMetrics; 3] {
        [self.retention.read(), self.trims.read(), self.compaction.read()]
    }

    pub(super) fn compaction(&self) -> (u64, u64) {
        (get(&self.compaction_rounds), get(&self.compaction_frames))
    }
}

fn named(names: &[&'static str], counters: &[AtomicU64]) -> ByName {
    names.iter().zip(counters).map(|(name, counter)| (*name, get(counter))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_counted_under_its_name() {
        let counters = Counters::default();
        counters.ended(ConnectionEnd::Panicked);
        counters.ended(ConnectionEnd::TooManyOfAddress);
        let (_, _, ends) = counters.connections();
        let there: Vec<_> = ends.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(there, [&("max_connections_per_address", 1), &("panic", 1)]);

        counters.login(LoginKind::Token.into());
        counters.login((&LoginError::Later(1)).into());
        let (good, failed) = counters.logins();
        assert_eq!((good[1], failed[4]), (("token", 1), ("throttled", 1)));

        counters.refused(Status::DiskFull);
        counters.refused(Status::Other(4711));
        assert_eq!(counters.refusals(), [("DiskFull", 1), ("Other", 1)]);
    }
}
