//! What a session may do: decided once for each topic, and again when users or rules have changed.

use std::collections::HashMap;
use std::sync::Arc;

use hermit_proto::TopicId;
use hermit_proto::session::{AccessOperations, DeliveryError, LoginKind, Operation, Status, WhoAmIResponse, WireError};

use super::state::{ACCESS_TOKEN, Session, Stage};
use crate::access::{Access, Asker, Authority, Credential, Login, Watch, check};
use crate::broker::Broker;
use crate::error::{BrokerError, to_wire};
use crate::server::Line;
use crate::signal::Signal;

/// Decisions that are kept.
const MOST_TOPICS: usize = 4096;

/// What a session may do.
#[derive(Debug)]
pub(super) struct Rights {
    authority: Authority,
    credential: Credential,
    kind: LoginKind,
    /// The epoch of what is decided here.
    epoch: u64,
    /// The decision that was asked for last: a producer asks for the same one again and again.
    last: Option<(TopicId, AccessOperations)>,
    topics: HashMap<TopicId, AccessOperations>,
    /// Wakes the session at each change.
    _watch: Option<Watch>,
}

impl Rights {
    fn new(authority: Authority, credential: Credential, kind: LoginKind, epoch: u64, watch: Option<Watch>) -> Self {
        Self { authority, credential, kind, epoch, last: None, topics: HashMap::new(), _watch: watch }
    }

    /// Nobody may do anything: before the hello.
    pub(super) fn none() -> Self {
        Self::new(Authority::nobody(), Credential::None, LoginKind::Anonymous, 0, None)
    }

    /// Everybody may do everything.
    pub(super) fn open() -> Self {
        Self::new(Authority::open(), Credential::None, LoginKind::Anonymous, 0, None)
    }

    /// What a login gives; `None` where that was taken back meanwhile.
    pub(super) fn of(login: Login, access: &Access, signal: &Arc<Signal>) -> Option<Self> {
        // Before the look, so that no change is missed.
        let (watch, epoch) = (access.watch(signal, ACCESS_TOKEN), access.epoch());
        let authority = Authority::of(login.principal, access);
        authority.holds(&login.credential, access).then(|| Self::new(authority, login.credential, login.kind, epoch, Some(watch)))
    }

    pub(super) const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Who asks for a change of users or rules.
    pub(super) fn asker(&self) -> Asker {
        Asker::Session { principal: self.authority.principal().clone(), credential: self.credential.clone() }
    }

    /// Whether something has changed since the decisions were made. One load, which costs nothing where everybody may do everything.
    pub(super) fn are_stale(&self, access: &Access) -> bool {
        !self.authority.is_open() && self.epoch != access.epoch()
    }

    /// Forgets what was decided; answers whether the login is still good.
    fn renew(&mut self, access: &Access) -> bool {
        self.epoch = access.epoch();
        self.authority = Authority::of(self.authority.principal().clone(), access);
        self.last = None;
        self.topics.clear();
        self.authority.holds(&self.credential, access)
    }

    fn on_topic(&mut self, topic: TopicId, broker: &Broker) -> AccessOperations {
        if let Some((_, allowed)) = self.last.filter(|(last, _)| *last == topic) {
            return allowed;
        }
        let allowed = match self.topics.get(&topic) {
            Some(allowed) => *allowed,
            None => match broker.topic_by_id(topic) {
                Ok(found) => {
                    let allowed = self.authority.on_topic(found.meta.name.as_str());
                    if self.topics.len() >= MOST_TOPICS {
                        self.topics.clear();
                    }
                    self.topics.insert(topic, allowed);
                    allowed
                }
                // Ids are random: that one is not there is of no use to who could do nothing with any. The others have to hear that it was deleted.
                Err(_unknown) => return self.authority.on_some_topic(),
            },
        };
        self.last = Some((topic, allowed));
        allowed
    }

    /// The answer to WhoAmI.
    pub(super) fn told(&self) -> WhoAmIResponse {
        WhoAmIResponse { principal: self.user().to_owned(), login: self.kind }
    }

    /// The user's name; empty where there is none.
    pub(super) fn user(&self) -> &str {
        self.authority.principal().user()
    }
}

/// What an operation needs before its request is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: it tells nothing, or only of what there is a right on.
    Nothing,
    /// This on some topic or other.
    SomeTopic(AccessOperations),
    /// To administer the broker.
    Broker,
    /// Rights on what the request names: whoever serves it checks that.
    Named,
}

