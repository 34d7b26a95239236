//! Errors for people: one line that says what to do. For programs the same, by its parts.

mod hint;
mod kind;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;
use std::{fmt, io};

use hermit_client::Error;
use serde_json::json;

use crate::args::{ConnectionArgs, Output};
use crate::text::clean;

pub(crate) use kind::snake_case;

/// The reader of a pipe went away: the end of the work, not worth a word.
const BROKEN_PIPE_STATUS: u8 = 128 + 13;

/// What the process ends with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// For programs: never another word for the same.
    pub(crate) kind: String,
    /// What is wrong. `None` where silence is right.
    problem: Option<String>,
    /// What to do.
    hint: Option<String>,
    pub(crate) exit_status: u8,
}

impl Failure {
    fn silent(exit_status: u8) -> Self {
        Self { kind: String::new(), problem: None, hint: None, exit_status }
    }

    fn new(kind: impl Into<String>, problem: &str, hint: Option<String>) -> Self {
        Self { kind: kind.into(), problem: Some(one_line(problem)), hint: hint.as_deref().map(one_line), exit_status: 1 }
    }

    /// One line for standard error, if there is something to say.
    pub(crate) fn line(&self, output: Output) -> Option<String> {
        let problem = self.problem.as_ref()?;
        Some(match (output, &self.hint) {
            (Output::Json, hint) => json!({ "error": { "kind": self.kind, "message": problem, "hint": hint } }).to_string(),
            (Output::Text, Some(hint)) => format!("error: {problem}; {hint}"),
            (Output::Text, None) => format!("error: {problem}"),
        })
    }
}

/// The line for a command line that cannot be understood, whose form of answers is not known either: by what it seems to ask for.
pub(crate) fn usage_line(error: &clap::Error, arguments: &[std::ffi::OsString]) -> Option<String> {
    let asks_for_json =
        arguments.windows(2).any(|pair| pair == ["--output", "json"]) || arguments.iter().any(|one| one == "--output=json");
    if !(asks_for_json && error.use_stderr()) {
        return None;
    }
    let text = error.render().to_string();
    let problem = text.split("\n\n").next().unwrap_or_default();
    Failure::new("usage", problem.strip_prefix("error: ").unwrap_or(problem), Some("see --help".to_owned())).line(Output::Json)
}

/// The command was ended by a signal.
#[derive(Debug)]
pub(crate) struct Interrupted {
    /// Its number.
    pub(crate) signal: u8,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended by signal {}", self.signal)
    }
}

impl std::error::Error for Interrupted {}

/// Something needs acting on: what it is stands in the answer.
#[derive(Debug)]
pub(crate) struct Unhealthy {
    pub(crate) problems: usize,
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needs, things) = if self.problems == 1 { ("needs", "thing") } else { ("need", "things") };
        write!(f, "{} {things} {needs} acting on", self.problems)
    }
}

impl std::error::Error for Unhealthy {}

/// There is no such topic, and the command is none that would have it created.
#[derive(Debug)]
pub(crate) struct NoTopic {
    pub(crate) topic: Arc<str>,
}

impl fmt::Display for NoTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no topic `{}`", self.topic)
    }
}

impl std::error::Error for NoTopic {}

/// Words an error.
pub(crate) fn explain(error: &anyhow::Error, connection: &ConnectionArgs) -> Failure {
    if let Some(Interrupted { signal }) = error.downcast_ref() {
        return Failure::silent(128 + signal);
    }
    let mut parts = Vec::new();
    for cause in error.chain() {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::BrokenPipe
        {
            return Failure::silent(BROKEN_PIPE_STATUS);
        }
        if let Some(sdk) = cause.downcast_ref::<Error>() {
            // It words its causes itself.
            parts.push(words::of(sdk));
            return Failure::new(kind::of(sdk), &parts.join(": "), hint::of(sdk, connection));
        }
        parts.push(cause.to_string());
        if cause.is::<NoTopic>() {
            return Failure::new("unknown_topic", &parts.join(": "), Some(hint::SEE_TOPICS.to_owned()));
        }
    }
    let kind = if error.is::<Unhealthy>() { "unhealthy" } else { "failed" };
    Failure::new(kind, &parts.join(": "), None)
}

fn one_line(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    clean(&line).into_owned()
}
