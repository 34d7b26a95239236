//! From what was said to settings that hold: defaults, and values that must fit each other.

use std::path::Path;

use hermit_broker::proto::UserName;
use hermit_broker::{BrokerConfig, Durability, Limits, NEVER, TopicSettings};

use super::contradictions;
use super::finding::Origin;
use super::gather::{Gathered, Origins};
use super::quantity::{Bytes, OrNever, Time};
use super::table::{DurabilityName, Given, ImportName, LogFormatName, REQUEST_ROOM, SwitchName};
use super::value::Value as _;
use super::{Settings, log};

impl Gathered {
    /// Fills in the defaults, and checks the values against each other. What is wrong is added to the findings, and its default stands in its place.
    pub(super) fn settle(&mut self) -> Settings {
        let mut broker = self.given.broker();
        self.settle_access(&mut broker);
        broker.tls = self.settle_tls();
        let listen = self.given.listen.clone().unwrap_or_else(|| "127.0.0.1:9092".into());
        if !is_address(&listen) {
            self.wrong(&["listen"], format!("`listen` is {listen:?}: give an address and a port, such as 127.0.0.1:9092"));
        }
        let mut http = self.settle_http();
        if http.as_ref().is_some_and(|http| !http.is_asked && has_port_of(&http.address, &listen)) {
            self.notes.push(format!("no HTTP: `listen`, {listen}, has its port; give HTTP another with `http`"));
            http = None;
        }
        let http_tls = if http.is_some() { self.settle_http_tls(broker.tls.as_ref()) } else { None };
        let log = self.given.log.clone().unwrap_or_else(|| "info".into());
        if let Err(error) = log::check(&log) {
            self.wrong(&["log"], format!("{error:#}"));
        }
        let otlp = self.settle_otlp();
        contradictions::find(&broker, self);
        if let Some(http) = http.as_ref().filter(|http| http.address == listen && !http.address.ends_with(":0")) {
            self.wrong(
                &["http", "listen"],
                format!("`http` and `listen` are both {}: give one of them another port", http.address),
            );
        }
        self.note_older_flush(&broker);
        // What is not looked at above.
        if self.findings.is_empty()
            && let Err(error) = broker.check()
        {
            self.findings.add(Origin::Default, error.to_string());
        }
        Settings {
            broker,
            listen,
            http_tls,
            http,
            insecure: self.given.insecure.unwrap_or(false),
            threads: self.given.threads.unwrap_or(2),
            log,
            log_format: self.given.log_format.unwrap_or(LogFormatName::Text),
            metrics_per_partition: self.given.metrics_per_partition.unwrap_or(true),
            otlp,
            import: self.given.import.unwrap_or(ImportName::Auto),
            origins: Origins::default(),
            notes: Vec::new(),
        }
    }

    /// What an old file's flushing means now, which is not plain.
    fn note_older_flush(&mut self, broker: &BrokerConfig) {
        let Some(path) = &self.older_flush else { return };
        if matches!(self.origins.of("durability"), Origin::File { .. }) {
            let interval = Time::of(broker.log.os_flush_interval).shown();
            self.notes.push(format!(
                "{path}: `storage.flush_interval_ms` means durability = \"os\": messages are answered before they are on disk, and a power cut or a crash of the machine \
                 loses those of the last {}. Leave it out, or set --durability sync, and an answer means disk",
                interval.trim_matches('"')
            ));
        }
    }

    fn settle_access(&mut self, broker: &mut BrokerConfig) {
        broker.access.enabled = self.given.authentication == Some(SwitchName::On);
        broker.access.insecure_transport_ok = self.given.insecure == Some(true);
        let Some(user) = self.given.v1_principal.clone() else { return };
        match UserName::new(&user) {
            Ok(name) => broker.access.v1_principal = Some(name),
            Err(error) => self.wrong(&["v1_principal"], format!("`v1_principal` is {user:?}: {error}")),
        }
        if !broker.access.enabled {
            self.notes.push("`v1_principal` has no meaning while `authentication` is off".to_owned());
        }
    }
}

