//! Users and rules, for who embeds the broker; clients have the same operations.

use std::sync::Arc;

use hermit_log::LogEnv;
use hermit_proto::session::{AccessRule, ListRulesRequest, ListRulesResponse, ListUsersRequest, ListUsersResponse, PutUserRequest};
use hermit_proto::{Secret, UserName};

use super::Broker;
use crate::access::{Access, AccessDamage, Asker, Change};
use crate::config::BrokerConfig;
use crate::error::BrokerError;
use crate::ids::Ids;

/// Keeps the ids of a simulation, and what is random here, apart.
const SEED_OF_ACCESS: u64 = 0x4143_4345_5353;

/// Opens users and rules.
pub(super) fn open(config: &BrokerConfig, env: &LogEnv) -> Result<(Arc<Access>, Option<AccessDamage>), BrokerError> {
    let ids = Ids::new(config.id_seed.map(|seed| seed ^ SEED_OF_ACCESS));
    let (access, limits) = (config.access.clone(), config.limits.clone());
    Access::open(access, limits, Arc::clone(&env.disk), &config.data_dir, Arc::clone(&env.clock), ids)
}

impl Broker {
    pub(crate) fn access(&self) -> &Arc<Access> {
        &self.inner.access
    }

    /// Creates or changes a user; answers whether it is new. When this returns, that survives a power cut, and sessions that a former credential opened end.
    /// Blocks while a password is hashed, and while the disk syncs.
    ///
    /// # Errors
    /// [`BrokerError::UserExists`], [`BrokerError::UnknownUser`], [`BrokerError::LastAdministrator`], [`BrokerError::AccessReadOnly`]; the name or the password is
    /// not allowed; a limit is reached; the disk refuses.
    pub fn put_user(&self, request: &PutUserRequest) -> Result<bool, BrokerError> {
        self.change_access(&Asker::Embedder, |change| change.put_user(request))
    }

    /// Deletes a user, its tokens, and the rules that name it. Its sessions end.
    ///
    /// # Errors
    /// [`BrokerError::UnknownUser`], [`BrokerError::LastAdministrator`], [`BrokerError::AccessReadOnly`]; the disk refuses.
    pub fn delete_user(&self, user: &UserName) -> Result<(), BrokerError> {
        self.change_access(&Asker::Embedder, |change| change.delete_user(user))
    }

    /// Makes a token for a user. Nobody can tell it again.
    ///
    /// # Errors
    /// [`BrokerError::UnknownUser`], [`BrokerError::TokenExists`], [`BrokerError::AccessReadOnly`]; the label is not allowed; the limit is reached; the disk refuses.
    pub fn create_token(&self, user: &UserName, label: &str) -> Result<Secret, BrokerError> {
        self.change_access(&Asker::Embedder, |change| change.create_token(user, label))
    }

    /// Deletes a token. Sessions that it opened end.
    ///
    /// # Errors
    /// [`BrokerError::UnknownUser`], [`BrokerError::UnknownToken`], [`BrokerError::LastAdministrator`], [`BrokerError::AccessReadOnly`]; the disk refuses.
    pub fn delete_token(&self, user: &UserName, label: &str) -> Result<(), BrokerError> {
        self.change_access(&Asker::Embedder, |change| change.delete_token(user, label))
    }

    /// Allows more, all of it or nothing; answers how many of the rules changed something.
    ///
    /// # Errors
    /// A rule means nothing; a limit is reached; [`BrokerError::AccessReadOnly`]; the disk refuses.
    pub fn add_rules(&self, rules: &[AccessRule]) -> Result<u32, BrokerError> {
        self.change_access(&Asker::Embedder, |change| change.add_rules(rules))
    }

    /// Takes back what rules allow; answers how many of them changed something.
    ///
    /// # Errors
    /// [`BrokerError::LastAdministrator`], [`BrokerError::AccessReadOnly`]; the disk refuses.
    pub fn delete_rules(&self, rules: &[AccessRule]) -> Result<u32, BrokerError> {
        self.change_access(&Asker::Embedder, |change| change.delete_rules(rules))
    }

    /// A page of the users.
    #[must_use]
    pub fn list_users(&self, request: &ListUsersRequest) -> ListUsersResponse {
        self.inner.access.list_users(request)
    }

    /// A page of the rules.
    #[must_use]
    pub fn list_rules(&self, request: &ListRulesRequest) -> ListRulesResponse {
        self.inner.access.list_rules(request)
    }

    /// Passwords that were checked the long way, for tests of what a storm costs.
    #[doc(hidden)]
    #[must_use]
    pub fn password_checks(&self) -> u64 {
        self.inner.access.checks()
    }

    /// What takes rights away must be possible on a full disk, too.
    ///
    /// # Errors
    /// [`BrokerError::NotAuthorized`] where `asker` may not, or may not any more; those of the change.
    pub(crate) fn change_access<T>(
        &self,
        asker: &Asker,
        change: impl Fn(&Change<'_>) -> Result<T, BrokerError>,
    ) -> Result<T, BrokerError> {
        if *self.inner.phase.borrow() >= super::Phase::Closed {
            return Err(BrokerError::ShuttingDown);
        }
        let changed = self.inner.reserve.with(|| change(&self.inner.access.changed_by(asker)))?;
        self.inner.groups.access_changed();
        Ok(changed)
    }
}
