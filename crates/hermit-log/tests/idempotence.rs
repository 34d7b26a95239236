//! Idempotent producers behind a network that loses, doubles and reorders, against a model: exactly once, in order, also across restarts, power cuts,
//! retention, second incarnations and expiry.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the test's failure")]

#[path = "incidents/hooked.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod hooked;
#[path = "incidents/rig.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod rig;

use std::collections::BTreeMap;
use std::time::Duration;

use hermit_log::{Log, LogConfig, LogError, ProducerConfig, ProducerError};
use hermit_proto::{FrameLimits, FrameView, Offset, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence};
use proptest::prelude::*;

use crate::rig::{Bench, batch};

/// As many as the log remembers of each producer.
const WINDOW: usize = 5;
const EXPIRY: Duration = Duration::from_secs(100);

#[derive(Clone, Debug)]
enum Op {
    /// A client makes a batch of so many frames, and hands it to the network.
    Send {
        client: usize,
        frames: u8,
    },
    /// A client sends again what it has no answer for.
    Resend {
        client: usize,
    },
    /// The network delivers one of the messages that are under way, and keeps it where it is to come twice; the answer may be lost.
    Deliver {
        which: usize,
        keep: bool,
        answered: bool,
    },
    Lose {
        which: usize,
    },
    /// A client starts anew, with the next epoch; the old one goes on for a while without knowing.
    Incarnate {
        client: usize,
    },
    Flush,
    Retain {
        keep: u8,
    },
    Advance {
        seconds: u8,
    },
    Restart(Stop),
}

#[derive(Clone, Copy, Debug)]
enum Stop {
    Clean,
    Killed,
    PowerCut(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let client = 0..3usize;
    prop_oneof![
        6 => (client.clone(), 1..4u8).prop_map(|(client, frames)| Op::Send { client, frames }),
        3 => client.clone().prop_map(|client| Op::Resend { client }),
        10 => (any::<usize>(), prop::bool::weighted(0.3), prop::bool::weighted(0.7))
            .prop_map(|(which, keep, answered)| Op::Deliver { which, keep, answered }),
        1 => any::<usize>().prop_map(|which| Op::Lose { which }),
        1 => client.prop_map(|client| Op::Incarnate { client }),
        4 => Just(Op::Flush),
        1 => (0..8u8).prop_map(|keep| Op::Retain { keep }),
        1 => (1..60u8).prop_map(|seconds| Op::Advance { seconds }),
        1 => prop_oneof![Just(Stop::Clean), Just(Stop::Killed), any::<u64>().prop_map(Stop::PowerCut)].prop_map(Op::Restart),
    ]
}

/// One batch, and what is known of it.
#[derive(Clone, Debug)]
struct Sent {
    client: usize,
    id: i64,
    epoch: i16,
    first: i32,
    frames: u8,
    acked: Option<u64>,
}

#[derive(Clone, Debug)]
struct Client {
    id: i64,
    epoch: i16,
    next: i32,
    /// Sent under this id and epoch, and not answered, the oldest first.
    waiting: Vec<usize>,
}

struct Net {
    bench: Bench,
    config: LogConfig,
    log: Option<Log>,
    starts: u32,
    clients: Vec<Client>,
    next_id: i64,
    batches: Vec<Sent>,
    under_way: Vec<usize>,
    /// Answers that wait for the flush: batch, base offset, and the offset that is to be flushed.
    unflushed: Vec<(usize, u64, u64)>,
    /// What a consumer has seen: batch number and offset of its first frame, in order; and the place it has come to.
    seen: Vec<(usize, u64)>,
    seen_to: u64,
    /// When each id was appended to last, as far as that was not lost again.
    last_append: BTreeMap<i64, u64>,
}

impl Net {
    fn new(max: usize) -> Self {
        let config = LogConfig {
            segment_bytes: 700,
            index_interval_bytes: 100,
            producers: ProducerConfig { expiry: EXPIRY, max },
            ..LogConfig::default()
        };
        let bench = Bench::new();
        let (log, _) = bench.open(&config, false, 0);
        let clients = (0..3).map(|id| Client { id, epoch: 0, next: 0, waiting: Vec::new() }).collect();
        Self {
            bench,
            config,
            log: Some(log),
            starts: 0,
            clients,
            next_id: 3,
            batches: Vec::new(),
            under_way: Vec::new(),
            unflushed: Vec::new(),
            seen: Vec::new(),
            seen_to: 0,
            last_append: BTreeMap::new(),
        }
    }

    fn log(&self) -> &Log {
        self.log.as_ref().unwrap()
    }

