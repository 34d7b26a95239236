//! What a member asks for: topics by name, and by pattern.

use hermit_proto::TopicName;
use regex::{RegexSet, RegexSetBuilder};

use crate::error::{BrokerError, Counted};
use crate::limits::Limits;

/// Memory that all compiled patterns of a member may take.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// Memory that looking for matches may take; beyond it the search is slower, not larger.
const MAX_CACHE_BYTES: usize = 256 << 10;

/// A member's subscription.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) names: Vec<TopicName>,
    pub(crate) patterns: Vec<String>,
    compiled: RegexSet,
}

impl Subscription {
    pub(crate) fn new(names: &[String], patterns: &[String], limits: &Limits) -> Result<Self, BrokerError> {
        let limit = u64::from(limits.max_member_subscriptions);
        if names.len() as u64 + patterns.len() as u64 > limit {
            return Err(BrokerError::TooMany { what: Counted::MemberSubscriptions, limit });
        }
        let names = names.iter().map(TopicName::new_public).collect::<Result<Vec<_>, _>>();
        let names = names.map_err(|source| BrokerError::SubscribedName { source })?;
        Ok(Self { names, patterns: patterns.to_vec(), compiled: compile(patterns, limits)? })
    }

    /// Whether it asks for a topic.
    pub(crate) fn matches(&self, name: &TopicName) -> bool {
        self.names.contains(name) || self.matches_pattern(name)
    }

    /// Internal topics are nobody's business.
    pub(crate) fn matches_pattern(&self, name: &TopicName) -> bool {
        !self.patterns.is_empty() && !name.is_internal() && self.compiled.is_match(name.as_str())
    }
}

/// All patterns as one automaton, so that a name is looked at once.
fn compile(patterns: &[String], limits: &Limits) -> Result<RegexSet, BrokerError> {
    let bad = |pattern: &str, reason: String| BrokerError::InvalidPattern { pattern: pattern.into(), reason };
    let limit = limits.max_pattern_bytes as usize;
    for pattern in patterns {
        if pattern.len() > limit {
            return Err(bad("", format!("it has {} bytes, and {limit} are allowed", pattern.len())));
        }
        // Alone first: `a)|(b` is no pattern, but would become one between the anchors.
        build(std::slice::from_ref(pattern)).map_err(|error| bad(pattern, reason(&error)))?;
    }
    let whole: Vec<_> = patterns.iter().map(|pattern| format!(r"\A(?:{pattern})\z")).collect();
    build(&whole).map_err(|error| bad("", format!("the patterns together: {}", reason(&error))))
}

fn build(patterns: &[String]) -> Result<RegexSet, regex::Error> {
    RegexSetBuilder::new(patterns).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_CACHE_BYTES).build()
}

/// The last line of what may be several, with a drawing of where.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(patterns: &[&str]) -> Result<Subscription, BrokerError> {
        let patterns: Vec<_> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Subscription::new(&[], &patterns, &Limits::default())
    }

    fn matches(pattern: &str, name: &str) -> bool {
        subscription(&[pattern]).unwrap().matches(&TopicName::new(name).unwrap())
    }

    #[test]
    fn a_pattern_matches_whole_names_and_no_internal_ones() {
        assert!(matches(r"orders-\d+", "orders-17"));
        assert!(!matches("orders", "orders-17"));
        assert!(matches("a|orders|b", "orders"));
        assert!(!matches("a|orders|b", "xa"));
        assert!(matches("a|ab", "ab"));
        assert!(matches("(?i)ORDERS", "orders"));
        assert!(!matches(".*", "__consumer_offsets"));
        assert!(!matches("orders$", "orders\u{a0}x"));
        assert!(matches(r"\w+", "größe"));
    }

    #[test]
    fn a_bad_or_large_pattern_is_refused_and_says_why() {
        for pattern in ["(", "a)|(b", "[", "(?x)a # b", "x{1000}{1000}", &"a".repeat(2000)] {
            let error = subscription(&[pattern]).unwrap_err();
            assert!(matches!(error, BrokerError::InvalidPattern { .. }), "{pattern}: {error}");
        }
        assert!(matches!(subscription(&["a"; 1000]).unwrap_err(), BrokerError::TooMany { .. }));
        let names = ["__consumer_offsets".to_owned()];
        let error = Subscription::new(&names, &[], &Limits::default()).unwrap_err();
        assert!(matches!(error, BrokerError::SubscribedName { .. }), "{error}");
    }
}
