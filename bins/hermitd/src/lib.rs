//! `hermitd`: settings, wiring and signals around `hermit-broker`. No interface for others: a library so that what is read from outside can be fuzzed.

mod allocator;
mod descriptors;
mod health;
mod http;
mod listener;
mod logs;
mod notify;
mod otlp;
mod reload;
mod run;
mod settings;
mod signals;
mod takeover;
mod watchdog;

use std::io::Write as _;
use std::process::ExitCode;

pub use allocator::Allocator;
use hermit_broker::BrokerError;
use settings::Invocation;
use settings::finding::Findings;
use signals::Hearing;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use settings::fuzzing;

/// Exit status of a broker whose settings are wrong (`EX_CONFIG` of `sysexits.h`): to begin it anew changes nothing, which a service manager can be told.
const SETTINGS_WRONG: u8 = 78;

/// What the process does, by its arguments, its environment and its settings file.
pub fn run_process() -> ExitCode {
    let flags = settings::flags();
    let is_broker = flags.asks_for_broker();
    // Before anything that takes its time: settings name hosts, and a file may be a pipe.
    let hearing = match is_broker.then(Hearing::begin).transpose() {
        Ok(hearing) => hearing,
        Err(error) => {
            warn(&format!("signals cannot be heard: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let done = match settings::invocation(flags) {
        Ok(Invocation::Check(notes)) => {
            note(&notes);
            say("the settings are valid\n")
        }
        Ok(Invocation::Print(text, notes)) => {
            note(&notes);
            say(&text)
        }
        Ok(Invocation::Health(settings, question)) => {
            health::ask(&settings, question).and_then(|answer| say(&format!("{answer}\n")))
        }
        Ok(Invocation::Run(settings, sources)) => match hearing {
            Some(hearing) => run::run(&settings, sources, hearing),
            None => Err(anyhow::anyhow!("signals are not heard")),
        },
        Err(findings) => {
            tell(&findings);
            return if is_broker { ExitCode::from(SETTINGS_WRONG) } else { ExitCode::FAILURE };
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&told(&error));
            if is_of_settings(&error) { ExitCode::from(SETTINGS_WRONG) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether the settings have to be changed before it can be otherwise.
fn is_of_settings(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref::<BrokerError>(), Some(BrokerError::InvalidConfig { .. })))
}

/// All that is wrong with the settings, a line for each.
fn tell(findings: &Findings) {
    findings.0.iter().for_each(|finding| warn(&finding.to_string()));
    warn(&format!("{} in the settings", findings.counted()));
}

fn note(notes: &[String]) {
    notes.iter().for_each(|note| warn(&format!("note: {note}")));
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

/// Whole lines on standard output.
fn say(lines: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    write!(out, "{lines}")?;
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
