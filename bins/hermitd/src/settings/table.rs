//! The one table of settings: what each is called, what it means, and what it is when nobody says.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use hermit_broker::{BrokerConfig, Durability, Limits, NEVER, TopicSettings};
use serde::Deserialize;

use super::Settings;
use crate::descriptors;

/// What an answered message survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum DurabilityName {
    /// A power cut: answered when on disk.
    Sync,
    /// A crash of the broker, not of the machine: answered when the operating system has it.
    Os,
}

/// What is done with a data directory of an older HermitMQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ImportName {
    /// It is taken over.
    Auto,
    /// The start is refused.
    Never,
}

/// Whether connections go through TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum TlsName {
    /// None does.
    Off,
    /// As the client likes.
    Optional,
    /// All do.
    Required,
}

/// Whether clients show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum ClientAuthName {
    /// As they like.
    Optional,
    /// They must.
    Required,
}

/// A setting that is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum SwitchName {
    /// It is not in force.
    Off,
    /// It is in force.
    On,
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident : $type:ty, $env:literal $(, $more:ident = $value:expr)*;)+) => {
        /// What somebody has said about each setting.
        #[derive(Debug, Clone, Default, Args, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct Given {
            $($(#[doc = $doc])+ #[arg(long, env = $env $(, $more = $value)*)] pub(super) $name: Option<$type>,)+
        }

        impl Given {
            /// These, and where these are silent, `other`.
            pub(super) fn or(&self, other: &Self) -> Self {
                Self { $($name: self.$name.clone().or_else(|| other.$name.clone()),)+ }
            }

            /// Names and values, in the order of the table.
            fn described(&self) -> Vec<(String, String)> {
                vec![$((stringify!($name).to_owned(), super::describe::value(self.$name.as_ref())),)+]
            }
        }
    };
}

