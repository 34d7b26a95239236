//! How the broker is reached, and who asks: options of every command.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use crate::profile::Kept;

/// Where the broker is if nobody says.
pub(crate) const DEFAULT_SERVER: &str = "127.0.0.1:9092";

/// Secrets are no options: whoever may list processes sees those.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// The profile to go by: see `hermit-cli profile --help`. Default: the file's default, if it has one.
    #[arg(long, env = "HERMIT_PROFILE", value_name = "NAME", global = true)]
    pub(crate) profile: Option<String>,
    /// The broker's address; of several, with commas between, the first that answers.
    #[arg(long, env = "HERMIT_SERVER", default_value = DEFAULT_SERVER, value_name = "ADDR", value_parser = address, value_delimiter = ',', global = true)]
    pub(crate) server: Vec<String>,
    /// Log in as this user. The password is that of HERMIT_PASSWORD or --password-file, or is asked for at the terminal.
    // Another id than that of the user whom a command is about: to clap both would be one.
    #[arg(id = "login_user", long = "user", env = "HERMIT_USER", value_name = "NAME", global = true)]
    pub(crate) user: Option<String>,
    /// The file with the user's password; `-` is standard input.
    #[arg(long, env = "HERMIT_PASSWORD_FILE", value_name = "FILE", global = true)]
    pub(crate) password_file: Option<PathBuf>,
    /// Log in with the token in this file; `-` is standard input. The token itself can be in HERMIT_TOKEN.
    #[arg(long, env = "HERMIT_TOKEN_FILE", value_name = "FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,
    /// Send password or token to another machine without TLS, where everybody on the way can read it.
    #[arg(long, env = "HERMIT_INSECURE_LOGIN", global = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) insecure_login: bool,
    /// Connect over TLS. Each of the next four options says so, too.
    #[arg(long, env = "HERMIT_TLS", global = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) tls: bool,
    /// PEM file with the authorities to believe, instead of the system's.
    #[arg(long, env = "HERMIT_TLS_CA", value_name = "FILE", global = true)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// PEM file with the certificate to show to brokers that ask for one. With --tls-key.
    #[arg(long, env = "HERMIT_TLS_CERT", value_name = "FILE", global = true)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert.
    #[arg(long, env = "HERMIT_TLS_KEY", value_name = "FILE", global = true)]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name that the broker's certificate must be for, where that is not the host of --server.
    #[arg(long, env = "HERMIT_TLS_SERVER_NAME", value_name = "NAME", global = true)]
    pub(crate) tls_server_name: Option<String>,
    /// Whether a login was chosen on the command line, so that the environment's others do not count.
    #[arg(skip)]
    pub(crate) chosen: Option<Login>,
    /// What was given, by an option or the environment.
    #[arg(skip)]
    given: Vec<&'static str>,
    /// What of it was given by an option.
    #[arg(skip)]
    by_option: Vec<&'static str>,
    /// Whether the address is the profile's.
    #[arg(skip)]
    pub(crate) server_of_profile: bool,
    /// The password of the profile's user.
    #[arg(skip)]
    pub(crate) profile_password: Option<Kept>,
    /// The profile's token.
    #[arg(skip)]
    pub(crate) profile_token: Option<Kept>,
}

/// The ways to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    Password,
    Token,
}

/// The token itself, where it is in no file.
pub(crate) const TOKEN: &str = "HERMIT_TOKEN";

impl ConnectionArgs {
    /// Whether a login was given in any way.
    pub(crate) fn has_login(&self) -> bool {
        self.user.is_some() || self.profile_token.is_some() || self.token_file.is_some() || has_variable(TOKEN)
    }

    /// Whether to connect over TLS: every option of it says so.
    pub(crate) const fn uses_tls(&self) -> bool {
        self.tls || self.tls_ca.is_some() || self.tls_cert.is_some() || self.tls_key.is_some() || self.tls_server_name.is_some()
    }

    /// Whether a token is what to log in with, by an option or the environment.
    pub(crate) fn names_token(&self) -> bool {
        match self.chosen {
            Some(chosen) => chosen == Login::Token,
            None => self.token_file.is_some() || has_variable(TOKEN),
        }
    }

    /// Whether an option or the environment says this.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Whether an option of this command line says it, and not only the environment, which may have been set for something else.
    pub(crate) fn is_option(&self, name: &str) -> bool {
        self.by_option.contains(&name)
    }

    /// Notes which way to log in was asked for by an option; the problem, if two were.
    pub(super) fn choose(&mut self, matches: &ArgMatches) -> Result<(), &'static str> {
        let given = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        let (password, token) = (given("login_user") || given("password_file"), given("token_file"));
        if password && token {
            return Err("`--token-file` cannot be used with `--user` or `--password-file`: a token says whose it is");
        }
        let said = |name| matches.value_source(name).is_some_and(|source| source != ValueSource::DefaultValue);
        self.given = ["server", "tls", "insecure_login"].into_iter().filter(|name| said(name)).collect();
        self.by_option = ["profile", "server"].into_iter().filter(|name| given(name)).collect();
        self.chosen = if password { Some(Login::Password) } else { token.then_some(Login::Token) };
        Ok(())
    }
}

/// Whether the environment has a variable, and more than an empty one.
fn has_variable(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

pub(crate) fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        // No host has a slash: that is an URL, which would be looked up as a name.
        Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("write it as HOST:PORT, such as 127.0.0.1:9092".to_owned()),
    }
}
