//! Loads run as processes of their own: what they cost is not the broker's, nor that of another load. A worker reads its job from standard
//! input as one line of JSON, makes ready, says `ready`, waits for `go`, runs, and says `result` and what came of it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::drive::{self, Job};
use crate::latency::Latency;
use crate::tally::Tally;

const READY: &str = "ready ";
const RESULT: &str = "result ";
const ERROR: &str = "error ";

/// What came of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// From the first byte sent or asked for to the last one that counted.
    pub seconds: f64,
    /// Frames, over all of that time.
    pub frames: u64,
    /// Records of these.
    pub records: u64,
    /// Bytes as they went over the wire.
    pub bytes: u64,
    /// What a reader read, of one pass; of a writer nothing.
    #[serde(default)]
    pub tally: Tally,
    /// Frames of each partition that writers got answered.
    #[serde(default)]
    pub written: Vec<u64>,
    /// Frames that each writer sent to each of its partitions, in the order of the material.
    #[serde(default)]
    pub of_writers: Vec<u64>,
    /// Where the job takes times.
    #[serde(default)]
    pub latency: Option<Latency>,
}

/// What a worker tells when it is ready.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Ready {
    /// Where it listens, if it does.
    pub address: Option<SocketAddr>,
}

/// A prepared job; running it gives its outcome.
pub type Run = Box<dyn FnOnce() -> Result<Outcome>>;

/// Is a worker: takes a job from standard input, to the end.
///
/// # Errors
///
/// When standard input or output is closed. What goes wrong with the job is told to the parent.
pub fn serve() -> Result<()> {
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    let outcome = serde_json::from_str::<Job>(&line).context("the job is not understood").and_then(|job| {
        let (ready, run) = drive::prepare(job)?;
        say(READY, &serde_json::to_string(&ready)?)?;
        line.clear();
        input.read_line(&mut line)?;
        if line.trim() == "go" { run() } else { bail!("not started") }
    });
    match outcome {
        Ok(outcome) => say(RESULT, &serde_json::to_string(&outcome)?),
        Err(error) => say(ERROR, &format!("{error:#}").replace('\n', " ")),
    }
}

fn say(word: &str, what: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}{what}")?;
    Ok(out.flush()?)
}

/// How to start a worker: a program and its arguments, that calls [`serve`].
#[derive(Debug, Clone)]
pub struct Program(pub Vec<OsString>);

/// A job in a process of its own; killed when this is dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Where it listens, if it does.
    pub address: Option<SocketAddr>,
    name: &'static str,
}

impl Worker {
    /// Starts the process and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it does not come so far.
    pub fn start(program: &Program, job: &Job) -> Result<Self> {
        let name = job.name();
        let (program, args) = program.0.split_first().context("no program for workers")?;
        let mut command = Command::new(program);
        command.args(args).env(WORKER, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{} cannot be started", program.display()))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut worker = Self { child, input, output, address: None, name };
        writeln!(worker.input, "{}", serde_json::to_string(job)?)?;
        let ready: Ready = serde_json::from_str(&worker.hear(READY)?)?;
        worker.address = ready.address;
        Ok(worker)
    }

    /// Lets it run.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn go(&mut self) -> Result<()> {
        writeln!(self.input, "go").with_context(|| format!("{} has ended", self.name))
    }

    /// Waits for what comes of it.
    ///
    /// # Errors
    ///
    /// What went wrong in it.
    pub fn finish(mut self) -> Result<Outcome> {
        Ok(serde_json::from_str(&self.hear(RESULT)?)?)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    ///
    /// What goes wrong in it.
    pub fn run(mut self) -> Result<Outcome> {
        self.go()?;
        self.finish()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The rest of the line that begins with a word; others, as those of a test's harness, are passed over.
    fn hear(&mut self, word: &str) -> Result<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line)? == 0 {
                bail!("{} ended without a word", self.name);
            }
            if let Some(rest) = line.trim_end().strip_prefix(word) {
                return Ok(rest.to_owned());
            }
            if let Some(error) = line.trim_end().strip_prefix(ERROR) {
                bail!("{}: {error}", self.name);
            }
        }
    }
}

/// Set for workers, so that a test program can tell that it is one.
pub const WORKER: &str = "HERMIT_BENCH_WORKER";

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended, and what it left is taken by `wait`.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
