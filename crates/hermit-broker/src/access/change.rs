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
use super::{Access, Authority, Credential, Principal, Snapshot, token};
use crate::error::BrokerError;

/// Who asks for a change.
#[derive(Debug, Clone)]
pub(crate) enum Asker {
    /// Who embeds the broker, or the broker itself: may do everything.
    Embedder,
    /// A session, by what it has shown.
    Session {
        /// In whose name.
        principal: Principal,
        /// By what it has shown that.
        credential: Credential,
    },
}

/// Changes that somebody asks for.
///
/// A session's requests wait for their turn, behind passwords that are hashed, for example. Whoever was removed, or lost the right, meanwhile changes nothing any
/// more: otherwise an administrator who is being removed could have the queue bring him back behind the removal.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    access: &'a Access,
    asker: &'a Asker,
}

impl Access {
    /// What `asker` may change.
    pub(crate) const fn changed_by<'a>(&'a self, asker: &'a Asker) -> Change<'a> {
        Change { access: self, asker }
    }

    /// As the settings say; one at a time, as each takes much memory.
    pub(super) fn hash(&self, password: &Secret) -> Result<StoredPassword, BrokerError> {
        let salt = self.ids.next()?.to_be_bytes();
        let _one_at_a_time = self.hashing.lock();
        StoredPassword::new(password.expose().as_bytes(), self.config.hashing, salt)
    }

    /// A page of the users.
    pub(crate) fn list_users(&self, request: &ListUsersRequest) -> ListUsersResponse {
        self.current().state.list_users(request)
    }

    /// A page of the rules.
    pub(crate) fn list_rules(&self, request: &ListRulesRequest) -> ListRulesResponse {
        self.current().state.list_rules(request)
    }
}

impl Change<'_> {
    /// Whether the asker still may.
    fn check(&self) -> Result<(), BrokerError> {
        match self.asker {
            Asker::Embedder => Ok(()),
            Asker::Session { principal, credential } => {
                let authority = Authority::of(principal.clone(), self.access);
                if authority.holds(credential, self.access) { authority.check_broker() } else { Authority::nobody().check_broker() }
            }
        }
    }

    /// Creates or changes a user; answers whether it is new.
    pub(crate) fn put_user(&self, request: &PutUserRequest) -> Result<bool, BrokerError> {
        let name = user_name(&request.user)?;
        // Before the dear part, too.
        self.check()?;
        let password = match &request.password {
            PasswordChange::Keep => None,
            PasswordChange::Set(password) => Some(Some(self.access.hash(password)?)),
            PasswordChange::Remove => Some(None),
        };
        let (mode, enabled) = (request.mode, request.enabled);
        self.change(|state| {
            let revision = state.revision;
            let password = password.map(|password| password.map(|password| password.since(revision)));
            let is_new =
                state.put_user(NewUser { name: name.clone(), mode, password, enabled }, self.access.now(), &self.access.config)?;
            tracing::info!(user = %name, is_new, "a user was put");
            Ok(is_new)
        })
    }

    /// Deletes a user, its tokens, and the rules that name it.
    pub(crate) fn delete_user(&self, name: &UserName) -> Result<(), BrokerError> {
        self.change(|state| state.delete_user(name))?;
        tracing::info!(user = %name, "a user was deleted");
        Ok(())
    }

    /// Makes a token for a user.
    pub(crate) fn create_token(&self, name: &UserName, label: &str) -> Result<Secret, BrokerError> {
        let (token, hash) = token::make(&self.access.ids)?;
        let stored = StoredToken { hash, created_at: self.access.now() };
        self.change(|state| state.add_token(name, label, stored, &self.access.config))?;
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
        self.change(|state| state.add_rules(rules, &self.access.config))
    }

    /// Takes back what rules allow; answers how many of them changed something.
    pub(crate) fn delete_rules(&self, rules: &[AccessRule]) -> Result<u32, BrokerError> {
        self.change(|state| Ok(state.delete_rules(rules)))
    }

    /// Changes the state: all of it takes effect, once it is on disk, or nothing.
    pub(super) fn change<T>(&self, apply: impl FnOnce(&mut State) -> Result<T, BrokerError>) -> Result<T, BrokerError> {
        let access = self.access;
        let mut store = access.store.lock();
        // Nothing changes while this has the lock.
        self.check()?;
        let before = access.current();
        let mut next = before.state.clone();
        next.revision += 1;
        let applied = apply(&mut next)?;
        if next.users == before.state.users && next.rules == before.state.rules {
            // Where it is not known what is on the disk, "it is so already" is no answer: what is taken back may be back after a restart.
            store.is_sure()?;
            return Ok(applied);
        }
        if before.state.has_administrator() && !next.has_administrator() {
            return Err(BrokerError::LastAdministrator);
        }
        let rights = Rights::new(&next.rules, &access.limits.read(), &access.patterns)?;
        store.save(&next)?;
        let has_administrator = next.has_administrator();
        *access.current.write() = Arc::new(Snapshot::new(next, rights));
        if has_administrator && access.first_token.lock().take().is_some() {
            store.remove_first_token();
            tracing::info!("there is a user now who may administer the broker: the one-time token is void");
        }
        access.epoch.fetch_add(1, Ordering::Release);
        drop(store);
        access.watchers.wake();
        Ok(applied)
    }
}