impl Given {
    /// The broker's settings, but for logins and TLS.
    fn broker(&self) -> BrokerConfig {
        let mut broker = BrokerConfig::new(self.data_dir.as_deref().unwrap_or(Path::new("./hermit-data")));
        let topics = TopicSettings::default();
        broker.topic_defaults = TopicSettings {
            durability: match self.durability {
                None | Some(DurabilityName::Sync) => Durability::Sync,
                Some(DurabilityName::Os) => Durability::Os,
            },
            segment_bytes: self.segment_bytes.map_or(topics.segment_bytes, |bytes| bytes.0),
            retention_age_ms: or_never(self.retention_age.map(|OrNever(age)| age.map(|age| age.0))),
            retention_bytes: or_never(self.retention_bytes.map(|OrNever(bytes)| bytes.map(|bytes| bytes.0))),
            ..topics
        };
        set(&mut broker.log.os_flush_bytes, self.os_flush_bytes.map(|bytes| bytes.0));
        set(&mut broker.log.os_flush_interval, self.os_flush_interval.map(Time::duration));
        set(&mut broker.log.preallocate_bytes, self.preallocate_bytes.map(|bytes| bytes.0));
        set(&mut broker.create_topics, self.create_topics);
        set(&mut broker.default_partitions, self.default_partitions);
        set(&mut broker.maintenance_interval, self.maintenance_interval.map(Time::duration));
        set(&mut broker.scrub_bytes_per_second, self.scrub_bytes_per_second.map(|rate| rate.0));
        set(&mut broker.scrub_interval, self.scrub_interval.map(Time::duration));
        set(&mut broker.max_open_files, self.max_open_files);
        set(&mut broker.flush_threads, self.flush_threads);
        broker.offsets_retention = self.offsets_retention.and_then(|OrNever(time)| time.map(Time::duration));
        self.settle_limits(&mut broker.limits);
        self.settle_groups(&mut broker.limits);
        broker
    }

    fn settle_limits(&self, limits: &mut Limits) {
        if let Some(Bytes(bytes)) = self.max_frame_bytes {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            limits.max_frame_bytes = bytes;
            // A request must hold the largest frame, and the budget the largest request.
            limits.max_request_bytes = limits.max_request_bytes.max(bytes.saturating_add(REQUEST_ROOM));
        }
        set(&mut limits.max_record_count, self.max_record_count);
        set(&mut limits.max_connections, self.max_connections);
        set(&mut limits.max_connections_per_address, self.max_connections_per_address);
        set(&mut limits.max_handshakes, self.max_handshakes);
        set(&mut limits.min_large_frame_rate, self.min_large_frame_rate.map(|rate| rate.0));
        set(&mut limits.max_inflight_bytes, self.max_inflight_bytes.map(|bytes| bytes.0));
        set(&mut limits.max_subscriptions, self.max_subscriptions);
        set(&mut limits.max_partitions, self.max_partitions);
        set(&mut limits.handshake_timeout, self.handshake_timeout.map(Time::duration));
        set(&mut limits.frame_timeout, self.frame_timeout.map(Time::duration));
        set(&mut limits.write_timeout, self.write_timeout.map(Time::duration));
        set(&mut limits.heartbeat_interval, self.heartbeat_interval.map(Time::duration));
        set(&mut limits.drain_timeout, self.drain_timeout.map(Time::duration));
        if let Some(Bytes(low)) = self.disk_low_bytes {
            limits.disk_low_bytes = low;
            limits.disk_high_bytes = low.saturating_mul(2);
        }
        set(&mut limits.disk_high_bytes, self.disk_high_bytes.map(|bytes| bytes.0));
    }

    fn settle_groups(&self, limits: &mut Limits) {
        set(&mut limits.max_active_groups, self.max_active_groups);
        set(&mut limits.max_group_members, self.max_group_members);
        set(&mut limits.max_member_subscriptions, self.max_member_subscriptions);
        set(&mut limits.max_pattern_bytes, self.max_pattern_bytes);
        set(&mut limits.max_group_positions, self.max_group_positions);
        set(&mut limits.max_membership_bytes, self.max_membership_bytes.map(|bytes| bytes.0));
        set(&mut limits.min_session_timeout, self.min_session_timeout.map(Time::duration));
        set(&mut limits.default_session_timeout, self.default_session_timeout.map(Time::duration));
        set(&mut limits.max_session_timeout, self.max_session_timeout.map(Time::duration));
        set(&mut limits.min_processing_timeout, self.min_processing_timeout.map(Time::duration));
        set(&mut limits.default_processing_timeout, self.default_processing_timeout.map(Time::duration));
        set(&mut limits.max_processing_timeout, self.max_processing_timeout.map(Time::duration));
        set(&mut limits.group_initial_delay, self.group_initial_delay.map(Time::duration));
        set(&mut limits.group_return_delay, self.group_return_delay.map(Time::duration));
    }
}

fn or_never(given: Option<Option<u64>>) -> u64 {
    given.flatten().unwrap_or(NEVER)
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

pub(super) fn is_address(listen: &str) -> bool {
    listen.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok())
}

pub(super) fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let address = inner.unwrap_or(host).split('%').next().unwrap_or_default();
    let is_name = || !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    address.parse::<std::net::Ipv6Addr>().is_ok() || (inner.is_none() && is_name())
}

fn has_port_of(address: &str, other: &str) -> bool {
    let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned());
    port(address).is_some_and(|own| own != "0" && Some(own) == port(other))
}
