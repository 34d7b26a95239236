use hermit_proto::session::{AssignedPartition, AssignedTopic, CommitResponse, CommitResult, Status, WireError};
use hermit_proto::{LeaderEpoch, Offset, PartitionId, TopicId};

use super::*;
use crate::admin::Committed;
use crate::consumer::config::{AutoCommit, Otherwise};

/// What [`State::hand_out`] says of a record, whatever the generation.
#[derive(Debug, PartialEq, Eq)]
enum HandOut {
    Yes,
    Held,
}

/// A member, told what a broker would tell it.
struct Member {
    state: State,
    now: Instant,
    ids: u128,
    version: u64,
}

const fn key(partition: u32) -> Key {
    (TopicId(1), PartitionId(partition))
}

const fn place(offset: u64) -> Place {
    Place { offset: Offset(offset), epoch: LeaderEpoch(0) }
}

impl Member {
    fn new(auto_commit: AutoCommit) -> Self {
        let config = GroupConfig {
            session_timeout: Duration::from_secs(30),
            processing_timeout: Duration::from_secs(60),
            strategy: hermit_proto::session::AssignmentStrategy::Balanced,
            uncommitted: Otherwise::Earliest,
            commits_start: false,
            auto_commit,
            auto_commit_interval: Duration::from_secs(1),
            request_timeout: Duration::from_secs(10),
        };
        let mut state = State::new("g".into(), config);
        state.subscribe(Subscription::from("t"), || MemberId(1));
        let mut member = Self { state, now: Instant::now(), ids: 1, version: 0 };
        member.join(&[]);
        member
    }

    fn assignment(&mut self, granted: &[(u32, u64)]) -> Assignment {
        self.version += 1;
        let partitions = granted.iter().map(|(partition, generation)| AssignedPartition {
            partition: PartitionId(*partition),
            generation: Generation(*generation),
        });
        let topic = AssignedTopic { topic: TopicId(1), name: "t".into(), partitions: partitions.collect() };
        Assignment { version: self.version, generation: Generation(1), topics: vec![topic] }
    }

    fn join(&mut self, granted: &[(u32, u64)]) -> JoinGroupRequest {
        let request = self.state.join_request().unwrap();
        let answer = JoinGroupResponse {
            session_timeout_ms: 30_000,
            processing_timeout_ms: 60_000,
            heartbeat_interval_ms: 10_000,
            assignment: self.assignment(granted),
        };
        self.state.joined(&request, &answer, self.now);
        request
    }

    fn grant(&mut self, granted: &[(u32, u64)]) {
        let request = self.state.heartbeat_request().unwrap();
        let assignment = self.assignment(granted);
        self.state.heard(&request, &assignment, self.now);
    }

    fn found(&mut self, committed: Option<u64>) {
        for wanted in self.state.wanted() {
            let found = committed.map(|offset| Committed { offset: Offset(offset), leader_epoch: LeaderEpoch(0) });
            self.state.found(wanted, found, place(committed.unwrap_or(0)), self.now);
        }
    }

    fn fence(&mut self) {
        let member = self.state.membership.as_ref().unwrap().member;
        self.ids += 1;
        let next = MemberId(self.ids);
        self.state.fence(member, || next);
    }

    fn hand_out(&mut self, partition: u32, offset: u64) -> HandOut {
        let Some(tenure) = self.tenure(partition) else { return HandOut::Held };
        let handed = self.state.hand_out(key(partition), tenure, [(Offset(offset), place(offset + 1))], self.now);
        handed.map_or(HandOut::Held, |_since| HandOut::Yes)
    }

    fn tenure(&self, partition: u32) -> Option<Tenure> {
        self.state.entries.get(&key(partition)).map(|entry| entry.tenure)
    }

    fn owned(&self) -> Vec<u32> {
        self.state.heartbeat_request().unwrap().owned.iter().map(|(_, partition)| partition.0).collect()
    }

    /// Sends what is to be committed, and has it answered. Offsets by partition.
    fn commit(&mut self, status: Status) -> Vec<(u32, u64, u64)> {
        self.state.enqueue_owed(self.now + Duration::from_secs(10));
        let Some(request) = self.state.next_commit(self.now) else { return Vec::new() };
        let results =
            request.entries.iter().map(|entry| CommitResult { topic: entry.topic, partition: entry.partition, status }).collect();
        self.state.answered(&request, Ok(CommitResponse { results }), || MemberId(99));
        request.entries.iter().map(|entry| (entry.partition.0, entry.offset.0, entry.generation.0)).collect()
    }
}

#[test]
fn a_partition_is_read_once_its_place_is_known_and_kept_until_it_is_given_up() {
    let mut member = Member::new(AutoCommit::Processed);
    member.grant(&[(0, 4), (1, 4)]);
    assert_eq!(member.hand_out(0, 0), HandOut::Held, "where it begins is not known");
    member.found(None);
    assert_eq!(member.hand_out(0, 0), HandOut::Yes);
    member.grant(&[(1, 4)]);
    assert_eq!(member.hand_out(0, 1), HandOut::Held, "it is revoked");
    assert!(!member.state.give_up(), "the application works on a record");
    assert_eq!(member.owned(), [0, 1]);
    member.state.come_back();
    assert!(!member.state.give_up(), "what is processed is not committed");
    assert_eq!(member.commit(Status::Ok), [(0, 1, 4)]);
    assert!(member.state.give_up());
    assert_eq!(member.owned(), [1]);
    assert!(member.state.errors.is_empty());
}

