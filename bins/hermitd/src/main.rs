//! `hermitd`: settings, wiring and signals around `hermit-broker`.

mod descriptors;
mod run;
mod settings;

use std::io::Write as _;
use std::process::ExitCode;

use settings::Invocation;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match settings::from_process() {
        Ok(Invocation::Check) => say("the settings are valid"),
        Ok(Invocation::Run(settings)) => run::run(&settings),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when that fails.
            drop(writeln!(std::io::stderr(), "hermitd: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// One line on standard output.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
