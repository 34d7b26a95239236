//! SIGHUP: the settings are read again, and what can be changed in a running broker is changed. All or nothing.

use std::sync::{Mutex, PoisonError};

use hermit_broker::{Broker, TlsConfig};
use hermit_http::HttpServer;
use tracing_subscriber::EnvFilter;

use crate::descriptors;
use crate::http::share_of_address;
use crate::logs::LogFilter;
use crate::settings::table::{Change, settings};
use crate::settings::{NamedValue, Settings, Sources};

/// What is needed to read the settings again, and what holds until then.
#[derive(Debug)]
pub(crate) struct Reload {
    sources: Sources,
    filter: LogFilter,
    http: Option<HttpServer>,
    /// Locked while settings are read again, of which there is one at a time.
    in_force: Mutex<Vec<NamedValue>>,
}

/// A setting that is given another value than the one that holds.
#[derive(Debug)]
struct Difference {
    name: &'static str,
    from: Option<String>,
    to: Option<String>,
    change: Change,
}

impl Reload {
    pub(crate) fn new(sources: Sources, filter: LogFilter, in_force: Vec<NamedValue>, http: Option<HttpServer>) -> Self {
        Self { sources, filter, http, in_force: Mutex::new(in_force) }
    }

    /// Reads everything again, and says in a line each what has changed, what cannot, and what is wrong: then nothing changes. It waits for the disk, and for names to
    /// be resolved; a broker that has begun to stop meanwhile is left as it is. Gives what the service manager is to show, where not all was well.
    pub(crate) fn reload(&self, broker: &Broker) -> Option<String> {
        match self.sources.read_again() {
            _ if broker.is_stopping() => {
                tracing::info!("SIGHUP: the broker stops; nothing was changed");
                None
            }
            Ok(settings) => self.apply(broker, &settings),
            Err(findings) => {
                for finding in &findings.0 {
                    tracing::error!(%finding, "SIGHUP: a setting is wrong");
                }
                tracing::error!(mistakes = findings.0.len(), "SIGHUP: nothing was changed");
                Some(format!("settings NOT changed: {}, which the log names", findings.counted()))
            }
        }
    }

    fn apply(&self, broker: &Broker, settings: &Settings) -> Option<String> {
        let unchanged = || Some("settings NOT changed: the log tells why".to_owned());
        let mut word = None;
        settings.notes.iter().for_each(|note| tracing::warn!(note, "SIGHUP: a note on the settings"));
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let mut config = settings.broker.clone();
        descriptors::arrange_again(&mut config, broker.config().max_open_files);
        let (mut changed, waiting): (Vec<_>, Vec<_>) = differences(&in_force, &settings.in_force(&config))
            .into_iter()
            .partition(|difference| difference.change != Change::Restart);
        let mut now_in_force = with(&in_force, &changed);
        config.described_settings = crate::settings::described(&now_in_force);
        // All that can fail comes first.
        let filter = EnvFilter::try_new(&settings.log).map_err(anyhow::Error::new);
        let filter = match filter.and_then(|filter| self.filter.check().map(|()| filter)) {
            Ok(filter) => filter,
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "SIGHUP: `log` cannot be changed; nothing was changed");
                return unchanged();
            }
        };
        if let Some(Err(error)) = settings.http_tls.as_ref().map(TlsConfig::check) {
            tracing::error!(error = %hermit_broker::log::error_line(&error), "SIGHUP: TLS for HTTP cannot be used; nothing was changed");
            return unchanged();
        }
        if let Err(error) = broker.reconfigure(&config) {
            tracing::error!(error = %hermit_broker::log::error_line(&error), "SIGHUP: nothing was changed");
            return unchanged();
        }
        if let Some(http) = &self.http {
            http.show_partitions(settings.metrics_per_partition);
            http.limit_addresses(share_of_address(http.config().max_connections, &settings.broker.limits));
            if let Some(tls) = &settings.http_tls
                && let Err(error) = http.reload_tls(tls)
            {
                // Its files have changed since they were looked at.
                tracing::error!(error = %hermit_broker::log::error_line(&error), "SIGHUP: all was changed but TLS for HTTP, which stays as it was");
                word = Some("settings changed but TLS for HTTP: the log tells why".to_owned());
                changed.retain(|difference| !difference.name.starts_with("http_tls"));
                now_in_force = with(&in_force, &changed);
            }
        }
        tell(settings, &changed, &waiting);
        *in_force = now_in_force;
        // Last, so that the lines are written by it that the new filter takes out, too.
        if let Err(error) = self.filter.set(filter) {
            tracing::error!(error = format!("{error:#}"), "SIGHUP: all was changed but `log`, which stays as it was");
            word.get_or_insert("settings changed but `log`: the log tells why".to_owned());
        }
        word.or_else(|| (!waiting.is_empty()).then(|| format!("{} changed settings wait for a restart", waiting.len())))
    }
}

