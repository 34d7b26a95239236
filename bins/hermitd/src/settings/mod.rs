//! Settings: flags over environment over file over defaults. What is mis-spelt or not allowed refuses the start.

mod file;
#[cfg(test)]
mod manual;
mod names;
mod table;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Parser;
use hermit_broker::BrokerConfig;

use table::Given;

/// A message broker: an append-only, checksummed log, and nothing else to run.
///
/// Every setting can also be given in the environment, as HERMITD_ and its name in capitals, and in the file of --config. Flags win over the
/// environment, and that over the file.
#[derive(Debug, Parser)]
#[command(name = "hermitd", version)]
struct Cli {
    /// A TOML file with settings, named as the flags are with `_` for `-`.
    #[arg(long, value_name = "FILE", env = "HERMITD_CONFIG")]
    config: Option<PathBuf>,
    /// Only check the settings.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    given: Given,
}

/// All settings, each with a value that is allowed.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) broker: BrokerConfig,
    pub(crate) listen: String,
    pub(crate) threads: usize,
    pub(crate) log: String,
}

/// What the process was asked to do.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Nothing but checking the settings.
    Check,
    Run(Box<Settings>),
}

/// Reads flags, environment and file.
pub(crate) fn from_process() -> anyhow::Result<Invocation> {
    let environment = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    if let Some(unknown) = names::unknown_variable(environment) {
        bail!("{unknown}");
    }
    let cli = Cli::parse();
    let settings = resolve(&cli)?;
    Ok(if cli.check { Invocation::Check } else { Invocation::Run(Box::new(settings)) })
}

fn resolve(cli: &Cli) -> anyhow::Result<Settings> {
    let from_file = match &cli.config {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            file::parse(&path.display().to_string(), &text)?
        }
        None => Given::default(),
    };
    cli.given.or(&from_file).settle()
}
