//! Connections, by whatever protocol. All of it is for who may administer the broker.

use axum::http::StatusCode;
use hermit_broker::{ConnectionCounts, ConnectionInfo};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::answer::Answer;
use crate::auth::Client;
use crate::params::{Path, Query};
use crate::problem::Problem;
use crate::schema::MOST_ON_PAGE;

/// Which connections are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct After {
    /// Begin behind this id.
    #[serde(default)]
    after: u64,
    /// At most so many, and at most 1,000.
    limit: Option<usize>,
}

/// A connection.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Connection {
    /// Names it; never the same again until the broker is started anew.
    id: u64,
    /// Address and port that it came from.
    peer: String,
    /// When it came, in ns since the Unix epoch.
    since_ns: u64,
    /// `native-1`, `native-2` or `http`; `handshake`, while that is not known.
    protocol: &'static str,
    /// Whether it is encrypted.
    tls: bool,
    /// As whom it has logged in, over HTTP with its last request; empty where nobody has.
    user: String,
    /// What the client calls itself, as its name and version; empty where it did not say.
    client: String,
}

impl Connection {
    fn of(info: ConnectionInfo) -> Self {
        let ConnectionInfo { id, peer, since, protocol, encrypted, user, client, .. } = info;
        Self { id, peer: peer.to_string(), since_ns: since, protocol: protocol.name(), tls: encrypted, user, client }
    }
}

/// Connections: those to the native port, counted by how far they are, and a page of all.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Connections {
    /// Those to the native port whose handshake is over.
    open: usize,
    /// Those to the native port whose handshake is not.
    in_handshake: usize,
    /// Most to the native port that may be open.
    max: usize,
    /// Those to the native port that were refused since the start, as there were too many.
    turned_away: u64,
    /// Those to the native port that were closed within their handshake since the start, to make room for newer ones.
    put_out: u64,
    /// In the order of their ids, which is that in which they came: those to the native port, and those by HTTP.
    connections: Vec<Connection>,
    /// Whether there are more behind the last one.
    more: bool,
}

/// Lists connections, and counts those to the native port.
#[utoipa::path(get, path = "/api/v1/connections", tag = "broker", params(After), responses((status = 200, body = Connections), (status = "default", body = Problem)))]
pub(super) async fn list(client: Client, Query(page): Query<After>) -> Result<Answer<Connections>, Problem> {
    client.caller.check_broker()?;
    let ConnectionCounts { open, in_handshake, turned_away, put_out } = client.broker.connection_counts();
    let max = client.broker.limits_in_force().max_connections;
    let (listed, more) = client.broker.listed_connections(page.after, page.limit.unwrap_or(MOST_ON_PAGE).clamp(1, MOST_ON_PAGE));
    let connections = listed.into_iter().map(Connection::of).collect();
    Ok(Answer(Connections { open, in_handshake, max, turned_away, put_out, connections, more }))
}

/// Closes a connection, whatever it is doing. Its client may come again.
#[utoipa::path(delete, path = "/api/v1/connections/{id}", tag = "broker", params(("id" = u64, Path, description = "Its id")), responses((status = 204), (status = "default", body = Problem)))]
pub(super) async fn close(client: Client, Path(id): Path<u64>) -> Result<StatusCode, Problem> {
    client.caller.check_broker()?;
    if !client.broker.close_connection(id) {
        let problem = Problem::new(StatusCode::NOT_FOUND, "UnknownConnection", format!("there is no connection {id}, or no more"));
        return Err(problem.field("id"));
    }
    tracing::info!(id, user = client.caller.name(), "an administrator closes a connection");
    Ok(StatusCode::NO_CONTENT)
}
