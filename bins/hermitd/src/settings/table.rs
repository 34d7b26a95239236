//! The one table of settings: what each is called, what it means, and what it is when nobody says.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

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
            pub(super) fn described(&self) -> Vec<(String, String)> {
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
    /// Address and port for HTTP: health, metrics and the JSON API; port 0 takes any, `off` takes none. Default: `127.0.0.1:15672`; where another process has that, the broker starts without HTTP and says so.
    http: String, "HERMITD_HTTP";
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
