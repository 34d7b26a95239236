//! `cargo xtask deny`: the rules of `deny.toml` about dependencies.

use std::process::Command;

use anyhow::{Result, bail};

use crate::step::Step;
use crate::workspace::Workspace;

/// Licences, bans and sources must hold. Advisories must too, but that their data base cannot be reached fails nothing.
pub(crate) fn run() -> Result<()> {
    if !Command::new("cargo").args(["deny", "--version"]).output().is_ok_and(|output| output.status.success()) {
        bail!("cargo-deny is missing: `cargo install cargo-deny --locked`");
    }
    let workspace = Workspace::load()?;
    Step::cargo("deny --locked check --hide-inclusion-graph licenses bans sources").run(&workspace.root)?;
    println!("$ cargo deny --locked check advisories");
    let output = Command::new("cargo").args(["deny", "--locked", "check", "advisories"]).current_dir(&workspace.root).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        println!("  ok");
        return Ok(());
    }
    if is_out_of_reach(&said) {
        println!("  NOT CHECKED: the advisory data base cannot be reached from here");
        return Ok(());
    }
    bail!("advisories:\n{said}")
}

fn is_out_of_reach(said: &str) -> bool {
    ["failed to fetch advisory database", "failed to clone", "unable to open advisory database"]
        .iter()
        .any(|text| said.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_base_out_of_reach_is_told_from_a_finding() {
        assert!(is_out_of_reach("ERROR failed to fetch advisory database https://…"));
        assert!(!is_out_of_reach("error[vulnerability]: use after free\n  advisories FAILED"));
    }
}
