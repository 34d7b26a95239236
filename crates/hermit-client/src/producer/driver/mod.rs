//! The task behind a producer: carries batches from the slots to the lanes, and between lanes and connection.

mod identity;
mod requests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermit_proto::session::Acks;
use hermit_proto::{CorrelationId, PartitionId, TopicId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::batch::Batch;
use super::config::ProducerBuilder;
use super::delivery::Delivery;
use super::identity::ProducerIdentity;
use super::lane::{Finished, Lane, LaneConfig, Token};
use super::slot::{Left, Slot};
use crate::conn::{Link, LinkState, ProduceAnswer, Session};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) enum Command {
    /// Something was gathered, or is full.
    Ready(Arc<Slot>),
    /// A caller waits for buffer space.
    Urge,
    /// Send all that is gathered; answers with what is not done.
    Flush(oneshot::Sender<Vec<Delivery>>),
    /// Tell the identity, or get one.
    Identity(oneshot::Sender<Result<ProducerIdentity>>),
    /// Finish what there is, and end.
    Close,
}

#[derive(Debug)]
struct Stream {
    lane: Lane,
    slot: Arc<Slot>,
    /// When its open batch was begun, if it has one.
    open_since: Option<Instant>,
    timer: Option<Instant>,
}

#[derive(Debug)]
struct Request {
    stream: usize,
    record_count: u32,
}

#[derive(Debug)]
pub(super) struct Driver {
    link: Link,
    link_state: watch::Receiver<LinkState>,
    acks: Acks,
    lane_config: LaneConfig,
    shared: Arc<Shared>,
    commands: mpsc::UnboundedReceiver<Command>,
    answers: mpsc::UnboundedReceiver<ProduceAnswer>,
    answers_to: mpsc::UnboundedSender<ProduceAnswer>,
    identities: mpsc::UnboundedReceiver<Result<ProducerIdentity>>,
    identities_to: mpsc::UnboundedSender<Result<ProducerIdentity>>,
    identity: Option<ProducerIdentity>,
    /// The identity of which this producer is to be the successor, until it is.
    resume: Option<ProducerIdentity>,
    asking_identity: bool,
    /// Callers that want to know the identity.
    curious: Vec<oneshot::Sender<Result<ProducerIdentity>>>,
    session: Option<Session>,
    refusals: Option<CorrelationId>,
    streams: HashMap<usize, Stream>,
    /// Streams to look at before waiting again.
    touched: BTreeSet<usize>,
    timers: BTreeSet<(Instant, usize)>,
    /// Identities that partitions of topics that were gone had last.
    spent: HashMap<(TopicId, PartitionId), ProducerIdentity>,
    requests: HashMap<Token, Request>,
    /// In the order of sending; those that are answered are dropped when they come to the front.
    sent: VecDeque<(Instant, Token)>,
    closing: bool,
}

impl Driver {
    pub(super) fn new(settings: &ProducerBuilder, shared: Arc<Shared>, commands: mpsc::UnboundedReceiver<Command>) -> Self {
        let link = settings.link.clone();
        let (answers_to, answers) = mpsc::unbounded_channel();
        let (identities_to, identities) = mpsc::unbounded_channel();
        Self {
            link_state: link.watch(),
            link,
            acks: settings.acks,
            lane_config: settings.lane_config(),
            shared,
            commands,
            answers,
            answers_to,
            identities,
            identities_to,
            identity: None,
            resume: settings.resume,
            asking_identity: false,
            curious: Vec::new(),
            session: None,
            refusals: None,
            streams: HashMap::new(),
            touched: BTreeSet::new(),
            timers: BTreeSet::new(),
            spent: HashMap::new(),
            requests: HashMap::new(),
            sent: VecDeque::new(),
            closing: false,
        }
    }

