//! What rules come to: who may do what with which names. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hermit_proto::INTERNAL_PREFIX;
use hermit_proto::session::{AccessOperations, AccessResource, EVERY_USER, NamePattern};

use super::state::RuleKey;
use crate::error::BrokerError;
use crate::groups::{AllPatterns, Patterns};
use crate::limits::Limits;

/// The rules of all principals, made ready for decisions.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    by_principal: HashMap<String, Granted>,
}

/// What the rules of one principal allow.
#[derive(Debug, Default)]
struct Granted {
    topics: Names,
    groups: Names,
    broker: AccessOperations,
}

/// What is allowed on names of one kind.
#[derive(Debug, Default)]
struct Names {
    exact: HashMap<String, AccessOperations>,
    prefixes: Vec<(String, AccessOperations)>,
    patterns: Vec<(Arc<Patterns>, AccessOperations)>,
    /// On some name or other.
    any: AccessOperations,
}

impl Rights {
    /// Makes rules ready; their regular expressions are shared by `patterns`.
    ///
    /// # Errors
    /// A regular expression is none, or all of them would take too much memory.
    pub(crate) fn new(
        rules: &BTreeMap<RuleKey, AccessOperations>,
        limits: &Limits,
        patterns: &AllPatterns,
    ) -> Result<Self, BrokerError> {
        let mut rights = Self::default();
        for (key, operations) in rules {
            rights.grant(key, *operations, limits, patterns)?;
        }
        Ok(rights)
    }

    /// Adds what one rule allows.
    pub(crate) fn grant(
        &mut self,
        key: &RuleKey,
        operations: AccessOperations,
        limits: &Limits,
        patterns: &AllPatterns,
    ) -> Result<(), BrokerError> {
        let of_resource = key.resource.operations();
        // Who administers may do all there is.
        let operations = if operations.contains(AccessOperations::ADMINISTER) { of_resource } else { operations };
        let operations = operations.intersection(of_resource);
        let granted = self.by_principal.entry(key.principal.clone()).or_default();
        match &key.resource {
            AccessResource::Topic(name) => granted.topics.grant(name, operations, limits, patterns),
            AccessResource::Group(name) => granted.groups.grant(name, operations, limits, patterns),
            AccessResource::Broker => {
                granted.broker = granted.broker | operations;
                Ok(())
            }
        }
    }

    /// What a user may do with a topic of this name. Nobody may do anything with the broker's own.
    pub(crate) fn topic(&self, user: &str, topic: &str) -> AccessOperations {
        if topic.starts_with(INTERNAL_PREFIX) {
            return AccessOperations::NONE;
        }
        self.sum(user, |granted| granted.topics.on(topic))
    }

    /// What a user may do with a group of this name.
    pub(crate) fn group(&self, user: &str, group: &str) -> AccessOperations {
        self.sum(user, |granted| granted.groups.on(group))
    }

    /// What a user may do with the broker.
    pub(crate) fn broker(&self, user: &str) -> AccessOperations {
        self.sum(user, |granted| granted.broker)
    }

    /// What a user may do with some topic or other.
    pub(crate) fn some_topic(&self, user: &str) -> AccessOperations {
        self.sum(user, |granted| granted.topics.any)
    }

    fn sum(&self, user: &str, of: impl Fn(&Granted) -> AccessOperations) -> AccessOperations {
        let of = |principal| self.by_principal.get(principal).map_or(AccessOperations::NONE, &of);
        of(user) | of(EVERY_USER)
    }
}

impl Names {
    fn grant(
        &mut self,
        name: &NamePattern,
        operations: AccessOperations,
        limits: &Limits,
        patterns: &AllPatterns,
    ) -> Result<(), BrokerError> {
        match name {
            NamePattern::Exact(name) => {
                let granted = self.exact.entry(name.clone()).or_default();
                *granted = *granted | operations;
            }
            NamePattern::Prefix(prefix) => self.prefixes.push((prefix.clone(), operations)),
            NamePattern::Regex(pattern) => {
                self.patterns.push((patterns.compile(std::slice::from_ref(pattern), limits)?, operations));
            }
        }
        self.any = self.any | operations;
        Ok(())
    }