/// What is in force with these changes.
fn with(in_force: &[NamedValue], changed: &[Difference]) -> Vec<NamedValue> {
    let now = |(name, value): &NamedValue| match changed.iter().find(|difference| difference.name == *name) {
        Some(difference) => (*name, difference.to.clone()),
        None => (*name, value.clone()),
    };
    in_force.iter().map(now).collect()
}

fn tell(settings: &Settings, changed: &[Difference], waiting: &[Difference]) {
    for Difference { name, from, to, change } in changed {
        let (from, to) = (shown(from.as_ref()), shown(to.as_ref()));
        tracing::info!(setting = name, from, to, origin = %settings.origins.of(name), counts = change.told(), "SIGHUP: changed");
    }
    for Difference { name, from, to, .. } in waiting {
        let (from, to) = (shown(from.as_ref()), shown(to.as_ref()));
        tracing::warn!(setting = name, in_force = from, given = to, origin = %settings.origins.of(name), "SIGHUP: this needs a restart, and stays as it is until then");
    }
    tracing::info!(changed = changed.len(), waiting_for_restart = waiting.len(), "SIGHUP: the settings were read again");
}

fn differences(in_force: &[NamedValue], wanted: &[NamedValue]) -> Vec<Difference> {
    let value = |name: &str| wanted.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.as_ref());
    // TLS can be begun with, and changed, but is never taken from clients that count on it.
    let ends = |name: &str| value(name).is_some_and(|tls| tls == "\"off\"");
    let (ends_tls, ends_http_tls) = (ends("tls"), ends("http_tls"));
    let pairs = in_force.iter().zip(settings());
    let differing = pairs.filter(|((name, from), _)| from.as_ref() != value(name));
    let told = differing.map(|((name, from), setting)| {
        let is_of_ended_tls = (ends_tls && name.starts_with("tls")) || (ends_http_tls && name.starts_with("http_tls"));
        let change = if is_of_ended_tls { Change::Restart } else { setting.change };
        Difference { name, from: from.clone(), to: value(name).cloned(), change }
    });
    told.collect()
}

fn shown(value: Option<&String>) -> &str {
    value.map_or("unset", String::as_str)
}

#[cfg(test)]
mod tests {
    use hermit_broker::testing::TestBroker;

    use super::*;

    #[test]
    fn a_log_that_cannot_be_changed_keeps_all_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("h.toml");
        std::fs::write(&file, "max_partitions = 7\nlog = \"off\"\n").unwrap();
        let sources = Sources::of_file(&file);
        let test = TestBroker::start().unwrap();
        let before = sources.read_again().unwrap().in_force(test.broker().config());
        let limit = || test.broker().create_topic("many", 8, &hermit_broker::TopicConfig::default()).is_err();
        let reload = Reload::new(sources, LogFilter::broken(), before.clone(), None);
        assert!(reload.reload(test.broker()).unwrap().contains("NOT changed"));
        assert!(!limit());
        assert_eq!(*reload.in_force.lock().unwrap(), before);
    }
}
