//! Changing users and rules: decided on a copy, written and synced, and then in force.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermit_proto::session::{
    AccessRule, ListRulesRequest, ListRulesResponse, ListUsersRequest, ListUsersResponse, PasswordChange, PutUserRequest,
};
use hermit_proto::{Secret, UserName};

use super::password::StoredPassword;
use super::rights::Rights;
use super::state::{NewUser, State, StoredToken, user_name};
use super::{Access, Snapshot, token};
use crate::error::BrokerError;

impl Access {
    /// Creates or changes a user; answers whether it is new.
    pub(crate) fn put_user(&self, request: &PutUserRequest) -> Result<bool, BrokerError> {
        let name = user_name(&request.user)?;
        let password = match &request.password {
            PasswordChange::Keep => None,
            PasswordChange::Set(password) => Some(Some(self.hash(password)?)),
            PasswordChange::Remove => Some(None),
        };
        let (mode, enabled) = (request.mode, request.enabled);
        self.change(|state| {
            let revision = state.revision;
            let password = password.map(|password| password.map(|password| password.since(revision)));
            let is_new = state.put_user(NewUser { name: name.clone(), mode, password, enabled }, self.now(), &self.config)?;
            tracing::info!(user = %name, is_new, "a user was put");
            Ok(is_new)
        })
    }

    /// As the settings say; one at a time, as each takes much memory.
    pub(super) fn hash(&self, password: &Secret) -> Result<StoredPassword, BrokerError> {
        let salt = self.ids.next()?.to_be_bytes();
        let _one_at_a_time = self.hashing.lock();
        StoredPassword::new(password.expose().as_bytes(), self.config.hashing, salt)
    }

    /// Deletes a user, its tokens, and the rules that name it.
    pub(crate) fn delete_user(&self, name: &UserName) -> Result<(), BrokerError> {
        self.change(|state| state.delete_user(name))?;
        tracing::info!(user = %name, "a user was deleted");
        Ok(())
    }

    /// Makes a token for a user.
    pub(crate) fn create_token(&self, name: &UserName, label: &str) -> Result<Secret, BrokerError> {
        let (token, hash) = token::make(&self.ids)?;
        let stored = StoredToken { hash, created_at: self.now() };
        self.change(|state| state.add_token(name, label, stored, &self.config))?;
        tracing::info!(user = %name, label, "a token was made");
        Ok(token)
    }

    /// Deletes a token.
    pub(crate) fn delete_token(&self, name: &UserName, label: &str) -> Result<(), BrokerError> {
        self.change(|state| state.delete_token(name, label))?;
        tracing::info!(user = %name, label, "a token was deleted");
        Ok(())
    }

    /// Allows more; answers how many of the rules changed something.
    pub(crate) fn add_rules(&self, rules: &[AccessRule]) -> Result<u32, BrokerError> {
        self.change(|state| state.add_rules(rules, &self.config))
    }

    /// Takes back what rules allow; answers how many of them changed something.
    pub(crate) fn delete_rules(&self, rules: &[AccessRule]) -> Result<u32, BrokerError> {
        self.change(|state| Ok(state.delete_rules(rules)))
    }

    /// A page of the users.
    pub(crate) fn list_users(&self, request: &ListUsersRequest) -> ListUsersResponse {
        self.current().state.list_users(request)
    }

    /// A page of the rules.
    pub(crate) fn list_rules(&self, request: &ListRulesRequest) -> ListRulesResponse {
        self.current().state.list_rules(request)
    }

    /// Changes the state: all of it takes effect, once it is on disk, or nothing.
    pub(super) fn change<T>(&self, apply: impl FnOnce(&mut State) -> Result<T, BrokerError>) -> Result<T, BrokerError> {
        let mut store = self.store.lock();
        let before = self.current();
        let mut next = before.state.clone();
        next.revision += 1;
        let applied = apply(&mut next)?;
        if next.users == before.state.users && next.rules == before.state.rules {
            return Ok(applied);
        }
        if before.state.has_administrator() && !next.has_administrator() {
            return Err(BrokerError::LastAdministrator);
        }
        let rights = Rights::new(&next.rules, &self.limits, &self.patterns)?;
        store.save(&next)?;
        let has_administrator = next.has_administrator();
        *self.current.write() = Arc::new(Snapshot::new(next, rights));
        if has_administrator && self.first_token.lock().take().is_some() {
            store.remove_first_token();
            tracing::info!("there is a user now who may administer the broker: the one-time token is void");
        }
        self.epoch.fetch_add(1, Ordering::Release);
        drop(store);
        self.watchers.wake();
        Ok(applied)
    }
}
