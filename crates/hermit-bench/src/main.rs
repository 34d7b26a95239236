//! The benchmark, started by `cargo xtask bench`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks through its standard streams")]

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use hermit_bench::case::{Effort, table};
use hermit_bench::clock::now;
use hermit_bench::lab::Lab;
use hermit_bench::limits;
use hermit_bench::run::{self, Selection};
use hermit_bench::worker::{self, Program};

#[derive(Debug, Parser)]
#[command(name = "hermit-bench", about = "Measures a real hermitd, and the machine that it runs on")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the cases, and writes the report to `bench` in the target directory.
    Run {
        #[command(flatten)]
        place: Place,
        /// The short selection, once each and not for long: under two minutes.
        #[arg(long)]
        quick: bool,
        /// Measures another server that speaks protocol version 1 by the cases of that version.
        #[arg(long, value_name = "HOST:PORT")]
        against: Option<String>,
        /// Only cases with this in their names.
        #[arg(long, value_name = "PATTERN")]
        case: Option<String>,
        /// Seconds of a repetition.
        #[arg(long)]
        seconds: Option<f64>,
        /// Repetitions.
        #[arg(long)]
        repeat: Option<usize>,
        /// Where the report goes.
        #[arg(long)]
        out: Option<PathBuf>,
    },
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
    fn lab(&self, against: Option<SocketAddr>) -> Result<Lab> {
        let program = std::env::current_exe().context("this program's own path is not known")?;
        let beside = program.parent().context("this program is in no folder")?.to_owned();
        let hermitd = self.hermitd.clone().unwrap_or_else(|| beside.join("hermitd"));
        let dir = self.dir.clone().unwrap_or(beside);
        Lab::new(Program(vec![program.into(), "worker".into()]), &hermitd, &dir, against)
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
            cases(&name, &place, &Effort { seconds, repeat, log_bytes: log_mib << 20, scale: 1 })
        }
        Command::Run { place, quick, against, case, seconds, repeat, out } => {
            let against = against.map(|text| resolve(&text)).transpose()?;
            let selection = Selection { pattern: case, quick, against };
            let mut effort = selection.effort();
            effort.seconds = seconds.unwrap_or(effort.seconds);
            effort.repeat = repeat.unwrap_or(effort.repeat);
            measure(&selection, effort, &place, out)
        }
        Command::Limits { place, seconds } => {
            println!("{}", serde_json::to_string_pretty(&limits::measure(&place.lab(None)?, seconds)?)?);
            Ok(())
        }
    }
}

fn resolve(text: &str) -> Result<SocketAddr> {
    let mut found = text.to_socket_addrs().with_context(|| format!("{text} is no HOST:PORT"))?;
    found.next().with_context(|| format!("{text} has no address"))
}

fn measure(selection: &Selection, effort: Effort, place: &Place, out: Option<PathBuf>) -> Result<()> {
    let program = std::env::current_exe().context("this program's own path is not known")?;
    // Beside `release`, where this program lies.
    let out = out.or_else(|| Some(program.parent()?.parent()?.join("bench"))).context("name a folder with --out")?;
    let begun = now();
    let tell = &mut |line: &str| println!("{:>5.0} s  {line}", begun.elapsed().as_secs_f64());
    let report = run::run(selection, effort, &mut || place.lab(selection.against), &out, tell)?;
    println!("\n{} figures, in {}", report.findings.len(), out.join("report.md").display());
    for finding in report.missed() {
        println!("missed: {finding}");
    }
    ensure!(report.failures.is_empty(), "{} cases failed", report.failures.len());
    Ok(())
}

fn cases(name: &str, place: &Place, effort: &Effort) -> Result<()> {
    let selection = Selection { pattern: Some(name.to_owned()), ..Selection::default() };
    for case in selection.cases()? {
        println!("{}", case.name);
        let findings = case.run(&place.lab(None)?, effort, &mut |line| println!("  {line}")).with_context(|| case.name.clone())?;
        findings.iter().for_each(|finding| println!("  = {finding}"));
    }
    Ok(())
}
