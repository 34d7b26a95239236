//! How the broker is reached, and who asks: options of every command.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

/// Secrets are no options: whoever may list processes sees those.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// The broker's address.
    #[arg(long, env = "HERMIT_SERVER", default_value = "127.0.0.1:9092", value_name = "ADDR", value_parser = address, global = true)]
    pub(crate) server: String,
    /// Log in as this user. The password is that of HERMIT_PASSWORD or --password-file, or is asked for at the terminal.
    #[arg(long, env = "HERMIT_USER", value_name = "NAME", global = true)]
    pub(crate) user: Option<String>,
    /// The file with the user's password; `-` is standard input.
    #[arg(long, env = "HERMIT_PASSWORD_FILE", value_name = "FILE", global = true)]
    pub(crate) password_file: Option<PathBuf>,
    /// Log in with the token in this file; `-` is standard input. The token itself can be in HERMIT_TOKEN.
    #[arg(long, env = "HERMIT_TOKEN_FILE", value_name = "FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,
    /// Whether a login was chosen on the command line, so that the environment's others do not count.
    #[arg(skip)]
    pub(crate) chosen: Option<Login>,
}

/// The ways to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    Password,
    Token,
}

impl ConnectionArgs {
    /// Notes which way to log in was asked for by an option; the problem, if two were.
    pub(super) fn choose(&mut self, matches: &ArgMatches) -> Result<(), &'static str> {
        let given = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        let (password, token) = (given("user") || given("password_file"), given("token_file"));
        if password && token {
            return Err("`--token-file` cannot be used with `--user` or `--password-file`: a token says whose it is");
        }
        self.chosen = if password { Some(Login::Password) } else { token.then_some(Login::Token) };
        Ok(())
    }
}

fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("write it as HOST:PORT, such as 127.0.0.1:9092".to_owned()),
    }
}
