//! Looking at groups: lists, members, lag.

use std::collections::{BTreeMap, BTreeSet};

use hermit_proto::session::{
    AssignmentStrategy, DescribeGroupResponse, GroupMember, GroupPartition, GroupState, ListGroupsResponse, ListedGroup, Status,
};
use hermit_proto::{Generation, GroupName, MemberId, Offset, PartitionId, TopicId};

use super::assign::TopicPartition;
use super::cell::State;
use super::coordinator::Groups;
use crate::broker::Broker;
use crate::error::{BrokerError, status_of};
use crate::offsets::{Committed, Offsets};

/// Groups on one page of a list.
const PAGE: usize = 1000;
/// Most bytes of a description. It is told in one answer.
const MAX_DESCRIPTION_BYTES: u64 = 16 << 20;
/// What a member takes on the wire besides its texts.
const MEMBER_BYTES: u64 = 48;
/// What a partition takes on the wire besides its topic's name.
const PARTITION_BYTES: u64 = 120;

/// A group's members at one moment.
#[derive(Debug)]
struct Membership {
    state: GroupState,
    generation: Generation,
    strategy: AssignmentStrategy,
    members: Vec<GroupMember>,
    owned: BTreeMap<TopicPartition, (MemberId, Generation)>,
}

impl Groups {
    /// The groups that have members, in no order.
    pub(crate) fn names(&self) -> Vec<GroupName> {
        self.all_cells().iter().map(|cell| cell.name.clone()).collect()
    }

    /// Groups with members or positions, in order.
    pub(crate) fn list(
        &self,
        offsets: &Offsets,
        after: &str,
        most: usize,
        shown: impl Fn(&GroupName) -> bool,
    ) -> ListGroupsResponse {
        let most = if most == 0 { PAGE } else { most.min(PAGE) };
        let mut names: BTreeSet<_> = self.names().into_iter().filter(|name| name.as_str() > after && shown(name)).collect();
        // One more than is told, so that it is known whether there is one.
        let (wanted, mut from, mut found) = (most + 1, after.to_owned(), 0);
        while found < wanted {
            let page = offsets.groups(&from, wanted);
            let Some(last) = page.last() else { break };
            last.as_str().clone_into(&mut from);
            let is_last = page.len() < wanted;
            let shown = page.into_iter().filter(|name| shown(name)).inspect(|_| found += 1);
            names.extend(shown);
            if is_last {
                break;
            }
        }
        let more = names.len() > most;
        let groups = names.into_iter().take(most).map(|name| self.line(offsets, &name)).collect();
        ListGroupsResponse { groups, more }
    }

    fn line(&self, offsets: &Offsets, name: &GroupName) -> ListedGroup {
        let positions = offsets.of_group(name);
        let mut partitions: BTreeSet<_> = positions.into_iter().map(|(topic, partition, _)| (topic, partition)).collect();
        let looked = self.inspect(name, |state| {
            partitions.extend(state.group.owners().keys().copied());
            (group_state(state), state.seats.len())
        });
        let (state, members) = looked.unwrap_or((GroupState::Empty, 0));
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        ListedGroup { name: name.to_string(), state, members: count(members), partitions: count(partitions.len()) }
    }

    /// How many members a group has, and the partitions that they have; `None` where it has none.
    pub(crate) fn owned(&self, name: &GroupName) -> Option<(usize, Vec<TopicPartition>)> {
        self.inspect(name, |state| (state.seats.len(), state.group.owners().keys().copied().collect()))
    }

    fn membership(&self, name: &GroupName) -> Result<Option<Membership>, BrokerError> {
        let looked = self.inspect(name, |state| {
            let bytes = state.seats.values().map(member_bytes).sum();
            check_size(bytes)?;
            let owners = state.group.owners().keys();
            Ok(Membership {
                state: group_state(state),
                generation: state.group.generation(),
                strategy: state.group.strategy(),
                members: members(state),
                owned: owners.filter_map(|of| Some((*of, state.group.granted(of)?))).collect(),
            })
        });
        looked.filter(|looked| !matches!(looked, Ok(membership) if membership.members.is_empty())).transpose()
    }
}

fn group_state(state: &State) -> GroupState {
    match (state.group.members().is_empty(), state.group.is_stable()) {
        (true, _) => GroupState::Empty,
        (false, true) => GroupState::Stable,
        (false, false) => GroupState::Rebalancing,
    }
}

