//! A session without its socket: requests go in, answers and deliveries come out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::BytesMut;
use hermit_proto::session::{Operation, Response, Status, WireError};
use hermit_proto::{CorrelationId, Unit, UnitLimits};

use super::background::Background;
use super::groups::Parked;
use super::hello::LoggingIn;
use super::owed::OwedAnswers;
use super::produce::Gathering;
use super::rights::{Rights, revoked};
use super::subscription::{Subscription, Turn};
use crate::broker::Broker;
use crate::error::{BrokerError, to_wire};
use crate::limits::GATHER_BYTES;
use crate::roster::ListedConnection;
use crate::server::connection::Transport;
use crate::server::door::Entry;
use crate::server::sendfile::FileRange;
use crate::signal::Signal;

/// The key of a request is a produce target at most; a version later it may be a little more.
const MAX_KEY_BYTES: u32 = 1024;
/// Most bytes of a request before the session was opened.
const MAX_HELLO_BYTES: u64 = 16 << 10;

/// Where the session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The hello is awaited.
    New,
    /// A password is being checked.
    LoggingIn,
    /// Requests are taken.
    Open,
    /// The client said goodbye: what was asked is answered, then this.
    Goodbye(CorrelationId),
    /// The broker stops: what was asked is answered, and new requests are refused.
    Stopping,
    /// The login is not good any more: what was asked is answered, and nothing more is taken.
    Revoked,
    /// What is written is sent, and nothing more.
    Closing,
}

/// The state of a session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) broker: Broker,
    pub(super) stage: Stage,
    /// Answers to be sent.
    pub(super) out: BytesMut,
    pub(super) owed: OwedAnswers,
    /// Produce requests that were taken and not appended yet: only within a round.
    pub(super) gathering: Gathering,
    pub(super) signal: Arc<Signal>,
    pub(super) background: Background,
    pub(super) subscriptions: HashMap<CorrelationId, Subscription>,
    pub(super) by_token: HashMap<u64, CorrelationId>,
    /// Heartbeats of group members that wait for something to tell, by their tokens.
    pub(super) parked: HashMap<u64, Parked>,
    pub(super) rights: Rights,
    pub(super) logging_in: Option<LoggingIn>,
    pub(super) transport: Transport,
    /// What the client calls itself, made printable.
    pub(super) client: String,
    /// Where it connects from.
    pub(super) address: String,
    pub(super) entry: Entry,
    /// Its entry in the list of connections.
    pub(super) listed: Option<Arc<ListedConnection>>,
    /// Why there was no room for the session, if so.
    pub(super) turned_away: Option<BrokerError>,
    /// Subscriptions that may have something to say, first come, first served.
    ready: VecDeque<CorrelationId>,
    /// Room for the tokens of what has moved.
    woken: Vec<u64>,
    next_token: u64,
}

/// The token of work that was done elsewhere.
pub(super) const BACKGROUND_TOKEN: u64 = 0;
/// The token of changes of users and rules.
pub(super) const ACCESS_TOKEN: u64 = 1;
/// The token of a login that was decided.
pub(super) const LOGIN_TOKEN: u64 = 2;

impl Session {
    pub(super) fn new(broker: Broker, transport: Transport, entry: Entry) -> Self {
        let signal = Arc::new(Signal::new());
        Self {
            broker,
            stage: Stage::New,
            out: BytesMut::new(),
            owed: OwedAnswers::default(),
            gathering: Gathering::default(),
            background: Background::new(Arc::clone(&signal)),
            signal,
            subscriptions: HashMap::new(),
            by_token: HashMap::new(),
            parked: HashMap::new(),
            client: String::new(),
            rights: Rights::none(),
            logging_in: None,
            address: transport.peer.to_string(),
            transport,
            entry,
            listed: None,
            turned_away: None,
            ready: VecDeque::new(),
            woken: Vec::new(),
            next_token: LOGIN_TOKEN + 1,
        }
    }

    /// What a unit may announce now.
    pub(super) fn unit_limits(&self) -> UnitLimits {
        let is_small = matches!(self.stage, Stage::New | Stage::LoggingIn);
        let max_body_bytes = if is_small { MAX_HELLO_BYTES } else { self.broker.limits().max_request_bytes.into() };
        UnitLimits { max_key_bytes: MAX_KEY_BYTES, max_body_bytes }
    }

