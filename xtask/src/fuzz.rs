//! `cargo xtask fuzz MINUTES`: every target of `fuzz/` under libFuzzer, for its share of the time.
//!
//! What is found new is kept outside the tree, beside what was built. A crash is written to `fuzz/artifacts/<target>`; once it is cured, that file belongs
//! into `fuzz/corpus/<target>`, where `cargo test` runs it from then on.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;

use crate::step::Step;
use crate::workspace::Workspace;

/// A target that holds more is taken for one that allocates what an input declares.
const MAX_RSS_MIB: u32 = 1024;
/// An input that takes longer is a finding.
const INPUT_SECONDS: u32 = 20;
/// Longer inputs say nothing that short ones do not, but for the size limits: these have tests of their own.
const MAX_INPUT_BYTES: u32 = 4096;

#[derive(Debug, Args)]
pub(crate) struct Fuzz {
    /// Time for all targets together.
    minutes: NonZero<u32>,
    /// Only this target; may be given several times.
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
    /// Targets that run at the same time.
    #[arg(long, default_value = "1")]
    jobs: NonZero<u32>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    bin: Vec<Bin>,
}

#[derive(Debug, Deserialize)]
struct Bin {
    name: String,
}

/// What one target came to.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    target: String,
    passed: bool,
    figures: Figures,
}

/// What libFuzzer says at the end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    executions: u64,
    coverage: u64,
    new_inputs: u64,
    peak_rss_mib: u64,
}

/// Where things are.
struct Places {
    fuzz: PathBuf,
    /// Of the programs.
    built: PathBuf,
    /// Of corpora that have grown, and of logs.
    grown: PathBuf,
}

impl Fuzz {
    pub(crate) fn run(&self) -> Result<()> {
        let workspace = Workspace::load()?;
        let fuzz = workspace.root.join("fuzz");
        let targets = self.chosen(&fuzz)?;
        if !Command::new("cargo").args(["+nightly", "fuzz", "--version"]).output().is_ok_and(|output| output.status.success()) {
            bail!(
                "cargo-fuzz or the nightly toolchain is missing: `rustup toolchain install nightly` and `cargo install cargo-fuzz --locked`"
            );
        }
        let target_directory = workspace.target_directory.join("fuzz");
        // Without address sanitizer: but for one mapping all is safe Rust, and runs twice as fast.
        let build = ["+nightly", "fuzz", "build", "-s", "none", "--target-dir"];
        Step::program(Path::new("cargo")).args(build).args([&target_directory]).run(&fuzz)?;
        let built = target_directory.join(host()?).join("release");
        let places = Places { fuzz, built, grown: target_directory.join("grown") };

        let jobs = usize::try_from(self.jobs.get())?.min(targets.len());
        let seconds = u64::from(self.minutes.get()) * 60 * jobs as u64 / targets.len() as u64;
        println!("{} targets, {seconds} s each, {jobs} at a time", targets.len());
        let outcomes = run_all(&places, targets, seconds.max(1), jobs)?;
        report(&places, &outcomes)
    }

    fn chosen(&self, fuzz: &Path) -> Result<Vec<String>> {
        let manifest: Manifest = toml::from_str(&fs::read_to_string(fuzz.join("Cargo.toml"))?)?;
        let all: Vec<_> = manifest.bin.into_iter().map(|bin| bin.name).collect();
        if let Some(unknown) = self.targets.iter().find(|name| !all.contains(name)) {
            bail!("there is no target `{unknown}`; there are {}", all.join(", "));
        }
        Ok(if self.targets.is_empty() { all } else { self.targets.clone() })
    }
}

/// The triple that this machine's programs are built for.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc could not be run")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned).context("rustc does not tell its host")
}

