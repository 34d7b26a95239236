//! `hermit-cli group …`

use clap::{Args, Subcommand};

use crate::place::{self, Place};

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Lists all groups, with their states and members.
    #[command(after_help = "Example:\n  hermit-cli group list")]
    List,
    /// Tells a group's members, the positions of its partitions, and how far behind they are.
    #[command(after_help = "Example:\n  hermit-cli group describe billing")]
    Describe {
        /// The group.
        group: String,
    },
    /// Moves a group to another place in a topic. The group must have no members: stop its consumers first.
    #[command(after_help = "Examples:\n  hermit-cli group seek billing --topic orders --to earliest --dry-run\n  \
        hermit-cli group seek billing --topic orders --to 2026-01-31T12:00:00Z\n  \
        hermit-cli group seek billing --topic orders --partition 3 --to -100")]
    Seek(SeekArgs),
    /// Deletes all positions of a group that has no members.
    #[command(after_help = "Example:\n  hermit-cli group delete billing")]
    Delete {
        /// The group.
        group: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SeekArgs {
    /// The group. One that is not there is created.
    pub(crate) group: String,
    /// The topic.
    #[arg(long)]
    pub(crate) topic: String,
    /// Only this partition; can be given several times. Default: all.
    #[arg(long, value_name = "N")]
    pub(crate) partition: Vec<u32>,
    /// Where the group is to go on: `earliest`, `latest`, an offset, -N (N records before the end), a time such as
    /// 2026-01-31T12:00:00Z, or an age such as 1h.
    #[arg(long, value_name = "WHERE", value_parser = place::place, allow_negative_numbers = true)]
    pub(crate) to: Place,
    /// Only tell what would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
