//! A group as a broker would show it, in the hands of a test: what the member may hold, what is committed, what each partition has.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermit_client::{Client, LeaderEpoch, Offset, PartitionId, Status, TopicId, WireError};
use hermit_proto::session::{
    AssignedPartition, AssignedTopic, Assignment, CommitRequest, CommitResponse, CommitResult, CommittedOffset, DeliveryHead,
    FetchCommittedRequest, FetchCommittedResponse, GroupHeartbeatRequest, GroupHeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListOffsetsRequest, ListOffsetsResponse, Message, OffsetQuery,
    Operation, SubscribeRequest, SubscribeResponse, UnsubscribeResponse,
};
use hermit_proto::{BrokerStamp, CorrelationId, FramePrefix, FrameSalt, Generation, MemberId, ProducedFrame};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::fake::{Fake, Peer, TOPIC};
use super::{builder, eventually};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Join {
        member: MemberId,
        claims: Vec<u32>,
    },
    Leave(MemberId),
    /// A member tells of other partitions than before.
    Owns(Vec<u32>),
    Commit {
        member: MemberId,
        entries: Vec<(u32, u64, u64)>,
        ok: bool,
    },
    Subscribe {
        partition: u32,
        offset: u64,
    },
}

#[derive(Default)]
pub struct World {
    /// Granted partitions with their generations.
    pub granted: BTreeMap<u32, u64>,
    version: u64,
    pub committed: BTreeMap<u32, u64>,
    /// The end of every partition.
    pub end: u64,
    /// Members that are known; a join adds one.
    pub members: Vec<MemberId>,
    pub said: Vec<Said>,
    owned: Vec<u32>,
    pub session_timeout_ms: u32,
    pub processing_timeout_ms: u32,
    /// Commits are not answered.
    pub hold_commits: bool,
    /// The answer to the next commits.
    pub refuse_commits: Option<Status>,
    pub refuse_joins: Option<Status>,
    held: VecDeque<(CorrelationId, CommitRequest)>,
    /// Connections are closed.
    pub cut: bool,
}

pub struct GroupFake {
    pub client: Client,
    world: Arc<Mutex<World>>,
    changed: Arc<Notify>,
    serving: JoinHandle<()>,
}

impl Drop for GroupFake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl GroupFake {
    /// With partitions 0 up to `partitions`, each with the records 0 to 99, all granted in generation 1.
    pub async fn start(partitions: u32) -> Self {
        let fake = Fake::start().await;
        let client = builder(fake.address).start().unwrap();
        let world = World {
            granted: (0..partitions).map(|partition| (partition, 1)).collect(),
            version: 1,
            end: 100,
            session_timeout_ms: 30_000,
            processing_timeout_ms: 300_000,
            ..World::default()
        };
        let world = Arc::new(Mutex::new(world));
        let changed = Arc::new(Notify::new());
        let (served, notified) = (world.clone(), changed.clone());
        let serving = tokio::spawn(async move {
            loop {
                let peer = fake.accept().await;
                serve(peer, &served, &notified).await;
            }
        });
        Self { client, world, changed, serving }
    }

    /// Changes the world, and tells the member what it may hold now.
    pub fn change<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        let mut world = self.world.lock().unwrap();
        let before = world.granted.clone();
        let result = change(&mut world);
        if world.granted != before {
            world.version += 1;
        }
        drop(world);
        self.changed.notify_one();
        result
    }

    pub fn look<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.world.lock().unwrap())
    }

    pub async fn until(&self, what: &str, mut condition: impl FnMut(&World) -> bool) {
        eventually(what, || self.look(&mut condition)).await;
    }

    pub fn committed(&self, partition: u32) -> Option<u64> {
        self.look(|world| world.committed.get(&partition).copied())
    }

    pub fn member(&self) -> MemberId {
        self.look(|world| *world.members.last().unwrap())
    }

    /// The broker forgets its members, and grants `granted`, partition and generation, to whoever comes next.
    pub fn forget(&self, granted: &[(u32, u64)]) {
        self.change(|world| {
            world.members.clear();
            world.granted = granted.iter().copied().collect();
        });
    }
}

impl World {
    fn assignment(&self) -> Assignment {
        let partitions = self.granted.iter().map(|(partition, generation)| AssignedPartition {
            partition: PartitionId(*partition),
            generation: Generation(*generation),
        });
        let topics = match self.granted.is_empty() {
            true => Vec::new(),
            false => vec![AssignedTopic { topic: TOPIC, name: "t".into(), partitions: partitions.collect() }],
        };
        Assignment { version: self.version, generation: Generation(self.version), topics }
    }