fn run_all(places: &Places, targets: Vec<String>, seconds: u64, jobs: usize) -> Result<Vec<Outcome>> {
    let (queue, outcomes) = (Mutex::new(VecDeque::from(targets)), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    loop {
                        let Some(target) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else { return Ok(()) };
                        let outcome = run_one(places, target, seconds)?;
                        println!("  {outcome}");
                        outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_panicked| bail!("a worker panicked")))
    })?;
    Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn run_one(places: &Places, target: String, seconds: u64) -> Result<Outcome> {
    let (grown, artifacts) = (places.grown.join(&target), places.fuzz.join("artifacts").join(&target));
    fs::create_dir_all(&grown)?;
    fs::create_dir_all(&artifacts)?;
    let log = places.log_of(&target);
    let mut command = Command::new(places.built.join(&target));
    command.args([&grown, &places.fuzz.join("corpus").join(&target)]);
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args([format!("-max_total_time={seconds}"), format!("-rss_limit_mb={MAX_RSS_MIB}")]);
    command.args([format!("-timeout={INPUT_SECONDS}"), format!("-max_len={MAX_INPUT_BYTES}"), "-print_final_stats=1".into()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
    let status = command.status().with_context(|| format!("`{target}` could not be run"))?;
    // What a panicking target prints need not be UTF-8.
    let figures = Figures::parse(&String::from_utf8_lossy(&fs::read(&log)?));
    Ok(Outcome { target, passed: status.success(), figures })
}

impl Places {
    fn log_of(&self, target: &str) -> PathBuf {
        self.grown.join(format!("{target}.log"))
    }
}

impl Figures {
    fn parse(log: &str) -> Self {
        let stat = |name: &str| {
            let line = log.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        let covered = log.lines().filter_map(|line| line.split_once(" cov: ")?.1.split(' ').next()?.parse().ok());
        Self {
            executions: stat("number_of_executed_units"),
            coverage: covered.max().unwrap_or(0),
            new_inputs: stat("new_units_added"),
            peak_rss_mib: stat("peak_rss_mb"),
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Figures { executions, coverage, new_inputs, peak_rss_mib } = self.figures;
        let verdict = if self.passed { "ok" } else { "FAILED" };
        let target = &self.target;
        write!(f, "{target}: {verdict}, {executions} executions, coverage {coverage}, {new_inputs} new inputs, {peak_rss_mib} MiB")
    }
}

fn report(places: &Places, outcomes: &[Outcome]) -> Result<()> {
    let executions: u64 = outcomes.iter().map(|outcome| outcome.figures.executions).sum();
    println!("{executions} executions in all; what is new is in {}", places.grown.display());
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed).map(|outcome| outcome.target.as_str()).collect();
    for target in &failed {
        let (program, artifacts) = (places.built.join(target), places.fuzz.join("artifacts").join(target));
        println!("{target}: see {}", places.log_of(target).display());
        println!("  the input is the newest file of {}; run it with `{} FILE`", artifacts.display(), program.display());
        println!("  once that is cured, move it to fuzz/corpus/{target}/, and `cargo test` runs it from then on");
    }
    if failed.is_empty() { Ok(()) } else { bail!("{} failed", failed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_run_are_read() {
        let log = "#1\tINITED cov: 90 ft: 91 corp: 1/1b exec/s: 0 rss: 31Mb\n#77\tDONE   cov: 1042 ft: 2 corp: 9/9b\n\
                   stat::number_of_executed_units: 12345\nstat::new_units_added:          17\nstat::peak_rss_mb:              61\n";
        let figures = Figures { executions: 12345, coverage: 1042, new_inputs: 17, peak_rss_mib: 61 };
        assert_eq!(Figures::parse(log), figures);
        assert_eq!(Figures::parse("thread panicked"), Figures::default());
    }

    #[test]
    fn every_target_has_its_program_and_a_corpus() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("fuzz");
        let all = Fuzz { minutes: NonZero::new(1).unwrap(), targets: Vec::new(), jobs: NonZero::new(1).unwrap() };
        for target in all.chosen(&fuzz).unwrap() {
            assert!(fuzz.join(format!("fuzz_targets/{target}.rs")).is_file(), "{target}");
            assert!(fs::read_dir(fuzz.join("corpus").join(&target)).is_ok_and(|mut seeds| seeds.next().is_some()), "{target}");
        }
        let unknown = Fuzz { targets: vec!["fram".into()], ..all };
        assert!(unknown.chosen(&fuzz).unwrap_err().to_string().contains("`fram`"));
    }
}