#[test]
fn a_revocation_that_is_taken_back_changes_nothing_until_the_application_was_told() {
    for told in [false, true] {
        let mut member = Member::new(AutoCommit::Off);
        member.state.listens = true;
        member.grant(&[(0, 1)]);
        member.found(None);
        let tenure = member.tenure(0);
        member.grant(&[]);
        assert!(!member.state.give_up(), "the listener has to be told");
        if told {
            member.state.told(&[key(0)]);
        }
        member.grant(&[(0, 1)]);
        assert_eq!(member.state.give_up(), told);
        member.found(None);
        assert_eq!(member.hand_out(0, 0), HandOut::Yes);
        assert_eq!(member.tenure(0) == tenure, !told);
    }
}

#[test]
fn after_a_fence_it_goes_on_only_from_its_own_last_word() {
    // Fetched 10, acknowledged 12, attempted 14.
    for (committed, goes_on) in [(10, false), (12, true), (14, true), (13, false), (20, false)] {
        let mut member = Member::new(AutoCommit::Off);
        member.grant(&[(0, 1)]);
        member.found(Some(10));
        let tenure = member.tenure(0).unwrap();
        for offset in 10..16 {
            assert_eq!(member.hand_out(0, offset), HandOut::Yes);
        }
        let topic: Arc<str> = "t".into();
        drop(member.state.commit(vec![(key(0), tenure, topic.clone(), place(12))], member.now));
        assert_eq!(member.commit(Status::Ok), [(0, 12, 1)]);
        let mut lost = member.state.commit(vec![(key(0), tenure, topic, place(14))], member.now);
        let request = member.state.next_commit(member.now).unwrap();
        let refusal = Error::refused(hermit_proto::session::Operation::Commit, WireError::new(Status::UnknownMember, "who?"));
        member.state.answered(&request, Err(refusal), || MemberId(7));
        assert_eq!(member.hand_out(0, 16), HandOut::Held);
        assert_eq!(member.join(&[(0, 9)]).claims, [key(0)]);
        member.found(Some(committed));
        assert_eq!(member.tenure(0) == Some(tenure), goes_on, "committed is {committed}");
        assert_eq!(member.state.errors.len(), usize::from(!goes_on));
        let sent = member.commit(Status::Ok);
        if goes_on {
            assert_eq!(sent, [(0, 14, 9)], "under the new generation");
        } else {
            assert_eq!(sent, [], "nothing is committed over what another member did");
            let polled = std::pin::Pin::new(&mut lost).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert!(matches!(polled, std::task::Poll::Ready(Err(Error::Fenced { .. }))), "{polled:?}");
        }
    }
}

#[test]
fn what_was_claimed_and_is_not_granted_is_lost_and_told() {
    let mut member = Member::new(AutoCommit::Off);
    member.grant(&[(0, 1), (1, 1), (2, 1)]);
    member.found(None);
    assert_eq!(member.hand_out(0, 0), HandOut::Yes);
    member.grant(&[(0, 1), (1, 1)]);
    member.fence();
    assert_eq!(member.owned(), [] as [u32; 0]);
    let request = member.join(&[]);
    assert_eq!(request.claims, [key(0), key(1)], "what was revoked is not claimed");
    assert_eq!(request.member, MemberId(2));
    let errors: Vec<_> = member.state.errors.iter().collect();
    assert!(matches!(errors[..], [Error::Fenced { partition: PartitionId(0), .. }]), "of one it was handed a record: {errors:?}");
}

#[test]
fn an_older_assignment_is_not_taken_up_again() {
    let mut member = Member::new(AutoCommit::Off);
    let old = member.assignment(&[(0, 1)]);
    member.grant(&[(0, 1)]);
    member.found(None);
    member.grant(&[]);
    assert!(member.state.give_up());
    let request = member.state.heartbeat_request().unwrap();
    member.state.heard(&request, &old, member.now);
    assert_eq!(member.owned(), [] as [u32; 0]);
}

#[test]
fn nothing_is_handed_out_once_the_broker_may_have_given_up_on_the_member() {
    let mut member = Member::new(AutoCommit::Off);
    member.grant(&[(0, 1)]);
    member.found(None);
    member.now += Duration::from_secs(30);
    assert_eq!(member.hand_out(0, 0), HandOut::Yes);
    member.now += Duration::from_millis(1);
    assert_eq!(member.hand_out(0, 1), HandOut::Held);
    member.grant(&[(0, 1)]);
    assert_eq!(member.hand_out(0, 1), HandOut::Yes);
}