    fn commit(&mut self, request: &CommitRequest) -> Result<CommitResponse, WireError> {
        let known = !request.member.is_some() || self.members.contains(&request.member);
        let refused = self.refuse_commits.take();
        let entries = request.entries.iter().map(|entry| (entry.partition.0, entry.offset.0, entry.generation.0)).collect();
        self.said.push(Said::Commit { member: request.member, entries, ok: known && refused.is_none() });
        if !known {
            return Err(WireError::new(Status::UnknownMember, "who?"));
        }
        let results = request.entries.iter().map(|entry| {
            let status = refused.unwrap_or(Status::Ok);
            if status.is_ok() {
                self.committed.insert(entry.partition.0, entry.offset.0);
            }
            CommitResult { topic: entry.topic, partition: entry.partition, status }
        });
        Ok(CommitResponse { results: results.collect() })
    }
}

fn numbers(partitions: &[(TopicId, PartitionId)]) -> Vec<u32> {
    partitions.iter().map(|(_, partition)| partition.0).collect()
}

#[allow(clippy::too_many_lines, reason = "one arm for each operation")]
async fn serve(mut peer: Peer, world: &Mutex<World>, changed: &Notify) {
    let mut parked: Option<(CorrelationId, GroupHeartbeatRequest)> = None;
    let mut answer_at = Instant::now();
    loop {
        let unit = tokio::select! {
            unit = peer.next() => unit,
            () = sleep_until(answer_at), if parked.is_some() => {
                if let Some((correlation, beat)) = parked.take() {
                    answer_beat(&mut peer, world, correlation, &beat).await;
                }
                continue;
            }
            () = changed.notified() => {
                let (cut, news, commits) = {
                    let mut world = world.lock().unwrap();
                    let commits = if world.hold_commits { VecDeque::new() } else { std::mem::take(&mut world.held) };
                    (std::mem::take(&mut world.cut), parked.as_ref().is_some_and(|(_, beat)| is_news(&world, beat)), commits)
                };
                if cut {
                    return;
                }
                for (correlation, request) in commits {
                    answer_commit(&mut peer, world, correlation, &request).await;
                }
                if news && let Some((correlation, beat)) = parked.take() {
                    answer_beat(&mut peer, world, correlation, &beat).await;
                }
                continue;
            }
        };
        let Some(unit) = unit else { return };
        let (correlation, key, payload) = (unit.correlation(), unit.key(), unit.payload());
        match Operation::from_number(unit.header().record_count).unwrap() {
            Operation::JoinGroup => {
                let request = JoinGroupRequest::decode(key, payload).unwrap();
                let answer = {
                    let mut world = world.lock().unwrap();
                    world.said.push(Said::Join { member: request.member, claims: numbers(&request.claims) });
                    if let Some(status) = world.refuse_joins {
                        Err(WireError::new(status, "no"))
                    } else {
                        world.members.push(request.member);
                        Ok(JoinGroupResponse {
                            session_timeout_ms: world.session_timeout_ms,
                            processing_timeout_ms: world.processing_timeout_ms,
                            heartbeat_interval_ms: world.session_timeout_ms / 3,
                            assignment: world.assignment(),
                        })
                    }
                };
                match answer {
                    Ok(answer) => peer.respond(correlation, &answer).await,
                    Err(refusal) => peer.refuse(correlation, refusal).await,
                }
            }
            Operation::GroupHeartbeat => {
                let request = GroupHeartbeatRequest::decode(key, payload).unwrap();
                if let Some((correlation, older)) = parked.take() {
                    answer_beat(&mut peer, world, correlation, &older).await;
                }
                let news = {
                    let mut world = world.lock().unwrap();
                    let owned = numbers(&request.owned);
                    if world.owned != owned {
                        world.owned.clone_from(&owned);
                        world.said.push(Said::Owns(owned));
                    }
                    is_news(&world, &request)
                };
                if news {
                    answer_beat(&mut peer, world, correlation, &request).await;
                } else {
                    answer_at = Instant::now() + Duration::from_millis(request.wait_ms.into());
                    parked = Some((correlation, request));
                }
            }
            Operation::LeaveGroup => {
                let request = LeaveGroupRequest::decode(key, payload).unwrap();
                {
                    let mut world = world.lock().unwrap();
                    world.members.retain(|member| *member != request.member);
                    world.said.push(Said::Leave(request.member));
                }
                peer.respond(correlation, &LeaveGroupResponse).await;
            }
            Operation::Commit => {
                let request = CommitRequest::decode(key, payload).unwrap();
                let hold = {
                    let mut world = world.lock().unwrap();
                    let hold = world.hold_commits;
                    if hold {
                        world.held.push_back((correlation, request.clone()));
                    }
                    hold
                };
                if !hold {
                    answer_commit(&mut peer, world, correlation, &request).await;
                }
            }
            Operation::FetchCommitted => {
                let request = FetchCommittedRequest::decode(key, payload).unwrap();
                let positions = {
                    let world = world.lock().unwrap();
                    let found = request.partitions.iter().map(|(topic, partition)| CommittedOffset {
                        topic: *topic,
                        partition: *partition,
                        status: Status::Ok,
                        offset: world.committed.get(&partition.0).copied().map(Offset),
                        leader_epoch: LeaderEpoch(0),
                    });
                    found.collect()
                };
                peer.respond(correlation, &FetchCommittedResponse { positions }).await;
            }
            Operation::ListOffsets => {
                let request = ListOffsetsRequest::decode(key, payload).unwrap();
                let end = world.lock().unwrap().end;
                let offset = match request.query {
                    OffsetQuery::Earliest => 0,
                    OffsetQuery::Last(count) => end.saturating_sub(count),
                    OffsetQuery::Latest | OffsetQuery::AtOrAfter(_) => end,
                };
                let answer = ListOffsetsResponse {
                    offset: Offset(offset),
                    leader_epoch: LeaderEpoch(0),
                    log_start: Offset(0),
                    high_watermark: Offset(end),
                    log_end: Offset(end),
                };
                peer.respond(correlation, &answer).await;
            }
            Operation::Subscribe => {
                let request = SubscribeRequest::decode(key, payload).unwrap();
                let end = {
                    let mut world = world.lock().unwrap();
                    world.said.push(Said::Subscribe { partition: request.partition.0, offset: request.offset.0 });
                    world.end
                };
                let (start_offset, high_watermark) = (request.offset, Offset(end));
                peer.respond(correlation, &SubscribeResponse { start_offset, log_start: Offset(0), high_watermark }).await;
                peer.send(&delivery(correlation, request.partition, request.offset.0..end)).await;
            }
            Operation::Unsubscribe => peer.respond(correlation, &UnsubscribeResponse).await,
            Operation::Credit => {}
            other => panic!("{other} is not expected"),
        }
    }
}

