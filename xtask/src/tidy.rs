//! `cargo xtask tidy`: what the compiler cannot check. Facts are gathered here; each rule is a pure function over them.

mod arrows;
mod code;
mod lock;
mod manifests;
mod models;
mod page;
mod promises;
mod published;
mod text;
mod tree;

use std::fmt;

use anyhow::{Context, Result, bail};

use crate::step::Stopwatch;
use crate::workspace::Workspace;

/// The page that names the crates and the arrows allowed between them.
const PAGE: &str = "docs/architecture.md";

/// A broken rule: where, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    file: String,
    what: String,
}

impl Problem {
    fn new(file: impl Into<String>, what: impl Into<String>) -> Self {
        Self { file: file.into(), what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

/// Checks every rule and reports all problems at once.
pub(crate) fn run() -> Result<()> {
    let watch = Stopwatch::start();
    let workspace = Workspace::load()?;
    let read = |path: &str| std::fs::read_to_string(workspace.root.join(path)).with_context(|| format!("{path} cannot be read"));

    let page = page::Page::parse(&read(PAGE)?);
    let lock = lock::Lock::parse(&read("Cargo.lock")?)?;
    let files = tree::files(&workspace.root)?;

    let mut problems = arrows::check(&workspace, &page);
    problems.extend(lock::check(&workspace, &lock));
    problems.extend(manifests::check(&workspace, &files));
    problems.extend(code::check(&files));
    problems.extend(models::check(&files));
    problems.extend(text::check(&files));
    problems.extend(promises::check(&files));
    problems.extend(published::check(&workspace, &files));
    problems.sort();

    for warning in code::long_files(&files) {
        println!("  warning: {warning}");
    }
    if problems.is_empty() {
        println!("  ok, {} files, {} crates, {}", files.len(), workspace.packages.len(), watch.read());
        return Ok(());
    }
    for problem in &problems {
        eprintln!("  {problem}");
    }
    bail!("tidy found {} {}", problems.len(), if problems.len() == 1 { "problem" } else { "problems" });
}
