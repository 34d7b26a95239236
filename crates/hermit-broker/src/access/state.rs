//! Users, tokens and rules, and how they change. Pure: knows no file, no clock and no randomness.

use std::collections::BTreeMap;

use hermit_proto::session::{
    AccessOperations, AccessResource, AccessRule, EVERY_USER, ListRulesRequest, ListRulesResponse, ListUsersRequest,
    ListUsersResponse, ListedToken, ListedUser, PutUserMode,
};
use hermit_proto::{MAX_NAME_BYTES, UserName};

use super::AccessConfig;
use super::password::StoredPassword;
use crate::error::{BrokerError, Counted};

/// Users or rules on one page of a list.
const PAGE: usize = 1000;

/// Everything that is kept about access.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Rises with every change, so that nothing of before is taken for something of after.
    pub(crate) revision: u64,
    pub(crate) users: BTreeMap<UserName, User>,
    pub(crate) rules: BTreeMap<RuleKey, AccessOperations>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) enabled: bool,
    /// ns since the Unix epoch.
    pub(crate) created_at: u64,
    pub(crate) password: Option<StoredPassword>,
    pub(crate) tokens: BTreeMap<String, StoredToken>,
}

/// A token, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredToken {
    pub(crate) hash: [u8; 32],
    /// ns since the Unix epoch.
    pub(crate) created_at: u64,
}

/// What a rule is found by. There is one rule for each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuleKey {
    pub(crate) principal: String,
    pub(crate) resource: AccessResource,
}

impl RuleKey {
    fn of(rule: &AccessRule) -> Self {
        Self { principal: rule.principal.clone(), resource: rule.resource.clone() }
    }

    fn with(&self, operations: AccessOperations) -> AccessRule {
        AccessRule { principal: self.principal.clone(), resource: self.resource.clone(), operations }
    }
}

/// A user that is put.
#[derive(Debug)]
pub(crate) struct NewUser {
    pub(crate) name: UserName,
    pub(crate) mode: PutUserMode,
    /// `None`: as before. `Some(None)`: without.
    pub(crate) password: Option<Option<StoredPassword>>,
    pub(crate) enabled: Option<bool>,
}

/// The name of a user, as a client gives it to one.
pub(crate) fn user_name(name: &str) -> Result<UserName, BrokerError> {
    if name == EVERY_USER {
        return Err(BrokerError::InvalidConfig { field: "user", rule: "`*` stands for every user: choose another name".into() });
    }
    Ok(UserName::new_public(name)?)
}

impl State {
    /// Creates or changes a user; answers whether it is new.
    pub(crate) fn put_user(&mut self, new: NewUser, now: u64, config: &AccessConfig) -> Result<bool, BrokerError> {
        let NewUser { name, mode, password, enabled } = new;
        let is_new = !self.users.contains_key(&name);
        match mode {
            PutUserMode::Create if !is_new => return Err(BrokerError::UserExists { user: name }),
            PutUserMode::Change if is_new => return Err(BrokerError::UnknownUser { user: name }),
            _ => {}
        }
        if is_new && self.users.len() >= config.max_users {
            return Err(BrokerError::TooMany { what: Counted::Users, limit: config.max_users as u64 });
        }
        let blank = || User { enabled: true, created_at: now, password: None, tokens: BTreeMap::new() };
        let user = self.users.entry(name).or_insert_with(blank);
        if let Some(password) = password {
            user.password = password;
        }
        user.enabled = enabled.unwrap_or(user.enabled);
        Ok(is_new)
    }

    /// Deletes a user, and the rules that name it.
    pub(crate) fn delete_user(&mut self, name: &UserName) -> Result<(), BrokerError> {
        self.users.remove(name).ok_or_else(|| BrokerError::UnknownUser { user: name.clone() })?;
        self.rules.retain(|key, _| key.principal != name.as_str());
        Ok(())
    }

