//! The broker itself.

use std::collections::BTreeMap;

use hermit_broker::proto::session::LoginKind;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Answer;
use crate::auth::Client;
use crate::blocking::blocking;
use crate::problem::Problem;

/// A broker, at one moment.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BrokerInfo {
    /// Name and version of the program.
    broker: String,
    /// The same for the whole life of a data directory.
    broker_id: String,
    /// Rises at each unclean start.
    leader_epoch: u32,
    /// When it was started, in ns since the Unix epoch.
    started_at_ns: u64,
    /// Its topics, without internal ones.
    topics: u32,
    /// Their partitions.
    partitions: u32,
    /// Groups with members or positions.
    groups: u32,
    /// Connections to the native port.
    connections: u32,
    /// Bytes of requests that are in memory.
    inflight_bytes: u64,
    /// Their limit.
    max_inflight_bytes: u64,
    /// Bytes of all logs.
    log_bytes: u64,
    /// Free bytes on the disk.
    free_bytes: u64,
    /// Bytes of deleted files that somebody still reads.
    held_bytes: u64,
}

/// Describes the broker. For who may administer it, as all of this page but `whoami`.
#[utoipa::path(get, path = "/api/v1/broker", tag = "broker", responses((status = 200, body = BrokerInfo), (status = "default", body = Problem)))]
pub(super) async fn describe(client: Client) -> Result<Answer<BrokerInfo>, Problem> {
    client.caller.check_broker()?;
    let broker = client.broker.clone();
    // It looks at every partition.
    let told = blocking(move || Ok(broker.describe())).await?;
    Ok(Answer(BrokerInfo {
        broker: told.broker,
        broker_id: format!("{:032x}", told.broker_id),
        leader_epoch: told.leader_epoch.0,
        started_at_ns: told.started_at,
        topics: told.topics,
        partitions: told.partitions,
        groups: told.groups,
        connections: told.connections,
        inflight_bytes: told.inflight_bytes,
        max_inflight_bytes: told.max_inflight_bytes,
        log_bytes: told.log_bytes,
        free_bytes: told.free_bytes,
        held_bytes: told.held_bytes,
    }))
}

/// The settings in force, by name, as they could be written into the settings file. None is a secret.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SettingsInForce {
    /// By name.
    settings: BTreeMap<String, String>,
}

/// Tells the settings in force.
#[utoipa::path(get, path = "/api/v1/settings", tag = "broker", responses((status = 200, body = SettingsInForce), (status = "default", body = Problem)))]
pub(super) async fn settings(client: Client) -> Result<Answer<SettingsInForce>, Problem> {
    client.caller.check_broker()?;
    Ok(Answer(SettingsInForce { settings: client.broker.described_settings().into_iter().collect() }))
}

/// Whom the broker takes the client for.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WhoAmI {
    /// The user's name; empty where there is none.
    user: String,
    /// `anonymous`, `password`, `token` or `first-administrator`.
    login: &'static str,
}

/// Tells whom the broker takes the client for.
#[utoipa::path(get, path = "/api/v1/whoami", tag = "broker", responses((status = 200, body = WhoAmI), (status = "default", body = Problem)))]
pub(super) async fn who_am_i(client: Client) -> Answer<WhoAmI> {
    let login = match client.caller.kind() {
        LoginKind::Anonymous => "anonymous",
        LoginKind::Password => "password",
        LoginKind::Token => "token",
        LoginKind::FirstAdministrator => "first-administrator",
    };
    Answer(WhoAmI { user: client.caller.name().to_owned(), login })
}
