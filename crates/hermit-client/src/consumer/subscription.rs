//! What a member of a group wants to read.

use hermit_proto::TopicName;

use crate::error::{Error, Result};

/// Topics that a member of a group wants to read, by name and by pattern: for [`Consumer::subscribe`](crate::Consumer::subscribe).
///
/// ```
/// use hermit_client::Subscription;
///
/// let one = Subscription::from("orders");
/// let many = Subscription::new().topic("orders").topic("refunds").pattern(r"audit\..*");
/// # drop((one, many));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    pub(super) topics: Vec<String>,
    pub(super) patterns: Vec<String>,
}

impl Subscription {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a topic. One that is not there is waited for; it is not created.
    #[must_use]
    pub fn topic(mut self, name: impl Into<String>) -> Self {
        self.topics.push(name.into());
        self
    }

    /// Adds all topics whose whole names match a regular expression, in the syntax of the `regex` crate; those that are created later too.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.patterns.push(pattern.into());
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.topics.is_empty() && self.patterns.is_empty() {
            let problem = "it names nothing; add a topic or a pattern".to_owned();
            return Err(Error::Config { setting: "subscription", problem });
        }
        self.topics.iter().try_for_each(|name| TopicName::new(name).map(drop).map_err(Error::from))
    }
}

impl From<&str> for Subscription {
    fn from(topic: &str) -> Self {
        Self::new().topic(topic)
    }
}

impl<const N: usize> From<[&str; N]> for Subscription {
    fn from(topics: [&str; N]) -> Self {
        Self { topics: topics.map(str::to_owned).into(), patterns: Vec::new() }
    }
}
