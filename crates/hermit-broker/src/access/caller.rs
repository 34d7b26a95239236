//! Logins and rights for who serves clients by a protocol of its own, such as HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use hermit_log::Batch;
use hermit_proto::session::{
    AccessOperations, AccessRule, ListGroupsResponse, LoginKind, MECHANISM_PLAIN, MECHANISM_TOKEN, PutUserRequest,
};
use hermit_proto::{Secret, TopicName, UserName};
use zeroize::Zeroizing;

use super::{Asker, Authority, Began, Credential, Login, LoginError, Origin, Principal, Slot, check, is_local};
use crate::broker::{Broker, refuse_internal};
use crate::client_name::printable;
use crate::error::BrokerError;
use crate::hooks::Client;
use crate::partition::{Partition, Ticket};
use crate::server::Line;
use crate::signal::Signal;
use crate::topic::Topic;

/// What a client shows of who it is.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Shown<'a> {
    /// Nothing.
    Nothing,
    /// A user and a password.
    Password {
        /// The user's name.
        user: &'a str,
        /// The password.
        password: &'a str,
    },
    /// A token.
    Token(&'a str),
}

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Password { .. } => "Password(..)",
            Self::Token(_) => "Token(..)",
        })
    }
}

/// Why a client is not let in. The words are the same whoever the user is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginRefused {
    /// Nothing was shown, and something must be.
    #[error("log in: show a user and its password, or a token")]
    Missing,
    /// The broker authenticates nobody, and somebody showed something.
    #[error("this broker authenticates nobody: leave user, password and token out")]
    NotAsked,
    /// A secret came from another machine without TLS. It was not looked at.
    #[error("from other machines, secrets are taken over TLS only, and this one was not looked at: connect with TLS")]
    Unencrypted,
    /// User, password or token are wrong.
    #[error("user, password or token is wrong, or the user may not log in")]
    Wrong,
    /// Too many logins fail, or wait: nothing was looked at.
    #[error("too many logins fail, or wait: nothing was looked at; try again in {wait_ms} ms")]
    Later {
        /// For how long nothing is looked at, in ms.
        wait_ms: u64,
    },
}

impl From<LoginError> for LoginRefused {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Mechanism => Self::Missing,
            LoginError::Unencrypted => Self::Unencrypted,
            LoginError::Malformed | LoginError::Wrong => Self::Wrong,
            LoginError::Later(wait_ms) => Self::Later { wait_ms },
        }
    }
}

/// A client that was let in, and what it may do, at the moment of its login or of the last [`Caller::renew`].
#[derive(Debug, Clone)]
pub struct Caller {
    broker: Broker,
    authority: Authority,
    credential: Credential,
    kind: LoginKind,
    epoch: u64,
    peer: SocketAddr,
    /// What it calls itself.
    client: Arc<str>,
}

impl Broker {
    /// Whether clients have to log in.
    #[must_use]
    pub fn authenticates(&self) -> bool {
        self.access().is_enabled()
    }

    /// Logs a client in that came from `peer`, as the native port does: with the same cache, and the same waits for who fails. `encrypted` says whether others can read along.
    /// Counted among the logins of [`Broker::metrics`], good or not.
    ///
    /// # Errors
    /// [`LoginRefused`].
    pub async fn log_in(&self, shown: Shown<'_>, peer: SocketAddr, encrypted: bool) -> Result<Caller, LoginRefused> {
        let decided = self.decide_login(shown, peer, encrypted).await;
        let outcome = match &decided {
            Ok(Caller { kind: LoginKind::Anonymous, .. }) => return decided,
            Ok(caller) => caller.kind.into(),
            // Browsers ask so, before they ask their user.
            Err(LoginRefused::NotAsked | LoginRefused::Missing) => return decided,
            Err(LoginRefused::Unencrypted) => (&LoginError::Unencrypted).into(),
            Err(LoginRefused::Wrong) => (&LoginError::Wrong).into(),
            Err(LoginRefused::Later { wait_ms }) => (&LoginError::Later(*wait_ms)).into(),
        };
        self.counters().login(outcome);
        if let Err(reason) = &decided
            && let Line::Write { left_out } = self.lines().refused_logins.line()
        {
            tracing::info!(address = %peer.ip(), ?reason, left_out, "a login was refused");
        }
        decided
    }

