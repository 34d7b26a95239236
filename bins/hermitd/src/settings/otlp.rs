//! The settings of the OpenTelemetry export.

use std::path::PathBuf;
use std::time::Duration;

use super::Settings;
use super::gather::Gathered;
use super::outside::open_to_others;
use super::quantity::Time;
use crate::otlp::Endpoint;

const ALL: [&str; 3] = ["otlp_endpoint", "otlp_headers_file", "otlp_tls_ca"];
/// The job that dashboard and alert rules look for.
const SERVICE_NAME: &str = "hermitmq";

/// Where metrics and log are pushed, if anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtlpSettings {
    /// Empty: nowhere.
    pub(crate) endpoint: String,
    pub(crate) interval: Duration,
    pub(crate) headers_file: Option<PathBuf>,
    pub(crate) tls_ca: Option<PathBuf>,
    pub(crate) service_name: String,
    /// `None`: host and port.
    pub(crate) instance: Option<String>,
}

impl Default for OtlpSettings {
    fn default() -> Self {
        let (endpoint, service_name) = (String::new(), SERVICE_NAME.to_owned());
        Self { endpoint, interval: Duration::from_secs(15), headers_file: None, tls_ca: None, service_name, instance: None }
    }
}

impl OtlpSettings {
    pub(crate) const fn is_on(&self) -> bool {
        !self.endpoint.is_empty()
    }
}

impl Gathered {
    pub(super) fn settle_otlp(&mut self) -> OtlpSettings {
        let (given, defaults) = (&self.given, OtlpSettings::default());
        let settled = OtlpSettings {
            endpoint: given.otlp_endpoint.clone().unwrap_or_default(),
            interval: given.otlp_interval.map_or(defaults.interval, Time::duration),
            headers_file: given.otlp_headers_file.clone(),
            tls_ca: given.otlp_tls_ca.clone(),
            service_name: given.otlp_service_name.clone().unwrap_or(defaults.service_name),
            instance: given.otlp_instance.clone(),
        };
        if !settled.is_on() && (settled.headers_file.is_some() || settled.tls_ca.is_some()) {
            self.notes.push("`otlp_endpoint` is not set: the files that are named for it have no meaning".to_owned());
        }
        for (name, value) in [("otlp_service_name", Some(&settled.service_name)), ("otlp_instance", settled.instance.as_ref())] {
            if value.is_some_and(|value| value.trim().is_empty()) {
                self.wrong(&[name], format!("`{name}` is empty: give a name, or leave it out"));
            }
        }
        settled
    }

    /// Reads the files as a start would, and connects to nobody.
    pub(super) fn look_at_otlp(&mut self, settings: &Settings) {
        let otlp = &settings.otlp;
        if !otlp.is_on() || !self.are_sound(&ALL) {
            return;
        }
        match Endpoint::open(otlp) {
            Err(wrong) => self.wrong(&[wrong.setting], wrong.message),
            Ok(endpoint) if otlp.headers_file.is_some() && endpoint.is_open_to_readers() => {
                self.notes.push(
                    "`otlp_endpoint` is http://: whoever reads along sees what `otlp_headers_file` holds; take https://".to_owned(),
                );
            }
            Ok(_) => {}
        }
        self.notes.extend(otlp.headers_file.as_deref().and_then(open_to_others));
    }
}
