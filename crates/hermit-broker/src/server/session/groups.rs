//! Requests about consumer groups. A heartbeat is a long poll: it waits with the session, and costs neither a task nor a timer of its own.

use std::time::Duration;

use hermit_proto::session::{
    AccessOperations, DeleteGroupRequest, DeleteGroupResponse, DescribeGroupRequest, GroupHeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, Message,
};
use hermit_proto::{CorrelationId, GroupName, Unit};
use tokio::time::Instant;

use super::state::Session;
use super::topics::{Answer, answer, write};
use crate::broker::Broker;
use crate::error::{BrokerError, to_wire};
use crate::groups::{Beat, Heartbeat, Peer, Waiter};

/// A group whose time has come is looked at again after this at the earliest: an embedder's clock may stand still.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);

/// A heartbeat that waits for the member's assignment to change.
#[derive(Debug)]
pub(super) struct Parked {
    correlation: CorrelationId,
    group: GroupName,
    heartbeat: Heartbeat,
    until: Instant,
    look_at: Instant,
}

impl Session {
    pub(super) fn join_group(&mut self, unit: &Unit) {
        let correlation = unit.correlation();
        let request = match JoinGroupRequest::decode(unit.key(), unit.payload()) {
            Ok(request) => request,
            Err(error) => return self.tell(correlation, &error.into()),
        };
        if let Err(error) = self.check_joining(&request) {
            return self.refuse(correlation, &error);
        }
        let principal = self.rights.authority().principal().clone();
        if request.patterns.is_empty() {
            let joined = join(&self.broker, &request, Peer { client: &self.client, address: &self.address, principal: &principal });
            return write(correlation, joined, self.broker.counters(), &mut self.out);
        }
        // Patterns are compiled, and matched with all topics: others are not to wait for that.
        let (broker, client, address) = (self.broker.clone(), self.client.clone(), self.address.clone());
        self.background.search(std::sync::Arc::clone(self.broker.searches()), move |out| {
            let joined = join(&broker, &request, Peer { client: &client, address: &address, principal: &principal });
            write(correlation, joined, broker.counters(), out);
            drop(broker);
        });
    }

    /// What it names must be allowed. What its patterns match is looked at topic by topic.
    fn check_joining(&self, request: &JoinGroupRequest) -> Result<(), BrokerError> {
        let authority = self.rights.authority();
        authority.check_group(&request.group, AccessOperations::CONSUME)?;
        request.topics.iter().try_for_each(|topic| authority.check_topic(topic, AccessOperations::CONSUME, "topics"))
    }

    pub(super) fn leave_group(&mut self, unit: &Unit) {
        let (broker, authority) = (&self.broker, self.rights.authority());
        answer(unit, broker.counters(), &mut self.out, |request: LeaveGroupRequest| {
            authority.check_group(&request.group, AccessOperations::CONSUME).map_err(|error| to_wire(&error))?;
            broker.groups().leave(&request).map_err(|error| to_wire(&error))?;
            Ok(LeaveGroupResponse)
        });
    }

    pub(super) fn group_heartbeat(&mut self, unit: &Unit) {
        let correlation = unit.correlation();
        let request = match GroupHeartbeatRequest::decode(unit.key(), unit.payload()) {
            Ok(request) => request,
            Err(error) => return self.tell(correlation, &error.into()),
        };
        let group = match GroupName::new(&request.group) {
            Ok(group) => group,
            Err(error) => return self.refuse(correlation, &error.into()),
        };
        if let Err(error) = self.rights.authority().check_group(group.as_str(), AccessOperations::CONSUME) {
            return self.refuse(correlation, &error);
        }
        let waiter = self.waiter();
        let beat = self.broker.groups().heartbeat(&group, &request, &waiter);
        self.park(waiter.token, correlation, group, beat);
    }

    fn waiter(&mut self) -> Waiter {
        Waiter { token: self.token(), signal: std::sync::Arc::clone(&self.signal) }
    }

    /// Answers a heartbeat, or has it wait.
    fn park(&mut self, token: u64, correlation: CorrelationId, group: GroupName, beat: Result<Beat, BrokerError>) {
        match beat {
            Ok(Beat::Answer(response)) => self.respond(correlation, &response),
            Ok(Beat::Wait { heartbeat, wait, look_again }) => {
                let now = Instant::now();
                let until = now + wait;
                let look_at = until.min(now.checked_add(look_again.max(SHORTEST_LOOK)).unwrap_or(until));
                self.parked.insert(token, Parked { correlation, group, heartbeat, until, look_at });
            }
            Err(error) => self.refuse(correlation, &error),
        }
    }

