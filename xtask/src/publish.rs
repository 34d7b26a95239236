//! The packages of the libraries and programs, as a registry would get them.

use anyhow::Result;

use crate::step::Step;
use crate::workspace::Workspace;

/// Makes every package without building it: what its manifest lacks, and what it cannot do without, are found here already.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    package(workspace, &["--no-verify"])
}

/// Makes every package, and builds it from nothing but what is in it and in those before it.
pub(crate) fn verify(workspace: &Workspace) -> Result<()> {
    package(workspace, &[])
}

fn package(workspace: &Workspace, how: &[&str]) -> Result<()> {
    let names = workspace.published().flat_map(|package| ["--package", &package.name]);
    // Quiet, as it warns of every test that stays in the repository.
    let step = Step::cargo("package --quiet --locked --allow-dirty").args(how).args(names);
    step.run(&workspace.root)
}
