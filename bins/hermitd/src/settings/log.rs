//! What may be logged: the filter's own parser takes every misspelt level for the name of a target.

use anyhow::{Context as _, bail};
use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Refuses what is neither a level nor `target=level`, nor several of these with commas between.
pub(super) fn check(log: &str) -> anyhow::Result<()> {
    for directive in log.split(',') {
        let (target, level) = directive.rsplit_once('=').map_or((None, directive), |(target, level)| (Some(target), level));
        let is_level = LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level));
        if !is_level || target.is_some_and(str::is_empty) {
            bail!(
                "`log` is `{log}`, in which `{directive}` is no rule: give one of {}, or target=level such as hermit_broker=debug",
                LEVELS.join(", ")
            );
        }
    }
    EnvFilter::try_new(log).with_context(|| format!("`log` is `{log}`"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_rules_are_taken() {
        for log in ["off", "INFO", "warn,hermit_broker=debug", "info,hermit_log::disk=off", "a[s{x=1}]=trace"] {
            check(log).unwrap();
        }
    }

    #[test]
    fn what_is_no_level_is_refused_with_those_there_are() {
        for log in ["", "loud", "inof", "info,", "hermit_broker", "hermit_broker=loud", "=info"] {
            let message = check(log).unwrap_err().to_string();
            assert!(message.contains("off, error, warn, info, debug, trace") && message.contains("target=level"), "{message}");
        }
    }
}