fn member_bytes(seat: &super::cell::Seat) -> u64 {
    let names = seat.subscription.names.iter().map(|name| name.as_str().len() as u64 + 4);
    let patterns = seat.subscription.pattern_texts().iter().map(|pattern| pattern.len() as u64 + 4);
    MEMBER_BYTES + (seat.client.len() + seat.address.len()) as u64 + names.chain(patterns).sum::<u64>()
}

fn check_size(bytes: u64) -> Result<(), BrokerError> {
    let limit_bytes = MAX_DESCRIPTION_BYTES;
    if bytes > limit_bytes { Err(BrokerError::AnswerTooLarge { bytes, limit_bytes }) } else { Ok(()) }
}

fn members(state: &State) -> Vec<GroupMember> {
    let millis = |nanos: u64| u32::try_from(nanos / 1_000_000).unwrap_or(u32::MAX);
    let described = state.group.members().iter().filter_map(|(id, member)| {
        let seat = state.seats.get(id)?;
        let timeouts = member.timeouts();
        Some(GroupMember {
            member: *id,
            client: seat.client.clone(),
            address: seat.address.clone(),
            session_timeout_ms: millis(timeouts.session),
            processing_timeout_ms: millis(timeouts.processing),
            topics: seat.subscription.names.iter().map(ToString::to_string).collect(),
            patterns: seat.subscription.pattern_texts().to_vec(),
            partitions: u32::try_from(member.owns()).unwrap_or(u32::MAX),
        })
    });
    described.collect()
}

/// A group's members, positions and lag.
pub(crate) fn describe(broker: &Broker, offsets: &Offsets, name: &GroupName) -> Result<DescribeGroupResponse, BrokerError> {
    let membership = broker.groups().membership(name)?;
    let positions: BTreeMap<_, _> =
        offsets.of_group(name).into_iter().map(|(topic, partition, committed)| ((topic, partition), committed)).collect();
    if membership.is_none() && positions.is_empty() {
        return Err(BrokerError::UnknownGroup { group: name.clone() });
    }
    let membership = membership.unwrap_or_else(|| Membership {
        state: GroupState::Empty,
        generation: Generation(0),
        strategy: AssignmentStrategy::default(),
        members: Vec::new(),
        owned: BTreeMap::new(),
    });
    let all: BTreeSet<_> = positions.keys().chain(membership.owned.keys()).copied().collect();
    let mut bytes = 0;
    let mut partitions = Vec::with_capacity(all.len().min(PAGE));
    for of in all {
        let partition = partition(broker, of, positions.get(&of), membership.owned.get(&of));
        bytes += PARTITION_BYTES + partition.name.len() as u64;
        check_size(bytes)?;
        partitions.push(partition);
    }
    partitions.sort_by(|a, b| (&a.name, a.topic, a.partition).cmp(&(&b.name, b.topic, b.partition)));
    let Membership { state, generation, strategy, members, .. } = membership;
    Ok(DescribeGroupResponse { state, generation, strategy, members, partitions })
}

fn partition(
    broker: &Broker,
    (topic, partition): (TopicId, PartitionId),
    committed: Option<&Committed>,
    owner: Option<&(MemberId, Generation)>,
) -> GroupPartition {
    let (owner, generation) = owner.copied().unwrap_or((MemberId::NONE, Generation(0)));
    let name = broker.topic_by_id(topic).map(|topic| topic.meta.name.to_string()).unwrap_or_default();
    let mut described = GroupPartition {
        topic,
        name,
        partition,
        status: Status::Ok,
        owner,
        generation,
        committed: committed.map(|committed| committed.offset),
        committed_at: committed.map_or(0, |committed| committed.committed_at),
        log_start: Offset::ZERO,
        high_watermark: Offset::ZERO,
        lag: 0,
        lag_ms: 0,
    };
    if let Err(error) = measure(broker, &mut described) {
        described.status = status_of(&error);
    }
    described
}

fn measure(broker: &Broker, described: &mut GroupPartition) -> Result<(), BrokerError> {
    let partition = broker.partition(described.topic, described.partition)?;
    let bounds = partition.bounds()?;
    // A position below the log start reads as the log start.
    let next = described.committed.map_or(bounds.log_start, |committed| committed.max(bounds.log_start));
    described.log_start = bounds.log_start;
    described.high_watermark = bounds.high_watermark;
    described.lag = bounds.high_watermark.0.saturating_sub(next.0);
    if described.lag > 0
        && let Some(appended_at) = partition.appended_at(next)?
    {
        described.lag_ms = broker.now().saturating_sub(appended_at) / 1_000_000;
    }
    Ok(())
}
