//! The producers, the network between them and the log, and what is known of every batch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hermit_log::{Log, LogConfig, LogError, ProducerConfig, ProducerError};
use hermit_proto::{Offset, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence};

use crate::rig::{Bench, batch};
use crate::{EXPIRY, Op, Stop, WINDOW};

/// The number of a batch, and the frame's place in it.
pub(crate) type Frame = (usize, u8);

/// One batch, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) client: usize,
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) first: i32,
    pub(crate) frames: u8,
    pub(crate) acked: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) next: i32,
    /// Sent under this id and epoch, and not answered, the oldest first.
    pub(crate) waiting: Vec<usize>,
}

pub(crate) struct Net {
    pub(crate) bench: Bench,
    pub(crate) config: LogConfig,
    pub(crate) log: Option<Log>,
    pub(crate) starts: u32,
    pub(crate) clients: Vec<Client>,
    pub(crate) next_id: i64,
    pub(crate) batches: Vec<Sent>,
    pub(crate) under_way: Vec<usize>,
    /// Answers that wait for the flush: batch, and the offset that is to be flushed.
    pub(crate) unflushed: Vec<(usize, u64)>,
    /// Each frame that is in the log, or was until retention: batch, place in it, and its offset.
    pub(crate) stored: BTreeMap<Frame, u64>,
    /// Batches of which a power cut left the first frames only. What follows lies further on once they were sent again.
    pub(crate) torn: BTreeSet<usize>,
    /// What a consumer has seen, in order: as `stored`; and the place it has come to.
    pub(crate) seen: Vec<(Frame, u64)>,
    pub(crate) seen_to: u64,
    /// When each id was appended to last, as far as that was not lost again.
    pub(crate) last_append: BTreeMap<i64, u64>,
}

impl Net {
    pub(crate) fn new(max: usize) -> Self {
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
            stored: BTreeMap::new(),
            torn: BTreeSet::new(),
            seen: Vec::new(),
            seen_to: 0,
            last_append: BTreeMap::new(),
        }
    }

    pub(crate) fn log(&self) -> &Log {
        self.log.as_ref().unwrap()
    }

    fn now(&self) -> u64 {
        use hermit_log::Clock;
        self.bench.clock.now()
    }

    pub(crate) fn step(&mut self, op: &Op) {
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
            self.batches.push(Sent { client, id, epoch, first: next, frames, acked: false });
            self.clients[client].next += i32::from(frames);
            self.clients[client].waiting.push(number);
            self.under_way.push(number);
        }
    }

    fn deliver(&mut self, number: usize, answered: bool) {
        let Sent { id, epoch, first, frames, .. } = self.batches[number];
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
                let mut next = end;
                for (at, frame) in (0..).zip(parsed.frames()) {
                    let before = self.stored.get(&(number, at)).copied();
                    assert_eq!(
                        (frame.duplicate, frame.offset.0),
                        (before.is_some(), before.unwrap_or(next)),
                        "{number}/{at} was at {before:?}"
                    );
                    if before.is_none() {
                        self.stored.insert((number, at), next);
                        next += 1;
                    }
                }
                assert_eq!(self.log().bounds().log_end.0, next);
                let new = usize::try_from(next - end).unwrap();
                assert_eq!(appended.duplicates, usize::from(frames) - new);
                assert!(new == 0 || appended.duplicates == 0 || self.torn.contains(&number), "batch {number}: {appended:?}");
                assert_eq!(appended.base_offset.0, self.stored[&(number, 0)]);
                assert_eq!(appended.next_offset.0, self.stored[&(number, frames - 1)] + 1);
                if new > 0 {
                    self.last_append.insert(id, self.now());
                }
                if answered {
                    self.unflushed.push((number, appended.next_offset.0));
                }
            }
            Err(LogError::Producer(error)) => {
                assert_eq!(self.log().bounds().log_end.0, end);
                self.refused(error, number, answered);
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn refused(&mut self, error: ProducerError, number: usize, answered: bool) {
        let Sent { client, id, epoch, first, frames, .. } = self.batches[number];
        match error {
            ProducerError::OutOfSequence { expected, .. } => {
                assert_eq!(expected.0, self.due(id, epoch), "batch {number}");
                // Otherwise an earlier one is missing, and is sent again before this one.
                if expected.0 > first {
                    self.passed(number);
                    if answered && expected.0 >= first + i32::from(frames) {
                        self.unflushed.push((number, self.log().bounds().log_end.0));
                    }
                }
            }
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

    pub(crate) fn flush(&mut self) {
        self.log().flush().unwrap();
        let flushed = self.log().bounds().high_watermark.0;
        for (number, next) in std::mem::take(&mut self.unflushed) {
            assert!(next <= flushed);
            self.batches[number].acked = true;
            for client in &mut self.clients {
                client.waiting.retain(|waiting| *waiting != number);
            }
        }
        self.consume();
    }

    pub(crate) fn restart(&mut self, stop: Stop) {
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
        self.survey(stop);
        self.consume();
        // An append that the power cut took back may have been the only one.
        let there: BTreeSet<i64> = self.stored.keys().map(|(number, _)| self.batches[*number].id).collect();
        if matches!(stop, Stop::PowerCut(_)) {
            self.last_append.retain(|id, _| there.contains(id));
            // It may also have been the last one, and an earlier one long ago.
            self.last_append.values_mut().for_each(|at| *at = 0);
        }
    }

    /// The network is well again: all that can be answered is.
    pub(crate) fn settle(&mut self) {
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
