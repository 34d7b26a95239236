//! What packages bring along: completions and manual pages, made from the definition of the command line.

use std::path::Path;

use clap_complete::Shell;

use super::finding::{Findings, Origin};
use super::flags::command;

/// The script that completes the command line in a shell.
pub(super) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "hermitd", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a page for each command; gives what to say of it.
///
/// # Errors
/// The directory cannot be made or written to.
pub(super) fn man(dir: &Path) -> Result<String, Findings> {
    let failed = |error: std::io::Error| {
        let mut findings = Findings::default();
        findings.add(Origin::Flag(dir.display().to_string()), format!("cannot write there: {error}"));
        findings
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    // Without the pages of `help`, which are those of the commands once more.
    clap_mangen::generate_to(command().disable_help_subcommand(true), dir).map_err(failed)?;
    Ok(format!("wrote {} pages to {}\n", 1 + command().get_subcommands().count(), dir.display()))
}