    fn now(&self) -> u64 {
        use hermit_log::Clock;
        self.bench.clock.now()
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Send { client, frames } => self.send(client, frames),
            Op::Resend { client } => self.under_way.extend(self.clients[client].waiting.clone()),
            Op::Deliver { which, keep, answered } if !self.under_way.is_empty() => {
                let which = which % self.under_way.len();
                let number = if keep { self.under_way[which] } else { self.under_way.swap_remove(which) };
                self.deliver(number, answered);
            }
            Op::Lose { which } if !self.under_way.is_empty() => {
                self.under_way.swap_remove(which % self.under_way.len());
            }
            Op::Deliver { .. } | Op::Lose { .. } => {}
            Op::Incarnate { client } => {
                let Client { id, epoch, .. } = self.clients[client];
                self.clients[client] = Client { id, epoch: epoch + 1, next: 0, waiting: Vec::new() };
            }
            Op::Flush => self.flush(),
            Op::Retain { keep } => {
                self.flush();
                let end = self.log().bounds().high_watermark.0;
                self.log().trim(Offset(end.saturating_sub(keep.into()))).unwrap();
            }
            Op::Advance { seconds } => self.bench.clock.advance(Duration::from_secs(seconds.into())),
            Op::Restart(stop) => self.restart(stop),
        }
    }

    fn send(&mut self, client: usize, frames: u8) {
        let Client { id, epoch, next, ref waiting } = self.clients[client];
        if waiting.len() < WINDOW {
            let number = self.batches.len();
            self.batches.push(Sent { client, id, epoch, first: next, frames, acked: None });
            self.clients[client].next += i32::from(frames);
            self.clients[client].waiting.push(number);
            self.under_way.push(number);
        }
    }