fn is_news(world: &World, beat: &GroupHeartbeatRequest) -> bool {
    beat.version < world.version || !world.members.contains(&beat.member)
}

async fn answer_beat(peer: &mut Peer, world: &Mutex<World>, correlation: CorrelationId, beat: &GroupHeartbeatRequest) {
    let (known, assignment) = {
        let world = world.lock().unwrap();
        (world.members.contains(&beat.member), world.assignment())
    };
    if known {
        peer.respond(correlation, &GroupHeartbeatResponse { assignment }).await;
    } else {
        peer.refuse(correlation, WireError::new(Status::UnknownMember, "who?")).await;
    }
}

async fn answer_commit(peer: &mut Peer, world: &Mutex<World>, correlation: CorrelationId, request: &CommitRequest) {
    let answer = world.lock().unwrap().commit(request);
    match answer {
        Ok(answer) => peer.respond(correlation, &answer).await,
        Err(refusal) => peer.refuse(correlation, refusal).await,
    }
}

/// The records say their offsets, and have one of three keys.
fn delivery(subscription: CorrelationId, partition: PartitionId, offsets: std::ops::Range<u64>) -> Vec<u8> {
    let (mut frames, next) = (Vec::new(), offsets.end);
    for offset in offsets {
        let key = format!("k{}", offset % 3);
        let mut bytes = ProducedFrame::message(1, Some(key.as_bytes()), offset.to_string().as_bytes()).to_vec().unwrap();
        let stamp = BrokerStamp { offset: Offset(offset), leader_epoch: LeaderEpoch(0), append_time: 9, flushed_distance: 0 };
        FramePrefix::stamp(bytes.first_chunk_mut().unwrap(), &stamp, &FrameSalt::new(TOPIC, partition));
        frames.extend(bytes);
    }
    let head = DeliveryHead { high_watermark: Offset(next), log_start: Offset(0), next_offset: Offset(next) };
    [&head.encode(subscription, u32::try_from(frames.len()).unwrap())[..], &frames].concat()
}
