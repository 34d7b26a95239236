use super::*;
use crate::error::Result;
use crate::producer::batch::OpenBatch;
use crate::producer::delivery::Completer;
use crate::producer::record::ProducerRecord;
use hermit_proto::session::{Operation, WireError};
use hermit_proto::{Codec, PartitionId};

#[path = "lane_random_tests.rs"]
mod random;

const TIMEOUT: Duration = Duration::from_secs(60);
const FIRST: ProducerIdentity = ProducerIdentity { id: ProducerId(7), epoch: ProducerEpoch(0) };
const SECOND: ProducerIdentity = ProducerIdentity { id: ProducerId(8), epoch: ProducerEpoch(0) };

struct Harness {
    lane: Lane,
    now: Instant,
    session: u64,
    next: u64,
    finished: Vec<(usize, Result<Option<Offset>>)>,
}

/// Batches are told apart by their number of records: 1, 2, 3, …
impl Harness {
    fn new(promise: Promise) -> Self {
        let backoff = BackoffConfig { min: Duration::from_millis(100), max: Duration::from_millis(400) };
        let config = LaneConfig { promise, max_in_flight: 5, delivery_timeout: TIMEOUT, backoff, resumed: false };
        let mut lane = Lane::new(config);
        lane.enqueue(batch(1, Instant::now() + TIMEOUT, false));
        let offered = lane.offer_identity(FIRST);
        assert_eq!(offered, promise == Promise::Idempotent);
        Self { lane, now: Instant::now(), session: 1, next: 1, finished: Vec::new() }
    }

    fn enqueue(&mut self, sizes: impl IntoIterator<Item = usize>) {
        for size in sizes {
            self.lane.enqueue(batch(size, self.now + TIMEOUT, false));
        }
    }

    /// Sends all that may be sent: size, sequence and token of each.
    fn send(&mut self) -> Vec<(u32, Option<i32>, Token)> {
        let mut sent = Vec::new();
        while let Some((batch, stamp)) = self.lane.next_to_send(self.now) {
            let entry = (batch.record_count(), stamp.map(|stamp| stamp.first_sequence.0));
            let token = Token { session: self.session, correlation: CorrelationId(self.next) };
            self.next += 1;
            self.lane.sent(token);
            sent.push((entry.0, entry.1, token));
        }
        sent
    }

    fn sizes(&mut self) -> Vec<(u32, Option<i32>)> {
        self.send().into_iter().map(|(size, sequence, _)| (size, sequence)).collect()
    }

    fn answer(&mut self, token: Token, outcome: Outcome) {
        let finished = self.lane.answered(token, outcome, self.now);
        self.note(finished);
    }

    fn note(&mut self, finished: Vec<Finished>) {
        self.finished.extend(finished.into_iter().map(|done| (done.batch.record_count() as usize, done.outcome)));
    }

    fn results(&mut self) -> Vec<(usize, Result<Option<Offset>>)> {
        std::mem::take(&mut self.finished)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let expired = self.lane.expire(self.now);
        self.note(expired);
    }
}

fn batch(size: usize, deadline: Instant, singles: bool) -> Batch {
    let result = Completer::new("t".into(), PartitionId(0));
    let mut open = if singles { OpenBatch::singles(deadline, result) } else { OpenBatch::set(0, deadline, result) };
    for _ in 0..size {
        open.append(&ProducerRecord::new("v").key("k"), 0, 1).unwrap();
    }
    open.seal(Codec::None, 3, deadline)
}

fn refused(status: Status) -> Outcome {
    Outcome::Refused(Error::refused(Operation::Produce, WireError::new(status, "no")))
}

fn out_of_order(expected: u64, found: u64) -> Outcome {
    Outcome::Refused(Error::refused(
        Operation::Produce,
        WireError::new(Status::OutOfOrderSequence, "no").detail(expected).detail(found),
    ))
}

fn lost() -> Outcome {
    Outcome::Lost(Error::ConnectionLost { server: "s".into(), source: Arc::new(std::io::ErrorKind::ConnectionReset.into()) })
}

fn stored(base: u64) -> Outcome {
    Outcome::Stored { base: Some(Offset(base)), duplicate: false }
}