    /// Looks whether a heartbeat that waits can be answered by now; answers whether there is one of that token.
    pub(super) fn look_at_parked(&mut self, token: u64) -> bool {
        let Some(parked) = self.parked.remove(&token) else { return false };
        let wait = parked.until.saturating_duration_since(Instant::now());
        self.look_again(token, parked, wait);
        true
    }

    fn look_again(&mut self, token: u64, parked: Parked, wait: Duration) {
        let waiter = Waiter { token, signal: std::sync::Arc::clone(&self.signal) };
        let Parked { correlation, group, heartbeat, .. } = parked;
        let beat = self.broker.groups().look_again(&group, heartbeat, wait, &waiter);
        self.park(token, correlation, group, beat);
    }

    /// When the next of the heartbeats that wait has to be looked at.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.parked.values().map(|parked| parked.look_at).min()
    }

    /// Looks at the heartbeats whose time has come.
    pub(super) fn look_at_due(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.parked.iter().filter(|(_, parked)| parked.look_at <= now).map(|(token, _)| *token).collect();
        for token in due {
            self.look_at_parked(token);
        }
    }

    /// Answers all heartbeats that wait: the session ends.
    pub(super) fn answer_parked(&mut self) {
        let mut parked: Vec<_> = self.parked.drain().collect();
        parked.sort_unstable_by_key(|(token, _)| *token);
        for (token, parked) in parked {
            self.look_again(token, parked, Duration::ZERO);
        }
    }

    /// Refuses the heartbeats that wait for a group that the session may not consume any more.
    pub(super) fn refuse_parked(&mut self) {
        let authority = self.rights.authority();
        let refused = |parked: &Parked| authority.check_group(parked.group.as_str(), AccessOperations::CONSUME).err();
        let refused: Vec<_> = self.parked.iter().filter_map(|(token, parked)| Some((*token, refused(parked)?))).collect();
        for (token, error) in refused {
            let Some(parked) = self.parked.remove(&token) else { continue };
            let waiter = Waiter { token, signal: std::sync::Arc::clone(&self.signal) };
            self.broker.groups().forget(&parked.group, parked.heartbeat.member, &waiter);
            self.refuse(parked.correlation, &error);
        }
    }

    /// Leaves no trace of the heartbeats that wait.
    pub(super) fn forget_parked(&self) {
        for (token, parked) in &self.parked {
            let waiter = Waiter { token: *token, signal: std::sync::Arc::clone(&self.signal) };
            self.broker.groups().forget(&parked.group, parked.heartbeat.member, &waiter);
        }
    }

    pub(super) fn list_groups(&mut self, unit: &Unit) {
        let authority = self.rights.authority().clone();
        self.searching(unit, Self::checked, move |broker, request: ListGroupsRequest| {
            let most = usize::try_from(request.limit).unwrap_or(usize::MAX);
            broker.list_groups_where(&request.after, most, |group| !authority.on_group(group.as_str()).is_empty())
        });
    }

    /// The lag in time is read from the logs, so that this may block.
    pub(super) fn describe_group(&mut self, unit: &Unit) {
        let authority = self.rights.authority().clone();
        let allow = administers(|request: &DescribeGroupRequest| &request.group);
        self.searching(unit, allow, move |broker, request| {
            let mut described = broker.describe_group(&GroupName::new(&request.group)?)?;
            described.partitions.retain(|partition| partition.name.is_empty() || !authority.on_topic(&partition.name).is_empty());
            Ok(described)
        });
    }

    pub(super) fn delete_group(&mut self, unit: &Unit) {
        self.in_background(unit, administers(|request: &DeleteGroupRequest| &request.group), |broker: &Broker, request| {
            broker.delete_group(&GroupName::new(&request.group)?)?.wait()?;
            Ok(DeleteGroupResponse)
        });
    }
}

fn join(broker: &Broker, request: &JoinGroupRequest, peer: Peer<'_>) -> Answer<JoinGroupResponse> {
    broker.groups().join(request, peer).map_err(|error| to_wire(&error))
}

/// What a request needs that looks after a group.
fn administers<Q>(group: impl Fn(&Q) -> &str + 'static) -> impl FnOnce(&mut Session, &Q) -> Result<(), BrokerError> + 'static {
    move |session, request| session.rights.authority().check_group(group(request), AccessOperations::ADMINISTER)
}
