//! One command of a longer run: printed before it starts, timed, and stopped when it takes too long.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A stopwatch over the wall clock: nothing here is decided by time, it is only reported.
#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "the time of a CI step is wall-clock time and goes to the terminal alone")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time so far, as `12.3 s`.
    pub(crate) fn read(&self) -> String {
        format!("{:.1} s", self.0.elapsed().as_secs_f64())
    }
}

/// A command, in the root of the workspace.
#[derive(Debug)]
pub(crate) struct Step {
    /// What it is called, and what is started.
    program: (String, OsString),
    args: Vec<OsString>,
    env: Vec<(&'static str, String)>,
    limit: Option<Duration>,
}

impl Step {
    /// The call `cargo <words>`, split at spaces.
    pub(crate) fn cargo(words: &str) -> Self {
        let args = words.split_whitespace().map(OsString::from).collect();
        Self { program: ("cargo".to_owned(), env!("CARGO").into()), args, env: Vec::new(), limit: None }
    }

    /// A program that was built here.
    pub(crate) fn program(path: &Path) -> Self {
        Self { program: (path.display().to_string(), path.into()), args: Vec::new(), env: Vec::new(), limit: None }
    }

    pub(crate) fn args<I: IntoIterator<Item: Into<OsString>>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Fails the step when it has not ended by then.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The command as one would type it.
    pub(crate) fn line(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}='{value}' "));
        let args = self.args.iter().map(|arg| format!(" {}", arg.to_string_lossy()));
        env.chain([self.program.0.clone()]).chain(args).collect()
    }

    /// Prints, runs and times the command; an error unless it ends with success.
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        let line = self.line();
        println!("$ {line}");
        let watch = Stopwatch::start();
        let mut command = Command::new(&self.program.1);
        command.args(&self.args).current_dir(root).envs(self.env.iter().map(|(name, value)| (name, value)));
        let status = self.wait(command).with_context(|| format!("`{line}` could not be run"))?;
        if !status.success() {
            bail!("`{line}` failed ({status}) after {}", watch.read());
        }
        println!("  ok, {}", watch.read());
        Ok(())
    }

    fn wait(&self, mut command: Command) -> Result<ExitStatus> {
        let Some(limit) = self.limit else { return Ok(command.status()?) };
        let mut child = command.spawn()?;
        let (sender, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let pid = child.id();
            let watcher = scope.spawn(move || {
                let late = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
                if late {
                    stop(pid);
                }
                late
            });
            let status = child.wait();
            drop(sender);
            if watcher.join().unwrap_or(false) {
                bail!("it had not ended after {} s and was stopped", limit.as_secs());
            }
            Ok(status?)
        })
    }
}

/// Ends `cargo run`, which hands its process to the program that it has built.
fn stop(pid: u32) {
    let sent = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    if !sent.is_ok_and(|status| status.success()) {
        eprintln!("process {pid} could not be stopped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_printed_as_one_would_type_it() {
        let cargo = Step::cargo("doc --workspace").args(["--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(cargo.line(), "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps");
    }

    #[test]
    fn a_step_that_fails_or_does_not_end_is_an_error() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let failed = Step::program(Path::new("false")).run(root).unwrap_err();
        assert!(failed.to_string().contains("failed"), "{failed}");

        let mut sleeper = Command::new("sleep");
        sleeper.arg("600");
        let late = Step::cargo("").within(Duration::from_millis(10)).wait(sleeper).unwrap_err();
        assert!(late.to_string().contains("had not ended"), "{late}");
    }
}
