//! `hermitd`: settings, wiring and signals around `hermit-broker`. No interface for others: a library so that what is read from outside can be fuzzed.

mod descriptors;
mod http;
mod run;
mod settings;
mod takeover;

use std::io::Write as _;
use std::process::ExitCode;

use settings::Invocation;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use settings::fuzzing;

/// What the process does, by its arguments, its environment and its settings file.
pub fn run_process() -> ExitCode {
    let done = match settings::from_process() {
        Ok(Invocation::Check(notes)) => {
            notes.iter().for_each(|note| warn(note));
            say("the settings are valid")
        }
        Ok(Invocation::Run(settings)) => run::run(&settings),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&told(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, without those that the text before has already told.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// One line on standard error. Nobody is left to tell when that fails.
fn warn(line: &str) {
    drop(writeln!(std::io::stderr(), "hermitd: {line}"));
}

/// One line on standard output.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = || anyhow::anyhow!("no such file");
        assert_eq!(told(&cause().context("cannot create x: no such file")), "cannot create x: no such file");
        assert_eq!(told(&cause().context("cannot create x")), "cannot create x: no such file");
    }
}