#[test]
fn batches_are_pipelined_in_order_and_no_more_than_the_broker_recognises() {
    let mut lane = Harness::new(Promise::Idempotent);
    lane.enqueue(2..=7);
    let sent = lane.send();
    let expected = [(1, Some(0)), (2, Some(1)), (3, Some(3)), (4, Some(6)), (5, Some(10))];
    assert_eq!(sent.iter().map(|(size, sequence, _)| (*size, *sequence)).collect::<Vec<_>>(), expected);
    lane.answer(sent[0].2, stored(40));
    assert_eq!(lane.sizes(), [(6, Some(15))]);
    assert!(matches!(lane.results()[..], [(1, Ok(Some(Offset(40))))]));
    assert!(!lane.lane.wants_more());
}

#[test]
fn after_a_lost_connection_all_is_sent_again_under_the_same_sequences_before_anything_new() {
    let mut lane = Harness::new(Promise::Idempotent);
    lane.enqueue(2..=3);
    let sent = lane.send();
    lane.answer(sent[0].2, stored(0));
    lane.answer(sent[1].2, lost());
    lane.answer(sent[2].2, lost());
    lane.enqueue([4]);
    lane.session = 2;
    let again = lane.send();
    assert_eq!(again.iter().map(|sent| (sent.0, sent.1)).collect::<Vec<_>>(), [(2, Some(1)), (3, Some(3)), (4, Some(6))]);
    // An answer of the old session is nobody's.
    lane.answer(sent[1].2, stored(99));
    assert_eq!(lane.results().len(), 1);
    for (token, base) in again.iter().map(|sent| sent.2).zip([1, 3, 6]) {
        lane.answer(token, stored(base));
    }
    assert!(lane.results().iter().all(|(_, outcome)| outcome.is_ok()));
    assert!(lane.lane.is_empty());
}

#[test]
fn a_full_disk_holds_the_order() {
    let mut lane = Harness::new(Promise::Idempotent);
    lane.enqueue(2..=3);
    let sent = lane.send();
    lane.answer(sent[0].2, refused(Status::DiskFull));
    assert!(lane.send().is_empty(), "nothing before the others are answered");
    // There is room again, but the first is missing.
    lane.answer(sent[1].2, out_of_order(0, 1));
    lane.answer(sent[2].2, out_of_order(0, 3));
    assert!(lane.send().is_empty(), "not at once");
    assert!(lane.lane.next_wake().unwrap() > lane.now);
    lane.pass(Duration::from_millis(100));
    assert_eq!(lane.sizes(), [(1, Some(0)), (2, Some(1)), (3, Some(3))]);
    assert!(lane.results().is_empty());
}

#[test]
fn refusals_back_off_longer_each_time_up_to_the_bound() {
    let mut lane = Harness::new(Promise::Idempotent);
    for most in [100, 200, 400, 400] {
        let sent = lane.send();
        assert_eq!(sent.len(), 1);
        lane.answer(sent[0].2, refused(Status::Throttled));
        let wait = lane.lane.next_wake().unwrap() - lane.now;
        assert!(wait <= Duration::from_millis(most) && wait >= Duration::from_millis(most / 2), "{wait:?} of {most}");
        lane.pass(wait);
    }
}

#[test]
fn a_fatal_refusal_fails_that_batch_alone_and_the_rest_begins_under_a_new_id() {
    let mut lane = Harness::new(Promise::Idempotent);
    lane.enqueue(2..=3);
    let sent = lane.send();
    lane.answer(sent[0].2, refused(Status::TooLarge));
    lane.answer(sent[1].2, out_of_order(0, 1));
    lane.answer(sent[2].2, out_of_order(0, 3));
    let results = lane.results();
    assert!(matches!(&results[..], [(1, Err(error))] if error.status() == Some(Status::TooLarge)), "{results:?}");
    lane.pass(Duration::from_millis(100));
    assert!(lane.send().is_empty());
    assert!(lane.lane.wants_identity());
    assert!(!lane.lane.offer_identity(FIRST), "its sequences have a gap");
    assert!(lane.lane.offer_identity(SECOND));
    assert_eq!(lane.sizes(), [(2, Some(0)), (3, Some(2))]);
}

