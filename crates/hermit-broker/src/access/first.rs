//! How the first user comes to be who may administer the broker.

use hermit_proto::session::{AccessOperations, AccessResource, AccessRule, NamePattern, PutUserMode};
use hermit_proto::{Secret, UserName};

use super::change::Asker;
use super::state::NewUser;
use super::{Access, FirstAdministrator, token};
use crate::error::BrokerError;

impl Access {
    /// At start: where clients have to log in, and none of them could make users.
    pub(super) fn see_to_first_administrator(&self) -> Result<(), BrokerError> {
        if !self.config.enabled || self.current().state.has_administrator() {
            self.store.lock().remove_first_token();
            return Ok(());
        }
        let seen_to = match &self.config.first_administrator {
            FirstAdministrator::Password { user, password } => self.make_first(user, password),
            FirstAdministrator::Token => self.make_first_token(),
            FirstAdministrator::Missing { why } => {
                let rule = format!("{why}, and nobody may administer the broker yet");
                return Err(BrokerError::InvalidConfig { field: "first_administrator", rule });
            }
        };
        // The data can be served without: that nobody can be let in is no reason to do nothing at all.
        if let Err(error) = seen_to {
            tracing::error!(error = %crate::error::line(&error), "nobody may administer the broker, and this start could not change that");
        }
        Ok(())
    }

    fn make_first_token(&self) -> Result<(), BrokerError> {
        let (token, hash) = token::make(&self.ids)?;
        let path = self.store.lock().write_first_token(&token)?;
        *self.first_token.lock() = Some(hash);
        tracing::warn!(path = %path.display(), "nobody may administer the broker yet: log in with the one-time token in this file, and make a user who may");
        Ok(())
    }

    fn make_first(&self, user: &UserName, password: &Secret) -> Result<(), BrokerError> {
        let password = self.hash(password)?;
        let everything = NamePattern::Prefix(String::new());
        let resources = [AccessResource::Topic(everything.clone()), AccessResource::Group(everything), AccessResource::Broker];
        let rules = resources.map(|resource| AccessRule {
            principal: user.to_string(),
            resource,
            operations: AccessOperations::ADMINISTER,
        });
        self.changed_by(&Asker::Embedder).change(|state| {
            let password = password.since(state.revision);
            let new = NewUser {
                name: user.clone(),
                mode: PutUserMode::CreateOrChange,
                password: Some(Some(password)),
                enabled: Some(true),
            };
            state.put_user(new, self.now(), &self.config)?;
            state.add_rules(&rules, &self.config)
        })?;
        self.store.lock().remove_first_token();
        tracing::warn!(%user, "nobody could administer the broker: made the user that the settings name, who may do everything");
        Ok(())
    }

    /// Whether there is such a token still.
    pub(super) fn first_token_holds(&self) -> bool {
        self.first_token.lock().is_some()
    }
}