    pub(super) const fn token(&mut self) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        token
    }

    /// Takes a request. Produce requests are in the log only after [`Session::append_gathered`].
    pub(super) fn request(&mut self, unit: Unit) {
        let correlation = unit.correlation();
        let operation = Operation::from_number(unit.header().record_count);
        // Whatever else is asked comes behind what was produced before.
        if operation != Some(Operation::Produce) {
            self.append_gathered();
        }
        match (self.stage, operation) {
            (Stage::Closing, _) => {}
            (Stage::Goodbye(_), _) => self.refuse_session(Status::BadSessionState, "a request came behind the goodbye"),
            _ if correlation == CorrelationId(0) => self.refuse_session(Status::Malformed, "correlation id 0 is the session's own"),
            (Stage::New, Some(Operation::Hello)) => self.hello(&unit),
            (Stage::New, _) => {
                self.close(correlation, &WireError::new(Status::BadSessionState, "the first request must be Hello"));
            }
            (Stage::Revoked, _) => self.tell(correlation, &revoked()),
            (_, Some(Operation::Hello)) | (Stage::LoggingIn, _) => {
                self.close(correlation, &WireError::new(Status::BadSessionState, "the session is open already"));
            }
            (_, Some(Operation::Heartbeat)) => self.respond(correlation, &hermit_proto::session::HeartbeatResponse),
            (_, Some(Operation::Goodbye)) => self.goodbye(correlation),
            (_, Some(Operation::Credit)) => self.credit(&unit),
            (Stage::Stopping, Some(Operation::Produce)) => self.produce(unit),
            (Stage::Stopping, _) => self.refuse(correlation, &BrokerError::ShuttingDown),
            (Stage::Open, Some(operation)) => self.operate(operation, unit),
            (Stage::Open, None) => {
                let message = format!("operation {} is unknown to this release", unit.header().record_count);
                self.tell(correlation, &WireError::new(Status::UnknownOperation, message));
            }
        }
    }

    fn operate(&mut self, operation: Operation, unit: Unit) {
        self.access_changed();
        if self.stage != Stage::Open {
            return self.tell(unit.correlation(), &revoked());
        }
        if let Err(error) = self.check_need(operation) {
            return self.refuse(unit.correlation(), &error);
        }
        match operation {
            Operation::Produce => self.produce(unit),
            Operation::Subscribe => self.subscribe(&unit),
            Operation::Unsubscribe => self.unsubscribe(&unit),
            Operation::Commit => self.commit(&unit),
            Operation::FetchCommitted => self.fetch_committed(&unit),
            Operation::Metadata => self.metadata(&unit),
            Operation::ListTopics => self.list_topics(&unit),
            Operation::ListOffsets => self.list_offsets(&unit),
            Operation::CreateTopic => self.create_topic(&unit),
            Operation::DeleteTopic => self.delete_topic(&unit),
            Operation::AlterTopic => self.alter_topic(&unit),
            Operation::AddPartitions => self.add_partitions(&unit),
            Operation::Trim => self.trim(&unit),
            Operation::DescribeBroker => self.describe_broker(&unit),
            Operation::InitProducerId => self.init_producer(&unit),
            Operation::JoinGroup => self.join_group(&unit),
            Operation::GroupHeartbeat => self.group_heartbeat(&unit),
            Operation::LeaveGroup => self.leave_group(&unit),
            Operation::ListGroups => self.list_groups(&unit),
            Operation::DescribeGroup => self.describe_group(&unit),
            Operation::DeleteGroup => self.delete_group(&unit),
            Operation::PutUser => self.put_user(&unit),
            Operation::DeleteUser => self.delete_user(&unit),
            Operation::ListUsers => self.list_users(&unit),
            Operation::CreateToken => self.create_token(&unit),
            Operation::DeleteToken => self.delete_token(&unit),
            Operation::AddRules => self.add_rules(&unit),
            Operation::DeleteRules => self.delete_rules(&unit),
            Operation::ListRules => self.list_rules(&unit),
            Operation::WhoAmI => self.who_am_i(&unit),
            other => {
                let message = format!("operation {other} is not served by this release");
                self.tell(unit.correlation(), &WireError::new(Status::UnknownOperation, message));
            }
        }
    }

    fn goodbye(&mut self, correlation: CorrelationId) {
        self.end_subscriptions();
        self.answer_parked();
        self.stage = Stage::Goodbye(correlation);
        self.finish();
    }

    /// The broker stops.
    pub(super) fn stop(&mut self) {
        match self.stage {
            Stage::New | Stage::LoggingIn => self.refuse_session(Status::ShuttingDown, "the broker is stopping"),
            Stage::Open => {
                self.end_subscriptions();
                self.answer_parked();
                self.stage = Stage::Stopping;
                self.finish();
            }
            Stage::Goodbye(_) | Stage::Stopping | Stage::Revoked | Stage::Closing => {}
        }
    }

    /// The client sends nothing more. It may still read its answers.
    pub(super) fn leave(&mut self) {
        self.end_subscriptions();
        self.answer_parked();
    }

    /// Says the last word, once nothing is owed.
    pub(super) fn finish(&mut self) {
        self.append_gathered();
        if !self.owed.is_empty() || self.background.is_busy() {
            return;
        }
        match self.stage {
            Stage::Goodbye(correlation) => {
                self.respond(correlation, &hermit_proto::session::GoodbyeResponse);
                self.stage = Stage::Closing;
            }
            Stage::Stopping => self.refuse_session(Status::ShuttingDown, "the broker is stopping"),
            Stage::Revoked => self.close(CorrelationId(0), &revoked()),
            Stage::New | Stage::LoggingIn | Stage::Open | Stage::Closing => {}
        }
    }

    /// Something that was waited for has moved.
    pub(super) fn wake(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        self.signal.take_into(&mut woken);
        if self.stage == Stage::Closing {
            woken.clear();
        }
        for token in woken.drain(..) {
            if token == BACKGROUND_TOKEN {
                self.background.collect(&mut self.out);
            } else if token == ACCESS_TOKEN {
                self.access_changed();
            } else if token == LOGIN_TOKEN {
                self.login_decided();
            } else if let Some(id) = self.by_token.get(&token) {
                self.ready.push_back(*id);
            } else if !self.look_at_parked(token) {
                self.owed.settle(token, &self.signal, self.broker.counters(), &mut self.out);
            }
        }
        self.woken = woken;
        self.finish();
    }

    /// Writes what subscriptions have to say, as long as it is short and no more than `GATHER_BYTES` are to be sent. Answers the frames
    /// whose head was written last, if any: nothing may come in between.
    pub(super) fn deliveries(&mut self) -> Option<FileRange> {
        self.access_changed();
        while self.out.len() < GATHER_BYTES {
            let id = self.ready.pop_front()?;
            let Some(subscription) = self.subscriptions.get_mut(&id) else { continue };
            match subscription.turn(id, self.broker.warmer(), &self.signal, &mut self.out) {
                Turn::Waits => {}
                Turn::Wrote => self.ready.push_back(id),
                Turn::Delivers(range) => {
                    self.ready.push_back(id);
                    return Some(FileRange::of(&range));
                }
                Turn::Ends(error) => {
                    self.broker.counters().refused(error.error.status);
                    self.end_subscription(id);
                    // An error fits, as everything in it is short.
                    drop(error.encode(id, &mut self.out));
                }
            }
        }
        None
    }

    pub(super) fn make_ready(&mut self, id: CorrelationId) {
        if !self.ready.contains(&id) {
            self.ready.push_back(id);
        }
    }

    pub(super) fn end_subscription(&mut self, id: CorrelationId) -> bool {
        let Some(subscription) = self.subscriptions.remove(&id) else { return false };
        subscription.forget(&self.signal);
        self.by_token.remove(&subscription.token());
        true
    }

    pub(super) fn end_subscriptions(&mut self) {
        let ids: Vec<_> = self.subscriptions.keys().copied().collect();
        for id in ids {
            self.end_subscription(id);
        }
    }

    pub(super) fn respond(&mut self, correlation: CorrelationId, response: &impl Response) {
        if let Err(error) = response.encode(correlation, &mut self.out) {
            self.tell(correlation, &WireError::new(Status::TooLarge, error.to_string()));
        }
    }

    pub(super) fn refuse(&mut self, correlation: CorrelationId, error: &BrokerError) {
        self.tell(correlation, &to_wire(error));
    }

    /// Answers with an error, which is counted.
    pub(super) fn tell(&mut self, correlation: CorrelationId, error: &WireError) {
        self.broker.counters().refused(error.status);
        error.encode(correlation, &mut self.out);
    }

    /// Refuses the session as a whole; it ends behind this.
    pub(super) fn refuse_session(&mut self, status: Status, message: &str) {
        self.close(CorrelationId(0), &WireError::new(status, message));
    }

    /// Says the last word: neither deliveries nor answers come behind it.
    pub(super) fn close(&mut self, correlation: CorrelationId, error: &WireError) {
        self.append_gathered();
        self.end_subscriptions();
        self.tell(correlation, error);
        self.stage = Stage::Closing;
    }

    /// Whether more requests may be read.
    pub(super) fn takes_requests(&self) -> bool {
        let limit = self.broker.limits().max_pending_answers;
        !matches!(self.stage, Stage::LoggingIn | Stage::Closing | Stage::Revoked | Stage::Goodbye(_))
            && self.owed.len() + self.gathering.len() + self.parked.len() < limit
            && self.owed.has_room()
            && self.background.has_room()
    }

    /// Whether something may come without the client doing anything.
    pub(super) fn awaits_signal(&self) -> bool {
        !self.owed.is_empty()
            || self.background.is_busy()
            || !self.subscriptions.is_empty()
            || !self.parked.is_empty()
            // Those that have logged in hear of changes, and of how the login went.
            || self.broker.access().is_enabled()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.owed.is_empty() && !self.background.is_busy() && self.ready.is_empty()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.owed.forget(&self.signal);
        self.forget_parked();
        for subscription in self.subscriptions.values() {
            subscription.forget(&self.signal);
        }
    }
}
