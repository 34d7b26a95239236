//! What is known of users by the answers to those who made, changed and removed them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hermit_client::{AccessRule, ListedUser};
use hermit_proto::Secret;

/// A user, as the last answer left it.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) number: u32,
    pub(super) enabled: bool,
    pub(super) password: Secret,
    /// One that was replaced.
    pub(super) old_password: Option<Secret>,
    /// By label. Where an answer was lost, only the broker knew the token.
    pub(super) tokens: BTreeMap<String, Option<Secret>>,
    pub(super) rules: BTreeSet<AccessRule>,
}

impl Known {
    pub(super) fn new(number: u32, password: Secret) -> Self {
        Self { number, enabled: true, password, old_password: None, tokens: BTreeMap::new(), rules: BTreeSet::new() }
    }
}

/// How much was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Users that were made.
    pub made: u64,
    /// Of these, removed again.
    pub removed: u64,
    /// Changes that were answered, making and removing included.
    pub changes: u64,
    /// Comparisons of all users and rules with what was answered.
    pub comparisons: u64,
    /// Logins that were let in, as they had to be.
    pub let_in: u64,
    /// Logins that were refused, as they had to be.
    pub refused: u64,
    /// Requests without the right for them that were refused, as they had to be.
    pub not_allowed: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { made, removed, changes, comparisons, let_in, refused, not_allowed } = self;
        writeln!(f, "users      {made:>9} made, {removed} removed, {changes} changes of users, tokens and rules answered")?;
        writeln!(f, "logins     {let_in:>9} let in, {refused} refused; {not_allowed} requests without a right refused")?;
        writeln!(f, "compared   {comparisons:>9} times with what the broker lists")
    }
}

/// All users of a run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) known: BTreeMap<String, Known>,
    /// Removed; names are not used again.
    pub(super) gone: BTreeMap<String, Known>,
    /// How much was done.
    pub(super) counts: Counts,
}

impl Ledger {
    /// What of all that the broker lists differs from what it has answered.
    pub(super) fn differences(&self, users: &[ListedUser], rules: &[AccessRule]) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, known) in &self.known {
            let Some(listed) = users.iter().find(|user| user.name == *name) else {
                wrong.push(format!("the user {name} is lost"));
                continue;
            };
            if listed.enabled != known.enabled {
                wrong.push(format!("the user {name} is enabled: {}, though {} was answered", listed.enabled, known.enabled));
            }
            if !listed.has_password {
                wrong.push(format!("the user {name} has lost its password"));
            }
            let labels: Vec<_> = listed.tokens.iter().map(|token| &token.label).collect();
            if !labels.iter().copied().eq(known.tokens.keys()) {
                wrong.push(format!("the user {name} has the tokens {labels:?}, not {:?}", known.tokens.keys().collect::<Vec<_>>()));
            }
            let has: BTreeSet<_> = rules.iter().filter(|rule| rule.principal == *name).collect();
            if !has.iter().copied().eq(&known.rules) {
                wrong.push(format!("the user {name} has the rules {has:?}, not {:?}", known.rules));
            }
        }
        for name in self.gone.keys() {
            if users.iter().any(|user| user.name == *name) {
                wrong.push(format!("the user {name}, which was removed, is there again"));
            }
            if rules.iter().any(|rule| rule.principal == *name) {
                wrong.push(format!("rules for {name}, which was removed, are there again"));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_client::{AccessOperations, AccessResource, ListedToken, NamePattern};

    fn rule() -> AccessRule {
        let resource = AccessResource::Topic(NamePattern::Exact("events".into()));
        AccessRule { principal: "a".into(), resource, operations: AccessOperations::CONSUME }
    }

    fn ledger() -> Ledger {
        let mut known = Known::new(0, Secret::new("x"));
        known.tokens.insert("t".into(), None);
        known.rules.insert(rule());
        let gone = [("b".to_owned(), Known::new(1, Secret::new("y")))].into();
        Ledger { known: [("a".to_owned(), known)].into(), gone, ..Ledger::default() }
    }

    fn listed(name: &str) -> ListedUser {
        let tokens = vec![ListedToken { label: "t".into(), created_at: 0 }];
        ListedUser { name: name.into(), enabled: true, has_password: true, created_at: 0, tokens }
    }

    #[test]
    fn what_was_answered_and_users_of_others_are_no_differences() {
        assert_eq!(ledger().differences(&[listed("a"), listed("admin")], &[rule()]), Vec::<String>::new());
    }

    #[test]
    fn each_thing_that_is_lost_or_comes_back_is_found() {
        let (user, other) = (listed("a"), AccessRule { principal: "b".into(), ..rule() });
        let lists = [
            (vec![], vec![rule()]),
            (vec![ListedUser { enabled: false, ..user.clone() }], vec![rule()]),
            (vec![ListedUser { has_password: false, ..user.clone() }], vec![rule()]),
            (vec![ListedUser { tokens: vec![], ..user.clone() }], vec![rule()]),
            (vec![user.clone()], vec![]),
            (vec![user.clone()], vec![AccessRule { operations: AccessOperations::ALL, ..rule() }]),
            (vec![user.clone(), listed("b")], vec![rule()]),
            (vec![user], vec![rule(), other]),
        ];
        for (users, rules) in lists {
            assert_eq!(ledger().differences(&users, &rules).len(), 1, "{users:?} {rules:?}");
        }
    }
}
