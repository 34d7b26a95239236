//! The lane against a real log on a simulated disk, over a network that loses answers, doubles batches and delivers old copies late, through
//! restarts, power cuts and second incarnations: what is stored is what was sent, once and in order, and every result is true.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::Path;

use bytes::BytesMut;
use hermit_log::disk::Disk;
use hermit_log::disk::sim::{Rng, SimDisk};
use hermit_log::{
    Batch as LogBatch, Bounds, Clock, Flusher, Log, LogConfig, LogEnv, LogError, LogIdentity, LogListener, ManualClock,
    ProducerError, Start,
};
use hermit_proto::record_set::{RecordSet, unpack};
use hermit_proto::session::{Operation, WireError};
use hermit_proto::{Attributes, Codec, FrameLimits, FrameView, LeaderEpoch, PartitionId};

use super::*;
use crate::error::Result;
use crate::producer::batch::OpenBatch;
use crate::producer::delivery::Completer;
use crate::producer::record::ProducerRecord;

const CASES: u64 = 2000;
const STEPS: u64 = 90;
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Deaf;

impl LogListener for Deaf {
    fn advanced(&self, _bounds: Bounds) {}
    fn failed(&self, _reason: &LogError) {}
}

/// A request on its way, or a copy of one that comes late.
#[derive(Clone)]
struct Copy {
    actor: usize,
    token: Token,
    bytes: Vec<u8>,
}

/// An answer that waits for the flush.
struct Waiting {
    actor: usize,
    token: Token,
    base: Offset,
    end: Offset,
    duplicate: bool,
}

/// An incarnation of the producer: the application's side, and the lane.
struct Actor {
    lane: Lane,
    identity: Option<ProducerIdentity>,
    resume: Option<ProducerIdentity>,
    fenced: bool,
}

struct World {
    rng: Rng,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    env: LogEnv,
    log: Log,
    now: Instant,
    actors: Vec<Actor>,
    session: u64,
    correlation: u64,
    next_id: i64,
    /// Requests of the present connection, in order.
    wire: VecDeque<Copy>,
    /// Copies in connections that are broken for the client, whose bytes the broker has still to read.
    late: Vec<Copy>,
    waiting: Vec<Waiting>,
    /// First value and count of each batch, by the number that stands in its cost.
    batches: Vec<(usize, u64, u64)>,
    results: HashMap<usize, Result<Option<Offset>>>,
    next_value: u64,
}