/// The table of what operations need. What is not in it is for administrators.
pub(super) const fn need(operation: Operation) -> Need {
    match operation {
        Operation::Hello
        | Operation::Heartbeat
        | Operation::Goodbye
        | Operation::Credit
        | Operation::Unsubscribe
        | Operation::ListTopics
        | Operation::ListGroups
        | Operation::WhoAmI => Need::Nothing,
        Operation::InitProducerId => Need::SomeTopic(AccessOperations::PRODUCE),
        Operation::Metadata
        | Operation::CreateTopic
        | Operation::DeleteTopic
        | Operation::AlterTopic
        | Operation::AddPartitions
        | Operation::ListOffsets
        | Operation::Trim
        | Operation::Produce
        | Operation::Subscribe
        | Operation::Commit
        | Operation::FetchCommitted
        | Operation::JoinGroup
        | Operation::GroupHeartbeat
        | Operation::LeaveGroup
        | Operation::DescribeGroup
        | Operation::DeleteGroup => Need::Named,
        // Those about the broker, users and rules, and whatever comes later.
        _ => Need::Broker,
    }
}

impl Session {
    /// Whether the request may be looked at.
    pub(super) fn check_need(&self, operation: Operation) -> Result<(), BrokerError> {
        let authority = self.rights.authority();
        match need(operation) {
            Need::Nothing | Need::Named => Ok(()),
            Need::SomeTopic(operation) => check(authority.on_some_topic(), operation, "topic"),
            Need::Broker => authority.check_broker(),
        }
    }

    /// Whether something may be done with a topic.
    pub(super) fn check_topic(&mut self, topic: TopicId, operation: AccessOperations) -> Result<(), BrokerError> {
        if self.rights.authority().is_open() {
            return Ok(());
        }
        check(self.rights.on_topic(topic, &self.broker), operation, "topic")
    }

    /// Whether anything may be done with a topic.
    pub(super) fn check_any_right(&mut self, topic: TopicId) -> Result<(), BrokerError> {
        if self.rights.authority().is_open() || !self.rights.on_topic(topic, &self.broker).is_empty() {
            return Ok(());
        }
        Err(BrokerError::NotAuthorized { operation: AccessOperations::CONSUME, field: "topic" })
    }

    /// Users or rules have changed: what is under way and not allowed any more ends.
    pub(super) fn access_changed(&mut self) {
        if !self.rights.are_stale(self.broker.access()) {
            return;
        }
        let broker = self.broker.clone();
        if !self.rights.renew(broker.access()) {
            self.revoke();
            return;
        }
        let subscribed: Vec<_> = self.subscriptions.iter().map(|(id, subscription)| (*id, subscription.topic())).collect();
        for (id, topic) in subscribed {
            // A topic that is gone says so itself.
            if broker.topic_by_id(topic).is_ok()
                && let Err(error) = self.check_topic(topic, AccessOperations::CONSUME)
            {
                self.end_subscription(id);
                let error = DeliveryError { ended: true, error: to_wire(&error) };
                broker.counters().refused(error.error.status);
                // An error fits, as everything in it is short.
                drop(error.encode(id, &mut self.out));
            }
        }
        self.refuse_parked();
    }

    /// The login is not good any more. What was asked before is answered, and then the session ends.
    fn revoke(&mut self) {
        if self.stage == Stage::Open {
            if let Line::Write { left_out } = self.broker.lines().revoked.line() {
                tracing::info!(address = %self.address, left_out, "the session's user or credential was changed: it ends");
            }
            self.end_subscriptions();
            self.answer_parked();
            self.stage = Stage::Revoked;
            self.finish();
        }
    }
}

/// What is said to a session whose login is not good any more.
pub(super) fn revoked() -> WireError {
    WireError::new(
        Status::NotAuthenticated,
        "the user, or the password or token that opened this session, was changed or deleted: log in again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new operation is for administrators until somebody decides otherwise, here and in the table.
    #[test]
    fn every_operation_is_in_the_table() {
        let of_the_broker: Vec<_> = Operation::ALL.iter().filter(|operation| need(**operation) == Need::Broker).collect();
        let expected = [
            Operation::DescribeBroker,
            Operation::PutUser,
            Operation::DeleteUser,
            Operation::ListUsers,
            Operation::CreateToken,
            Operation::DeleteToken,
            Operation::AddRules,
            Operation::DeleteRules,
            Operation::ListRules,
        ];
        assert_eq!(of_the_broker, expected.iter().collect::<Vec<_>>());
    }
}