settings! {
    /// Where everything is kept. Default: `./hermit-data`.
    data_dir: PathBuf, "HERMITD_DATA_DIR";
    /// Address and port to listen on; port 0 takes any. Default: `127.0.0.1:9092`.
    listen: String, "HERMITD_LISTEN";
    /// Whether clients have to log in, and may do only what rules allow: `on` or `off`. Default: `off`; then everybody may do everything, and `listen` must be a loopback address.
    authentication: SwitchName, "HERMITD_AUTHENTICATION";
    /// Whether other machines may connect without `authentication`, and log in with passwords over connections without TLS. Default: false. Whoever reaches the port then does as he likes, or reads along.
    insecure: bool, "HERMITD_INSECURE", num_args = 0..=1, default_missing_value = "true";
    /// The user as whom clients of protocol version 1 act, which cannot log in, where `authentication` is on. Default: none; they are turned away. Whoever reaches the port is that user.
    v1_principal: String, "HERMITD_V1_PRINCIPAL";
    /// Whether connections go through TLS, on the same port: `off`, `optional` (as the client begins) or `required` (others are closed). Default: `optional` where `tls_cert` is set, else `off`.
    tls: TlsName, "HERMITD_TLS";
    /// PEM file with the broker's certificate, and behind it those that lead to its authority. Read again on SIGHUP, as the next two are.
    tls_cert: PathBuf, "HERMITD_TLS_CERT";
    /// PEM file with the private key of that certificate, not encrypted. It should be readable by the broker's user alone.
    tls_key: PathBuf, "HERMITD_TLS_KEY";
    /// PEM file with the authorities whose client certificates are believed. Default: none; then clients are not asked for one.
    tls_client_ca: PathBuf, "HERMITD_TLS_CLIENT_CA";
    /// Whether clients must show a certificate of `tls_client_ca`: `optional` or `required`. Default: `optional`; one that is shown must be valid all the same.
    tls_client_auth: ClientAuthName, "HERMITD_TLS_CLIENT_AUTH";
    /// What an answered message survives, in topics whose creator does not say. Default: `sync`. With `os` a power cut can take back what was answered.
    durability: DurabilityName, "HERMITD_DURABILITY";
    /// Milliseconds that answered messages of a topic with durability `os` may stay unflushed, where 64 MiB do not come first. Default: 1000.
    os_flush_interval_ms: u64, "HERMITD_OS_FLUSH_INTERVAL_MS";
    /// What is done with a data directory of an older HermitMQ: `auto` takes it over at start, `never` refuses to start. Default: `auto`. The old files are kept in both cases.
    import: ImportName, "HERMITD_IMPORT";
    /// Whether producing to a topic that is not there creates it. Default: true.
    create_topics: bool, "HERMITD_CREATE_TOPICS";
    /// Partitions of a topic whose creator does not say. Default: 1.
    default_partitions: u32, "HERMITD_DEFAULT_PARTITIONS";
    /// Bytes at which a segment is rolled. Default: 268435456 (256 MiB); from 65536 to 2147483648. Retention frees space in these steps.
    segment_bytes: u64, "HERMITD_SEGMENT_BYTES";
    /// Milliseconds after which records are deleted. Default: never.
    retention_age_ms: u64, "HERMITD_RETENTION_AGE_MS";
    /// Bytes of a partition beyond which its oldest segments are deleted. Default: no limit.
    retention_bytes: u64, "HERMITD_RETENTION_BYTES";
    /// Seconds between two rounds of retention and compaction. Default: 60.
    maintenance_interval_s: u64, "HERMITD_MAINTENANCE_INTERVAL_S";
    /// Bytes of closed segments that are read and verified in a second, at most, while clients leave the disk alone. Default: 8388608 (8 MiB); 0: none ever.
    scrub_bytes_per_second: u64, "HERMITD_SCRUB_BYTES_PER_SECOND";
    /// Seconds from one such pass over all partitions to the next. Default: 604800 (7 days).
    scrub_interval_s: u64, "HERMITD_SCRUB_INTERVAL_S";
    /// Most bytes of key and payload together in a frame. Default: 52428800 (50 MiB). A connection can make the broker hold about twice as much.
    max_frame_bytes: u32, "HERMITD_MAX_FRAME_BYTES";
    /// Most records in a frame. Default: 1000000.
    max_record_count: u32, "HERMITD_MAX_RECORD_COUNT";
    /// Most connections at a time. Default: 10000. An idle one costs some KiB and a file descriptor.
    max_connections: usize, "HERMITD_MAX_CONNECTIONS";
    /// Most connections at a time from one address (IPv6: from one /64 network). Default: 5000. Behind a proxy or an address translation all clients are one address: set it to `max_connections` there.
    max_connections_per_address: usize, "HERMITD_MAX_CONNECTIONS_PER_ADDRESS";
    /// Most connections that have not finished their handshake, not counted among `max_connections`. Default: 1000. One more closes the oldest of the address that has most. One costs 16 KiB at most, and a file descriptor.
    max_handshakes: usize, "HERMITD_MAX_HANDSHAKES";
    /// Bytes in a second below which the sender of a frame over 64 KiB gives way to others that wait for room. Default: 4194304 (4 MiB); at least 1024. A large one closes senders on slow lines under load.
    min_large_frame_rate: u64, "HERMITD_MIN_LARGE_FRAME_RATE";
    /// Most bytes received and not yet written, over all connections. Default: 268435456 (256 MiB). At the limit the broker stops reading.
    max_inflight_bytes: u64, "HERMITD_MAX_INFLIGHT_BYTES";
    /// Most subscriptions in one session. Default: 1024.
    max_subscriptions: u32, "HERMITD_MAX_SUBSCRIPTIONS";
    /// Most partitions of one topic. Default: 1024.
    max_partitions: u32, "HERMITD_MAX_PARTITIONS";
    /// Most consumer groups that have members at a time. Default: 10000.
    max_active_groups: u32, "HERMITD_MAX_ACTIVE_GROUPS";
    /// Most members of one consumer group. Default: 1000.
    max_group_members: u32, "HERMITD_MAX_GROUP_MEMBERS";
    /// Most topics and patterns together that a member of a group subscribes to. Default: 256. Patterns cost up to 2 MiB a member.
    max_member_subscriptions: u32, "HERMITD_MAX_MEMBER_SUBSCRIPTIONS";
    /// Most bytes of a pattern for names of topics. Default: 1024.
    max_pattern_bytes: u32, "HERMITD_MAX_PATTERN_BYTES";
    /// Most committed positions of one group. Default: 100000.
    max_group_positions: usize, "HERMITD_MAX_GROUP_POSITIONS";
    /// Most bytes that the members of all groups take together, counted roughly. Default: 268435456 (256 MiB); at least 65536.
    max_membership_bytes: u64, "HERMITD_MAX_MEMBERSHIP_BYTES";
    /// Shortest session timeout that a member of a group may ask for, in milliseconds. Default: 1000. A short one puts out members that only pause.
    min_session_timeout_ms: u64, "HERMITD_MIN_SESSION_TIMEOUT_MS";
    /// Session timeout of members that do not ask for one, in milliseconds. Default: 10000.
    default_session_timeout_ms: u64, "HERMITD_DEFAULT_SESSION_TIMEOUT_MS";
    /// Longest session timeout that a member may ask for, in milliseconds. Default: 1800000 (30 min). So long a member that vanished keeps its partitions.
    max_session_timeout_ms: u64, "HERMITD_MAX_SESSION_TIMEOUT_MS";
    /// Shortest processing timeout that a member of a group may ask for, in milliseconds. Default: 1000.
    min_processing_timeout_ms: u64, "HERMITD_MIN_PROCESSING_TIMEOUT_MS";
    /// Processing timeout of members that do not ask for one, in milliseconds: in this time they give up what another member shall have. Default: 300000 (5 min).
    default_processing_timeout_ms: u64, "HERMITD_DEFAULT_PROCESSING_TIMEOUT_MS";
    /// Longest processing timeout that a member may ask for, in milliseconds. Default: 86400000 (24 h).
    max_processing_timeout_ms: u64, "HERMITD_MAX_PROCESSING_TIMEOUT_MS";
    /// Milliseconds that a new consumer group waits for more members before its partitions are divided. Default: 100.
    group_initial_delay_ms: u64, "HERMITD_GROUP_INITIAL_DELAY_MS";
    /// The same where its first members held partitions before, as after a restart of the broker. Default: 3000.
    group_return_delay_ms: u64, "HERMITD_GROUP_RETURN_DELAY_MS";
    /// Milliseconds after which the positions of a group are deleted that has had neither members nor commits, counted anew from a start of the broker. Default: never.
    offsets_retention_ms: u64, "HERMITD_OFFSETS_RETENTION_MS";
    /// Log files open at a time. Default: 2048; at least 16. Connections need descriptors besides.
    max_open_files: usize, "HERMITD_MAX_OPEN_FILES";
    /// Milliseconds for the whole handshake of a connection. Default: 5000.
    handshake_timeout_ms: u64, "HERMITD_HANDSHAKE_TIMEOUT_MS";
    /// Milliseconds in which a frame once begun must bring another byte. Default: 30000.
    frame_timeout_ms: u64, "HERMITD_FRAME_TIMEOUT_MS";
    /// Milliseconds in which a version-2 client must take a byte of what is sent. Default: 60000.
    write_timeout_ms: u64, "HERMITD_WRITE_TIMEOUT_MS";
    /// Milliseconds of silence after which a version-2 client should send a heartbeat; after three times that it is cut off. Default: 10000; 0: never.
    heartbeat_interval_ms: u64, "HERMITD_HEARTBEAT_INTERVAL_MS";
    /// Milliseconds that a graceful stop gives connections to get their answers. Default: 10000.
    drain_timeout_ms: u64, "HERMITD_DRAIN_TIMEOUT_MS";
    /// Free bytes on the disk below which produce requests are refused. Default: 67108864 (64 MiB); 0: only when the disk is full.
    disk_low_bytes: u64, "HERMITD_DISK_LOW_BYTES";
    /// Free bytes from which on they are taken again. Default: twice `disk_low_bytes`.
    disk_high_bytes: u64, "HERMITD_DISK_HIGH_BYTES";
    /// Threads that serve connections. Default: 2; from 1 to 1024.
    threads: usize, "HERMITD_THREADS";
    /// Threads that sync. Default: 4; from 1 to 1024.
    flush_threads: usize, "HERMITD_FLUSH_THREADS";
    /// What is logged: `off`, `error`, `warn`, `info`, `debug` or `trace`, and, behind commas, `target=level` for parts. Default: `info`.
    log: String, "HERMITD_LOG";
}

