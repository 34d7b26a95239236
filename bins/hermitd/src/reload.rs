//! SIGHUP: the settings are read again, and what can be changed in a running broker is changed. All or nothing.

use std::fmt;

use hermit_broker::{Broker, TlsConfig};
use hermit_http::HttpServer;
use tracing_subscriber::EnvFilter;

use crate::descriptors;
use crate::settings::finding::Findings;
use crate::settings::table::{Change, settings};
use crate::settings::{Settings, Sources};

/// Puts another filter in place of the log's.
pub(crate) type SetFilter = Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync>;

/// What is needed to read the settings again, and what holds until then.
pub(crate) struct Reload<'a> {
    sources: &'a Sources,
    set_filter: SetFilter,
    http: Option<HttpServer>,
    /// Names and values.
    in_force: Vec<(&'static str, Option<String>)>,
}

impl fmt::Debug for Reload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload").field("in_force", &self.in_force).finish_non_exhaustive()
    }
}

/// A setting that is given another value than the one that holds.
#[derive(Debug)]
struct Difference {
    name: &'static str,
    from: Option<String>,
    to: Option<String>,
    change: Change,
}

impl<'a> Reload<'a> {
    pub(crate) fn new(
        sources: &'a Sources,
        set_filter: SetFilter,
        in_force: Vec<(&'static str, Option<String>)>,
        http: Option<HttpServer>,
    ) -> Self {
        Self { sources, set_filter, http, in_force }
    }

    /// Reads everything again, and says in a line each what has changed, what cannot, and what is wrong: then nothing changes.
    pub(crate) fn reload(&mut self, broker: &Broker) {
        match self.sources.read_again() {
            Ok(settings) => self.apply(broker, &settings),
            Err(Findings(findings)) => {
                for finding in &findings {
                    tracing::error!("SIGHUP: {finding}");
                }
                tracing::error!(mistakes = findings.len(), "SIGHUP: nothing was changed");
            }
        }
    }

    fn apply(&mut self, broker: &Broker, settings: &Settings) {
        settings.notes.iter().for_each(|note| tracing::warn!("SIGHUP: {note}"));
        let mut config = settings.broker.clone();
        descriptors::arrange_again(&mut config, broker.config().max_open_files);
        let (changed, waiting): (Vec<_>, Vec<_>) =
            self.differences(&settings.in_force(&config)).into_iter().partition(|difference| difference.change != Change::Restart);
        let mut in_force = self.in_force.clone();
        for (name, value) in &mut in_force {
            if let Some(difference) = changed.iter().find(|difference| difference.name == *name) {
                value.clone_from(&difference.to);
            }
        }
        config.described_settings = crate::settings::described(&in_force);
        let filter = match EnvFilter::try_new(&settings.log) {
            Ok(filter) => filter,
            Err(error) => return tracing::error!(%error, "SIGHUP: `log` cannot be used; nothing was changed"),
        };
        // Looked at before anything changes: all or nothing.
        if let Some(Err(error)) = settings.http_tls.as_ref().map(TlsConfig::check) {
            return tracing::error!(%error, "SIGHUP: TLS for HTTP cannot be used; nothing was changed");
        }
        if let Err(error) = broker.reconfigure(&config) {
            return tracing::error!(%error, "SIGHUP: nothing was changed");
        }
        if let (Some(http), Some(tls)) = (&self.http, &settings.http_tls)
            && let Err(error) = http.reload_tls(tls)
        {
            tracing::error!(%error, "SIGHUP: TLS for HTTP stays as it was");
        }
        if let Some(http) = &self.http {
            http.show_partitions(settings.metrics_per_partition);
        }
        // First, so that the lines are written by it that the new filter takes out, too.
        for Difference { name, from, to, change } in &changed {
            let (from, to) = (shown(from.as_ref()), shown(to.as_ref()));
            tracing::info!(setting = name, from, to, origin = %settings.origins.of(name), counts = change.told(), "SIGHUP: changed");
        }
        for Difference { name, from, to, .. } in &waiting {
            let (from, to) = (shown(from.as_ref()), shown(to.as_ref()));
            tracing::warn!(setting = name, in_force = from, given = to, origin = %settings.origins.of(name), "SIGHUP: this needs a restart, and stays as it is until then");
        }
        tracing::info!(changed = changed.len(), waiting_for_restart = waiting.len(), "SIGHUP: the settings were read again");
        if let Err(error) = (self.set_filter)(filter) {
            tracing::error!(%error, "SIGHUP: the log's filter stays as it was");
        }
        self.in_force = in_force;
    }

    fn differences(&self, wanted: &[(&'static str, Option<String>)]) -> Vec<Difference> {
        let value = |name: &str| wanted.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.as_ref());
        // TLS can be begun with, and changed, but is never taken from clients that count on it.
        let ends = |name: &str| value(name).is_some_and(|tls| tls == "\"off\"");
        let (ends_tls, ends_http_tls) = (ends("tls"), ends("http_tls"));
        let pairs = self.in_force.iter().zip(settings());
        let differing = pairs.filter(|((name, from), _)| from.as_ref() != value(name));
        let told = differing.map(|((name, from), setting)| {
            let is_of_ended_tls = (ends_tls && name.starts_with("tls")) || (ends_http_tls && name.starts_with("http_tls"));
            let change = if is_of_ended_tls { Change::Restart } else { setting.change };
            Difference { name, from: from.clone(), to: value(name).cloned(), change }
        });
        told.collect()
    }
}

fn shown(value: Option<&String>) -> &str {
    value.map_or("unset", String::as_str)
}
