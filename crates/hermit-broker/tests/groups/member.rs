//! A broker whose clock the test moves, and members of groups that follow the protocol by hand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermit_broker::{Broker, BrokerConfig};
use hermit_log::disk::RealDisk;
use hermit_log::{Flusher, LogEnv, ManualClock};
use hermit_proto::session::{
    Assignment, AssignmentStrategy, CommitEntry, CommitRequest, FetchCommittedRequest, GroupHeartbeatRequest,
    GroupHeartbeatResponse, JoinGroupRequest, LeaveGroupRequest, Status, TopicConfig, WireError,
};
use hermit_proto::{CorrelationId, Generation, LeaderEpoch, MemberId, Offset, PartitionId, ProducedFrame, TopicId};

use super::support::v2::Session;
use super::support::{Server, config};

/// A wait that no test outlasts.
pub(crate) const LONG_MS: u32 = 3_000_000;

/// A served broker and its clock.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: Arc<ManualClock>,
}

/// Groups divide at once, and members may be silent for long: the clock moves only when the test says so.
pub(crate) fn group_config(dir: &Path) -> BrokerConfig {
    let mut config = config(dir);
    config.limits.group_initial_delay = Duration::ZERO;
    config.limits.group_return_delay = Duration::ZERO;
    config.limits.max_session_timeout = Duration::from_secs(24 * 3600);
    config
}

impl World {
    pub(crate) async fn start(dir: &Path) -> Self {
        Self::with(group_config(dir)).await
    }

    pub(crate) async fn with(config: BrokerConfig) -> Self {
        Self::at(config, Arc::new(ManualClock::new(1_700_000_000_000_000_000))).await
    }

    /// Goes on with a clock: time does not fall when a broker restarts.
    pub(crate) async fn at(config: BrokerConfig, clock: Arc<ManualClock>) -> Self {
        let flusher = Flusher::start(1, clock.clone()).unwrap();
        let env = LogEnv::new(Arc::new(RealDisk), clock.clone(), flusher, 64);
        Self { server: Server::serve(Broker::open_with(config, env).unwrap()).await, clock }
    }

    /// Lets time pass, and the broker notice it.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.server.broker.maintain();
    }

    pub(crate) async fn topic(&self, name: &str, partitions: u32) -> TopicId {
        Session::open(&self.server).await.create(name, partitions, TopicConfig::default()).await.unwrap()
    }

    /// Puts `count` records into a partition.
    pub(crate) async fn produce(&self, topic: TopicId, partition: u32, count: usize) {
        let frames: Vec<_> = (0..count).flat_map(|_| ProducedFrame::message(7, None, b"x").to_vec().unwrap()).collect();
        Session::open(&self.server).await.produce(topic, partition, &frames).await.unwrap();
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}

/// With a session timeout of 10 s, the broker's default.
pub(crate) fn short_join_request(group: &str, member: u128, topics: &[&str]) -> JoinGroupRequest {
    JoinGroupRequest { session_timeout_ms: 0, ..join_request(group, member, topics) }
}

/// With a session timeout so long that heartbeats do not stop waiting by themselves.
pub(crate) fn join_request(group: &str, member: u128, topics: &[&str]) -> JoinGroupRequest {
    JoinGroupRequest {
        group: group.into(),
        member: MemberId(member),
        session_timeout_ms: 3_600_000,
        processing_timeout_ms: 0,
        strategy: AssignmentStrategy::Balanced,
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        patterns: Vec::new(),
        claims: Vec::new(),
    }
}

/// A member of a group.
pub(crate) struct Member {
    pub(crate) session: Session,
    pub(crate) request: JoinGroupRequest,
    pub(crate) version: u64,
    /// What it holds, and since when.
    pub(crate) holds: BTreeMap<(TopicId, PartitionId), Generation>,
    /// What it was asked to give up.
    pub(crate) giving_up: Vec<(TopicId, PartitionId)>,
}

impl Member {
    pub(crate) async fn join(world: &World, request: JoinGroupRequest) -> Result<Self, WireError> {
        Self::over(Session::open(&world.server).await, request).await
    }

    /// Joins, or joins again, over a session.
    pub(crate) async fn over(mut session: Session, request: JoinGroupRequest) -> Result<Self, WireError> {
        let joined = session.call(&request).await?;
        let mut member = Self { session, request, version: 0, holds: BTreeMap::new(), giving_up: Vec::new() };
        member.take_up(&joined.assignment);
        Ok(member)
    }

    pub(crate) fn id(&self) -> MemberId {
        self.request.member
    }

    pub(crate) fn take_up(&mut self, assignment: &Assignment) {
        self.version = assignment.version;
        let named: BTreeMap<_, _> = assignment
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|one| ((topic.topic, one.partition), one.generation)))
            .collect();
        self.giving_up = self.holds.keys().filter(|of| !named.contains_key(*of)).copied().collect();
        for (of, generation) in named {
            self.holds.entry(of).or_insert(generation);
        }
    }

    /// Drops what it was asked to give up; the next heartbeat tells so.
    pub(crate) fn give_up(&mut self) {
        for of in std::mem::take(&mut self.giving_up) {
            self.holds.remove(&of);
        }
    }

    fn heartbeat(&self, wait_ms: u32) -> GroupHeartbeatRequest {
        let owned = self.holds.keys().copied().collect();
        GroupHeartbeatRequest { group: self.request.group.clone(), member: self.id(), version: self.version, owned, wait_ms }
    }

    /// A heartbeat that does not wait.
    pub(crate) async fn beat(&mut self) -> Result<(), WireError> {
        let id = self.park(0).await;
        self.parked(id).await
    }

    /// Sends a heartbeat that waits.
    pub(crate) async fn park(&mut self, wait_ms: u32) -> CorrelationId {
        let request = self.heartbeat(wait_ms);
        self.session.request(&request).await
    }

    /// The answer to a heartbeat that waited.
    pub(crate) async fn parked(&mut self, id: CorrelationId) -> Result<(), WireError> {
        let response: GroupHeartbeatResponse = self.session.response(id).await?;
        self.take_up(&response.assignment);
        Ok(())
    }

    pub(crate) async fn leave(&mut self) -> Result<(), WireError> {
        let request = LeaveGroupRequest { group: self.request.group.clone(), member: self.id() };
        self.session.call(&request).await.map(drop)
    }

    /// Commits one position as the member.
    pub(crate) async fn commit(
        &mut self,
        of: (TopicId, PartitionId),
        generation: Generation,
        offset: u64,
    ) -> Result<Status, WireError> {
        let (group, member) = (self.request.group.clone(), self.id());
        commit(&mut self.session, &group, member, of, generation, offset).await
    }

    pub(crate) fn partitions(&self) -> Vec<u32> {
        self.holds.keys().map(|(_, partition)| partition.0).collect()
    }
}

pub(crate) async fn commit(
    session: &mut Session,
    group: &str,
    member: MemberId,
    (topic, partition): (TopicId, PartitionId),
    generation: Generation,
    offset: u64,
) -> Result<Status, WireError> {
    let entry = CommitEntry { topic, partition, offset: Offset(offset), leader_epoch: LeaderEpoch::UNKNOWN, generation };
    let request = CommitRequest { group: group.into(), entries: vec![entry], member };
    Ok(session.call(&request).await?.results[0].status)
}

pub(crate) async fn committed(session: &mut Session, group: &str, of: (TopicId, PartitionId)) -> Option<u64> {
    let request = FetchCommittedRequest { group: group.into(), partitions: vec![of] };
    session.call(&request).await.unwrap().positions[0].offset.map(|offset| offset.0)
}