    /// Gives a user a token.
    pub(crate) fn add_token(
        &mut self,
        name: &UserName,
        label: &str,
        token: StoredToken,
        config: &AccessConfig,
    ) -> Result<(), BrokerError> {
        check_label(label)?;
        let user = self.user_mut(name)?;
        if user.tokens.contains_key(label) {
            return Err(BrokerError::TokenExists { user: name.clone(), label: label.into() });
        }
        if user.tokens.len() >= config.max_tokens {
            return Err(BrokerError::TooMany { what: Counted::Tokens, limit: config.max_tokens as u64 });
        }
        user.tokens.insert(label.to_owned(), token);
        Ok(())
    }

    /// Takes a token from a user.
    pub(crate) fn delete_token(&mut self, name: &UserName, label: &str) -> Result<(), BrokerError> {
        let unknown =
            || BrokerError::UnknownToken { user: name.clone(), label: label.escape_debug().take(MAX_NAME_BYTES).collect() };
        self.user_mut(name)?.tokens.remove(label).map(|_gone| ()).ok_or_else(unknown)
    }

    fn user_mut(&mut self, name: &UserName) -> Result<&mut User, BrokerError> {
        self.users.get_mut(name).ok_or_else(|| BrokerError::UnknownUser { user: name.clone() })
    }

    /// Allows more; answers how many of the rules changed something.
    pub(crate) fn add_rules(&mut self, rules: &[AccessRule], config: &AccessConfig) -> Result<u32, BrokerError> {
        let mut changed = 0;
        for rule in rules {
            check_rule(rule)?;
            let limit = config.max_rules;
            let is_full = self.rules.len() >= limit;
            match self.rules.entry(RuleKey::of(rule)) {
                std::collections::btree_map::Entry::Vacant(_) if is_full => {
                    return Err(BrokerError::TooMany { what: Counted::Rules, limit: limit as u64 });
                }
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(rule.operations);
                    changed += 1;
                }
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    let sum = *entry.get() | rule.operations;
                    changed += u32::from(entry.insert(sum) != sum);
                }
            }
        }
        Ok(changed)
    }

    /// Takes back what rules allow; answers how many of them changed something.
    pub(crate) fn delete_rules(&mut self, rules: &[AccessRule]) -> u32 {
        let mut changed = 0;
        for rule in rules {
            let key = RuleKey::of(rule);
            let Some(before) = self.rules.get(&key).copied() else { continue };
            let after = before.without(rule.operations);
            changed += u32::from(after != before);
            if after.is_empty() {
                self.rules.remove(&key);
            } else {
                self.rules.insert(key, after);
            }
        }
        changed
    }

    /// Whether somebody can log in who may administer the broker.
    pub(crate) fn has_administrator(&self) -> bool {
        let administers = |principal: &str| {
            let key = RuleKey { principal: principal.to_owned(), resource: AccessResource::Broker };
            self.rules.get(&key).is_some_and(|operations| operations.contains(AccessOperations::ADMINISTER))
        };
        let everybody = administers(EVERY_USER);
        let can_log_in = |user: &User| user.enabled && (user.password.is_some() || !user.tokens.is_empty());
        self.users.iter().any(|(name, user)| can_log_in(user) && (everybody || administers(name.as_str())))
    }

    /// A page of the users.
    pub(crate) fn list_users(&self, request: &ListUsersRequest) -> ListUsersResponse {
        let page = page(request.limit);
        let mut rest = self.users.iter().filter(|(name, _)| name.as_str() > request.after.as_str());
        let users = rest.by_ref().take(page).map(|(name, user)| ListedUser {
            name: name.to_string(),
            enabled: user.enabled,
            has_password: user.password.is_some(),
            created_at: user.created_at,
            tokens: user
                .tokens
                .iter()
                .map(|(label, token)| ListedToken { label: label.clone(), created_at: token.created_at })
                .collect(),
        });
        let users = users.collect();
        ListUsersResponse { users, more: rest.next().is_some() }
    }

    /// A page of the rules.
    pub(crate) fn list_rules(&self, request: &ListRulesRequest) -> ListRulesResponse {
        let after = request.after.as_ref().map(RuleKey::of);
        let wanted = |key: &RuleKey| {
            (request.principal.is_empty() || key.principal == request.principal) && after.as_ref().is_none_or(|after| key > after)
        };
        let mut rest = self.rules.iter().filter(|(key, _)| wanted(key));
        let rules = rest.by_ref().take(page(request.limit)).map(|(key, operations)| key.with(*operations)).collect();
        ListRulesResponse { rules, more: rest.next().is_some() }
    }
}