    fn deliver(&mut self, number: usize, answered: bool) {
        let Sent { client, id, epoch, first, frames, .. } = self.batches[number];
        let payloads: Vec<_> = (0..frames).map(|at| format!("{number}/{at}")).collect();
        let frame = |at: usize| ProducedFrame {
            producer: Some(ProducerStamp {
                id: ProducerId(id),
                epoch: ProducerEpoch(epoch),
                first_sequence: Sequence(first + i32::try_from(at).unwrap()),
            }),
            ..ProducedFrame::message(0, None, payloads[at].as_bytes())
        };
        let mut parsed = batch(&(0..usize::from(frames)).map(frame).collect::<Vec<_>>());
        let end = self.log().bounds().log_end.0;
        match self.log().append(&mut parsed) {
            Ok(appended) => {
                assert!(appended.duplicates == 0 || appended.duplicates == usize::from(frames), "{appended:?}");
                if appended.duplicates == 0 {
                    assert_eq!(appended.base_offset.0, end);
                    self.last_append.insert(id, self.now());
                }
                let known = self.seen.iter().find(|(seen, _)| *seen == number);
                if let Some((_, offset)) = known {
                    assert_eq!((appended.base_offset.0, appended.duplicates), (*offset, usize::from(frames)), "batch {number}");
                }
                if answered {
                    self.unflushed.push((number, appended.base_offset.0, appended.next_offset.0));
                }
            }
            Err(LogError::Producer(error)) => {
                assert_eq!(self.log().bounds().log_end.0, end);
                self.refused(error, number, client, id, epoch);
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn refused(&mut self, error: ProducerError, number: usize, client: usize, id: i64, epoch: i16) {
        match error {
            // An earlier one is missing, or a later one was there before: it is sent again, or was answered.
            ProducerError::OutOfSequence { .. } => {}
            ProducerError::Fenced { current, .. } => {
                let is_old = self.clients[client].id != id || epoch < self.clients[client].epoch;
                assert!(current.0 > epoch && is_old);
            }
            ProducerError::Unknown { .. } => {
                let idle = self.last_append.get(&id).map(|at| self.now() - at);
                let may_be_forgotten = self.config.producers.max < 10;
                let is_expired = idle.is_some_and(|idle| u128::from(idle) > EXPIRY.as_nanos());
                // A later batch of somebody who was never there: the log cannot tell.
                let never_there = idle.is_none() && self.batches[number].first > 0;
                assert!(may_be_forgotten || is_expired || never_there, "{id} is forgotten after {idle:?}");
                // Whoever is told so has nothing more to gain under that id: what was under way is reported as in doubt.
                if self.clients[client].id == id && !never_there {
                    self.clients[client] = Client { id: self.next_id, epoch: 0, next: 0, waiting: Vec::new() };
                    self.next_id += 1;
                }
            }
        }
    }

    fn flush(&mut self) {
        self.log().flush().unwrap();
        let flushed = self.log().bounds().high_watermark.0;
        for (number, base, next) in std::mem::take(&mut self.unflushed) {
            assert!(next <= flushed);
            let acked = &mut self.batches[number].acked;
            assert!(acked.is_none_or(|before| before == base), "batch {number} was at {acked:?}, and is at {base}");
            *acked = Some(base);
            for client in &mut self.clients {
                client.waiting.retain(|waiting| *waiting != number);
            }
        }
        self.consume();
    }

    /// Reads on, before retention does away with it, and checks the order of everything that was ever there.
    fn consume(&mut self) {
        let mut cursor = self.log().cursor(Offset(self.seen_to)).unwrap();
        let mut bytes = Vec::new();
        while let Some(range) = cursor.next(1 << 20).unwrap() {
            range.read_into(&mut bytes).unwrap();
        }
        self.seen_to = cursor.next_offset().0;
        let mut rest = &bytes[..];
        while let Ok((view, behind)) = FrameView::split(rest, &FrameLimits::default()) {
            let text = std::str::from_utf8(view.payload()).unwrap();
            let (number, at) = text.split_once('/').unwrap();
            let (number, at): (usize, u64) = (number.parse().unwrap(), at.parse().unwrap());
            let offset = view.prefix.offset().0;
            if at == 0 {
                assert!(!self.seen.iter().any(|(seen, _)| *seen == number), "batch {number} is there twice");
                self.seen.push((number, offset));
            } else {
                assert_eq!(self.seen.last(), Some(&(number, offset - at)), "a batch is torn");
            }
            rest = behind;
        }
        let mut last: BTreeMap<i64, (i16, i32)> = BTreeMap::new();
        for (number, _) in &self.seen {
            let Sent { id, epoch, first, frames, .. } = self.batches[*number];
            let (before, next) = last.get(&id).copied().unwrap_or((epoch, 0));
            let due = if epoch == before { next } else { 0 };
            assert!(epoch >= before && first == due, "producer {id}: {epoch}/{first} behind {before}/{next}");
            last.insert(id, (epoch, first + i32::from(frames)));
        }
        for (number, batch) in self.batches.iter().enumerate() {
            if let Some(acked) = batch.acked {
                let at: Vec<_> = self.seen.iter().filter(|(seen, _)| *seen == number).map(|(_, offset)| *offset).collect();
                assert_eq!(at, [acked], "batch {number} was answered");
            }
        }
    }

    fn restart(&mut self, stop: Stop) {
        let log = self.log.take().unwrap();
        if matches!(stop, Stop::Clean) {
            log.close().unwrap();
        }
        drop(log);
        match stop {
            Stop::Clean => {}
            Stop::Killed => self.bench.disk.kill(),
            Stop::PowerCut(seed) => self.bench.disk.crash(seed),
        }
        // What was not flushed may be there or not; its answers are lost.
        self.unflushed.clear();
        self.starts += 1;
        let (log, report) = self.bench.open(&self.config, matches!(stop, Stop::Clean), self.starts);
        assert_eq!(report.fenced, vec![]);
        self.log = Some(log);
        self.consume();
        // An append that the power cut took back may have been the only one.
        let there: std::collections::BTreeSet<i64> = self.seen.iter().map(|(number, _)| self.batches[*number].id).collect();
        if matches!(stop, Stop::PowerCut(_)) {
            self.last_append.retain(|id, _| there.contains(id));
            // It may also have been the last one, and an earlier one long ago.
            self.last_append.values_mut().for_each(|at| *at = 0);
        }
    }

    /// The network is well again: all that can be answered is.
    fn settle(&mut self) {
        self.under_way.clear();
        for _ in 0..4 {
            for client in 0..self.clients.len() {
                for number in self.clients[client].waiting.clone() {
                    if self.clients[client].waiting.contains(&number) {
                        self.deliver(number, true);
                        self.flush();
                    }
                }
            }
        }
        for client in &self.clients {
            assert_eq!(client.waiting, Vec::<usize>::new(), "a batch is never answered");
        }
    }
}

fn run(ops: &[Op], max: usize) {
    let mut net = Net::new(max);
    for op in ops {
        net.step(op);
    }
    net.settle();
    net.restart(Stop::PowerCut(7));
    net.consume();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_batch_is_there_once_and_in_order(ops in prop::collection::vec(op(), 1..160)) {
        run(&ops, 100);
    }

    #[test]
    fn whoever_is_forgotten_is_told_so_and_nothing_is_there_twice(ops in prop::collection::vec(op(), 1..160)) {
        run(&ops, 2);
    }
}
