//! What a member asks for: topics by name, and by pattern.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use hermit_proto::TopicName;
use parking_lot::Mutex;
use regex::{RegexSet, RegexSetBuilder};

use crate::error::{BrokerError, Counted};
use crate::limits::Limits;

/// Memory that all compiled patterns of a member may take: the last of the sizes that are tried. What fits a smaller one counts as that.
const COMPILED_BYTES: [usize; 4] = [8 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Memory that looking for matches may take; beyond it the search is slower, not larger.
const MAX_CACHE_BYTES: usize = 64 << 10;
/// Memory that the patterns of all members may take. It also bounds the time that it takes to match all of them with a new topic.
const MAX_ALL_BYTES: u64 = 64 << 20;

/// What a member takes besides what it asks for, roughly.
const MEMBER_BYTES: u64 = 1 << 10;
/// What a name or a pattern takes besides its text.
const TEXT_BYTES: u64 = 64;

/// A member's subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) names: Vec<TopicName>,
    pub(crate) patterns: Option<Arc<Patterns>>,
}

/// Patterns, compiled. Members that ask for the same ones share them.
#[derive(Debug)]
pub(crate) struct Patterns {
    pub(crate) texts: Vec<String>,
    compiled: RegexSet,
}

/// Lists of patterns as they were told, with the bytes that each takes.
type ByTexts = HashMap<Vec<String>, (u64, Weak<Patterns>)>;

/// The patterns that members ask for.
#[derive(Debug, Default)]
pub(crate) struct AllPatterns(Mutex<ByTexts>);

impl Subscription {
    pub(super) fn new(names: &[String], patterns: &[String], limits: &Limits, all: &AllPatterns) -> Result<Self, BrokerError> {
        let limit = u64::from(limits.max_member_subscriptions);
        if names.len() as u64 + patterns.len() as u64 > limit {
            return Err(BrokerError::TooMany { what: Counted::MemberSubscriptions, limit });
        }
        let names = names.iter().map(TopicName::new_public).collect::<Result<Vec<_>, _>>();
        let names = names.map_err(|source| BrokerError::SubscribedName { source })?;
        let patterns = if patterns.is_empty() { None } else { Some(all.compile(patterns, limits)?) };
        Ok(Self { names, patterns })
    }

    /// What a member with it takes, roughly; compiled patterns have a limit of their own.
    pub(super) fn bytes(&self) -> u64 {
        let names = self.names.iter().map(|name| name.as_str().len());
        let texts = names.chain(self.pattern_texts().iter().map(String::len));
        texts.map(|bytes| TEXT_BYTES.saturating_add(bytes as u64)).fold(MEMBER_BYTES, u64::saturating_add)
    }

    /// The patterns as they were told.
    pub(crate) fn pattern_texts(&self) -> &[String] {
        self.patterns.as_ref().map_or(&[], |patterns| &patterns.texts)
    }
}

impl Patterns {
    /// Whether they ask for a topic. May take 100 ms with patterns that are meant to be slow, so that no lock may be held. Internal topics are nobody's business.
    pub(crate) fn matches(&self, name: &TopicName) -> bool {
        !name.is_internal() && self.matches_text(name.as_str())
    }

    /// Whether one of them matches the whole text.
    pub(crate) fn matches_text(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }
}

impl AllPatterns {
    /// Compiles patterns, or finds them compiled.
    pub(crate) fn compile(&self, texts: &[String], limits: &Limits) -> Result<Arc<Patterns>, BrokerError> {
        let known = |all: &ByTexts| all.get(texts).and_then(|(_, patterns)| patterns.upgrade());
        if let Some(patterns) = known(&self.0.lock()) {
            return Ok(patterns);
        }
        let (compiled, bytes) = compile(texts, limits)?;
        let mut all = self.0.lock();
        if let Some(patterns) = known(&all) {
            return Ok(patterns);
        }
        all.retain(|_, (_, patterns)| patterns.strong_count() > 0);
        if all.values().map(|(bytes, _)| bytes).sum::<u64>().saturating_add(bytes) > MAX_ALL_BYTES {
            return Err(BrokerError::TooMany { what: Counted::PatternBytes, limit: MAX_ALL_BYTES });
        }
        let patterns = Arc::new(Patterns { texts: texts.to_vec(), compiled });
        all.insert(texts.to_vec(), (bytes, Arc::downgrade(&patterns)));
        Ok(patterns)
    }
}

/// All patterns as one automaton, so that a name is looked at once; and the memory that it takes at most.
fn compile(patterns: &[String], limits: &Limits) -> Result<(RegexSet, u64), BrokerError> {
    let bad = |pattern: &str, reason: String| BrokerError::InvalidPattern { pattern: pattern.into(), reason };
    let limit = limits.max_pattern_bytes as usize;
    let [small @ .., largest] = COMPILED_BYTES;
    let [smallest, ..] = COMPILED_BYTES;
    for pattern in patterns {
        if pattern.len() > limit {
            return Err(bad("", format!("it has {} bytes, and {limit} are allowed", pattern.len())));
        }
        // Alone first: `a)|(b` is no pattern, but would become one between the anchors. How large it gets is seen when all are built.
        match build(std::slice::from_ref(pattern), smallest) {
            Ok(_) | Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => return Err(bad(pattern, reason(&error))),
        }
    }
    let whole: Vec<_> = patterns.iter().map(|pattern| format!(r"\A(?:{pattern})\z")).collect();
    let takes = |size: usize| size as u64 + MAX_CACHE_BYTES as u64;
    if let Some(built) = small.into_iter().find_map(|size| Some((build(&whole, size).ok()?, takes(size)))) {
        return Ok(built);
    }
    let built = build(&whole, largest).map_err(|error| bad("", format!("the patterns together: {}", reason(&error))))?;
    Ok((built, takes(largest)))
}

fn build(patterns: &[String], size_limit: usize) -> Result<RegexSet, regex::Error> {
    RegexSetBuilder::new(patterns).size_limit(size_limit).dfa_size_limit(MAX_CACHE_BYTES).build()
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
        Subscription::new(&[], &patterns, &Limits::default(), &AllPatterns::default())
    }

    fn matches(pattern: &str, name: &str) -> bool {
        subscription(&[pattern]).unwrap().patterns.unwrap().matches(&TopicName::new(name).unwrap())
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
        let error = Subscription::new(&names, &[], &Limits::default(), &AllPatterns::default()).unwrap_err();
        assert!(matches!(error, BrokerError::SubscribedName { .. }), "{error}");
    }

    #[test]
    fn patterns_are_shared_and_take_so_much_memory_in_all_until_they_go() {
        let (all, limits) = (AllPatterns::default(), Limits::default());
        let subscribe = |number: usize| Subscription::new(&[], &[format!(r"(?-u:a?){{6000}}{number}")], &limits, &all);
        let first = subscribe(0).unwrap();
        assert!(Arc::ptr_eq(subscribe(0).unwrap().patterns.as_ref().unwrap(), first.patterns.as_ref().unwrap()));
        let (mut members, mut refused) = (Vec::new(), None);
        while refused.is_none() && members.len() < 1000 {
            match subscribe(members.len()) {
                Ok(member) => members.push(member),
                Err(error) => refused = Some(error),
            }
        }
        assert!(matches!(refused, Some(BrokerError::TooMany { what: Counted::PatternBytes, .. })), "{refused:?}");
        members.truncate(1);
        assert!(subscribe(1000).is_ok());
    }
}
