//! The benchmark, started by `cargo xtask bench`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks through its standard streams")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use hermit_bench::case::{Effort, table};
use hermit_bench::lab::Lab;
use hermit_bench::limits;
use hermit_bench::worker::{self, Program};

#[derive(Debug, Parser)]
#[command(name = "hermit-bench", about = "Measures a real hermitd, and the machine that it runs on")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the cases whose names contain a word.
    Case {
        /// The word; a whole name runs that case alone.
        name: String,
        #[command(flatten)]
        place: Place,
        /// Seconds of a repetition.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Repetitions.
        #[arg(long, default_value_t = 3)]
        repeat: usize,
        /// MiB of a log that is read.
        #[arg(long, default_value_t = 512)]
        log_mib: u64,
    },
    /// Names of all cases.
    List,
    /// Measures what the machine itself can do.
    Limits {
        #[command(flatten)]
        place: Place,
        /// Seconds of a measurement.
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
    },
    /// Is one of the processes that load the broker.
    #[command(hide = true)]
    Worker,
}

#[derive(Debug, Args)]
struct Place {
    /// The hermitd to run; the one built beside this program if not given.
    #[arg(long)]
    hermitd: Option<PathBuf>,
    /// Where to make a folder for the run, on a real disk; beside this program if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Place {
    fn lab(&self) -> Result<Lab> {
        let program = std::env::current_exe().context("this program's own path is not known")?;
        let beside = program.parent().context("this program is in no folder")?.to_owned();
        let hermitd = self.hermitd.clone().unwrap_or_else(|| beside.join("hermitd"));
        let dir = self.dir.clone().unwrap_or(beside);
        Lab::new(Program(vec![program.into(), "worker".into()]), &hermitd, &dir)
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Worker => worker::serve(),
        Command::List => {
            table::all().iter().for_each(|case| println!("{}", case.name));
            Ok(())
        }
        Command::Case { name, place, seconds, repeat, log_mib } => {
            cases(&name, &place, &Effort { seconds, repeat, log_bytes: log_mib << 20 })
        }
        Command::Limits { place, seconds } => {
            println!("{}", serde_json::to_string_pretty(&limits::measure(&place.lab()?, seconds)?)?);
            Ok(())
        }
    }
}

fn cases(name: &str, place: &Place, effort: &Effort) -> Result<()> {
    let all = table::all();
    let exact = all.iter().any(|case| case.name == name);
    let chosen: Vec<_> = all.iter().filter(|case| if exact { case.name == name } else { case.name.contains(name) }).collect();
    ensure!(!chosen.is_empty(), "no case has {name:?} in its name; `list` tells all");
    for case in chosen {
        println!("{}", case.name);
        let lab = place.lab()?;
        case.run(&lab, effort, &mut |sample| println!("  {sample}")).with_context(|| case.name.clone())?;
    }
    Ok(())
}
