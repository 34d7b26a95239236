//! All that the broker tells about itself, taken together: for `status` and `top`.

use std::time::Duration;

use hermit_client::{
    Admin, BrokerFigures, DescribeBrokerResponse, DescribeGroupResponse, Error, GroupState, PartitionMetadata, Result, Status,
    TopicMetadata,
};
use hermit_proto::INTERNAL_PREFIX;
use tokio::task::JoinSet;

/// Groups that are asked for at a time.
const GROUPS_AT_A_TIME: usize = 16;

/// The broker, its topics and its groups, within one moment as far as several questions can be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) broker: DescribeBrokerResponse,
    pub(crate) topics: Vec<TopicMetadata>,
    /// By name.
    pub(crate) groups: Vec<(String, DescribeGroupResponse)>,
    /// Why some groups, or all, could not be told of.
    pub(crate) groups_unknown: Vec<String>,
    /// Groups and topics that the broker has, and that this user may not look at.
    pub(crate) hidden: Hidden,
}

/// What somebody may not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    pub(crate) groups: u64,
    pub(crate) topics: u64,
}

/// Asks for everything. What cannot be told of groups does not hide the rest, and is told with it.
///
/// # Errors
/// Those of the connection; [`Error::Refused`] to who may not administer the broker.
pub(crate) async fn sample(admin: &Admin) -> Result<Sample> {
    let broker = admin.describe_broker().await?;
    let topics = admin.describe_topics().await?;
    let mut taken = Sample { broker, topics, ..Sample::default() };
    match admin.list_groups().await {
        Ok(listed) => {
            let seen = listed.len() as u64;
            describe_groups(admin, listed.into_iter().map(|group| group.name), &mut taken).await?;
            taken.count_hidden(admin, seen).await?;
        }
        Err(error) => taken.no_group("the groups", &error).map_or(Ok(()), Err)?,
    }
    taken.groups.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(taken)
}

async fn describe_groups(admin: &Admin, mut names: impl Iterator<Item = String>, taken: &mut Sample) -> Result<()> {
    let mut asked = JoinSet::new();
    loop {
        while asked.len() < GROUPS_AT_A_TIME
            && let Some(name) = names.next()
        {
            let admin = admin.clone();
            asked.spawn(async move {
                let described = admin.describe_group(&name).await;
                (name, described)
            });
        }
        let Some(answered) = asked.join_next().await else { return Ok(()) };
        match answered {
            Ok((name, Ok(described))) => taken.groups.push((name, described)),
            // Gone meanwhile.
            Ok((_, Err(Error::UnknownGroup { .. }))) => {}
            Ok((_, Err(error))) if error.status() == Some(Status::NotAuthorized) => taken.hidden.groups += 1,
            Ok((name, Err(error))) => taken.no_group(&format!("group {name}"), &error).map_or(Ok(()), Err)?,
            // Nobody stops them but who stops this.
            Err(_stopped) => {}
        }
    }
}

impl Sample {
    /// Notes what the broker could not tell; gives the error back if it is about more than that.
    fn no_group(&mut self, what: &str, error: &Error) -> Option<Error> {
        if error.status().is_none() && !matches!(error, Error::Timeout { .. }) {
            return Some(error.clone());
        }
        self.groups_unknown.push(format!("{what}: {error}"));
        None
    }

    /// Counts what the broker has and did not list: lists hold what somebody has a right on, and say nothing of the rest.
    async fn count_hidden(&mut self, admin: &Admin, seen_groups: u64) -> Result<()> {
        // The broker does not count its own.
        let seen_topics = self.topics.iter().filter(|topic| !topic.name.starts_with(INTERNAL_PREFIX)).count() as u64;
        let not_seen = |broker: &DescribeBrokerResponse| Hidden {
            groups: u64::from(broker.groups).saturating_sub(seen_groups),
            topics: u64::from(broker.topics).saturating_sub(seen_topics),
        };
        let mut hidden = not_seen(&self.broker);
        if hidden != Hidden::default() {
            // What went away between the questions is not hidden.
            let again = not_seen(&admin.describe_broker().await?);
            hidden = Hidden { groups: hidden.groups.min(again.groups), topics: hidden.topics.min(again.topics) };
        }
        self.hidden.groups = self.hidden.groups.saturating_add(hidden.groups);
        self.hidden.topics = hidden.topics;
        Ok(())
    }

    /// The broker's figures; zeros from an older one.
    pub(crate) fn figures(&self) -> BrokerFigures {
        self.broker.figures.unwrap_or_default()
    }

    /// How long the broker has been running, by its own clock.
    pub(crate) fn uptime(&self) -> Option<Duration> {
        let taken_at = self.broker.figures?.taken_at;
        Some(Duration::from_nanos(taken_at.saturating_sub(self.broker.started_at)))
    }

    /// A setting's value, without the quotes that it has in the settings file.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let found = self.broker.settings.iter().find(|setting| setting.name == name)?;
        Some(found.value.trim_matches('"'))
    }

    /// Partitions that cannot do all that they should.
    pub(crate) fn unhealthy(&self) -> impl Iterator<Item = (&str, &PartitionMetadata)> {
        self.topics.iter().flat_map(|topic| {
            let ill = topic.partitions.iter().filter(|partition| !partition.status.is_ok());
            ill.map(|partition| (topic.name.as_str(), partition))
        })
    }
}

/// The lag of a whole group: of all partitions together in messages, of the one that is furthest behind in ms.
pub(crate) fn lag(group: &DescribeGroupResponse) -> (u64, u64) {
    let messages = group.partitions.iter().map(|partition| partition.lag).fold(0, u64::saturating_add);
    (messages, group.partitions.iter().map(|partition| partition.lag_ms).max().unwrap_or(0))
}

/// A status for programs, spelled as the kinds of errors are.
pub(crate) fn status_word(status: Status) -> String {
    crate::failure::snake_case(status.name())
}

/// A group's state in a word.
pub(crate) const fn state(state: GroupState) -> &'static str {
    match state {
        GroupState::Empty => "empty",
        GroupState::Stable => "stable",
        GroupState::Rebalancing => "rebalancing",
    }
}

/// One that nobody is in.
#[cfg(test)]
pub(crate) fn empty_group() -> DescribeGroupResponse {
    DescribeGroupResponse {
        state: GroupState::Empty,
        generation: hermit_client::Generation(0),
        strategy: hermit_client::AssignmentStrategy::Balanced,
        members: Vec::new(),
        partitions: Vec::new(),
    }
}