#[test]
fn an_application_that_is_away_for_too_long_loses_the_membership_until_it_is_back() {
    let mut member = Member::new(AutoCommit::Processed);
    member.grant(&[(0, 1)]);
    member.found(None);
    member.state.come_back();
    member.state.go_off(member.now);
    assert_eq!(member.state.processing_deadline(), None, "it holds nothing");
    assert_eq!(member.hand_out(0, 0), HandOut::Yes);
    member.state.go_off(member.now);
    assert_eq!(member.state.processing_deadline(), Some(member.now + Duration::from_secs(60)));
    let leave = member.state.go_away(|| MemberId(5)).unwrap();
    assert_eq!(leave.member, MemberId(1));
    assert_eq!(member.hand_out(0, 1), HandOut::Held);
    assert!(member.state.come_back(), "it joins again");
    assert!(matches!(member.state.errors.pop_front(), Some(Error::ProcessingTimeout { .. })));
    assert_eq!(member.join(&[(0, 3)]).claims, [key(0)]);
    member.found(None);
    assert_eq!(member.commit(Status::Ok), [(0, 1, 3)], "nobody had it in between");
}

#[test]
fn automatic_commits_do_not_go_back_behind_what_the_application_committed() {
    for mode in [AutoCommit::Processed, AutoCommit::Acknowledged] {
        let mut member = Member::new(mode);
        member.grant(&[(0, 1)]);
        member.found(None);
        let tenure = member.tenure(0).unwrap();
        for offset in 0..5 {
            assert_eq!(member.hand_out(0, offset), HandOut::Yes);
            if offset == 2 {
                member.state.come_back();
                member.state.acknowledge(key(0), tenure, Offset(0), place(1), member.now);
            }
        }
        // The last record too, before the next is asked for.
        let mut told = member.state.commit(vec![(key(0), tenure, "t".into(), place(5))], member.now);
        assert_eq!(member.commit(Status::Ok), [(0, 5, 1)], "{mode:?}");
        let polled = std::pin::Pin::new(&mut told).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        assert!(matches!(polled, std::task::Poll::Ready(Ok(()))), "{polled:?}");
        assert_eq!(member.commit(Status::Ok), [], "{mode:?}");
        assert!(member.state.commit_owed(member.now).is_none(), "nor by `close`");
        // Unless it goes elsewhere.
        member.state.seek(key(0));
        assert_eq!(member.hand_out(0, 1), HandOut::Yes);
        member.state.come_back();
        member.state.acknowledge(key(0), tenure, Offset(1), place(2), member.now);
        assert_eq!(member.commit(Status::Ok), [(0, 2, 1)], "{mode:?}");
    }
}

#[test]
fn acknowledgements_in_any_order_take_nothing_back() {
    let mut member = Member::new(AutoCommit::Processed);
    member.grant(&[(0, 1)]);
    member.found(None);
    let tenure = member.tenure(0).unwrap();
    for offset in 0..5 {
        assert_eq!(member.hand_out(0, offset), HandOut::Yes);
    }
    member.state.acknowledge(key(0), tenure, Offset(3), place(4), member.now);
    member.state.acknowledge(key(0), tenure, Offset(1), place(2), member.now);
    assert_eq!(member.commit(Status::Ok), [(0, 4, 1)]);
}

#[test]
fn what_comes_late_of_a_partition_that_was_lost_does_not_concern_the_one_that_is_held_now() {
    for mode in [AutoCommit::Processed, AutoCommit::Acknowledged] {
        let mut member = Member::new(mode);
        member.grant(&[(0, 1)]);
        member.found(None);
        let before = member.tenure(0).unwrap();
        assert_eq!(member.hand_out(0, 0), HandOut::Yes);
        member.fence();
        member.join(&[]);
        member.grant(&[(0, 2)]);
        member.found(None);
        let now = member.tenure(0).unwrap();
        assert_ne!(before, now);
        for offset in 0..2 {
            assert_eq!(member.hand_out(0, offset), HandOut::Yes);
        }
        member.state.abandon(key(0), before, Offset(1));
        member.state.acknowledge(key(0), before, Offset(0), place(1), member.now);
        assert_eq!(member.commit(Status::Ok), [], "{mode:?}: it is being processed once more");
        for offset in 0..2 {
            member.state.acknowledge(key(0), now, Offset(offset), place(offset + 1), member.now);
        }
        assert_eq!(member.commit(Status::Ok), [(0, 2, 2)], "{mode:?}");
    }
}

#[test]
fn a_member_that_was_fenced_and_closes_does_not_wait_for_what_cannot_come() {
    let mut member = Member::new(AutoCommit::Processed);
    member.grant(&[(0, 1)]);
    member.found(None);
    assert_eq!(member.hand_out(0, 0), HandOut::Yes);
    member.state.come_back();
    member.fence();
    let mut told = member.state.commit_owed(member.now).unwrap();
    assert!(member.state.next_commit(member.now).is_none());
    assert!(!member.state.all_committed(), "it may join again");
    member.state.close(member.now + Duration::from_secs(30));
    assert!(member.state.next_commit(member.now).is_none());
    assert!(member.state.all_committed());
    let polled = std::pin::Pin::new(&mut told).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(matches!(polled, std::task::Poll::Ready(Err(Error::Fenced { .. }))), "{polled:?}");
}
