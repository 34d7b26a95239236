//! Instructions of the hot paths, counted by callgrind: `cargo xtask counts`.
//!
//! Wall times on a busy machine do not repeat, instruction counts do. Each case runs twice in a process of its own, with different numbers of rounds; the
//! difference is what the rounds cost, without what comes before them. Inputs are the same each time. Compared with `counts.txt`, which was made
//! on another machine perhaps, by another compiler: a difference is something to look at, no failure.
#![expect(clippy::unwrap_used, reason = "a case whose set-up fails has nothing to count")]
#![expect(clippy::print_stdout, reason = "it prints a table")]

mod baseline;
mod cases;
mod sessions;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::cases::{CASES, Case};

/// Differences above this many percent are told.
const WORTH_A_LOOK: f64 = 5.0;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match *words.as_slice() {
        // What valgrind runs.
        ["run", name, rounds] => run(name, rounds),
        // `cargo test` only looks whether the cases work.
        _ if !words.contains(&"--bench") => {
            CASES.iter().for_each(|case| (case.run)(1));
            Ok(())
        }
        _ => count(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, rounds: &str) -> Result<()> {
    let case = CASES.iter().find(|case| case.name == name).with_context(|| format!("there is no case {name}"))?;
    (case.run)(rounds.parse().context("rounds")?);
    Ok(())
}

fn count(words: &[&str]) -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not there, so nothing is counted");
        return Ok(());
    }
    let filters: Vec<_> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let chosen = CASES.iter().filter(|case| filters.is_empty() || filters.iter().any(|filter| case.name.contains(**filter)));
    let before = baseline::read();
    let mut counted = Vec::new();
    println!("{:<44} {:>12} {:>12} {:>8}", "instructions", "now", "baseline", "");
    for case in chosen {
        let now = case.count()?;
        let was = before.iter().find(|(name, _)| name == case.name).map(|(_, count)| *count);
        let (was_shown, change) = was.map_or_else(Default::default, |was| {
            let percent = (now / was - 1.0) * 100.0;
            let mark = if percent.abs() > WORTH_A_LOOK { " <<" } else { "" };
            (format!("{was:.1}"), format!("{percent:+.1} %{mark}"))
        });
        println!("{:<44} {now:>12.1} {was_shown:>12} {change:>8}", format!("{}, per {}", case.name, case.unit));
        counted.push((case.name.to_owned(), now));
    }
    if words.contains(&"--save") {
        baseline::write(before, counted)?;
    }
    Ok(())
}

impl Case {
    /// Instructions for each unit.
    fn count(&self) -> Result<f64> {
        let (few, many) = self.rounds;
        let (few_cost, many_cost) = (self.instructions(few)?, self.instructions(many)?);
        ensure!(many_cost > few_cost, "{}: {many} rounds cost no more than {few}", self.name);
        #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
        let (difference, units) = ((many_cost - few_cost) as f64, ((many - few) * self.units) as f64);
        Ok(difference / units)
    }

    fn instructions(&self, rounds: u64) -> Result<u64> {
        let this = std::env::current_exe()?;
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(this)
            .args(["run", self.name, &rounds.to_string()])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {said}", self.name);
        let collected = said.lines().find_map(|line| line.split_once("Collected :"));
        let (_, count) = collected.with_context(|| format!("{}: valgrind tells no count: {said}", self.name))?;
        count.trim().parse().with_context(|| format!("{}: {count}", self.name))
    }
}
