//! `hermit-cli completions …` and `hermit-cli man …`: what packages bring along, made from the definition of the command line.

use std::fs;
use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, CompletionsArgs, ManArgs, Output};
use crate::text::counted;

/// Prints the completions for a shell: a script, whatever the form of other answers.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    // Into memory first: a reader that went away would make it panic.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "hermit-cli", &mut script);
    if args.shell == Shell::Bash {
        // clap_complete 4.6 calls a program with a hyphen in its name by one name where it finds out the command, and by another where it looks up what that takes.
        script = String::from_utf8_lossy(&script).replace("hermit__subcmd__cli", "hermit__cli").into_bytes();
    }
    io::stdout().write_all(&script).context("standard output")
}

/// Writes a page for each command.
pub(crate) fn man(args: &ManArgs, output: Output) -> Result<()> {
    let dir = args.dir.display();
    fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {dir}"))?;
    // Without the pages of `help`, which are those of the commands once more.
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.dir).with_context(|| format!("cannot write to {dir}"))?;
    let pages = count(&Cli::command());
    match output {
        Output::Text => writeln!(io::stdout(), "wrote {} to {dir}", counted(pages, "page")),
        Output::Json => writeln!(io::stdout(), "{}", serde_json::json!({ "dir": args.dir.to_string_lossy(), "pages": pages })),
    }
    .context("standard output")
}

/// The command and all below it.
fn count(command: &clap::Command) -> u64 {
    1 + command.get_subcommands().map(count).sum::<u64>()
}
