//! The client, from the options of every command.

use anyhow::{Result, bail};
use hermit_client::{Client, ClientBuilder, Secret};

use crate::args::{ConnectionArgs, Login};
use crate::secret;

const PASSWORD: &str = "HERMIT_PASSWORD";
const TOKEN: &str = "HERMIT_TOKEN";

/// A client's settings, with the login. May ask for the password.
pub(crate) async fn builder(args: &ConnectionArgs) -> Result<ClientBuilder> {
    let builder = Client::builder().server(&args.server).name(concat!("hermit-cli/", env!("CARGO_PKG_VERSION")));
    let token = if args.chosen == Some(Login::Password) { None } else { token(args)? };
    let user = args.user.as_ref().filter(|_| args.chosen != Some(Login::Token));
    match (user, token) {
        (Some(_), Some(_)) => bail!("both a user and a token are given: take HERMIT_USER or the token out of the environment"),
        (None, Some(token)) => Ok(builder.token(token.expose())),
        (Some(user), None) => Ok(builder.password(user, password(args, user).await?.expose())),
        (None, None) if args.password_file.is_some() && args.chosen != Some(Login::Token) => {
            bail!("a password without a user: name the user with --user or HERMIT_USER")
        }
        (None, None) => Ok(builder),
    }
}

fn token(args: &ConnectionArgs) -> Result<Option<Secret>> {
    match &args.token_file {
        Some(file) => secret::file(file).map(Some),
        None => secret::variable(TOKEN),
    }
}

async fn password(args: &ConnectionArgs, user: &str) -> Result<Secret> {
    if let Some(file) = &args.password_file {
        return secret::file(file);
    }
    if let Some(password) = secret::variable(PASSWORD)? {
        return Ok(password);
    }
    match secret::prompt(&format!("Password of {user}")).await? {
        Some(password) => Ok(password),
        None => bail!("there is no terminal to ask for the password of {user}: set {PASSWORD}, or give --password-file"),
    }
}