#[test]
fn a_forgotten_producer_recovers_where_that_cannot_double() {
    let mut lane = Harness::new(Promise::Idempotent);
    lane.enqueue([2]);
    let sent = lane.send();
    lane.answer(sent[0].2, refused(Status::UnknownProducer));
    lane.answer(sent[1].2, refused(Status::UnknownProducer));
    assert!(lane.results().is_empty(), "both were refused for certain");
    lane.pass(Duration::from_millis(100));
    assert!(lane.lane.offer_identity(SECOND));
    assert_eq!(lane.sizes(), [(1, Some(0)), (2, Some(1))]);
}

#[test]
fn a_forgotten_producer_is_reported_where_it_could_double() {
    let mut lane = Harness::new(Promise::Idempotent);
    lane.enqueue([2]);
    let sent = lane.send();
    lane.answer(sent[0].2, lost());
    lane.answer(sent[1].2, lost());
    let again = lane.send();
    lane.answer(again[0].2, refused(Status::UnknownProducer));
    lane.answer(again[1].2, refused(Status::UnknownProducer));
    let results = lane.results();
    assert_eq!(results.len(), 2);
    for (_, outcome) in results {
        assert!(matches!(outcome, Err(Error::OutcomeUnknown { .. })), "{outcome:?}");
    }
    lane.enqueue([3]);
    lane.pass(Duration::from_millis(100));
    assert!(lane.lane.offer_identity(SECOND));
    assert_eq!(lane.sizes(), [(3, Some(0))]);
}

#[test]
fn what_lies_before_the_expected_sequence_is_stored() {
    let mut lane = Harness::new(Promise::Idempotent);
    let sent = lane.send();
    lane.answer(sent[0].2, lost());
    let again = lane.send();
    lane.answer(again[0].2, out_of_order(1, 0));
    assert!(matches!(lane.results()[..], [(1, Ok(None))]));
    // Across the wrap of sequences.
    lane.lane.next_sequence = Sequence(i32::MAX);
    lane.enqueue([2]);
    let sent = lane.send();
    assert_eq!(sent[0].1, Some(i32::MAX));
    lane.answer(sent[0].2, lost());
    let sent = lane.send();
    lane.answer(sent[0].2, out_of_order(1, u64::from(i32::MAX.cast_unsigned())));
    assert!(matches!(lane.results()[..], [(2, Ok(None))]));
}

#[test]
fn what_is_not_in_doubt_is_not_taken_for_stored() {
    let mut lane = Harness::new(Promise::Idempotent);
    let sent = lane.send();
    lane.answer(sent[0].2, out_of_order(9, 0));
    assert!(lane.results().is_empty());
    lane.pass(Duration::from_millis(100));
    assert!(lane.lane.offer_identity(SECOND));
    assert_eq!(lane.sizes(), [(1, Some(0))]);
}

#[test]
fn what_comes_during_a_back_off_is_taken_and_sent_after_it() {
    let mut lane = Harness::new(Promise::Idempotent);
    let sent = lane.send();
    lane.answer(sent[0].2, refused(Status::ReadOnly));
    lane.results();
    assert!(lane.lane.wants_more(), "nothing else would wake it");
    lane.enqueue([2]);
    assert!(lane.lane.offer_identity(SECOND));
    assert!(lane.send().is_empty());
    let wake = lane.lane.next_wake().unwrap();
    lane.pass(wake - lane.now);
    assert_eq!(lane.sizes(), [(2, Some(0))]);
}

#[test]
fn single_frames_go_on_behind_those_that_are_stored() {
    let mut lane = Harness::new(Promise::Idempotent);
    let sent = lane.send();
    lane.answer(sent[0].2, stored(0));
    lane.results();
    lane.lane.enqueue(batch(10, lane.now + TIMEOUT, true));
    let sent = lane.send();
    assert_eq!((sent[0].0, sent[0].1), (10, Some(1)));
    lane.answer(sent[0].2, lost());
    let again = lane.send();
    lane.answer(again[0].2, out_of_order(8, 1));
    lane.pass(Duration::from_millis(100));
    let rest = lane.send();
    assert_eq!((rest[0].0, rest[0].1), (3, Some(8)));
    lane.answer(rest[0].2, stored(50));
    // The offsets of the first seven are not known, so none are told.
    assert!(matches!(lane.results()[..], [(3, Ok(_))]));
}

