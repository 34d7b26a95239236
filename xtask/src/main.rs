//! `cargo xtask …`: the checks and long runs of the workspace, so that a developer and CI type the same commands.
//!
//! This crate stays small and depends on no other crate of the workspace: `cargo xtask tidy` has to work while they do not
//! compile. What needs the broker and its SDK lives in `hermit-torture`, which the run commands build and start.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks through its standard streams")]

mod ci;
mod deny;
mod dist;
mod fuzz;
mod publish;
mod runs;
mod soundness;
mod step;
mod tidy;
mod torture;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Checks and long runs of the HermitMQ workspace")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// All that a change must pass: format, tidy, clippy, tests, examples, documentation. Edits nothing.
    Ci,
    /// The rules of docs/architecture.md and docs about the tree: dependency arrows, lints, unsafe, licences, left-overs.
    Tidy,
    /// Formats, and applies what clippy can mend by itself.
    Fix,
    /// Counts the instructions of the hot paths, where valgrind is there, and compares them with `benches/counts.txt`; `--save` writes that.
    Counts(runs::Passed),
    /// What is handed out: a `.deb`, a tarball and their sums in `target/dist`; `--verify-packages` tries those for a registry instead.
    Dist(dist::Dist),
    /// Every fuzz target of `fuzz/`, for its share of MINUTES.
    Fuzz(fuzz::Fuzz),
    /// The interleavings of what wakes and waits, as far as loom's models go.
    Loom,
    /// The codec, and what is pure of the log, under miri (nightly).
    Miri,
    /// The tests that use threads, under thread sanitizer (nightly).
    Tsan,
    /// Licences, bans, sources of all dependencies, and known advisories where their data base can be reached (cargo-deny).
    Deny,
    /// Power cuts, failing disks and kills: `--sim N` on the simulated disk, `--kill N` with real processes.
    Torture(torture::Torture),
    #[command(flatten)]
    Run(runs::Run),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().task {
        Task::Ci => ci::check(),
        Task::Tidy => tidy::run(),
        Task::Fix => ci::fix(),
        Task::Counts(passed) => runs::counts(passed),
        Task::Dist(dist) => dist.run(),
        Task::Fuzz(fuzz) => fuzz.run(),
        Task::Loom => soundness::loom(),
        Task::Miri => soundness::miri(),
        Task::Tsan => soundness::tsan(),
        Task::Deny => deny::run(),
        Task::Torture(torture) => torture.start(),
        Task::Run(run) => run.start(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
