//! `hermit-cli acl …`

use clap::{ArgGroup, Args, Subcommand};
use hermit_client::{AccessOperations, AccessResource, NamePattern};

#[derive(Debug, Subcommand)]
pub(crate) enum AclCommand {
    /// Allows a user, or `*` (every user), more. What no rule allows is refused.
    #[command(after_help = "Examples:\n  hermit-cli acl add alice --topic orders --allow produce,consume\n  \
        hermit-cli acl add billing --topic-prefix orders. --group billing --allow consume\n  \
        hermit-cli acl add '*' --topic-pattern 'public-[a-z]+' --allow consume\n  \
        hermit-cli acl add bob --broker --allow administer\n  \
        hermit-cli acl add prometheus --broker --allow consume")]
    Add(AddRuleArgs),
    /// Lists all rules, or those that name a user.
    #[command(after_help = "Example:\n  hermit-cli acl list alice")]
    List {
        /// Only the rules that name this user, or `*`.
        user: Option<String>,
    },
    /// Takes back what rules allow. Sessions that are open feel it at once.
    #[command(after_help = "Examples:\n  hermit-cli acl remove alice --topic orders --allow produce\n  \
        hermit-cli acl remove billing --topic-prefix orders. --group billing")]
    Remove(RemoveRuleArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AddRuleArgs {
    /// The user, or `*` (in quotes) for every user that has logged in.
    pub(crate) user: String,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    /// What is allowed, with commas between: `create`, `produce`, `consume`, `administer` (which holds the others), or `all`.
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',', required = true, value_parser = operation)]
    pub(crate) allow: Vec<AccessOperations>,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveRuleArgs {
    /// The user, or `*`.
    pub(crate) user: String,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    /// What is not allowed any more. Default: all.
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',', value_parser = operation)]
    pub(crate) allow: Vec<AccessOperations>,
}

/// What rules are about. Each can be given several times.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("resources").required(true).multiple(true)
    .args(["topic", "topic_prefix", "topic_pattern", "group", "group_prefix", "group_pattern", "broker"]))]
pub(crate) struct ResourceArgs {
    /// The topic of this name, whether it exists or not.
    #[arg(long, value_name = "NAME")]
    topic: Vec<String>,
    /// Topics whose names begin so; empty: all.
    #[arg(long, value_name = "PREFIX")]
    topic_prefix: Vec<String>,
    /// Topics whose whole names this regular expression matches.
    #[arg(long, value_name = "REGEX")]
    topic_pattern: Vec<String>,
    /// The consumer group of this name.
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// Groups whose names begin so; empty: all.
    #[arg(long, value_name = "PREFIX")]
    group_prefix: Vec<String>,
    /// Groups whose whole names this regular expression matches.
    #[arg(long, value_name = "REGEX")]
    group_pattern: Vec<String>,
    /// The broker itself: users, rules, settings.
    #[arg(long)]
    broker: bool,
}

impl ResourceArgs {
    pub(crate) fn list(&self) -> Vec<AccessResource> {
        let of = |names: &[String], pattern: fn(String) -> NamePattern| names.iter().cloned().map(pattern).collect::<Vec<_>>();
        let topics = [
            of(&self.topic, NamePattern::Exact),
            of(&self.topic_prefix, NamePattern::Prefix),
            of(&self.topic_pattern, NamePattern::Regex),
        ];
        let groups = [
            of(&self.group, NamePattern::Exact),
            of(&self.group_prefix, NamePattern::Prefix),
            of(&self.group_pattern, NamePattern::Regex),
        ];
        let topics = topics.into_iter().flatten().map(AccessResource::Topic);
        let groups = groups.into_iter().flatten().map(AccessResource::Group);
        topics.chain(groups).chain(self.broker.then_some(AccessResource::Broker)).collect()
    }
}

fn operation(text: &str) -> Result<AccessOperations, String> {
    AccessOperations::from_name(text).ok_or_else(|| "it is create, produce, consume, administer or all".to_owned())
}
