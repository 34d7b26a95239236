//! Records that are at hand while the group takes the partition away: from the consumer's side.

use hermit_proto::record_set::{NewRecord, RecordSetBuilder};
use hermit_proto::session::{AssignedPartition, AssignedTopic, Assignment as Granted, JoinGroupResponse};
use hermit_proto::{
    BrokerStamp, Codec, CorrelationId, FramePrefix, FrameSalt, Generation, LeaderEpoch, MemberId, Offset, PartitionId,
    ProducedFrame, TopicId,
};
use tokio::time::Instant;

use super::{Key, Place, Shared};
use crate::Client;
use crate::consumer::chunk::Chunk;
use crate::consumer::config::AutoCommit;
use crate::consumer::stream::Ready;
use crate::consumer::subscription::Subscription;
use crate::consumer::{Consumer, Current, Records};

const KEY: Key = (TopicId(1), PartitionId(0));
const RECORDS: u64 = 10;

/// A record set as the broker delivers it, at offset 0.
fn delivered() -> Vec<u8> {
    let mut set = RecordSetBuilder::new(0);
    for number in 0..RECORDS {
        let value = number.to_string();
        set.append(&NewRecord { timestamp_ms: 0, key: None, value: Some(value.as_bytes()), headers: &[("h", None)] }).unwrap();
    }
    let set = set.finish(Codec::None).unwrap();
    let mut bytes = ProducedFrame::record_set(0, Codec::None, u32::try_from(RECORDS).unwrap(), &set).to_vec().unwrap();
    let stamp = BrokerStamp { offset: Offset(0), leader_epoch: LeaderEpoch(0), append_time: 9, flushed_distance: 0 };
    FramePrefix::stamp(bytes.first_chunk_mut().unwrap(), &stamp, &FrameSalt::new(KEY.0, KEY.1));
    bytes
}

/// A consumer with a delivery at hand, and what its tasks would tell it.
struct Member {
    consumer: Consumer,
    version: u64,
}

impl Member {
    /// Nobody is there to connect to: a test says what comes.
    fn new(auto_commit: AutoCommit) -> Self {
        let client = Client::builder().server("127.0.0.1:1").start().unwrap();
        let mut consumer = client.consumer().group("g").auto_commit(auto_commit).build().unwrap();
        (consumer.subscribed, consumer.tracks) = (true, true);
        let mut member = Self { consumer, version: 0 };
        let assignment = member.granted(Some(1));
        member.shared().with(|state| {
            // So that the application has to be told before anything is given up.
            state.listens = true;
            state.subscribe(Subscription::from("t"), || MemberId(1));
            let request = state.join_request().unwrap();
            let answer = JoinGroupResponse {
                session_timeout_ms: 30_000,
                processing_timeout_ms: 60_000,
                heartbeat_interval_ms: 10_000,
                assignment,
            };
            state.joined(&request, &answer, Instant::now());
        });
        member.found();
        member.consumer.follow_group().unwrap();
        let subscription = CorrelationId(7);
        let (&slot, assignment) = member.consumer.assignments.first_key_value().unwrap();
        assert_eq!(assignment.position(), Offset(0));
        member.consumer.assignments.get_mut(&slot).unwrap().requested(subscription, Instant::now());
        let chunk = Chunk::new(delivered().into(), Offset(RECORDS));
        member.consumer.current = Some(Current { slot, subscription, chunk });
        member
    }

    fn shared(&self) -> &Shared {
        self.consumer.group.as_deref().unwrap()
    }

    fn granted(&mut self, generation: Option<u64>) -> Granted {
        self.version += 1;
        let partition = |generation| AssignedPartition { partition: KEY.1, generation: Generation(generation) };
        let partitions = generation.map(partition).into_iter().collect();
        let topics = vec![AssignedTopic { topic: KEY.0, name: "t".into(), partitions }];
        Granted { version: self.version, generation: Generation(1), topics }
    }

    fn grant(&mut self, generation: Option<u64>) {
        let assignment = self.granted(generation);
        self.shared().with(|state| {
            let request = state.heartbeat_request().unwrap();
            state.heard(&request, &assignment, Instant::now());
        });
    }

    /// Nothing was committed: reading goes on where it was.
    fn found(&self) {
        let start = Place { offset: Offset(0), epoch: LeaderEpoch(0) };
        self.shared().with(|state| {
            for wanted in state.wanted() {
                state.found(wanted, None, start, Instant::now());
            }
        });
    }

    /// The group has changed, and the consumer has not followed yet: what is at hand stays there, however often it is asked for.
    fn refuses(&mut self) {
        for _ in 0..3 {
            assert!(matches!(self.consumer.next_records(), Ok(Ready::Held)));
            assert_eq!(self.consumer.assignments.first_key_value().unwrap().1.position(), Offset(0));
            assert!(!self.shared().with(|state| state.is_in_hand(KEY)));
        }
    }

    fn takes_all(&mut self) -> Records {
        let Ok(Ready::Taken(records)) = self.consumer.next_records() else { unreachable!("they are at hand") };
        let found: Vec<_> = records.iter().map(|record| (record.offset.0, record.value.unwrap().to_vec())).collect();
        assert_eq!(found, (0..RECORDS).map(|number| (number, number.to_string().into_bytes())).collect::<Vec<_>>());
        assert!(records.iter().all(|record| record.headers().eq([("h", None)])));
        assert_eq!(self.consumer.assignments.first_key_value().unwrap().1.position(), Offset(RECORDS));
        assert!(matches!(self.consumer.next_records(), Ok(Ready::Nothing)), "and once only");
        records
    }
}

#[tokio::test]
async fn records_of_a_partition_that_is_revoked_meanwhile_are_not_handed_out() {
    for auto_commit in [AutoCommit::Processed, AutoCommit::Acknowledged] {
        let mut member = Member::new(auto_commit);
        member.grant(None);
        member.refuses();
        // Now the consumer looks.
        assert_eq!(member.consumer.follow_group().unwrap(), [KEY]);
        assert!(matches!(member.consumer.next_records(), Ok(Ready::Nothing)));
        // Whoever gets the partition begins with the first of them.
        assert!(member.shared().with(|state| state.commit_owed(Instant::now()).is_none()));
    }
}

#[tokio::test]
async fn records_that_were_held_back_are_handed_out_once_the_partition_is_granted_again() {
    for auto_commit in [AutoCommit::Processed, AutoCommit::Acknowledged] {
        let mut member = Member::new(auto_commit);
        member.grant(None);
        member.refuses();
        member.grant(Some(1));
        assert_eq!(member.takes_all().generation(), Generation(1));

        // Under another generation, of which it has to be found out first whether somebody else had the partition in between.
        let mut member = Member::new(auto_commit);
        member.grant(Some(2));
        member.refuses();
        member.found();
        assert_eq!(member.takes_all().generation(), Generation(2));
    }
}
