//! The gate that a change must pass, and the command that mends what can be mended by itself.

use std::time::Duration;

use anyhow::Result;

use crate::publish;
use crate::step::{Step, Stopwatch};
use crate::tidy;
use crate::workspace::{Package, Target, Workspace};

/// An example is something to read and to try: it has to end by itself, and soon.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(120);

/// Runs every check in order, stops at the first that fails, and edits nothing.
pub(crate) fn check() -> Result<()> {
    let workspace = Workspace::load()?;
    let root = &workspace.root;
    let watch = Stopwatch::start();

    Step::cargo("fmt --all --check").run(root)?;
    println!("$ cargo xtask tidy");
    tidy::run()?;
    publish::check(&workspace)?;
    Step::cargo("clippy --locked --workspace --all-targets -- -D warnings").run(root)?;
    // Without target flags this is all of it: units, integration tests, doc tests, and the examples are built.
    Step::cargo("test --locked --workspace").run(root)?;
    // Not by package: that would choose the dependencies' features anew, and build them once more.
    for example in examples(&workspace) {
        Step::cargo("run --locked --quiet --example").args([example]).within(EXAMPLE_LIMIT).run(root)?;
    }
    Step::cargo("doc --locked --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings").run(root)?;

    println!("all checks passed, {}", watch.read());
    Ok(())
}

/// Formats, and applies what clippy can apply.
pub(crate) fn fix() -> Result<()> {
    let workspace = Workspace::load()?;
    let clippy = "clippy --locked --workspace --all-targets --fix --allow-dirty --allow-staged";
    Step::cargo(clippy).run(&workspace.root)?;
    Step::cargo("fmt --all").run(&workspace.root)
}

/// The examples of the libraries that run by themselves. Those that need a broker are run by a test of their package, `tests/examples.rs`.
fn examples(workspace: &Workspace) -> impl Iterator<Item = &str> {
    let packages = workspace.packages.iter().filter(|package| package.is_library() && !tests_its_examples(package));
    packages.flat_map(|package| &package.targets).filter(|target| is(target, "example")).map(|target| target.name.as_str())
}

fn tests_its_examples(package: &Package) -> bool {
    package.targets.iter().any(|target| is(target, "test") && target.name == "examples")
}

fn is(target: &Target, kind: &str) -> bool {
    target.kind.iter().any(|found| found == kind)
}
