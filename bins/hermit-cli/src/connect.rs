//! The client, from the options of every command.

use anyhow::{Context as _, Result, bail};
use hermit_client::{Client, ClientBuilder, Secret, TlsConfig};

use crate::args::{ConnectionArgs, Login, TOKEN};
use crate::profile::Kept;
use crate::secret;

const PASSWORD: &str = "HERMIT_PASSWORD";

/// A client's settings, with the login. May ask for the password.
pub(crate) async fn builder(args: &ConnectionArgs) -> Result<ClientBuilder> {
    let mut builder = Client::builder().name(concat!("hermit-cli/", env!("CARGO_PKG_VERSION")));
    builder = args.server.iter().fold(builder, |builder, server| builder.server(server));
    builder = builder.insecure_login(args.insecure_login);
    if let Some(tls) = tls(args)? {
        builder = builder.tls(tls);
    }
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

fn tls(args: &ConnectionArgs) -> Result<Option<TlsConfig>> {
    if !args.uses_tls() {
        return Ok(None);
    }
    let ConnectionArgs { tls_ca, tls_cert, tls_key, tls_server_name, .. } = args;
    let mut tls = TlsConfig::new();
    if let Some(file) = tls_ca {
        tls = tls.ca_file(file);
    }
    match (tls_cert, tls_key) {
        (Some(certificate), Some(key)) => {
            secret::warn_if_open(key)?;
            tls = tls.client_certificate_files(certificate, key);
        }
        (None, None) => {}
        (Some(_), None) => bail!("--tls-cert is given without its key: add --tls-key"),
        (None, Some(_)) => bail!("--tls-key is given without its certificate: add --tls-cert"),
    }
    if let Some(name) = tls_server_name {
        tls = tls.server_name(name);
    }
    Ok(Some(tls))
}

fn token(args: &ConnectionArgs) -> Result<Option<Secret>> {
    if let Some(file) = &args.token_file {
        return secret::file(file).context("--token-file").map(Some);
    }
    match (secret::variable(TOKEN)?, &args.profile_token) {
        (None, Some(kept)) => secret_of(kept, args).map(Some),
        (token, _) => Ok(token),
    }
}

fn secret_of(kept: &Kept, args: &ConnectionArgs) -> Result<Secret> {
    match kept {
        Kept::Here(secret) => Ok(secret.clone()),
        Kept::File(path) => {
            secret::file(path).with_context(|| format!("the login of profile `{}`", args.profile.as_deref().unwrap_or_default()))
        }
    }
}

async fn password(args: &ConnectionArgs, user: &str) -> Result<Secret> {
    if let Some(file) = &args.password_file {
        return secret::file(file).context("--password-file");
    }
    if let Some(password) = secret::variable(PASSWORD)? {
        return Ok(password);
    }
    if let Some(kept) = &args.profile_password {
        return secret_of(kept, args);
    }
    match secret::prompt(&format!("Password of {user}")).await? {
        Some(password) => Ok(password),
        None => bail!("there is no terminal to ask for the password of {user}: set {PASSWORD}, or give --password-file"),
    }
}
