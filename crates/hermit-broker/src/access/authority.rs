//! In whose name something is asked, and what that allows.

use std::sync::Arc;

use hermit_proto::UserName;
use hermit_proto::session::{AccessOperations, AccessResource};

use super::{Access, Credential, Snapshot};
use crate::error::BrokerError;

/// In whose name something is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Principal {
    /// Whoever it is: the broker authenticates nobody.
    Anyone,
    /// Who has not said who it is, and may do nothing.
    Nobody,
    /// A user.
    User(UserName),
    /// Who may make the first administrator.
    FirstAdministrator,
}

/// What a principal may do, at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Authority {
    principal: Principal,
    snapshot: Arc<Snapshot>,
}

impl Principal {
    /// The user's name; empty where there is none.
    pub(crate) fn user(&self) -> &str {
        match self {
            Self::User(name) => name.as_str(),
            Self::Anyone | Self::Nobody | Self::FirstAdministrator => "",
        }
    }
}

impl Authority {
    /// Everybody may do everything.
    pub(crate) fn open() -> Self {
        Self { principal: Principal::Anyone, snapshot: Arc::default() }
    }

    /// Nobody may do anything.
    pub(crate) fn nobody() -> Self {
        Self { principal: Principal::Nobody, snapshot: Arc::default() }
    }

    /// What `principal` may do now.
    pub(crate) fn of(principal: Principal, access: &Access) -> Self {
        Self { principal, snapshot: access.current() }
    }

    pub(crate) const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Whether it may do everything.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.principal, Principal::Anyone)
    }

    /// Whether a credential is still that of a user who may log in.
    pub(crate) fn holds(&self, credential: &Credential, access: &Access) -> bool {
        let user = match &self.principal {
            Principal::Anyone => return true,
            Principal::Nobody => return false,
            Principal::FirstAdministrator => return access.first_token_holds(),
            Principal::User(name) => self.snapshot.state.users.get(name).filter(|user| user.enabled),
        };
        user.is_some_and(|user| match credential {
            Credential::None => true,
            Credential::Password { revision } => user.password.as_ref().is_some_and(|password| password.revision == *revision),
            Credential::Token { hash } => user.tokens.values().any(|token| token.hash == *hash),
        })
    }

    fn decide(&self, of: impl FnOnce(&Snapshot, &str) -> AccessOperations) -> AccessOperations {
        match &self.principal {
            Principal::Anyone => AccessOperations::ALL,
            Principal::User(name) => of(&self.snapshot, name.as_str()),
            Principal::Nobody | Principal::FirstAdministrator => AccessOperations::NONE,
        }
    }

    /// What is allowed on a topic of that name, whether or not there is one.
    pub(crate) fn on_topic(&self, name: &str) -> AccessOperations {
        self.decide(|snapshot, user| snapshot.rights.topic(user, name))
    }

    /// What is allowed on some topic or other.
    pub(crate) fn on_some_topic(&self) -> AccessOperations {
        self.decide(|snapshot, user| snapshot.rights.some_topic(user))
    }

    /// What is allowed on a group of that name.
    pub(crate) fn on_group(&self, name: &str) -> AccessOperations {
        self.decide(|snapshot, user| snapshot.rights.group(user, name))
    }

    /// What is allowed on the broker.
    pub(crate) fn on_broker(&self) -> AccessOperations {
        if self.principal == Principal::FirstAdministrator {
            return AccessResource::Broker.operations();
        }
        self.decide(|snapshot, user| snapshot.rights.broker(user))
    }

    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub(crate) fn check_topic(&self, name: &str, operation: AccessOperations, field: &'static str) -> Result<(), BrokerError> {
        check(self.on_topic(name), operation, field)
    }

    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub(crate) fn check_group(&self, name: &str, operation: AccessOperations) -> Result<(), BrokerError> {
        check(self.on_group(name), operation, "group")
    }

    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub(crate) fn check_broker(&self) -> Result<(), BrokerError> {
        check(self.on_broker(), AccessOperations::ADMINISTER, "broker")
    }

    /// # Errors
    /// [`BrokerError::NotAuthorized`].
    pub(crate) fn check_metrics(&self) -> Result<(), BrokerError> {
        check(self.on_broker(), AccessOperations::CONSUME, "broker")
    }
}

/// Refuses what is not in `allowed`. The words are the same for all names: they tell nothing of what there is.
pub(crate) fn check(allowed: AccessOperations, operation: AccessOperations, field: &'static str) -> Result<(), BrokerError> {
    if allowed.contains(operation) { Ok(()) } else { Err(BrokerError::NotAuthorized { operation, field }) }
}