#[test]
fn an_answer_of_read_only_leaves_the_outcome_open() {
    let mut lane = Harness::new(Promise::Idempotent);
    let sent = lane.send();
    lane.answer(sent[0].2, refused(Status::ReadOnly));
    let results = lane.results();
    assert!(matches!(&results[..], [(1, Err(Error::OutcomeUnknown { .. }))]), "{results:?}");
}

#[test]
fn the_delivery_timeout_names_what_stood_in_the_way() {
    let mut lane = Harness::new(Promise::Idempotent);
    lane.lane.note(&Error::NoGroup);
    lane.pass(TIMEOUT + Duration::from_secs(1));
    let results = lane.results();
    assert!(matches!(&results[..], [(1, Err(Error::DeliveryTimeout { source: Some(_), .. }))]), "{results:?}");
    assert!(lane.lane.is_empty());
}

#[test]
fn a_batch_in_doubt_does_not_time_out_as_if_it_were_not_stored() {
    for promise in [Promise::Idempotent, Promise::AtLeastOnce] {
        let mut lane = Harness::new(promise);
        let sent = lane.send();
        lane.pass(TIMEOUT + Duration::from_secs(1));
        assert!(lane.results().is_empty(), "in flight: the request timeout decides");
        lane.answer(sent[0].2, lost());
        lane.pass(Duration::ZERO);
        let results = lane.results();
        assert!(matches!(&results[..], [(1, Err(Error::OutcomeUnknown { .. }))]), "{results:?}");
    }
}

#[test]
fn what_asks_for_no_answer_is_not_sent_twice() {
    let mut lane = Harness::new(Promise::AtMostOnce);
    lane.enqueue([2]);
    let sent = lane.send();
    assert_eq!((sent[0].1, sent[1].1), (None, None));
    lane.answer(sent[0].2, Outcome::Stored { base: None, duplicate: false });
    lane.answer(sent[1].2, lost());
    assert!(matches!(&lane.results()[..], [(1, Ok(None)), (2, Err(Error::ConnectionLost { .. }))]));
    assert!(lane.send().is_empty());
}

#[test]
fn a_fenced_producer_sends_nothing_more_and_tells_what_is_known() {
    let mut lane = Harness::new(Promise::Idempotent);
    lane.enqueue([2, 3]);
    let sent = lane.send();
    lane.enqueue([4]);
    lane.answer(sent[0].2, refused(Status::FencedProducer));
    let results = lane.results();
    let Some((1, Err(fenced @ Error::ProducerFenced { .. }))) = results.first() else { panic!("{results:?}") };
    let halted = lane.lane.halt(fenced);
    lane.note(halted);
    assert!(matches!(&lane.results()[..], [(4, Err(Error::ProducerFenced { .. }))]), "it was never sent");
    // What was in flight is still answered, by whatever happened to it.
    lane.answer(sent[1].2, stored(7));
    lane.answer(sent[2].2, lost());
    assert!(matches!(&lane.results()[..], [(2, Ok(_)), (3, Err(Error::OutcomeUnknown { .. }))]));
    lane.pass(TIMEOUT);
    assert!(lane.lane.is_empty() && lane.send().is_empty() && !lane.lane.wants_identity() && !lane.lane.wants_more());
}

#[test]
fn two_successors_of_one_producer_notice() {
    for (resumed, first_sequence_again) in [(true, false), (false, false), (true, true)] {
        let mut lane = Harness::new(Promise::Idempotent);
        lane.lane.config.resumed = resumed;
        let mut sent = lane.send();
        if first_sequence_again {
            lane.answer(sent[0].2, lost());
            sent = lane.send();
        }
        lane.answer(sent[0].2, Outcome::Stored { base: Some(Offset(0)), duplicate: true });
        let results = lane.results();
        let anothers = matches!(&results[..], [(1, Err(Error::ProducerFenced { .. }))]);
        assert_eq!(anothers, resumed && !first_sequence_again, "{results:?}");
    }
}

#[test]
fn abandoning_tells_of_everything() {
    for promise in [Promise::AtMostOnce, Promise::AtLeastOnce, Promise::Idempotent] {
        let mut lane = Harness::new(promise);
        lane.enqueue([2, 3]);
        lane.send();
        lane.enqueue([4]);
        let finished = lane.lane.abandon(&Error::Closed { what: "client" });
        assert_eq!(finished.len(), 4);
        assert!(lane.lane.is_empty());
    }
}
