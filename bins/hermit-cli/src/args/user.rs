//! `hermit-cli user …`

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Creates a user. It may do nothing before `acl add` says so.
    #[command(after_help = "Examples:\n  hermit-cli user add alice                          asks for the new password\n  \
        hermit-cli user add alice --new-password-file /run/secrets/alice\n  \
        hermit-cli user add billing --no-password          logs in with tokens only")]
    Add(AddUserArgs),
    /// Lists all users, and the labels of their tokens.
    #[command(after_help = "Example:\n  hermit-cli user list")]
    List,
    /// Gives a user another password. Its open sessions end.
    #[command(after_help = "Example:\n  hermit-cli user passwd alice")]
    Passwd(PasswdArgs),
    /// Lets a user that was disabled log in again.
    #[command(after_help = "Example:\n  hermit-cli user enable alice")]
    Enable {
        /// The user.
        user: String,
    },
    /// Lets a user not log in any more, and ends its sessions. Its password, tokens and rules stay.
    #[command(after_help = "Example:\n  hermit-cli user disable alice")]
    Disable {
        /// The user.
        user: String,
    },
    /// Deletes a user, its tokens, and the rules that name it. Its sessions end.
    #[command(after_help = "Example:\n  hermit-cli user remove alice")]
    Remove {
        /// The user.
        user: String,
    },
    /// Makes, lists and deletes tokens, with which programs log in.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Tells whom the broker takes you for.
    #[command(after_help = "Example:\n  hermit-cli user whoami --user alice")]
    Whoami,
}

#[derive(Debug, Args)]
pub(crate) struct AddUserArgs {
    /// Its name: 1 to 255 bytes of UTF-8, without control characters, not beginning with `__`.
    pub(crate) user: String,
    #[command(flatten)]
    pub(crate) new: NewPasswordArgs,
    /// It logs in with tokens only.
    #[arg(long, conflicts_with = "new_password_file")]
    pub(crate) no_password: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PasswdArgs {
    /// The user.
    pub(crate) user: String,
    #[command(flatten)]
    pub(crate) new: NewPasswordArgs,
    /// Take its password away: it logs in with tokens only.
    #[arg(long, conflicts_with = "new_password_file")]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NewPasswordArgs {
    /// The file with the new password; `-` is standard input. Without it, HERMIT_NEW_PASSWORD, or what is typed at the terminal.
    #[arg(long, value_name = "FILE")]
    pub(crate) new_password_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Makes a token and prints it. It is shown this once: the broker keeps a hash.
    #[command(after_help = "Example:\n  (umask 077; hermit-cli user token add billing server-7 >/run/secrets/billing)")]
    Add(TokenArgs),
    /// Lists the labels of a user's tokens.
    #[command(after_help = "Example:\n  hermit-cli user token list billing")]
    List {
        /// The user.
        user: String,
    },
    /// Deletes a token. The sessions that it opened end.
    #[command(after_help = "Example:\n  hermit-cli user token remove billing server-7")]
    Remove(TokenArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Whose it is.
    pub(crate) user: String,
    /// What it is told from the user's other tokens by.
    pub(crate) label: String,
}