    fn on(&self, name: &str) -> AccessOperations {
        let mut operations = self.exact.get(name).copied().unwrap_or_default();
        let prefixes = self.prefixes.iter().filter(|(prefix, _)| name.starts_with(prefix.as_str()));
        operations = prefixes.fold(operations, |sum, (_, more)| sum | *more);
        for (pattern, more) in &self.patterns {
            // Matching is the dear part: not where it can add nothing.
            if !operations.contains(*more) && pattern.matches_text(name) {
                operations = operations | *more;
            }
        }
        operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(rules: &[(&str, AccessResource, AccessOperations)]) -> Rights {
        let keyed = rules.iter().map(|(principal, resource, operations)| {
            (RuleKey { principal: (*principal).to_owned(), resource: resource.clone() }, *operations)
        });
        Rights::new(&keyed.collect(), &Limits::default(), &AllPatterns::default()).unwrap()
    }

    #[test]
    fn what_no_rule_allows_is_refused() {
        let rights = rights(&[]);
        assert_eq!(rights.topic("anna", "orders"), AccessOperations::NONE);
        assert_eq!(rights.group("anna", "g") | rights.broker("anna") | rights.some_topic("anna"), AccessOperations::NONE);
    }

    #[test]
    fn names_are_matched_exactly_by_their_beginning_or_as_a_whole() {
        let topic = |pattern| AccessResource::Topic(pattern);
        let rights = rights(&[
            ("anna", topic(NamePattern::Exact("orders".into())), AccessOperations::PRODUCE),
            ("anna", topic(NamePattern::Prefix("eu-".into())), AccessOperations::CONSUME),
            ("anna", topic(NamePattern::Regex(r"log-\d+|eu-x".into())), AccessOperations::CREATE),
        ]);
        for (name, allowed) in [
            ("orders", AccessOperations::PRODUCE),
            ("orders2", AccessOperations::NONE),
            ("Orders", AccessOperations::NONE),
            ("eu-", AccessOperations::CONSUME),
            ("eu-x", AccessOperations::CONSUME | AccessOperations::CREATE),
            ("xeu-x", AccessOperations::NONE),
            ("log-17", AccessOperations::CREATE),
            ("log-17a", AccessOperations::NONE),
        ] {
            assert_eq!(rights.topic("anna", name), allowed, "{name}");
            assert_eq!(rights.topic("bert", name), AccessOperations::NONE, "{name}");
            assert_eq!(rights.group("anna", name), AccessOperations::NONE, "{name}");
        }
        assert_eq!(rights.some_topic("anna"), AccessOperations::ALL.without(AccessOperations::ADMINISTER));
    }

    #[test]
    fn to_administer_is_all_of_that_resource_and_of_no_other() {
        let all = || NamePattern::Prefix(String::new());
        let topics = rights(&[("anna", AccessResource::Topic(all()), AccessOperations::ADMINISTER)]);
        assert_eq!(topics.topic("anna", "x"), AccessOperations::ALL);
        assert_eq!(topics.group("anna", "x") | topics.broker("anna"), AccessOperations::NONE);
        assert_eq!(topics.topic("anna", "__consumer_offsets"), AccessOperations::NONE);
        let broker = rights(&[("anna", AccessResource::Broker, AccessOperations::ADMINISTER)]);
        let both = AccessOperations::ADMINISTER | AccessOperations::CONSUME;
        assert_eq!((broker.broker("anna"), broker.topic("anna", "x")), (both, AccessOperations::NONE));
        // To read the metrics is that alone.
        let metrics = rights(&[("anna", AccessResource::Broker, AccessOperations::CONSUME)]);
        assert_eq!((metrics.broker("anna"), metrics.topic("anna", "x")), (AccessOperations::CONSUME, AccessOperations::NONE));
    }

    #[test]
    fn what_every_user_may_adds_to_what_one_may() {
        let group = || AccessResource::Group(NamePattern::Exact("g".into()));
        let rights = rights(&[("*", group(), AccessOperations::CONSUME), ("anna", group(), AccessOperations::ADMINISTER)]);
        assert_eq!(rights.group("bert", "g"), AccessOperations::CONSUME);
        assert_eq!(rights.group("anna", "g"), AccessOperations::CONSUME | AccessOperations::ADMINISTER);
    }
}