    pub(super) async fn run(mut self) {
        self.adopt_session();
        loop {
            let wake = self.advance(Instant::now());
            if self.closing && self.is_idle() {
                return self.end();
            }
            let timer = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(answer) = self.answers.recv() => self.take_answer(answer),
                Some(identity) = self.identities.recv() => self.take_identity(identity),
                command = self.commands.recv(), if !self.commands.is_closed() => self.take_command(command.unwrap_or(Command::Close)),
                changed = self.link_state.changed() => {
                    if changed.is_err() {
                        let over = self.link.over();
                        if over.is_refused_login() {
                            self.shared.note_fatal(&over);
                        }
                        return self.abandon(&over);
                    }
                    self.adopt_session();
                }
                () = timer => {}
            }
            self.take_what_waits();
        }
    }

    fn take_what_waits(&mut self) {
        while let Ok(answer) = self.answers.try_recv() {
            self.take_answer(answer);
        }
        while let Ok(command) = self.commands.try_recv() {
            self.take_command(command);
        }
    }

    fn is_idle(&self) -> bool {
        self.streams.values().all(|stream| stream.lane.is_empty() && stream.open_since.is_none())
    }

    fn take_command(&mut self, command: Command) {
        match command {
            // Reserved its place before the producer was fenced.
            Command::Ready(slot) if self.shared.is_fatal() => slot.fail(&self.shared.closed()),
            Command::Ready(slot) => {
                let number = slot.number;
                if !self.streams.contains_key(&number) {
                    let lane = self.new_lane(&slot);
                    self.streams.insert(number, Stream { lane, slot, open_since: None, timer: None });
                }
                self.touched.insert(number);
            }
            Command::Urge => self.touch_all(),
            Command::Identity(reply) => self.tell_identity(reply),
            Command::Flush(reply) => {
                let numbers: Vec<_> = self.streams.keys().copied().collect();
                for number in numbers {
                    self.gather(number, |_begun| true);
                }
                let batches = self.streams.values().flat_map(|stream| stream.lane.batches()).map(Batch::delivery);
                // Whoever flushes may have stopped waiting.
                drop(reply.send(batches.collect()));
            }
            Command::Close => {
                self.closing = true;
                self.shared.buffer.close();
                let numbers: Vec<_> = self.streams.keys().copied().collect();
                for number in numbers {
                    if let Some(stream) = self.streams.get(&number) {
                        stream.slot.close();
                    }
                    self.gather(number, |_begun| true);
                }
            }
        }
    }

    /// A lane to a partition that had one before must not begin its sequences again under the same identity.
    fn new_lane(&self, slot: &Slot) -> Lane {
        let mut lane = Lane::new(self.lane_config);
        let same = |stream: &&Stream| stream.slot.topic == slot.topic && stream.slot.partition == slot.partition;
        let living = self.streams.values().find(same).and_then(|stream| stream.lane.identity());
        lane.spend(living.or_else(|| self.spent.get(&(slot.topic, slot.partition)).copied()));
        lane
    }

    fn touch_all(&mut self) {
        self.touched.extend(self.streams.keys().copied());
    }

    /// Moves batches from the slot to the lane.
    fn gather(&mut self, number: usize, take_open: impl FnOnce(Instant) -> bool) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let mut batches = Vec::new();
        stream.open_since = match stream.slot.take(take_open, &mut batches) {
            Left::Nothing => None,
            Left::Open(begun) => Some(begun),
        };
        for batch in batches {
            stream.lane.enqueue(batch);
        }
        self.touched.insert(number);
    }

    /// Takes over the link's session, once all that the last one left behind is dealt with.
    fn adopt_session(&mut self) {
        let state = self.link_state.borrow_and_update().clone();
        while let Ok(answer) = self.answers.try_recv() {
            self.take_answer(answer);
        }
        match state {
            LinkState::Up(session) => {
                self.refusals = match self.acks {
                    Acks::None => session.collect_refusals(&self.answers_to).ok(),
                    Acks::Committed => None,
                };
                self.session = Some(session);
                // Whatever changed while there was no connection.
                self.shared.sessions.fetch_add(1, Ordering::Relaxed);
            }
            LinkState::Connecting { last, .. } => {
                self.session = None;
                if let Some(error) = last {
                    self.streams.values_mut().for_each(|stream| stream.lane.note(&error));
                }
            }
        }
        self.touch_all();
    }

    fn finish(&self, finished: Vec<Finished>) {
        for Finished { batch, outcome } in finished {
            if let Err(error) = &outcome {
                self.shared.note_failure(error);
            }
            self.shared.buffer.give_back(batch.cost_bytes());
            batch.finish(outcome);
        }
    }

    /// Looks at every stream that something happened to, or whose time has come; says when to look again.
    fn advance(&mut self, now: Instant) -> Option<Instant> {
        while let Some((at, number)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.remove(&(at, number));
            self.touched.insert(number);
        }
        while let Some(number) = self.touched.pop_first() {
            self.advance_stream(number, now);
        }
        let request_due = self.check_requests(now);
        let timer = self.timers.first().map(|(at, _)| *at);
        [request_due, timer].into_iter().flatten().min()
    }

    fn advance_stream(&mut self, number: usize, now: Instant) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let expired = stream.lane.expire(now);
        self.finish(expired);
        self.gather(number, |_begun| false);
        self.send_from(number, now);
        while let Some(stream) = self.streams.get(&number)
            && stream.lane.wants_more()
            && stream.open_since.is_some_and(|begun| self.is_due(begun, stream.slot.linger(), now))
        {
            self.gather(number, |_begun| true);
            self.send_from(number, now);
        }
        self.touched.remove(&number);
        self.set_timer(number);
    }

    fn is_due(&self, begun: Instant, linger: Duration, now: Instant) -> bool {
        self.closing || begun + linger <= now || self.shared.buffer.is_awaited()
    }

    /// The topic is gone, and so is the last that was meant for it.
    fn retire(&mut self, number: usize) {
        let Some(stream) = self.streams.remove(&number) else { return };
        if let Some(timer) = stream.timer {
            self.timers.remove(&(timer, number));
        }
        if let Some(identity) = stream.lane.identity() {
            self.spent.insert((stream.slot.topic, stream.slot.partition), identity);
        }
    }

    fn set_timer(&mut self, number: usize) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if stream.lane.is_empty() && stream.open_since.is_none() && stream.slot.is_gone() {
            return self.retire(number);
        }
        let linger = stream.open_since.filter(|_| stream.lane.wants_more()).map(|begun| begun + stream.slot.linger());
        let due = [linger, stream.lane.next_wake()].into_iter().flatten().min();
        if stream.timer != due {
            if let Some(before) = stream.timer {
                self.timers.remove(&(before, number));
            }
            stream.timer = due;
        }
        // Also where it did not change: a timer that has come is taken out.
        if let Some(due) = due {
            self.timers.insert((due, number));
        }
    }

    /// Another incarnation has taken over: nothing more is taken or sent; what is in flight is still answered.
    fn fence(&mut self, error: &Error) {
        tracing::error!(%error, "the producer ends");
        self.shared.note_fatal(error);
        self.shared.buffer.close();
        self.closing = true;
        let mut finished = Vec::new();
        for stream in self.streams.values_mut() {
            stream.slot.close();
            stream.open_since = None;
            let mut batches = Vec::new();
            stream.slot.take(|_begun| true, &mut batches);
            batches.into_iter().for_each(|batch| stream.lane.enqueue(batch));
            finished.extend(stream.lane.halt(error));
        }
        self.finish(finished);
        self.touch_all();
    }

    fn abandon(&mut self, error: &Error) {
        let numbers: Vec<_> = self.streams.keys().copied().collect();
        for number in numbers {
            self.gather(number, |_begun| true);
        }
        let finished: Vec<_> = self.streams.values_mut().flat_map(|stream| stream.lane.abandon(error)).collect();
        self.finish(finished);
        self.end();
    }

    /// Leaves nobody waiting who was late.
    fn end(&mut self) {
        self.shared.buffer.close();
        self.commands.close();
        let closed = self.shared.closed();
        self.curious.drain(..).for_each(|reply| drop(reply.send(Err(closed.clone()))));
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Ready(slot) => slot.fail(&closed),
                Command::Flush(reply) => drop(reply.send(Vec::new())),
                Command::Identity(reply) => drop(reply.send(Err(closed.clone()))),
                Command::Urge | Command::Close => {}
            }
        }
        self.streams.values().for_each(|stream| stream.slot.fail(&closed));
    }
}
