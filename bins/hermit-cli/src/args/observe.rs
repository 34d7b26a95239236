//! `hermit-cli status …` and `hermit-cli top …`

use clap::Args;

use super::bench::Milliseconds;
use crate::quantity;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  hermit-cli status\n  hermit-cli status --max-lag 5min || page-somebody\n\n\
    The exit status is 1 if something needs acting on: partitions that are read-only, down or damaged, a disk that is low or cannot be read, and groups that are \
    further behind than --max-lag. For who may administer the broker, as are the commands of `broker`.")]
pub(crate) struct StatusArgs {
    /// How far groups may be behind: `5min`, `1h 30min`. Default: as far as they like.
    #[arg(long, value_name = "TIME", value_parser = max_lag)]
    pub(crate) max_lag: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  hermit-cli top\n  hermit-cli top --interval 5s\n  hermit-cli top --once\n  \
    hermit-cli top --output json                       an object a line, for as long as it runs\n\n\
    Keys: q quits, ? helps, space pauses, s orders, / filters. Rates of topics are those of offsets and of what groups commit; those of the whole broker are its \
    own counters. For who may administer the broker.")]
pub(crate) struct TopArgs {
    /// The time from one view to the next: 100ms to 1h.
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    pub(crate) interval: Milliseconds,
    /// Print one view, and end. It takes one interval, as rates need two samples.
    #[arg(long)]
    pub(crate) once: bool,
}

fn max_lag(text: &str) -> Result<u64, String> {
    quantity::finite_age_ms(text).ok_or_else(|| "write it as `30s`, `5min` or `1h 30min`".to_owned())
}

fn interval(text: &str) -> Result<Milliseconds, String> {
    let ms = quantity::finite_age_ms(text).filter(|ms| (100..=3_600_000).contains(ms));
    ms.map(Milliseconds).ok_or_else(|| "write it as `500ms`, `2s` or `1min`; it is 100ms at least, and 1h at most".to_owned())
}