    async fn decide_login(&self, shown: Shown<'_>, peer: SocketAddr, encrypted: bool) -> Result<Caller, LoginRefused> {
        let access = self.access();
        if !access.is_enabled() {
            let nothing = matches!(shown, Shown::Nothing);
            return if nothing { Ok(Caller::anyone(self, peer)) } else { Err(LoginRefused::NotAsked) };
        }
        let (mechanism, data) = match shown {
            Shown::Nothing => return Err(LoginRefused::Missing),
            Shown::Password { user, password } => {
                (MECHANISM_PLAIN, Zeroizing::new([b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat()))
            }
            Shown::Token(token) => (MECHANISM_TOKEN, Zeroizing::new(token.as_bytes().to_vec())),
        };
        if !encrypted && !is_local(peer.ip()) && !access.config().insecure_transport_ok {
            return Err(LoginRefused::Unencrypted);
        }
        let signal = Arc::new(Signal::new());
        let slot = Slot::new(Arc::clone(&signal), 0);
        let decided = match access.begin(mechanism, &data, Origin::of(peer.ip()), &slot) {
            Began::Decided(decided) => decided,
            Began::Waits => {
                let told = tokio::time::timeout(self.limits_in_force().handshake_timeout, signal.notified()).await;
                let taken = told.ok().and_then(|()| slot.take());
                taken.unwrap_or(Err(LoginError::Later(1000)))
            }
        };
        Caller::of(self, decided?, peer).ok_or(LoginRefused::Wrong)
    }
}

impl Caller {
    fn anyone(broker: &Broker, peer: SocketAddr) -> Self {
        let (authority, credential, kind) = (Authority::open(), Credential::None, LoginKind::Anonymous);
        Self { broker: broker.clone(), authority, credential, kind, epoch: 0, peer, client: Arc::default() }
    }

    fn of(broker: &Broker, login: Login, peer: SocketAddr) -> Option<Self> {
        // Before the look, so that no change is missed.
        let epoch = broker.access().epoch();
        let authority = Authority::of(login.principal, broker.access());
        let holds = authority.holds(&login.credential, broker.access());
        let Login { credential, kind, .. } = login;
        holds.then(|| Self { broker: broker.clone(), authority, credential, kind, epoch, peer, client: Arc::default() })
    }

    /// The user's name; empty where there is none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.authority.principal().user()
    }

    /// The broker that it was let in to.
    #[must_use]
    pub const fn broker(&self) -> &Broker {
        &self.broker
    }

    /// What the client calls itself; empty where it did not say.
    #[must_use]
    pub fn client(&self) -> &str {
        &self.client
    }

    /// Takes down what the client calls itself, for hooks: 255 bytes of it, without what is not seen.
    pub fn calls_itself(&mut self, name: &str) {
        self.client = printable(name).into();
    }

    /// As [`Broker::append`], for the client: hooks are told who it is. That it may write is for the caller to check.
    ///
    /// # Errors
    /// As [`Broker::append`].
    pub fn append(&self, partition: &Arc<Partition>, batch: &mut Batch) -> Result<Ticket, BrokerError> {
        if self.broker.events().is_none() {
            return self.broker.append(partition, batch);
        }
        let address = self.peer.to_string();
        self.broker.append_from(partition, batch, Some(Client { name: &self.client, address: &address, user: self.name() }))
    }

    /// How it logged in.
    #[must_use]
    pub const fn kind(&self) -> LoginKind {
        self.kind
    }

    /// Looks again, where users or rules have changed; answers whether the login is still good. For what lasts longer than a request.
    pub fn renew(&mut self) -> bool {
        let access = self.broker.access();
        let has_ended = matches!(self.authority.principal(), Principal::Nobody);
        if has_ended || self.authority.is_open() || self.epoch == access.epoch() {
            return !has_ended;
        }
        self.epoch = access.epoch();
        self.authority = Authority::of(self.authority.principal().clone(), access);
        let holds = self.authority.holds(&self.credential, access);
        if !holds {
            // For good, whatever is asked of it from now on.
            self.authority = Authority::nobody();
        }
        holds
    }

    /// The topic that the client is about to write to, created as the broker's defaults say where it is missing, if the settings and the client's rights
    /// allow. Blocks while the disk syncs, where it creates one. That the client may write is for the caller to check.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`], [`BrokerError::InternalTopic`], [`BrokerError::NotAuthorized`]; those of [`Broker::create_topic`].
    pub fn topic_to_write(&self, name: &TopicName) -> Result<Arc<Topic>, BrokerError> {
        refuse_internal(name)?;
        let live = self.broker.live();
        match self.broker.topic(name) {
            Err(BrokerError::UnknownTopic { .. }) if live.create_topics => {
                self.check_topic(name.as_str(), AccessOperations::CREATE)?;
                self.broker.topic_for_producer(name, live.default_partitions)
            }
            found => found,
        }
    }

