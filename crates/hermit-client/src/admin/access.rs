//! Users, tokens and rules: who may log in, and do what.

use hermit_proto::session::{
    AccessRule, AddRulesRequest, CreateTokenRequest, DeleteRulesRequest, DeleteTokenRequest, DeleteUserRequest, ListRulesRequest,
    ListUsersRequest, ListedUser, Operation, PasswordChange, PutUserMode, PutUserRequest, WhoAmIRequest, WhoAmIResponse,
};
use hermit_proto::{Secret, UserName};

use super::Admin;
use crate::conn::Retry;
use crate::error::Result;

/// All of these but [`Admin::who_am_i`] need the right to administer the broker. When they return, what was changed is on disk and holds: also for
/// sessions that are open.
impl Admin {
    /// Whom the broker takes this client for.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused); connection errors.
    pub async fn who_am_i(&self) -> Result<WhoAmIResponse> {
        self.link.call(&WhoAmIRequest, Retry::Always).await
    }

    /// Creates a user, with a password, or for tokens only. It may do nothing before a rule says so.
    ///
    /// ```no_run
    /// # async fn example(admin: hermit_client::Admin) -> hermit_client::Result<()> {
    /// use hermit_client::{AccessOperations, AccessResource, AccessRule, NamePattern};
    ///
    /// admin.create_user("billing", None).await?;
    /// let token = admin.create_token("billing", "server 7").await?;
    /// std::fs::write("/run/secrets/billing", token.expose()).expect("a directory for secrets");
    /// let may_read = |resource| AccessRule { principal: "billing".into(), resource, operations: AccessOperations::CONSUME };
    /// admin
    ///     .add_rules(vec![
    ///         may_read(AccessResource::Topic(NamePattern::Prefix("orders.".into()))),
    ///         may_read(AccessResource::Group(NamePattern::Exact("billing".into()))),
    ///     ])
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Name`](crate::Error::Name); [`Error::Refused`](crate::Error::Refused) with [`Status::UserExists`](crate::Status::UserExists) and others; connection errors, after which the user may be there.
    pub async fn create_user(&self, user: &str, password: Option<&str>) -> Result<()> {
        let password = password.map_or(PasswordChange::Keep, set);
        self.put_user(user, PutUserMode::Create, password, None, Retry::Unsent).await
    }

    /// Gives a user another password. Sessions that were opened with the old one end.
    ///
    /// # Errors
    /// [`Error::Name`](crate::Error::Name); [`Error::Refused`](crate::Error::Refused) with [`Status::UnknownUser`](crate::Status::UnknownUser) and others; connection errors.
    pub async fn set_password(&self, user: &str, password: &str) -> Result<()> {
        self.put_user(user, PutUserMode::Change, set(password), None, Retry::Always).await
    }

    /// Takes a user's password away: it logs in with tokens only.
    ///
    /// # Errors
    /// As [`Admin::set_password`].
    pub async fn remove_password(&self, user: &str) -> Result<()> {
        self.put_user(user, PutUserMode::Change, PasswordChange::Remove, None, Retry::Always).await
    }

    /// Lets a user log in, or not any more: then its sessions end. Its password, tokens and rules stay.
    ///
    /// # Errors
    /// As [`Admin::set_password`].
    pub async fn enable_user(&self, user: &str, enabled: bool) -> Result<()> {
        self.put_user(user, PutUserMode::Change, PasswordChange::Keep, Some(enabled), Retry::Always).await
    }

    async fn put_user(
        &self,
        user: &str,
        mode: PutUserMode,
        password: PasswordChange,
        enabled: Option<bool>,
        retry: Retry,
    ) -> Result<()> {
        let user = name(user)?;
        self.link.call(&PutUserRequest { user, mode, password, enabled }, retry).await.map(drop)
    }

    /// Deletes a user, its tokens, and the rules that name it. Its sessions end.
    ///
    /// # Errors
    /// [`Error::Name`](crate::Error::Name); [`Error::Refused`](crate::Error::Refused) with [`Status::UnknownUser`](crate::Status::UnknownUser),
    /// [`Status::LastAdministrator`](crate::Status::LastAdministrator) and others; connection errors, after which the user may be gone.
    pub async fn delete_user(&self, user: &str) -> Result<()> {
        self.link.call(&DeleteUserRequest { user: name(user)? }, Retry::Unsent).await.map(drop)
    }

    /// All users with their tokens' labels, in the order of their names' bytes.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused); connection errors.
    pub async fn list_users(&self) -> Result<Vec<ListedUser>> {
        let mut users: Vec<ListedUser> = Vec::new();
        loop {
            let after = users.last().map(|last| last.name.clone()).unwrap_or_default();
            let page = self.link.call(&ListUsersRequest { after: after.clone(), limit: 0 }, Retry::Always).await?;
            // A page that does not lead on would be asked for again without end.
            if page.more && page.users.last().is_none_or(|last| last.name <= after) {
                return Err(self.nonsense(Operation::ListUsers, "its pages do not lead on").await);
            }
            users.extend(page.users);
            if !page.more {
                return Ok(users);
            }
        }
    }

    /// Makes a token, with which a user logs in. Nobody can tell it again: the broker keeps a hash. The label tells it from the user's other tokens.
    ///
    /// # Errors
    /// [`Error::Name`](crate::Error::Name); [`Error::Refused`](crate::Error::Refused) with [`Status::UnknownUser`](crate::Status::UnknownUser),
    /// [`Status::TokenExists`](crate::Status::TokenExists) and others; connection errors, after which a token that nobody knows may be there.
    pub async fn create_token(&self, user: &str, label: &str) -> Result<Secret> {
        let request = CreateTokenRequest { user: name(user)?, label: label.to_owned() };
        self.link.call(&request, Retry::Unsent).await.map(|made| made.token)
    }

    /// Deletes a token of a user. Sessions that were opened with it end.
    ///
    /// # Errors
    /// [`Error::Name`](crate::Error::Name); [`Error::Refused`](crate::Error::Refused) with [`Status::UnknownUser`](crate::Status::UnknownUser),
    /// [`Status::UnknownToken`](crate::Status::UnknownToken) and others; connection errors, after which the token may be gone.
    pub async fn delete_token(&self, user: &str, label: &str) -> Result<()> {
        let request = DeleteTokenRequest { user: name(user)?, label: label.to_owned() };
        self.link.call(&request, Retry::Unsent).await.map(drop)
    }

    /// Allows more: all of the rules, or none. Operations that a principal has on a resource already stay. Tells how many rules were not there before, or
    /// not with all their operations.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused); connection errors.
    pub async fn add_rules(&self, rules: Vec<AccessRule>) -> Result<u32> {
        self.link.call(&AddRulesRequest { rules }, Retry::Always).await.map(|added| added.changed)
    }

    /// Takes back what rules allow: the operations of each, from the rule with the same principal and resource. Tells how many were there, with one of
    /// their operations at least.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused); connection errors.
    pub async fn delete_rules(&self, rules: Vec<AccessRule>) -> Result<u32> {
        self.link.call(&DeleteRulesRequest { rules }, Retry::Always).await.map(|deleted| deleted.changed)
    }

    /// All rules, or those that name a principal, in the order of principal, resource and name.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused); connection errors.
    pub async fn list_rules(&self, principal: Option<&str>) -> Result<Vec<AccessRule>> {
        let principal = principal.unwrap_or_default();
        let mut rules: Vec<AccessRule> = Vec::new();
        loop {
            let after = rules.last().cloned();
            let request = ListRulesRequest { principal: principal.to_owned(), after: after.clone(), limit: 0 };
            let page = self.link.call(&request, Retry::Always).await?;
            let leads_on = page.rules.last().is_some_and(|last| after.as_ref().is_none_or(|after| place(after) < place(last)));
            if page.more && !leads_on {
                return Err(self.nonsense(Operation::ListRules, "its pages do not lead on").await);
            }
            rules.extend(page.rules);
            if !page.more {
                return Ok(rules);
            }
        }
    }
}

/// What the list of rules is ordered by.
fn place(rule: &AccessRule) -> (&str, &hermit_proto::session::AccessResource) {
    (&rule.principal, &rule.resource)
}

fn set(password: &str) -> PasswordChange {
    PasswordChange::Set(Secret::new(password))
}

fn name(user: &str) -> Result<String> {
    Ok(UserName::new_public(user)?.as_str().to_owned())
}
