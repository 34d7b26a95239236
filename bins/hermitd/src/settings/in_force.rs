//! The other way round: every setting as it holds, for whoever asks the broker.

use std::time::Duration;

use hermit_broker::{BrokerConfig, Durability, NEVER};

use super::Settings;
use super::table::{ClientAuthName, DurabilityName, Given, SwitchName, TlsName};

impl Given {
    /// Every setting as it holds. None of them is a secret; one that is must be left out here.
    fn as_settled(settings: &Settings, broker: &BrokerConfig) -> Self {
        let Settings { listen, http, insecure, threads, log, import, .. } = settings;
        let BrokerConfig { topic_defaults: topics, limits, .. } = broker;
        let tls = broker.tls.as_ref();
        let ms = |time: Duration| Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let unless_never = |value: u64| (value != NEVER).then_some(value);
        Self {
            data_dir: Some(broker.data_dir.clone()),
            listen: Some(listen.clone()),
            http: Some(http.as_ref().map_or_else(|| "off".to_owned(), |http| http.address.clone())),
            authentication: Some(if broker.access.enabled { SwitchName::On } else { SwitchName::Off }),
            insecure: Some(*insecure),
            v1_principal: broker.access.v1_principal.as_ref().map(ToString::to_string),
            tls: Some(match tls {
                None => TlsName::Off,
                Some(tls) if tls.required => TlsName::Required,
                Some(_) => TlsName::Optional,
            }),
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
            os_flush_interval_ms: ms(broker.log.os_flush_interval),
            import: Some(*import),
            create_topics: Some(broker.create_topics),
            default_partitions: Some(broker.default_partitions),
            segment_bytes: Some(topics.segment_bytes),
            retention_age_ms: unless_never(topics.retention_age_ms),
            retention_bytes: unless_never(topics.retention_bytes),
            maintenance_interval_s: Some(broker.maintenance_interval.as_secs()),
            scrub_bytes_per_second: Some(broker.scrub_bytes_per_second),
            scrub_interval_s: Some(broker.scrub_interval.as_secs()),
            max_frame_bytes: Some(limits.max_frame_bytes),
            max_record_count: Some(limits.max_record_count),
            max_connections: Some(limits.max_connections),
            max_connections_per_address: Some(limits.max_connections_per_address),
            max_handshakes: Some(limits.max_handshakes),
            min_large_frame_rate: Some(limits.min_large_frame_rate),
            max_inflight_bytes: Some(limits.max_inflight_bytes),
            max_subscriptions: Some(limits.max_subscriptions),
            max_partitions: Some(limits.max_partitions),
            max_active_groups: Some(limits.max_active_groups),
            max_group_members: Some(limits.max_group_members),
            max_member_subscriptions: Some(limits.max_member_subscriptions),
            max_pattern_bytes: Some(limits.max_pattern_bytes),
            max_group_positions: Some(limits.max_group_positions),
            max_membership_bytes: Some(limits.max_membership_bytes),
            min_session_timeout_ms: ms(limits.min_session_timeout),
            default_session_timeout_ms: ms(limits.default_session_timeout),
            max_session_timeout_ms: ms(limits.max_session_timeout),
            min_processing_timeout_ms: ms(limits.min_processing_timeout),
            default_processing_timeout_ms: ms(limits.default_processing_timeout),
            max_processing_timeout_ms: ms(limits.max_processing_timeout),
            group_initial_delay_ms: ms(limits.group_initial_delay),
            group_return_delay_ms: ms(limits.group_return_delay),
            offsets_retention_ms: broker.offsets_retention.and_then(ms),
            max_open_files: Some(broker.max_open_files),
            handshake_timeout_ms: ms(limits.handshake_timeout),
            frame_timeout_ms: ms(limits.frame_timeout),
            write_timeout_ms: ms(limits.write_timeout),
            heartbeat_interval_ms: ms(limits.heartbeat_interval),
            drain_timeout_ms: ms(limits.drain_timeout),
            disk_low_bytes: Some(limits.disk_low_bytes),
            disk_high_bytes: Some(limits.disk_high_bytes),
            threads: Some(*threads),
            flush_threads: Some(broker.flush_threads),
            log: Some(log.clone()),
        }
    }
}

impl Settings {
    /// Names and values for whoever asks the broker, where `broker` is what it was started with.
    pub(crate) fn described(&self, broker: &BrokerConfig) -> Vec<(String, String)> {
        Given::as_settled(self, broker).described()
    }
}
