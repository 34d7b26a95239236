//! All that the broker tells about itself, taken together: for `status` and `top`.

use std::time::Duration;

use hermit_client::{
    Admin, BrokerFigures, DescribeBrokerResponse, DescribeGroupResponse, Error, GroupState, PartitionMetadata, Result, Status,
    TopicMetadata,
};
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
}

/// Asks for everything.
///
/// # Errors
/// Those of the connection; [`Error::Refused`] to who may not administer the broker.
pub(crate) async fn sample(admin: &Admin) -> Result<Sample> {
    let broker = admin.describe_broker().await?;
    let topics = admin.describe_topics().await?;
    let mut names = admin.list_groups().await?.into_iter().map(|group| group.name);
    let (mut asked, mut groups) = (JoinSet::new(), Vec::new());
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
        let Some(answered) = asked.join_next().await else { break };
        match answered {
            Ok((name, Ok(described))) => groups.push((name, described)),
            // Gone meanwhile, or nobody's business here.
            Ok((_, Err(error))) if is_gone(&error) => {}
            Ok((_, Err(error))) => return Err(error),
            // Nobody stops them but who stops this.
            Err(_stopped) => {}
        }
    }
    groups.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(Sample { broker, topics, groups })
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::UnknownGroup { .. }) || error.status() == Some(Status::NotAuthorized)
}

impl Sample {
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
