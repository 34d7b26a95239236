//! `hermit-cli completions …` and `hermit-cli man …`

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  source <(hermit-cli completions bash)                     in ~/.bashrc\n  \
    hermit-cli completions fish >~/.config/fish/completions/hermit-cli.fish\n\n\
    `hermitd completions` prints those of the broker. Packages bring both along.")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  hermit-cli man ~/.local/share/man/man1\n\n`hermitd man` writes those of the broker. Packages bring both along."
)]
pub(crate) struct ManArgs {
    /// The directory, which is made if it is not there. Files of the same names are replaced.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