impl Given {
    /// Fills in the defaults, and checks the values against each other.
    pub(super) fn settle(self) -> anyhow::Result<Settings> {
        self.check_ranges()?;
        let threads = self.threads.unwrap_or(2);
        let mut broker = BrokerConfig::new(self.data_dir.clone().unwrap_or_else(|| "./hermit-data".into()));
        let topics = TopicSettings::default();
        broker.topic_defaults = TopicSettings {
            durability: match self.durability {
                None | Some(DurabilityName::Sync) => Durability::Sync,
                Some(DurabilityName::Os) => Durability::Os,
            },
            segment_bytes: self.segment_bytes.unwrap_or(topics.segment_bytes),
            retention_age_ms: self.retention_age_ms.unwrap_or(topics.retention_age_ms),
            retention_bytes: self.retention_bytes.unwrap_or(topics.retention_bytes),
            ..topics
        };
        set(&mut broker.log.os_flush_interval, self.os_flush_interval_ms.map(Duration::from_millis));
        set(&mut broker.create_topics, self.create_topics);
        set(&mut broker.default_partitions, self.default_partitions);
        set(&mut broker.maintenance_interval, self.maintenance_interval_s.map(Duration::from_secs));
        set(&mut broker.scrub_bytes_per_second, self.scrub_bytes_per_second);
        set(&mut broker.scrub_interval, self.scrub_interval_s.map(Duration::from_secs));
        set(&mut broker.max_open_files, self.max_open_files);
        set(&mut broker.flush_threads, self.flush_threads);
        broker.offsets_retention = self.offsets_retention_ms.map(Duration::from_millis);
        let limits = &mut broker.limits;
        if let Some(bytes) = self.max_frame_bytes {
            limits.max_frame_bytes = bytes;
            // A request must hold the largest frame, and the budget the largest request.
            limits.max_request_bytes = limits.max_request_bytes.max(bytes.saturating_add(REQUEST_ROOM));
        }
        set(&mut limits.max_record_count, self.max_record_count);
        set(&mut limits.max_connections, self.max_connections);
        set(&mut limits.max_connections_per_address, self.max_connections_per_address);
        set(&mut limits.max_handshakes, self.max_handshakes);
        set(&mut limits.min_large_frame_rate, self.min_large_frame_rate);
        set(&mut limits.max_inflight_bytes, self.max_inflight_bytes);
        set(&mut limits.max_subscriptions, self.max_subscriptions);
        set(&mut limits.max_partitions, self.max_partitions);
        self.settle_groups(limits);
        set(&mut limits.handshake_timeout, self.handshake_timeout_ms.map(Duration::from_millis));
        set(&mut limits.frame_timeout, self.frame_timeout_ms.map(Duration::from_millis));
        set(&mut limits.write_timeout, self.write_timeout_ms.map(Duration::from_millis));
        set(&mut limits.heartbeat_interval, self.heartbeat_interval_ms.map(Duration::from_millis));
        set(&mut limits.drain_timeout, self.drain_timeout_ms.map(Duration::from_millis));
        if let Some(low) = self.disk_low_bytes {
            limits.disk_low_bytes = low;
            limits.disk_high_bytes = low.saturating_mul(2);
        }
        set(&mut limits.disk_high_bytes, self.disk_high_bytes);
        self.settle_access(&mut broker.access)?;
        broker.tls = self.settle_tls()?;
        check_dir(&broker.data_dir)?;
        check_frame_fits(&broker.limits)?;
        broker.check()?;
        let listen = self.listen.unwrap_or_else(|| "127.0.0.1:9092".into());
        check_address(&listen)?;
        let log = self.log.unwrap_or_else(|| "info".into());
        super::log::check(&log)?;
        let import = self.import.unwrap_or(ImportName::Auto);
        let insecure = self.insecure.unwrap_or(false);
        Ok(Settings { broker, listen, insecure, threads, log, import, notes: Vec::new() })
    }

