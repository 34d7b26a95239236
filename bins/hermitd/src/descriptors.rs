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
    share(config, most);
}

/// The same for limits that are to hold in a broker that runs with so many files.
pub(crate) fn arrange_again(config: &mut BrokerConfig, max_open_files: usize) {
    let Some(most) = getrlimit(Resource::Nofile).current else { return };
    let asked_files = std::mem::replace(&mut config.max_open_files, max_open_files);
    share(config, most);
    // What is asked is told as such.
    config.max_open_files = if config.max_open_files == max_open_files { asked_files } else { config.max_open_files };
}

fn share(config: &mut BrokerConfig, most: u64) {
    let (files, connections, handshakes) = (config.max_open_files, config.limits.max_connections, config.limits.max_handshakes);
    let room = usize::try_from(most.saturating_sub(OTHERS)).unwrap_or(usize::MAX);
    if files.saturating_add(connections).saturating_add(handshakes) <= room {
        return;
    }
    // A third for the logs, which connections cannot take.
    config.max_open_files = files.min(room / 3).max(FEWEST_FILES);
    let room = room.saturating_sub(config.max_open_files);
    // Of the rest an eighth for those that are not in yet.
    config.limits.max_handshakes = handshakes.min(room / 8).max(1);
    config.limits.max_connections = connections.min(room.saturating_sub(config.limits.max_handshakes)).max(FEWEST_CONNECTIONS);
    tracing::warn!(
        limit = most,
        max_open_files = config.max_open_files,
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
        share(&mut config, 1 << 20);
        assert_eq!((config.max_open_files, config.limits.max_connections), (2048, 10_000));
        share(&mut config, 1024);
        assert_eq!((config.max_open_files, config.limits.max_connections), (320, 560));
        share(&mut config, 64);
        assert_eq!((config.max_open_files, config.limits.max_connections), (16, 4));
    }
}