    /// What is allowed on a topic of that name, whether or not there is one.
    #[must_use]
    pub fn on_topic(&self, name: &str) -> AccessOperations {
        self.authority.on_topic(name)
    }

    /// Whether something may be done with a topic of that name, whether or not there is one.
    ///
    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub fn check_topic(&self, name: &str, operation: AccessOperations) -> Result<(), BrokerError> {
        self.authority.check_topic(name, operation, "topic")
    }

    /// Whether something may be done with some topic or other.
    ///
    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub fn check_some_topic(&self, operation: AccessOperations) -> Result<(), BrokerError> {
        check(self.authority.on_some_topic(), operation, "topic")
    }

    /// Whether anything may be done with a topic of that name, so that it may be seen.
    ///
    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub fn check_sees_topic(&self, name: &str) -> Result<(), BrokerError> {
        let sees = !self.on_topic(name).is_empty();
        if sees { Ok(()) } else { check(AccessOperations::NONE, AccessOperations::CONSUME, "topic") }
    }

    /// Whether something may be done with a group of that name.
    ///
    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub fn check_group(&self, name: &str, operation: AccessOperations) -> Result<(), BrokerError> {
        self.authority.check_group(name, operation)
    }

    /// Whether the broker may be administered.
    ///
    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub fn check_broker(&self) -> Result<(), BrokerError> {
        self.authority.check_broker()
    }

    /// Whether the broker's metrics may be read, which name all topics and groups: `consume` on the broker, for who does nothing else.
    ///
    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub fn check_metrics(&self) -> Result<(), BrokerError> {
        self.authority.check_metrics()
    }

    /// As [`Broker::list_groups`], of the groups that may be seen.
    ///
    /// # Errors
    /// As [`Broker::list_groups`].
    pub fn list_groups(&self, after: &str, most: usize) -> Result<ListGroupsResponse, BrokerError> {
        self.broker.list_groups_where(after, most, |group| !self.authority.on_group(group.as_str()).is_empty())
    }

    fn asker(&self) -> Asker {
        if self.authority.is_open() {
            return Asker::Embedder;
        }
        Asker::Session { principal: self.authority.principal().clone(), credential: self.credential.clone() }
    }

    /// As [`Broker::put_user`], if the client may, which is looked at when its turn has come.
    ///
    /// # Errors
    /// As [`Broker::put_user`]; [`BrokerError::NotAuthorized`].
    pub fn put_user(&self, request: &PutUserRequest) -> Result<bool, BrokerError> {
        self.broker.change_access(&self.asker(), |change| change.put_user(request))
    }

    /// As [`Broker::delete_user`], if the client may.
    ///
    /// # Errors
    /// As [`Broker::delete_user`]; [`BrokerError::NotAuthorized`].
    pub fn delete_user(&self, user: &UserName) -> Result<(), BrokerError> {
        self.broker.change_access(&self.asker(), |change| change.delete_user(user))
    }

    /// As [`Broker::create_token`], if the client may.
    ///
    /// # Errors
    /// As [`Broker::create_token`]; [`BrokerError::NotAuthorized`].
    pub fn create_token(&self, user: &UserName, label: &str) -> Result<Secret, BrokerError> {
        self.broker.change_access(&self.asker(), |change| change.create_token(user, label))
    }

    /// As [`Broker::delete_token`], if the client may.
    ///
    /// # Errors
    /// As [`Broker::delete_token`]; [`BrokerError::NotAuthorized`].
    pub fn delete_token(&self, user: &UserName, label: &str) -> Result<(), BrokerError> {
        self.broker.change_access(&self.asker(), |change| change.delete_token(user, label))
    }

    /// As [`Broker::add_rules`], if the client may.
    ///
    /// # Errors
    /// As [`Broker::add_rules`]; [`BrokerError::NotAuthorized`].
    pub fn add_rules(&self, rules: &[AccessRule]) -> Result<u32, BrokerError> {
        self.broker.change_access(&self.asker(), |change| change.add_rules(rules))
    }

    /// As [`Broker::delete_rules`], if the client may.
    ///
    /// # Errors
    /// As [`Broker::delete_rules`]; [`BrokerError::NotAuthorized`].
    pub fn delete_rules(&self, rules: &[AccessRule]) -> Result<u32, BrokerError> {
        self.broker.change_access(&self.asker(), |change| change.delete_rules(rules))
    }
}