fn open(env: &LogEnv, leader_epoch: u32) -> Log {
    let config = LogConfig { segment_bytes: 4096, ..LogConfig::default() };
    let start = Start { clean: false, leader_epoch: LeaderEpoch(leader_epoch) };
    Log::open_in(env, Path::new("/p"), LogIdentity::default(), config, start, Arc::new(Deaf)).unwrap().0
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
        let env = Self::env(&disk, &clock);
        let log = open(&env, 1);
        let mut world = Self {
            rng: Rng::new(seed),
            disk,
            clock,
            env,
            log,
            now: Instant::now(),
            actors: Vec::new(),
            session: 1,
            correlation: 0,
            next_id: 0,
            wire: VecDeque::new(),
            late: Vec::new(),
            waiting: Vec::new(),
            batches: Vec::new(),
            results: HashMap::new(),
            next_value: 0,
        };
        world.incarnate(None);
        world
    }

    fn env(disk: &SimDisk, clock: &Arc<ManualClock>) -> LogEnv {
        let shared: Arc<dyn Clock> = clock.clone();
        LogEnv::new(Arc::new(disk.clone()) as Arc<dyn Disk>, shared.clone(), Flusher::manual(shared), 32)
    }

    fn incarnate(&mut self, resume: Option<ProducerIdentity>) {
        let backoff = BackoffConfig { min: Duration::from_millis(100), max: Duration::from_millis(400) };
        let (promise, resumed) = (Promise::Idempotent, resume.is_some());
        let mut lane = Lane::new(LaneConfig { promise, max_in_flight: 5, delivery_timeout: TIMEOUT, backoff, resumed });
        lane.backoff = Backoff::seeded(backoff, self.rng.next_u64());
        self.actors.push(Actor { lane, identity: None, resume, fenced: false });
    }

    fn enqueue(&mut self, actor: usize) {
        let (singles, count) = (self.rng.below(3) == 0, 1 + self.rng.below(4) as u64);
        let (number, first) = (self.batches.len(), self.next_value);
        let result = Completer::new("t".into(), PartitionId(0));
        let mut open = if singles { OpenBatch::singles(self.now, result) } else { OpenBatch::set(0, self.now, result) };
        for at in 0..count {
            let value = (first + at).to_be_bytes();
            open.append(&ProducerRecord::new(&value).key("k"), 0, if at == 0 { number } else { 0 }).unwrap();
        }
        self.next_value += count;
        self.batches.push((actor, first, count));
        self.actors[actor].lane.enqueue(open.seal(Codec::None, 3, self.now + TIMEOUT));
    }

    /// What the driver does about identities.
    fn identify(&mut self, actor: usize) {
        let next_id = self.next_id;
        let it = &mut self.actors[actor];
        if !it.lane.wants_identity() || it.identity.is_some_and(|identity| it.lane.offer_identity(identity)) {
            return;
        }
        let base = match (it.resume.take(), it.identity) {
            (Some(earlier), _) => Some(earlier.last_of_incarnation()),
            (None, Some(present)) if present.can_renew() => Some(present),
            _ => None,
        };
        let given = match base {
            Some(base) => ProducerIdentity { id: base.id, epoch: ProducerEpoch(base.epoch.0 + 1) },
            None => {
                self.next_id += 1;
                ProducerIdentity { id: ProducerId(next_id), epoch: ProducerEpoch(0) }
            }
        };
        it.identity = Some(given);
        assert!(it.lane.offer_identity(given));
    }

    fn send(&mut self, actor: usize) {
        self.identify(actor);
        while let Some((batch, stamp)) = self.actors[actor].lane.next_to_send(self.now) {
            let frames = batch.encode(stamp).unwrap();
            self.correlation += 1;
            let token = Token { session: self.session, correlation: CorrelationId(self.correlation) };
            self.actors[actor].lane.sent(token);
            self.wire.push_back(Copy { actor, token, bytes: [&frames.head[..], &frames.tail].concat() });
        }
    }

    fn answer(&mut self, actor: usize, token: Token, outcome: Outcome) {
        let finished = self.actors[actor].lane.answered(token, outcome, self.now);
        self.finish(actor, finished);
    }

    fn finish(&mut self, actor: usize, finished: Vec<Finished>) {
        for Finished { batch, outcome } in finished {
            let fenced = match &outcome {
                Err(error @ Error::ProducerFenced { .. }) => Some(error.clone()),
                Err(Error::OutcomeUnknown { source }) if matches!(**source, Error::ProducerFenced { .. }) => {
                    Some((**source).clone())
                }
                _ => None,
            };
            assert!(self.results.insert(batch.cost_bytes(), outcome).is_none(), "two results");
            if let Some(fenced) = fenced.filter(|_| !self.actors[actor].fenced) {
                self.actors[actor].fenced = true;
                let halted = self.actors[actor].lane.halt(&fenced);
                self.finish(actor, halted);
            }
        }
    }

    /// The broker takes a request from one of its connections; `alive`: somebody waits for the answer. Answers whether it was appended.
    fn take(&mut self, copy: &Copy, alive: bool) -> bool {
        let Copy { actor, token, ref bytes } = *copy;
        let refuse = |status| WireError::new(status, "no");
        let refusal = match self.rng.below(20) {
            0 => refuse(Status::DiskFull),
            1 => refuse(Status::Throttled),
            _ => {
                let mut batch = LogBatch::parse(BytesMut::from(&bytes[..]), &FrameLimits::default()).unwrap();
                match self.log.append(&mut batch) {
                    Ok(appended) => {
                        let duplicate = appended.duplicates == batch.frames().len();
                        if alive {
                            let (base, end) = (appended.base_offset, appended.next_offset);
                            self.waiting.push(Waiting { actor, token, base, end, duplicate });
                        }
                        return true;
                    }
                    Err(LogError::Producer(ProducerError::OutOfSequence { expected, got, .. })) => {
                        refuse(Status::OutOfOrderSequence)
                            .detail(expected.0.cast_unsigned().into())
                            .detail(got.0.cast_unsigned().into())
                    }
                    Err(LogError::Producer(ProducerError::Unknown { .. })) => refuse(Status::UnknownProducer),
                    Err(LogError::Producer(ProducerError::Fenced { .. })) => refuse(Status::FencedProducer),
                    Err(error) => panic!("{error}"),
                }
            }
        };
        if alive {
            // In order behind the answers that wait for the flush.
            self.flush();
            self.answer(actor, token, Outcome::Refused(Error::refused(Operation::Produce, refusal)));
        }
        false
    }

    fn flush(&mut self) {
        self.log.request_flush();
        self.env.flusher.run_until_idle();
        let high_watermark = self.log.bounds().high_watermark;
        for Waiting { actor, token, base, end, duplicate } in std::mem::take(&mut self.waiting) {
            assert!(end <= high_watermark);
            // As the driver does: offsets are told only where they follow one another.
            let sent = self.actors[actor].lane.queue.iter().find(|entry| entry.state == EntryState::InFlight(token));
            let count = sent.map_or(0, |entry| u64::from(entry.batch.record_count()));
            let contiguous = base.checked_add(count) == Some(end);
            self.answer(actor, token, Outcome::Stored { base: contiguous.then_some(base), duplicate });
        }
    }

    /// The connection breaks. What is under way is lost, or comes to the broker later.
    fn cut(&mut self) {
        self.session += 1;
        for copy in std::mem::take(&mut self.wire) {
            if self.rng.below(2) == 0 {
                self.late.push(copy);
            }
        }
        self.waiting.clear();
        for actor in 0..self.actors.len() {
            let lane = &self.actors[actor].lane;
            let tokens: Vec<_> = lane
                .queue
                .iter()
                .filter_map(|entry| match entry.state {
                    EntryState::InFlight(token) => Some(token),
                    EntryState::Queued => None,
                })
                .collect();
            for token in tokens {
                let source = Arc::new(std::io::ErrorKind::ConnectionReset.into());
                self.answer(actor, token, Outcome::Lost(Error::ConnectionLost { server: "s".into(), source }));
            }
        }
    }

    fn restart(&mut self) {
        self.cut();
        let epoch = self.log.leader_epoch().0;
        match self.rng.below(2) {
            0 => self.disk.kill(),
            _ => self.disk.crash(self.rng.next_u64()),
        }
        self.env = Self::env(&self.disk, &self.clock);
        self.log = open(&self.env, epoch + 1);
    }

    fn step(&mut self) {
        let actor = self.rng.below(self.actors.len());
        match self.rng.below(40) {
            0..=9 if !self.actors[actor].fenced => self.enqueue(actor),
            10..=24 => {
                if let Some(copy) = self.wire.pop_front() {
                    // The same again, now or later, over a connection on which nobody listens. What was refused does not come again behind the
                    // client's back: then it would have heard of no refusal.
                    match (self.take(&copy, true), self.rng.below(10)) {
                        (true, 0) => {
                            self.take(&copy, false);
                        }
                        (true, 1) => self.late.push(copy),
                        _ => {}
                    }
                }
            }
            25..=28 => self.flush(),
            29..=31 if !self.late.is_empty() => {
                let at = self.rng.below(self.late.len());
                let copy = self.late.swap_remove(at);
                self.take(&copy, false);
            }
            32 | 33 => self.cut(),
            34 => self.restart(),
            35 if self.rng.below(3) == 0 => self.pass(Duration::from_secs(50)),
            36 if self.actors.len() < 3 && self.rng.below(3) == 0 => {
                // The newest incarnation's identity was kept before it sent anything; this one takes its place.
                if let Some(identity) = self.actors.last().and_then(|newest| newest.identity) {
                    self.incarnate(Some(identity));
                }
            }
            _ => self.pass(Duration::from_millis(300)),
        }
        for actor in 0..self.actors.len() {
            self.send(actor);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.clock.advance(time);
        for actor in 0..self.actors.len() {
            let expired = self.actors[actor].lane.expire(self.now);
            self.finish(actor, expired);
        }
    }

    /// Nothing goes wrong any more: everything comes to an end.
    fn settle(&mut self) {
        for _ in 0..2000 {
            if self.actors.iter().all(|actor| actor.lane.is_empty()) {
                return;
            }
            for actor in 0..self.actors.len() {
                self.send(actor);
            }
            while let Some(copy) = self.wire.pop_front() {
                self.take(&copy, true);
            }
            self.flush();
            self.pass(Duration::from_millis(500));
        }
        panic!("a lane never ends");
    }

    /// Every record that is stored: its value, in the order of the offsets.
    fn stored(&self) -> BTreeMap<u64, u64> {
        let (mut cursor, mut values) = (self.log.cursor(Offset::ZERO).unwrap(), BTreeMap::new());
        while let Some(range) = cursor.next(1 << 20).unwrap() {
            let mut bytes = Vec::new();
            range.read_into(&mut bytes).unwrap();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (view, behind) = FrameView::split(rest, &FrameLimits::default()).unwrap();
                rest = behind;
                let (base, attributes) = (view.prefix.header.offset, view.prefix.extension.attributes);
                let mut note = |at: u64, value: &[u8]| values.insert(base + at, u64::from_be_bytes(value.try_into().unwrap()));
                if view.prefix.has(Attributes::RECORD_SET) {
                    let set = unpack(attributes, view.payload(), 1 << 20).unwrap();
                    for (at, record) in (0..).zip(RecordSet::new(&set).records()) {
                        note(at, record.unwrap().value.unwrap());
                    }
                } else {
                    note(0, view.payload());
                }
            }
        }
        values
    }

    fn check(&self, seed: u64) {
        let stored = self.stored();
        let at: HashMap<u64, u64> = stored.iter().map(|(offset, value)| (*value, *offset)).collect();
        assert_eq!(at.len(), stored.len(), "seed {seed}: doubled");
        let mut unknown = HashSet::new();
        for (number, (_, first, count)) in self.batches.iter().enumerate() {
            let values = *first..first + count;
            let outcome = self.results.get(&number).unwrap_or_else(|| panic!("seed {seed}: nothing is told of batch {number}"));
            match outcome {
                Ok(Some(base)) => {
                    for (value, offset) in values.zip(base.0..) {
                        assert_eq!(at.get(&value), Some(&offset), "seed {seed}: {value} is not where its result says");
                    }
                }
                Ok(None) => assert!(values.clone().all(|value| at.contains_key(&value)), "seed {seed}: {values:?} lost"),
                Err(Error::OutcomeUnknown { .. }) => unknown.extend(values),
                Err(error) => {
                    assert!(values.clone().all(|value| !at.contains_key(&value)), "seed {seed}: {values:?} stored, but {error}");
                }
            }
        }
        // Within an incarnation in the order of sending, but for what was given up as unknown and came late.
        let mut last = vec![None; self.actors.len()];
        let mut newest = 0;
        for value in stored.values().filter(|value| !unknown.contains(*value)) {
            let (actor, ..) = self.batches[self.batches.partition_point(|(_, first, _)| first <= value) - 1];
            assert!(last[actor] < Some(*value), "seed {seed}: {value} behind {:?}", last[actor]);
            last[actor] = Some(*value);
            let same_id =
                self.actors[actor].identity.map(|identity| identity.id) == self.actors[newest].identity.map(|identity| identity.id);
            assert!(actor >= newest || !same_id, "seed {seed}: a fenced incarnation wrote {value}");
            newest = newest.max(actor);
        }
    }
}

#[test]
fn whatever_happens_every_record_is_stored_once_and_in_order_and_every_result_is_true() {
    let (mut told, mut unknown, mut fenced) = (0, 0, 0);
    for seed in 0..CASES {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.settle();
        for copy in std::mem::take(&mut world.late) {
            world.take(&copy, false);
        }
        world.flush();
        world.check(seed);
        told += world.results.values().filter(|outcome| outcome.is_ok()).count();
        unknown += world.results.values().filter(|outcome| matches!(outcome, Err(Error::OutcomeUnknown { .. }))).count();
        fenced += world.actors.iter().filter(|actor| actor.fenced).count();
    }
    // The cases are what they are meant to be.
    assert!(told > 5 * unknown && unknown > 0 && fenced > 0, "{told} stored, {unknown} unknown, {fenced} fenced");
}
