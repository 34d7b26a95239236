//! The HTTP server: listening before the broker is opened, so that somebody answers how far that is.

use std::io::ErrorKind;

use anyhow::Context as _;
use hermit_broker::Limits;
use hermit_http::{HttpConfig, HttpServer};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::descriptors;
use crate::listener;
use crate::run::cannot_listen;
use crate::settings::Settings;

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) server: HttpServer,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) serving: JoinHandle<()>,
}

impl Http {
    /// What the line that says ready tells of it.
    pub(crate) fn words(&self, settings: &Settings) -> String {
        let address = self.address;
        match &settings.http_tls {
            None => format!(" http={address}"),
            Some(tls) if tls.required => format!(" https={address}"),
            Some(_) => format!(" http={address} https={address}"),
        }
    }
}

/// Begins to answer, if the settings say so.
pub(crate) fn begin(runtime: &Runtime, settings: &Settings) -> anyhow::Result<Option<Http>> {
    let Some(http) = &settings.http else { return Ok(None) };
    let (setting, flag) = (http.address.as_str(), "--http");
    let bound = http.addresses().map_err(|error| cannot_listen(setting, flag, error)).and_then(|addresses| {
        settings.check_reach_of("http", setting, &addresses)?;
        let _within = runtime.enter();
        listener::listen(&addresses).map_err(|error| cannot_listen(setting, flag, error))
    });
    let listener = match bound {
        Ok(listener) => listener,
        Err(error) if !http.is_asked && is_taken(&error) => {
            tracing::warn!(
                address = setting,
                "no HTTP: another process has the default address; name another with --http, or set it to off"
            );
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut config = HttpConfig::default();
    config.metrics_per_partition = settings.metrics_per_partition;
    config.max_connections = descriptors::for_http(config.max_connections);
    config.max_connections_per_address = share_of_address(config.max_connections, &settings.broker.limits);
    config.names.clone_from(&http.names);
    config.names.extend(http.address.rsplit_once(':').map(|(host, _port)| host.to_ascii_lowercase()));
    config.names.push(rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase());
    let (server, address) = (HttpServer::new(config), listener.local_addr()?);
    if let Some(tls) = &settings.http_tls {
        server.reload_tls(tls).context("TLS for HTTP")?;
    }
    let serving = runtime.spawn({
        let server = server.clone();
        async move { server.serve(listener).await }
    });
    Ok(Some(Http { server, address, serving }))
}

/// A server that answers nobody, and knows what of the metrics is to be shown.
pub(crate) fn unserved(settings: &Settings) -> HttpServer {
    let server = HttpServer::new(HttpConfig::default());
    server.show_partitions(settings.metrics_per_partition);
    server
}

/// As much of its connections as the native port gives one address of its own, two at least: who serves clients behind a proxy or an address translation has said so there.
pub(crate) fn share_of_address(connections: usize, limits: &Limits) -> usize {
    let share = connections.saturating_mul(limits.max_connections_per_address.min(limits.max_connections));
    share.div_ceil(limits.max_connections.max(1)).max(2)
}

fn is_taken(error: &anyhow::Error) -> bool {
    error.root_cause().downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_as_much_of_http_as_of_the_native_port() {
        let share = |max_connections, max_connections_per_address| {
            share_of_address(1024, &Limits { max_connections, max_connections_per_address, ..Limits::default() })
        };
        assert_eq!([share(10_000, 5000), share(100, 100), share(100, 5000), share(10_000, 1)], [512, 1024, 1024, 2]);
    }
}
