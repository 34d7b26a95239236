//! `hermit-cli user …`

use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use hermit_client::{Admin, Client, ListedToken, ListedUser, LoginKind, Secret};
use serde_json::{Value, json};

use crate::args::{AddUserArgs, NewPasswordArgs, Output, PasswdArgs, TokenCommand, UserCommand};
use crate::secret;
use crate::text::{headings, table};
use crate::time::show_moment;

const NEW_PASSWORD: &str = "HERMIT_NEW_PASSWORD";

/// Runs one of the user commands.
pub(crate) async fn run(client: &Client, command: UserCommand, output: Output) -> Result<()> {
    let admin = client.admin();
    let mut out = Vec::new();
    match command {
        UserCommand::Add(args) => add(&admin, &args, output, &mut out).await?,
        UserCommand::List => list(&admin, output, &mut out).await?,
        UserCommand::Passwd(args) => passwd(&admin, &args, output, &mut out).await?,
        UserCommand::Enable { user } => {
            admin.enable_user(&user, true).await?;
            tell(output, &mut out, format_args!("{user} may log in"), &json!({ "user": user, "enabled": true }))?;
        }
        UserCommand::Disable { user } => {
            admin.enable_user(&user, false).await?;
            tell(output, &mut out, format_args!("{user} may not log in any more"), &json!({ "user": user, "enabled": false }))?;
        }
        UserCommand::Remove { user } => {
            admin.delete_user(&user).await?;
            tell(output, &mut out, format_args!("removed {user}"), &json!({ "user": user, "removed": true }))?;
        }
        UserCommand::Token(command) => token(&admin, command, output, &mut out).await?,
        UserCommand::Whoami => whoami(&admin, output, &mut out).await?,
    }
    io::stdout().write_all(&out).context("standard output")
}

/// One line, in the form that was asked for.
fn tell(output: Output, out: &mut impl Write, text: std::fmt::Arguments<'_>, value: &Value) -> io::Result<()> {
    match output {
        Output::Text => writeln!(out, "{text}"),
        Output::Json => writeln!(out, "{value}"),
    }
}

async fn add(admin: &Admin, args: &AddUserArgs, output: Output, out: &mut impl Write) -> Result<()> {
    let user = &args.user;
    let password = if args.no_password { None } else { Some(new_password(&args.new, user).await?) };
    admin.create_user(user, password.as_ref().map(Secret::expose)).await?;
    let value = json!({ "user": user, "added": true, "password": password.is_some() });
    Ok(tell(output, out, format_args!("added {user}"), &value)?)
}

async fn passwd(admin: &Admin, args: &PasswdArgs, output: Output, out: &mut impl Write) -> Result<()> {
    let user = &args.user;
    if args.remove {
        admin.remove_password(user).await?;
        let value = json!({ "user": user, "password": false });
        return Ok(tell(output, out, format_args!("{user} has no password any more"), &value)?);
    }
    let password = new_password(&args.new, user).await?;
    admin.set_password(user, password.expose()).await?;
    Ok(tell(output, out, format_args!("{user} has a new password"), &json!({ "user": user, "password": true }))?)
}

async fn new_password(args: &NewPasswordArgs, user: &str) -> Result<Secret> {
    if let Some(file) = &args.new_password_file {
        return secret::file(file).context("--new-password-file");
    }
    if let Some(password) = secret::variable(NEW_PASSWORD)? {
        return Ok(password);
    }
    let Some(password) = secret::prompt(&format!("New password of {user}")).await? else {
        bail!("there is no terminal to ask for the new password of {user}: set {NEW_PASSWORD}, or give --new-password-file");
    };
    if password.expose().is_empty() {
        bail!("the password is empty");
    }
    if secret::prompt("The same again").await?.as_ref() != Some(&password) {
        bail!("the two are not the same");
    }
    Ok(password)
}

async fn list(admin: &Admin, output: Output, out: &mut impl Write) -> Result<()> {
    let users = admin.list_users().await?;
    if output == Output::Json {
        for user in &users {
            writeln!(out, "{}", user_json(user))?;
        }
        return Ok(());
    }
    let mut rows = headings(["user", "may log in", "password", "created", "tokens"]);
    rows.extend(users.into_iter().map(|user| {
        let labels = user.tokens.iter().map(|token| token.label.as_str()).collect::<Vec<_>>().join(", ");
        vec![user.name, yes_or_no(user.enabled), yes_or_no(user.has_password), show_moment(user.created_at), labels]
    }));
    Ok(table(out, &rows)?)
}

fn yes_or_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

fn user_json(user: &ListedUser) -> Value {
    let tokens: Vec<_> = user.tokens.iter().map(token_json).collect();
    json!({ "user": user.name, "enabled": user.enabled, "password": user.has_password, "created_at_ns": user.created_at, "tokens": tokens })
}

fn token_json(token: &ListedToken) -> Value {
    json!({ "label": token.label, "created_at_ns": token.created_at })
}

async fn token(admin: &Admin, command: TokenCommand, output: Output, out: &mut impl Write) -> Result<()> {
    match command {
        TokenCommand::Add(args) => {
            let token = admin.create_token(&args.user, &args.label).await?;
            let token = token.expose();
            tell(output, out, format_args!("{token}"), &json!({ "user": args.user, "label": args.label, "token": token }))?;
        }
        TokenCommand::List { user } => {
            let users = admin.list_users().await?;
            let Some(found) = users.into_iter().find(|found| found.name == user) else {
                bail!("there is no user `{user}`; see `hermit-cli user list`");
            };
            if output == Output::Json {
                for token in &found.tokens {
                    writeln!(out, "{}", token_json(token))?;
                }
                return Ok(());
            }
            let mut rows = headings(["token", "created"]);
            rows.extend(found.tokens.into_iter().map(|token| vec![token.label, show_moment(token.created_at)]));
            table(out, &rows)?;
        }
        TokenCommand::Remove(args) => {
            admin.delete_token(&args.user, &args.label).await?;
            let value = json!({ "user": args.user, "label": args.label, "removed": true });
            tell(output, out, format_args!("removed the token {} of {}", args.label, args.user), &value)?;
        }
    }
    Ok(())
}

async fn whoami(admin: &Admin, output: Output, out: &mut impl Write) -> Result<()> {
    let me = admin.who_am_i().await?;
    let (login, text) = match me.login {
        LoginKind::Anonymous => ("anonymous", "nobody in particular: the broker asks for no login".to_owned()),
        LoginKind::Password => ("password", format!("{}, by a password", me.principal)),
        LoginKind::Token => ("token", format!("{}, by a token", me.principal)),
        LoginKind::FirstAdministrator => ("first_administrator", "whoever makes the first administrator".to_owned()),
    };
    let user = Some(&me.principal).filter(|name| !name.is_empty());
    Ok(tell(output, out, format_args!("{text}"), &json!({ "user": user, "login": login }))?)
}
