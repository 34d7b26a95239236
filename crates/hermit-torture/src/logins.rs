//! Runs in which everybody has to log in: who the clients of the load are, and users that come and go on the side, whose every answered change is checked
//! for as long as the run lasts.

mod guests;
mod ledger;
mod visit;

use std::ffi::OsString;

use anyhow::{Context, Result};
use hermit_client::{AccessOperations, AccessResource, AccessRule, NamePattern};
use hermit_proto::Secret;

pub use guests::Guests;
pub use ledger::Counts;

use crate::server::Hermitd;
use crate::workload::{Login, Target};

const ADMIN: &str = "torture-admin";
const WORKER: &str = "worker";
/// As whom clients of version 1 act.
const OLD: &str = "old-clients";

/// Arguments of a broker that asks for logins.
#[must_use]
pub fn arguments() -> Vec<OsString> {
    ["--authentication", "on", "--v1-principal", OLD].map(Into::into).to_vec()
}

/// Whom the run has made.
#[derive(Debug)]
pub struct Users {
    /// The clients of the load.
    pub worker: Target,
    /// Who may make users.
    pub admin: Target,
}

/// Makes the first users of a broker that has none, beginning with its one-time token.
///
/// # Errors
/// When one of them cannot be made.
pub async fn prepare(broker: &Hermitd, random: &mut fastrand::Rng) -> Result<Users> {
    let open = Target::open(broker.address());
    let path = broker.setup().data_dir().join("first-admin-token");
    let token = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let admin = Login::Password(ADMIN.into(), secret(random));
    let first = open.login(Login::Token(Secret::new(token.trim()))).client()?;
    make(&first, &admin).await?;
    let all = NamePattern::Prefix(String::new());
    let resources = [AccessResource::Topic(all.clone()), AccessResource::Group(all.clone()), AccessResource::Broker];
    let administers = resources.map(|resource| rule(ADMIN, resource, AccessOperations::ADMINISTER));
    first.admin().add_rules(administers.to_vec()).await.context("the first administrator gets no rights")?;
    first.close().await;

    let admin = open.login(admin);
    let client = admin.client()?;
    let worker = Login::Password(WORKER.into(), secret(random));
    make(&client, &worker).await?;
    client.admin().create_user(OLD, None).await?;
    let old_groups = NamePattern::Prefix("old-".into());
    let uses = AccessOperations::PRODUCE | AccessOperations::CONSUME;
    let rules = vec![
        rule(WORKER, AccessResource::Topic(all.clone()), AccessOperations::ALL),
        rule(WORKER, AccessResource::Group(all.clone()), AccessOperations::CONSUME | AccessOperations::ADMINISTER),
        rule(OLD, AccessResource::Topic(all), uses),
        rule(OLD, AccessResource::Group(old_groups), AccessOperations::CONSUME),
    ];
    client.admin().add_rules(rules).await.context("the load's users get no rights")?;
    let worker = if random.bool() { Login::Token(client.admin().create_token(WORKER, "load").await?) } else { worker };
    client.close().await;
    Ok(Users { worker: open.login(worker), admin })
}

async fn make(client: &hermit_client::Client, login: &Login) -> Result<()> {
    let Login::Password(user, password) = login else { return Ok(()) };
    client.admin().create_user(user, Some(password.expose())).await.with_context(|| format!("{user} cannot be made"))
}

fn rule(principal: &str, resource: AccessResource, operations: AccessOperations) -> AccessRule {
    AccessRule { principal: principal.into(), resource, operations }
}

fn secret(random: &mut fastrand::Rng) -> Secret {
    Secret::new(format!("{:032x}", random.u128(..)))
}
