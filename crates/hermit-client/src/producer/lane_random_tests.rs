use hermit_log::disk::sim::Rng;

use super::*;

/// A broker with one partition that answers, refuses, forgets connections and loses its memory at random; whatever it does, what is
/// stored is what was sent, in order and once, but for what was reported as doubtful or failed.
#[test]
fn random_brokers_never_double_or_reorder() {
    for seed in 1..400u64 {
        let mut random = Rng::new(seed);
        let mut lane = Harness::new(Promise::Idempotent);
        lane.lane.backoff = Backoff::seeded(lane.lane.config.backoff, seed);
        let mut broker = Broker::default();
        let mut sent_sizes = vec![1usize];
        let mut next_identity = SECOND;
        let mut next_size = 2;
        for _ in 0..200 {
            if random.below(3) == 0 && next_size < 40 {
                lane.enqueue([next_size]);
                sent_sizes.push(next_size);
                next_size += 1;
            }
            if lane.lane.wants_identity() && lane.lane.offer_identity(next_identity) {
                next_identity.id.0 += 1;
            }
            let mut requests = Vec::new();
            while let Some((batch, stamp)) = lane.lane.next_to_send(lane.now) {
                let request = (batch.record_count(), stamp.unwrap());
                let token = Token { session: lane.session, correlation: CorrelationId(lane.next) };
                lane.next += 1;
                lane.lane.sent(token);
                requests.push((request, token));
            }
            // The connection breaks at some request: before it was taken, or after, and then no more answers come.
            let breaks_at = if random.below(4) == 0 { random.below(6) } else { usize::MAX };
            for (at, ((count, stamp), token)) in requests.into_iter().enumerate() {
                if at > breaks_at {
                    lane.answer(token, lost());
                } else if at == breaks_at {
                    if random.below(2) == 0 {
                        broker.take(count, stamp, &mut random);
                    }
                    lane.session += 1;
                    lane.answer(token, lost());
                } else {
                    let outcome = broker.take(count, stamp, &mut random);
                    lane.answer(token, outcome);
                }
            }
            if random.below(30) == 0 {
                // But not while a first batch is in doubt: a broker that forgot it takes sequence 0 for new. Brokers remember for
                // 24 h, and the delivery timeout is bounded well below that.
                let in_doubt = |entry: &Entry| entry.doubtful && entry.sequence == Some(Sequence(0));
                if !lane.lane.queue.iter().any(in_doubt) {
                    broker.known.clear();
                }
            }
            lane.pass(Duration::from_millis(random.below(600) as u64));
        }
        check(seed, &sent_sizes, &broker.log, &lane.results());
    }
}

fn check(seed: u64, sent: &[usize], log: &[usize], results: &[(usize, Result<Option<Offset>>)]) {
    let mut sorted = log.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, log, "seed {seed}: doubled or out of order");
    assert!(log.iter().all(|size| sent.contains(size)), "seed {seed}: invented");
    for (size, outcome) in results {
        match outcome {
            Ok(_) => assert!(log.contains(size), "seed {seed}: {size} was answered and is not there"),
            Err(Error::OutcomeUnknown { .. }) => {}
            Err(error) => assert!(!log.contains(size), "seed {seed}: {size} is there and failed with {error}"),
        }
    }
}

#[derive(Default)]
struct Broker {
    log: Vec<usize>,
    known: Vec<(ProducerId, Vec<(i32, u32)>)>,
}

impl Broker {
    fn take(&mut self, count: u32, stamp: ProducerStamp, random: &mut Rng) -> Outcome {
        match random.below(12) {
            0 => return refused(Status::DiskFull),
            1 => return refused(Status::Throttled),
            _ => {}
        }
        let first = stamp.first_sequence.0;
        let at = self.known.iter().position(|(id, _)| *id == stamp.id);
        let Some((_, batches)) = at.and_then(|at| self.known.get_mut(at)) else {
            if first != 0 {
                return refused(Status::UnknownProducer);
            }
            self.known.push((stamp.id, vec![(0, count)]));
            self.log.push(count as usize);
            return stored(0);
        };
        if batches.iter().rev().take(5).any(|batch| *batch == (first, count)) {
            return stored(0);
        }
        let (last, size) = *batches.last().unwrap();
        let expected = last + i32::try_from(size).unwrap();
        if first != expected {
            return out_of_order(u64::from(expected.cast_unsigned()), u64::from(first.cast_unsigned()));
        }
        batches.push((first, count));
        self.log.push(count as usize);
        stored(0)
    }
}