fn page(limit: u32) -> usize {
    let limit = usize::try_from(limit).unwrap_or(PAGE).min(PAGE);
    if limit == 0 { PAGE } else { limit }
}

/// What tells tokens apart is shown in lists and logs, as names are.
fn check_label(label: &str) -> Result<(), BrokerError> {
    UserName::new(label).map(|_good| ()).map_err(|error| BrokerError::InvalidConfig { field: "label", rule: error.to_string() })
}

fn check_rule(rule: &AccessRule) -> Result<(), BrokerError> {
    if rule.principal != EVERY_USER {
        UserName::new_public(&rule.principal)
            .map_err(|error| BrokerError::InvalidConfig { field: "principal", rule: error.to_string() })?;
    }
    let there_are = rule.resource.operations();
    if rule.operations.is_empty() || !there_are.contains(rule.operations) {
        let rule = format!("on this resource there are {there_are}: allow one of them at least, and no other");
        return Err(BrokerError::InvalidConfig { field: "operations", rule });
    }
    if let AccessResource::Topic(name) | AccessResource::Group(name) = &rule.resource {
        use hermit_proto::session::NamePattern::{Exact, Prefix, Regex};
        let bad = |rule: String| Err(BrokerError::InvalidConfig { field: "name", rule });
        match name {
            Exact(name) => {
                if let Err(error) = UserName::new(name) {
                    return bad(error.to_string());
                }
            }
            Prefix(prefix) if prefix.len() > MAX_NAME_BYTES => return bad("a name has 255 bytes at most: shorten it".into()),
            // The limit and the syntax are looked at where it is compiled.
            Prefix(_) | Regex(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_proto::session::NamePattern;

    fn put(state: &mut State, name: &str, mode: PutUserMode) -> Result<bool, BrokerError> {
        let new = NewUser { name: user_name(name)?, mode, password: None, enabled: None };
        state.put_user(new, 1, &AccessConfig { max_users: 2, ..AccessConfig::default() })
    }

    fn rule(principal: &str, name: &str, operations: AccessOperations) -> AccessRule {
        let resource = AccessResource::Topic(NamePattern::Exact(name.into()));
        AccessRule { principal: principal.into(), resource, operations }
    }

    #[test]
    fn users_are_created_and_changed_as_asked_up_to_the_limit() {
        let mut state = State::default();
        assert!(matches!(put(&mut state, "anna", PutUserMode::Change), Err(BrokerError::UnknownUser { .. })));
        assert!(put(&mut state, "anna", PutUserMode::Create).unwrap());
        assert!(matches!(put(&mut state, "anna", PutUserMode::Create), Err(BrokerError::UserExists { .. })));
        assert!(!put(&mut state, "anna", PutUserMode::Change).unwrap());
        assert!(put(&mut state, "bert", PutUserMode::CreateOrChange).unwrap());
        assert!(matches!(put(&mut state, "carl", PutUserMode::Create), Err(BrokerError::TooMany { .. })));
        for name in ["", "*", "__x", "a\nb", &"x".repeat(256)] {
            assert!(put(&mut state, name, PutUserMode::Create).is_err(), "{name:?}");
        }
    }

    #[test]
    fn rules_add_up_and_are_taken_back_bit_by_bit() {
        let (mut state, config) = (State::default(), AccessConfig { max_rules: 2, ..AccessConfig::default() });
        let both = AccessOperations::PRODUCE | AccessOperations::CONSUME;
        assert_eq!(state.add_rules(&[rule("anna", "t", AccessOperations::PRODUCE)], &config).unwrap(), 1);
        assert_eq!(state.add_rules(&[rule("anna", "t", both), rule("anna", "t", both)], &config).unwrap(), 1);
        assert_eq!(state.list_rules(&ListRulesRequest::default()).rules, [rule("anna", "t", both)]);
        assert_eq!(state.delete_rules(&[rule("anna", "t", AccessOperations::CONSUME), rule("anna", "u", both)]), 1);
        assert_eq!(state.list_rules(&ListRulesRequest::default()).rules, [rule("anna", "t", AccessOperations::PRODUCE)]);
        assert_eq!(state.delete_rules(&[rule("anna", "t", AccessOperations::ALL)]), 1);
        assert!(state.rules.is_empty());
        let many: Vec<_> = ["a", "b", "c"].map(|name| rule("anna", name, both)).into();
        assert!(matches!(state.add_rules(&many, &config), Err(BrokerError::TooMany { .. })));
    }

    #[test]
    fn rules_that_mean_nothing_are_refused_by_their_field() {
        let refused = |rule: AccessRule| match State::default().add_rules(&[rule], &AccessConfig::default()) {
            Err(BrokerError::InvalidConfig { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(rule("", "t", AccessOperations::PRODUCE)), "principal");
        assert_eq!(refused(rule("__first", "t", AccessOperations::PRODUCE)), "principal");
        assert_eq!(refused(rule("anna", "t", AccessOperations::NONE)), "operations");
        assert_eq!(refused(rule("anna", "a\0", AccessOperations::PRODUCE)), "name");
        let group = AccessResource::Group(NamePattern::Prefix(String::new()));
        assert_eq!(refused(AccessRule { resource: group, ..rule("anna", "t", AccessOperations::PRODUCE) }), "operations");
    }

    #[test]
    fn a_deleted_user_takes_its_rules_along() {
        let (mut state, config) = (State::default(), AccessConfig::default());
        put(&mut state, "anna", PutUserMode::Create).unwrap();
        let rules = [rule("anna", "t", AccessOperations::ALL), rule("*", "t", AccessOperations::CONSUME)];
        state.add_rules(&rules, &config).unwrap();
        state.delete_user(&user_name("anna").unwrap()).unwrap();
        assert_eq!(state.list_rules(&ListRulesRequest::default()).rules, rules[1..]);
    }

    #[test]
    fn pages_go_on_behind_the_last_item() {
        let (mut state, config) = (State::default(), AccessConfig::default());
        let rules: Vec<_> = (0..7).map(|n| rule("anna", &format!("t{n}"), AccessOperations::PRODUCE)).collect();
        state.add_rules(&rules, &config).unwrap();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = state.list_rules(&ListRulesRequest { principal: "anna".into(), after: after.take(), limit: 3 });
            found.extend(page.rules);
            after = found.last().cloned();
            if !page.more {
                break;
            }
        }
        assert_eq!(found, rules);
    }

    #[test]
    fn an_administrator_is_one_who_can_log_in() {
        let (mut state, config) = (State::default(), AccessConfig::default());
        put(&mut state, "anna", PutUserMode::Create).unwrap();
        let administer =
            AccessRule { principal: "*".into(), resource: AccessResource::Broker, operations: AccessOperations::ADMINISTER };
        state.add_rules(&[administer], &config).unwrap();
        assert!(!state.has_administrator(), "without password and token");
        let anna = user_name("anna").unwrap();
        state.add_token(&anna, "ci", StoredToken { hash: [0; 32], created_at: 0 }, &config).unwrap();
        assert!(state.has_administrator());
        state.users.get_mut(&anna).unwrap().enabled = false;
        assert!(!state.has_administrator(), "disabled");
    }
}
