//! `hermit-cli consume …`

use clap::{ArgAction, Args};
use hermit_client::OnLostPosition;
use regex::bytes::Regex;

use super::value;
use crate::format::Format;
use crate::place::{self, Place};
use crate::time;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConsumeArgs {
    /// The topic.
    pub(crate) topic: String,
    /// Only this partition; can be given several times. Default: all.
    #[arg(long, value_name = "N", action = ArgAction::Append)]
    pub(crate) partition: Vec<u32>,
    /// Read as a member of this group: its members share the partitions, begin where it committed, and commit what they printed. With
    /// --partition: read just these for the group, which must have no members then.
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Where to begin: `earliest`, `latest`, an offset, -N (the last N of each partition), a time such as 2026-01-31T12:00:00Z, or an
    /// age such as 1h. Default: `earliest`. With --group: where to begin if the group has not committed yet, `earliest` or `latest`.
    #[arg(long, value_name = "WHERE", value_parser = place::place, allow_negative_numbers = true)]
    pub(crate) from: Option<Place>,
    /// Where to end: `end`, at what was there when the command began, or a time or age as for --from, at what was stored before then.
    /// Default: follow what comes. A member of a group ends when the group has come so far.
    #[arg(long, value_name = "WHEN", value_parser = until)]
    pub(crate) until: Option<Until>,
    /// End after N records were printed.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Print only records with a key in which this regular expression is found, on its bytes.
    #[arg(long, value_name = "REGEX", value_parser = regex)]
    pub(crate) key: Option<Regex>,
    /// Print only records with a header of this name in whose value the regular expression is found; can be given several times, and
    /// all have to be found.
    #[arg(long, value_name = "NAME=REGEX", value_parser = header)]
    pub(crate) header: Vec<HeaderFilter>,
    /// How to print a record: %t topic, %p partition, %o offset, %T time in ms, %k key, %s value, %h headers, %K and %S sizes of key and
    /// value (-1: none), %% percent; \n, \t, \r, \0, \\, \xHH.
    #[arg(long, default_value = r"%s\n")]
    pub(crate) format: Format,
    /// Go on behind damaged records; they are named on standard error, and the exit status is not 0.
    #[arg(long)]
    pub(crate) skip_damaged: bool,
    /// Where to go on if the log does not reach the position any more: `earliest`, `latest`, or `epoch-end`, behind the last record that
    /// is still the same. Default: end with an error.
    #[arg(long, value_name = "WHERE", value_parser = value::on_lost_position)]
    pub(crate) on_lost_position: Option<OnLostPosition>,
}

const EXAMPLES: &str = r"Examples:
  hermit-cli consume orders --from -10 --until end
  hermit-cli consume orders --from 1h --key '^eu-' --header 'type=^paid$'
  hermit-cli consume orders --from 2026-01-31T00:00:00Z --until 2026-02-01T00:00:00Z --output json
  hermit-cli consume orders --group billing --format '%p %o %k: %s\n'

Times are those at which the broker stored the records. Patterns are those of Rust's `regex` crate; anchor them with ^ and $.
--output json can be read by `produce --json`.";

impl ConsumeArgs {
    /// Whether this is to become a member of the group, which divides the partitions among all of them.
    pub(crate) fn joins(&self) -> bool {
        self.group.is_some() && self.partition.is_empty()
    }

    /// What clap cannot tell of options that exclude each other.
    pub(super) fn contradiction(&self) -> Option<&'static str> {
        let elsewhere = self.from.is_some_and(|from| !matches!(from, Place::Earliest | Place::Latest));
        (self.joins() && elsewhere).then_some(
            "with --group, --from is where the group begins if it has not committed yet: `earliest` or `latest`; move the group with \
             `hermit-cli group seek`, or read without --group",
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    End,
    /// In ns since the Unix epoch.
    Time(u64),
}

/// What a header has to be like.
#[derive(Clone, Debug)]
pub(crate) struct HeaderFilter {
    pub(crate) name: String,
    pub(crate) value: Regex,
}

fn until(text: &str) -> Result<Until, String> {
    if text == "end" {
        return Ok(Until::End);
    }
    time::moment_ns(text).map(Until::Time).ok_or_else(|| format!("it is `end`, {}", time::FORMS))
}

fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}

fn header(text: &str) -> Result<HeaderFilter, String> {
    match text.split_once('=') {
        Some((name, pattern)) if !name.is_empty() => Ok(HeaderFilter { name: name.to_owned(), value: regex(pattern)? }),
        _ => Err("write it as NAME=REGEX".to_owned()),
    }
}
