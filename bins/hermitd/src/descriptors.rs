//! File descriptors: the soft limit is raised, and shared out between logs and connections.

use hermit_broker::BrokerConfig;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Standard streams, the runtime, the manifest, and what libraries open.
const OTHERS: u64 = 64;
/// Fewer files make every read an open.
pub(crate) const FEWEST_FILES: usize = 16;
/// Fewer are no broker.
const FEWEST_CONNECTIONS: usize = 4;

/// Raises the soft limit to the hard one, and lowers what `config` may use where that is not enough.
pub(crate) fn arrange(config: &mut BrokerConfig) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
    let Some(most) = getrlimit(Resource::Nofile).current else { return };
    share(config, most, None);
}

/// Of the connections that HTTP would have, those that it gets: where descriptors are few, a flood of them must not take those of the logs.
pub(crate) fn for_http(asked: usize) -> usize {
    getrlimit(Resource::Nofile).current.map_or(asked, |most| http_share(asked, most))
}

fn http_share(asked: usize, most: u64) -> usize {
    asked.min(usize::try_from(most / 16).unwrap_or(usize::MAX)).max(FEWEST_CONNECTIONS)
}

/// The same for limits that are to hold in a broker that runs with so many files.
pub(crate) fn arrange_again(config: &mut BrokerConfig, max_open_files: usize) {
    let Some(most) = getrlimit(Resource::Nofile).current else { return };
    share(config, most, Some(max_open_files));
}

/// Lowers the limits on connections, and that on files of logs where it is not in force already: then what `config` asks for stays, and is for a restart.
fn share(config: &mut BrokerConfig, most: u64, files_in_force: Option<usize>) {
    let (asked_files, connections, handshakes) =
        (config.max_open_files, config.limits.max_connections, config.limits.max_handshakes);
    let room = usize::try_from(most.saturating_sub(OTHERS)).unwrap_or(usize::MAX);
    let files = files_in_force.unwrap_or(asked_files);
    if files.saturating_add(connections).saturating_add(handshakes) <= room {
        return;
    }
    // A third for the logs, which connections cannot take.
    let files = files_in_force.unwrap_or_else(|| files.min(room / 3).max(FEWEST_FILES));
    config.max_open_files = files_in_force.map_or(files, |_| asked_files);
    let room = room.saturating_sub(files);
    // Of the rest an eighth for those that are not in yet.
    config.limits.max_handshakes = handshakes.min(room / 8).max(1);
    config.limits.max_connections = connections.min(room.saturating_sub(config.limits.max_handshakes)).max(FEWEST_CONNECTIONS);
    tracing::warn!(
        limit = most,
        max_open_files = files,
        max_connections = config.limits.max_connections,
        max_handshakes = config.limits.max_handshakes,
        "the limit on open files is low: raise it (`ulimit -n`) to get what the settings ask for"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_shared_out_and_a_high_one_changes_nothing() {
        let mut config = BrokerConfig::new("x");
        share(&mut config, 1 << 20, None);
        assert_eq!((config.max_open_files, config.limits.max_connections), (2048, 10_000));
        share(&mut config, 1024, None);
        assert_eq!((config.max_open_files, config.limits.max_connections), (320, 560));
        share(&mut config, 64, None);
        assert_eq!((config.max_open_files, config.limits.max_connections), (16, 4));
        assert_eq!([1 << 20, 1024, 16].map(|most| http_share(1024, most)), [1024, 64, 4]);
    }

    #[test]
    fn connections_never_get_the_files_that_logs_have_already() {
        let mut config = BrokerConfig::new("x");
        (config.max_open_files, config.limits.max_connections) = (4000, 20_000);
        share(&mut config, 16_384, Some(8000));
        let limits = &config.limits;
        assert!(limits.max_connections > 4000 && limits.max_connections + limits.max_handshakes + 8000 <= 16_384, "{limits:?}");
        assert_eq!(config.max_open_files, 4000);
    }
}