    fn settle_groups(&self, limits: &mut Limits) {
        set(&mut limits.max_active_groups, self.max_active_groups);
        set(&mut limits.max_group_members, self.max_group_members);
        set(&mut limits.max_member_subscriptions, self.max_member_subscriptions);
        set(&mut limits.max_pattern_bytes, self.max_pattern_bytes);
        set(&mut limits.max_group_positions, self.max_group_positions);
        set(&mut limits.max_membership_bytes, self.max_membership_bytes);
        set(&mut limits.min_session_timeout, self.min_session_timeout_ms.map(Duration::from_millis));
        set(&mut limits.default_session_timeout, self.default_session_timeout_ms.map(Duration::from_millis));
        set(&mut limits.max_session_timeout, self.max_session_timeout_ms.map(Duration::from_millis));
        set(&mut limits.min_processing_timeout, self.min_processing_timeout_ms.map(Duration::from_millis));
        set(&mut limits.default_processing_timeout, self.default_processing_timeout_ms.map(Duration::from_millis));
        set(&mut limits.max_processing_timeout, self.max_processing_timeout_ms.map(Duration::from_millis));
        set(&mut limits.group_initial_delay, self.group_initial_delay_ms.map(Duration::from_millis));
        set(&mut limits.group_return_delay, self.group_return_delay_ms.map(Duration::from_millis));
    }

