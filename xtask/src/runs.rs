//! The long runs: they need the broker and the SDK at full speed, so that they are built in release mode and started
//! as a program of their own.

use std::ffi::OsString;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::step::Step;
use crate::workspace::Workspace;

/// The runs of `hermit-torture`, and that of `hermit-bench`; each passes its arguments on, `--help` included.
#[derive(Debug, Subcommand)]
pub(crate) enum Run {
    /// Carries a real event stream through SIGKILLs of the broker and checks that nothing was lost, doubled or reordered.
    Real(Passed),
    /// Carries a real event stream through a consumer group whose members join, leave, freeze and die while the broker is killed.
    Groups(Passed),
    /// Traces the broker's system calls while a consumer reads 1 GiB, and shows that the log leaves by sendfile alone.
    SendfileProof(Passed),
    /// Runs the broker under a moderate load for an hour (`--minutes`) and checks that memory, descriptors, threads and disk do not grow.
    Soak(Passed),
    /// Measures the broker's memory with idle, lagging and stalling clients, and with many that really send large frames.
    Limits(Passed),
    /// Measures what good clients notice of as many slow, hostile and idle ones.
    Crowd(Passed),
    /// Measures the broker's speed, and what the machine could do.
    Bench(Passed),
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Run {
    /// Builds the broker and the runner, and starts the run.
    pub(crate) fn start(self) -> Result<()> {
        let (runner, name, passed) = match self {
            Self::Real(passed) => ("hermit-torture", "real", passed),
            Self::Groups(passed) => ("hermit-torture", "groups", passed),
            Self::SendfileProof(passed) => ("hermit-torture", "sendfile-proof", passed),
            Self::Soak(passed) => ("hermit-torture", "soak", passed),
            Self::Limits(passed) => ("hermit-torture", "limits", passed),
            Self::Crowd(passed) => ("hermit-torture", "crowd", passed),
            Self::Bench(passed) => ("hermit-bench", "run", passed),
        };
        built(runner, name, passed.args)
    }
}

/// Builds the broker and the runner, and starts one of the runner's runs.
pub(crate) fn built(runner: &str, run: &str, args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let workspace = Workspace::load()?;
    // One build of both, and the program itself: `cargo run` would choose the dependencies' features anew, and build them again.
    Step::cargo("build --locked --release --package hermitd --package").args([runner]).run(&workspace.root)?;
    let runner = workspace.target_directory.join("release").join(runner);
    Step::program(&runner).args([run]).args(args).run(&workspace.root)
}

/// Builds the program that counts as it is shipped, and starts it.
pub(crate) fn counts(passed: Passed) -> Result<()> {
    let workspace = Workspace::load()?;
    Step::cargo("bench --locked --package hermit-benches --bench counts --").args(passed.args).run(&workspace.root)
}
