//! The other way round: every setting as it holds, for whoever asks the broker.

use std::time::Duration;

use hermit_broker::{BrokerConfig, Durability, NEVER, TlsConfig};

use super::Settings;
use super::quantity::{Bytes, OrNever, Rate, Time};
use super::table::{ClientAuthName, DurabilityName, Given, SwitchName, TlsName};

/// Stands for a setting that nobody has set and that has no value then, such as a certificate.
pub(super) const UNSET: &str = "unset";

impl Given {
    /// Every setting as it holds. None of them is a secret; one that is must be left out here.
    fn as_settled(settings: &Settings, broker: &BrokerConfig) -> Self {
        let Settings { listen, http, insecure, threads, log, log_format, metrics_per_partition, otlp, import, .. } = settings;
        let BrokerConfig { topic_defaults: topics, limits, .. } = broker;
        let (tls, http_tls) = (broker.tls.as_ref(), settings.http_tls.as_ref());
        let mode = |tls: Option<&TlsConfig>| match tls {
            None => TlsName::Off,
            Some(tls) if tls.required => TlsName::Required,
            Some(_) => TlsName::Optional,
        };
        let time = |time: Duration| Some(Time::of(time));
        let unless_never = |value: u64| (value != NEVER).then_some(value);
        Self {
            data_dir: Some(broker.data_dir.clone()),
            listen: Some(listen.clone()),
            http: Some(http.as_ref().map_or_else(|| "off".to_owned(), |http| http.address.clone())),
            http_names: http.as_ref().filter(|http| !http.names.is_empty()).map(|http| http.names.join(",")),
            http_tls: Some(mode(http_tls)),
            http_tls_cert: http_tls.map(|tls| tls.certificate.clone()),
            http_tls_key: http_tls.map(|tls| tls.key.clone()),
            authentication: Some(if broker.access.enabled { SwitchName::On } else { SwitchName::Off }),
            insecure: Some(*insecure),
            v1_principal: broker.access.v1_principal.as_ref().map(ToString::to_string),
            tls: Some(mode(tls)),
            tls_cert: tls.map(|tls| tls.certificate.clone()),
            tls_key: tls.map(|tls| tls.key.clone()),
            tls_client_ca: tls.and_then(|tls| tls.client_ca.clone()),
            tls_client_auth: tls.map(|tls| match tls.require_client_certificate {
                true => ClientAuthName::Required,
                false => ClientAuthName::Optional,
            }),
            durability: Some(match topics.durability {
                Durability::Sync => DurabilityName::Sync,
                Durability::Os => DurabilityName::Os,
            }),
            os_flush_bytes: Some(Bytes(broker.log.os_flush_bytes)),
            os_flush_interval: time(broker.log.os_flush_interval),
            preallocate_bytes: Some(Bytes(broker.log.preallocate_bytes)),
            import: Some(*import),
            create_topics: Some(broker.create_topics),
            default_partitions: Some(broker.default_partitions),
            segment_bytes: Some(Bytes(topics.segment_bytes)),
            retention_age: Some(OrNever(unless_never(topics.retention_age_ms).map(Time))),
            retention_bytes: Some(OrNever(unless_never(topics.retention_bytes).map(Bytes))),
            maintenance_interval: time(broker.maintenance_interval),
            scrub_bytes_per_second: Some(Rate(broker.scrub_bytes_per_second)),
            scrub_interval: time(broker.scrub_interval),
            max_frame_bytes: Some(Bytes(limits.max_frame_bytes.into())),
            max_record_count: Some(limits.max_record_count),
            max_connections: Some(limits.max_connections),
            max_connections_per_address: Some(limits.max_connections_per_address),
            max_handshakes: Some(limits.max_handshakes),
            min_large_frame_rate: Some(Rate(limits.min_large_frame_rate)),
            max_inflight_bytes: Some(Bytes(limits.max_inflight_bytes)),
            max_subscriptions: Some(limits.max_subscriptions),
            max_partitions: Some(limits.max_partitions),
            max_active_groups: Some(limits.max_active_groups),
            max_group_members: Some(limits.max_group_members),
            max_member_subscriptions: Some(limits.max_member_subscriptions),
            max_pattern_bytes: Some(limits.max_pattern_bytes),
            max_group_positions: Some(limits.max_group_positions),
            max_membership_bytes: Some(Bytes(limits.max_membership_bytes)),
            min_session_timeout: time(limits.min_session_timeout),
            default_session_timeout: time(limits.default_session_timeout),
            max_session_timeout: time(limits.max_session_timeout),
            min_processing_timeout: time(limits.min_processing_timeout),
            default_processing_timeout: time(limits.default_processing_timeout),
            max_processing_timeout: time(limits.max_processing_timeout),
            group_initial_delay: time(limits.group_initial_delay),
            group_return_delay: time(limits.group_return_delay),
            offsets_retention: Some(OrNever(broker.offsets_retention.map(Time::of))),
            max_open_files: Some(broker.max_open_files),
            handshake_timeout: time(limits.handshake_timeout),
            frame_timeout: time(limits.frame_timeout),
            write_timeout: time(limits.write_timeout),
            heartbeat_interval: time(limits.heartbeat_interval),
            drain_timeout: time(limits.drain_timeout),
            disk_low_bytes: Some(Bytes(limits.disk_low_bytes)),
            disk_high_bytes: Some(Bytes(limits.disk_high_bytes)),
            threads: Some(*threads),
            flush_threads: Some(broker.flush_threads),
            log: Some(log.clone()),
            log_format: Some(*log_format),
            metrics_per_partition: Some(*metrics_per_partition),
            otlp_endpoint: Some(otlp.endpoint.clone()),
            otlp_interval: time(otlp.interval),
            otlp_headers_file: otlp.headers_file.clone(),
            otlp_tls_ca: otlp.tls_ca.clone(),
            otlp_service_name: Some(otlp.service_name.clone()),
            otlp_instance: otlp.instance.clone(),
        }
    }
}

/// A setting's name, and its value as it could be written; `None` where it has none.
pub(crate) type NamedValue = (&'static str, Option<String>);

impl Settings {
    /// Names and values as they hold, where `broker` is what it runs with.
    pub(crate) fn in_force(&self, broker: &BrokerConfig) -> Vec<NamedValue> {
        Given::as_settled(self, broker).shown()
    }

    /// The same for whoever asks the broker.
    pub(crate) fn described(&self, broker: &BrokerConfig) -> Vec<(String, String)> {
        described(&self.in_force(broker))
    }
}

/// Names and values for whoever asks the broker.
pub(crate) fn described(in_force: &[NamedValue]) -> Vec<(String, String)> {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| UNSET.to_owned());
    in_force.iter().map(|(name, of)| ((*name).to_owned(), value(of))).collect()
}