    /// Every setting as it holds. None of them is a secret; one that is must be left out here.
    fn as_settled(settings: &Settings, broker: &BrokerConfig) -> Self {
        let Settings { listen, insecure, threads, log, import, .. } = settings;
        let BrokerConfig { topic_defaults: topics, limits, .. } = broker;
        let tls = broker.tls.as_ref();
        let ms = |time: Duration| Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let unless_never = |value: u64| (value != NEVER).then_some(value);
        Self {
            data_dir: Some(broker.data_dir.clone()),
            listen: Some(listen.clone()),
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

impl Given {
    /// Refuses values that would make the broker useless, or more than a machine has.
    fn check_ranges(&self) -> anyhow::Result<()> {
        let files = self.max_open_files.map(|files| files as u64);
        within("threads", self.threads.map(|threads| threads as u64), 1..=MOST_THREADS)?;
        within("flush_threads", self.flush_threads.map(|threads| threads as u64), 1..=MOST_THREADS)?;
        within("max_open_files", files, descriptors::FEWEST_FILES as u64..=u64::from(u32::MAX))?;
        within("os_flush_interval_ms", self.os_flush_interval_ms, 1..=HOUR_MS)?;
        within("maintenance_interval_s", self.maintenance_interval_s, 1..=YEAR_MS / 1000)?;
        within("scrub_interval_s", self.scrub_interval_s, 1..=YEAR_MS / 1000)?;
        within("handshake_timeout_ms", self.handshake_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("frame_timeout_ms", self.frame_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("write_timeout_ms", self.write_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("drain_timeout_ms", self.drain_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("max_session_timeout_ms", self.max_session_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("max_processing_timeout_ms", self.max_processing_timeout_ms, SHORTEST_MS..=YEAR_MS)?;
        within("group_initial_delay_ms", self.group_initial_delay_ms, 0..=HOUR_MS)?;
        within("group_return_delay_ms", self.group_return_delay_ms, 0..=HOUR_MS)?;
        within("heartbeat_interval_ms", self.heartbeat_interval_ms, 0..=YEAR_MS)
    }
}

/// What a request may be larger than the largest frame.
const REQUEST_ROOM: u32 = 1 << 20;
/// More threads are a slip of the keyboard.
const MOST_THREADS: u64 = 1024;
/// A shorter timeout cuts off clients that are merely far away.
const SHORTEST_MS: u64 = 100;
/// Whoever wants more than an hour unflushed wants no flush at all.
const HOUR_MS: u64 = 3600 * 1000;
const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

fn within(name: &str, value: Option<u64>, allowed: RangeInclusive<u64>) -> anyhow::Result<()> {
    match value {
        Some(value) if !allowed.contains(&value) => {
            bail!("`{name}` is {value}: it must be at least {} and at most {}", allowed.start(), allowed.end())
        }
        _ => Ok(()),
    }
}

/// Refuses a largest frame that cannot be received, in terms of settings: the largest request is none, and follows the frame.
fn check_frame_fits(limits: &Limits) -> anyhow::Result<()> {
    let frame = u64::from(limits.max_frame_bytes);
    within("max_frame_bytes", Some(frame), 1024..=u64::from(u32::MAX - REQUEST_ROOM))?;
    let least = u64::from(limits.max_request_bytes) + (64 << 10);
    if limits.max_inflight_bytes < least {
        let inflight = limits.max_inflight_bytes;
        bail!(
            "`max_inflight_bytes` is {inflight}: with `max_frame_bytes` of {frame} it must be at least {least}; raise it, or lower `max_frame_bytes`"
        );
    }
    Ok(())
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

fn check_address(listen: &str) -> anyhow::Result<()> {
    match listen.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => Ok(()),
        _ => bail!("`listen` is `{listen}`: give an address and a port, such as 127.0.0.1:9092"),
    }
}

fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let address = inner.unwrap_or(host).split('%').next().unwrap_or_default();
    let is_name = || !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    address.parse::<std::net::Ipv6Addr>().is_ok() || (inner.is_none() && is_name())
}

fn check_dir(dir: &Path) -> anyhow::Result<()> {
    if dir.as_os_str().is_empty() || dir.as_os_str().as_encoded_bytes().contains(&0) {
        bail!("`data_dir` is {dir:?}: name a directory, such as ./hermit-data");
    }
    Ok(())
}
