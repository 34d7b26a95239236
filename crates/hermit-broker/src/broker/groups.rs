//! Consumer groups: looking at them, deleting them, and what time does to them.

use hermit_proto::GroupName;
use hermit_proto::session::{DescribeGroupResponse, ListGroupsResponse};

use super::Broker;
use crate::error::BrokerError;
use crate::groups::Groups;
use crate::partition::Ticket;
use crate::server::Line;

impl Broker {
    pub(crate) fn groups(&self) -> &Groups {
        &self.inner.groups
    }

    /// Nanoseconds by the clock that never falls.
    pub(crate) fn monotonic(&self) -> u64 {
        u64::try_from(self.inner.env.clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Nanoseconds since the Unix epoch by the broker's clock.
    pub(crate) fn now(&self) -> u64 {
        self.inner.env.clock.now()
    }

    /// Lets the time take effect in all groups: members that were silent for too long are put out.
    pub(crate) fn tick_groups(&self) {
        if let Some(offsets) = self.offsets() {
            offsets.sweep();
            if self.live().offsets_retention.is_some() {
                let now = self.monotonic();
                self.inner.groups.names().iter().for_each(|group| offsets.touch(group, now));
            }
        }
        self.inner.groups.tick();
    }

    /// Takes back positions whose time is over, and those of topics that have vanished.
    pub(super) fn tidy_positions(&self) {
        let Some(offsets) = self.offsets() else { return };
        if self.check_writable().is_err() {
            return;
        }
        let now = self.monotonic();
        // Where the manifest had to be made anew, what it does not know is not known to be gone.
        if self.inner.report.manifest.is_none()
            && let Err(error) = offsets.forget_topics(|topic| self.inner.registry.by_id(topic).is_none(), now)
        {
            tracing::warn!(error = %crate::error::line(&error), "positions of deleted topics cannot be taken back now");
        }
        let Some(retention) = self.live().offsets_retention else { return };
        let retention = u64::try_from(retention.as_nanos()).unwrap_or(u64::MAX);
        let Some(before) = now.checked_sub(retention) else { return };
        for group in offsets.untouched_since(before) {
            let expired = self.inner.groups.while_reserved(&group, || offsets.expire_group(&group, before, now));
            match expired.and_then(|expired| expired) {
                Ok(Some(_ticket)) => {
                    if let Line::Write { left_out } = self.lines().expired.line() {
                        tracing::info!(%group, left_out, "the group's positions have expired");
                    }
                }
                Ok(None) | Err(BrokerError::GroupActive { .. }) => {}
                Err(error) => {
                    tracing::warn!(%group, error = %crate::error::line(&error), "the group's positions cannot be taken back now");
                }
            }
        }
    }

    /// Groups that have members or positions, in the order of their names, behind `after`, not more than `most`.
    ///
    /// # Errors
    /// The positions cannot be read at all.
    pub fn list_groups(&self, after: &str, most: usize) -> Result<ListGroupsResponse, BrokerError> {
        self.list_groups_where(after, most, |_any| true)
    }

    /// The same, of the groups that `shown` lets pass.
    pub(crate) fn list_groups_where(
        &self,
        after: &str,
        most: usize,
        shown: impl Fn(&GroupName) -> bool,
    ) -> Result<ListGroupsResponse, BrokerError> {
        let offsets = self.offsets_now()?;
        Ok(self.inner.groups.list(&offsets, after, most, shown))
    }

    /// A group's members, positions and lag. Reads logs, and so may block.
    ///
    /// # Errors
    /// [`BrokerError::UnknownGroup`]; [`BrokerError::AnswerTooLarge`] where it could not be told to a client; the positions cannot be read at all.
    pub fn describe_group(&self, group: &GroupName) -> Result<DescribeGroupResponse, BrokerError> {
        let offsets = self.offsets_now()?;
        crate::groups::describe(self, &offsets, group)
    }

    /// Takes back all positions of a group that has no members. They are gone for good once the ticket says so.
    ///
    /// # Errors
    /// [`BrokerError::UnknownGroup`] where it has none; [`BrokerError::GroupActive`] where it has members; what the log refuses.
    pub fn delete_group(&self, group: &GroupName) -> Result<Ticket, BrokerError> {
        let offsets = self.offsets_now()?;
        let now = self.monotonic();
        let deleted = self.inner.groups.while_reserved(group, || offsets.forget_group(group, now))??;
        deleted.ok_or_else(|| BrokerError::UnknownGroup { group: group.clone() })
    }

    /// Members in all groups, and how many of them wait for their assignment to change, for tests of what is left behind.
    #[doc(hidden)]
    #[must_use]
    pub fn group_members(&self) -> (usize, usize) {
        self.inner.groups.counts()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use hermit_log::disk::sim::SimDisk;
    use hermit_log::{Flusher, LogEnv, ManualClock};
    use hermit_proto::MemberId;
    use hermit_proto::session::{AssignmentStrategy, JoinGroupRequest};

    use super::*;
    use crate::BrokerConfig;
    use crate::error::Counted;
    use crate::groups::Peer;

    const SOON: Duration = Duration::from_secs(10);

    fn broker(change: impl FnOnce(&mut BrokerConfig)) -> Broker {
        let clock = Arc::new(ManualClock::new(1_000_000_000_000));
        let env = LogEnv::new(Arc::new(SimDisk::new(1)), clock.clone(), Flusher::manual(clock), 64);
        let mut config = BrokerConfig { recovery_threads: 1, ..BrokerConfig::new("/data") };
        change(&mut config);
        Broker::open_with(config, env).unwrap()
    }

    fn join(broker: &Broker, group: &str, member: u128, topics: Vec<String>) -> Result<(), BrokerError> {
        let request = JoinGroupRequest {
            group: group.into(),
            member: MemberId(member),
            session_timeout_ms: 0,
            processing_timeout_ms: 0,
            strategy: AssignmentStrategy::default(),
            topics,
            patterns: Vec::new(),
            claims: Vec::new(),
        };
        let peer = Peer { client: "test", address: "here", principal: &crate::access::Principal::Anyone };
        broker.groups().join(&request, peer).map(drop)
    }

    #[test]
    fn a_group_that_is_being_deleted_holds_up_nobody_but_who_comes_to_it() {
        let broker = broker(|_config| {});
        let name = GroupName::new("a").unwrap();
        let (done, joined) = mpsc::channel();
        let comes = |group: &'static str| {
            let (broker, done) = (broker.clone(), done.clone());
            std::thread::spawn(move || done.send((group, join(&broker, group, 1, Vec::new()).is_ok())).unwrap());
        };
        let reserved = broker.groups().while_reserved(&name, || {
            comes("a");
            comes("b");
            joined.recv_timeout(SOON).unwrap()
        });
        assert_eq!(reserved.unwrap(), ("b", true));
        assert_eq!(joined.recv_timeout(SOON).unwrap(), ("a", true));
        let active = broker.groups().while_reserved(&name, || ());
        assert!(matches!(active, Err(BrokerError::GroupActive { .. })), "{active:?}");
    }

    #[test]
    fn all_members_together_take_so_much_and_give_it_back() {
        let broker = broker(|config| config.limits.max_membership_bytes = 64 << 10);
        // Some 10 KiB each.
        let topics: Vec<_> = (0..50).map(|number| format!("{number:0>140}")).collect();
        let came =
            (1..=20).take_while(|member| join(&broker, &format!("g{}", member % 3), *member, topics.clone()).is_ok()).count();
        assert!((3..=8).contains(&came), "{came} members came");
        let refused = join(&broker, "other", 100, topics.clone());
        assert!(matches!(refused, Err(BrokerError::TooMany { what: Counted::MembershipBytes, .. })), "{refused:?}");
        for member in 1..=came as u128 {
            let group = format!("g{}", member % 3);
            let request = hermit_proto::session::LeaveGroupRequest { group, member: MemberId(member) };
            broker.groups().leave(&request).unwrap();
        }
        let again = (1..=20).take_while(|member| join(&broker, "again", *member, topics.clone()).is_ok()).count();
        assert_eq!(again, came);
    }
}
