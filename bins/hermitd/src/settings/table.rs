//! The one table of settings: what each is called, what it means, what it may be, and when a change of it counts.

use std::path::PathBuf;
use std::sync::LazyLock;

use super::in_force::NamedValue;
use super::quantity::{Bytes, OrNever, Rate, Time};
use super::value::{Raw, Value, read, words};

words! {
    /// What an answered message survives.
    pub(super) DurabilityName, "sync|os" {
        /// A power cut: answered when on disk.
        Sync = "sync",
        /// A crash of the broker, not of the machine: answered when the operating system has it.
        Os = "os",
    }
}

words! {
    /// What is done with a data directory of an older HermitMQ.
    pub(crate) ImportName, "auto|never" {
        /// It is taken over.
        Auto = "auto",
        /// The start is refused.
        Never = "never",
    }
}

words! {
    /// Whether connections go through TLS.
    pub(super) TlsName, "off|optional|required" {
        /// None does.
        Off = "off",
        /// As the client likes.
        Optional = "optional",
        /// All do.
        Required = "required",
    }
}

words! {
    /// Whether clients show a certificate.
    pub(super) ClientAuthName, "optional|required" {
        /// As they like.
        Optional = "optional",
        /// They must.
        Required = "required",
    }
}

words! {
    /// A setting that is on or off.
    pub(super) SwitchName, "on|off" {
        /// It is not in force.
        Off = "off",
        /// It is in force.
        On = "on",
    }
}

words! {
    /// How lines of the log are written.
    pub(crate) LogFormatName, "text|json" {
        /// To be read by people.
        Text = "text",
        /// An object of JSON in a line each.
        Json = "json",
    }
}

/// From when on a value that SIGHUP brings counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// At once, also for what is there.
    AtOnce,
    /// For connections that come from then on.
    NewConnections,
    /// For topics that are created from then on.
    NewTopics,
    /// At the next start.
    Restart,
}

impl Change {
    pub(crate) const fn told(self) -> &'static str {
        match self {
            Self::AtOnce => "at once",
            Self::NewConnections => "for new connections",
            Self::NewTopics => "for new topics",
            Self::Restart => "at a restart",
        }
    }
}

/// What is known of a setting without its value.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// Without the dashes in front.
    pub(super) flag: String,
    /// The name and the unit that it had before values had units.
    pub(super) former: Option<(&'static str, &'static str)>,
    pub(super) meaning: &'static str,
    pub(super) placeholder: &'static str,
    /// The smallest and the largest value, as they could be written.
    pub(super) range: Option<(String, Option<String>)>,
    pub(crate) change: Change,
    /// Whether a topic can have its own.
    pub(super) is_per_topic: bool,
    /// Whether the flag alone stands for `true`.
    pub(super) is_switch: bool,
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident : $type:ty, $change:ident
        $(, range $range:expr)? $(, former $former:literal in $unit:literal)? $(, per_topic $per_topic:literal)? $(, switch $switch:literal)?;)+) => {
        /// What somebody has said about each setting.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub(super) struct Given {
            $($(#[doc = $doc])+ pub(super) $name: Option<$type>,)+
        }

        impl Given {
            /// Takes a value for the setting of this name; `None` where there is no such setting.
            pub(super) fn take(&mut self, name: &str, raw: Raw<'_>) -> Option<Result<(), String>> {
                match name {
                    $(stringify!($name) => {
                        let range = { let range: &[(u64, u64)] = &[$($range)?]; range.first().copied() };
                        Some(read::<$type>(raw, range).map(|value| self.$name = Some(value)))
                    })+
                    _ => None,
                }
            }

            /// Names and values as they could stand in the settings file, in the order of the table.
            pub(super) fn shown(&self) -> Vec<NamedValue> {
                vec![$((stringify!($name), self.$name.as_ref().map(Value::shown)),)+]
            }
        }

        /// Every setting, in the order of the manual.
        pub(crate) fn settings() -> &'static [Setting] {
            static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| vec![$({
                let range: &[(u64, u64)] = &[$($range)?];
                let former: &[(&'static str, &'static str)] = &[$(($former, $unit))?];
                let bound = <$type as Value>::bound;
                Setting {
                    name: stringify!($name),
                    flag: stringify!($name).replace('_', "-"),
                    former: former.first().copied(),
                    meaning: concat!($($doc),+).trim_ascii(),
                    placeholder: <$type as Value>::PLACEHOLDER,
                    range: range.first().map(|(least, most)| (bound(*least), (*most != u64::MAX).then(|| bound(*most)))),
                    change: Change::$change,
                    is_per_topic: false $(|| $per_topic)?,
                    is_switch: false $(|| $switch)?,
                }
            },)+]);
            &SETTINGS
        }
    };
}

/// More threads are a slip of the keyboard.
const THREADS: (u64, u64) = (1, 1024);
/// A shorter timeout cuts off clients that are merely far away.
const TIMEOUT: (u64, u64) = (100, YEAR_MS);
const GROUP_TIMEOUT: (u64, u64) = (1, YEAR_MS);
const DELAY: (u64, u64) = (0, HOUR_MS);
const INTERVAL: (u64, u64) = (1000, YEAR_MS);
const AT_LEAST_ONE: (u64, u64) = (1, u64::MAX);
/// Whoever wants more than an hour unflushed wants no flush at all.
const HOUR_MS: u64 = 3600 * 1000;
const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
/// What a request may be larger than the largest frame.
pub(super) const REQUEST_ROOM: u32 = 1 << 20;
const FRAME: (u64, u64) = (1024, (u32::MAX - REQUEST_ROOM) as u64);
/// The flush that writes it takes as long as its bytes do.
const PREALLOCATE: (u64, u64) = (0, 64 << 20);
const SEGMENT: (u64, u64) = (hermit_broker::MIN_SEGMENT_BYTES, hermit_broker::MAX_SEGMENT_BYTES);
const FILES: (u64, u64) = (crate::descriptors::FEWEST_FILES as u64, u32::MAX as u64);

settings! {
    /// Where everything is kept.
    data_dir: PathBuf, Restart;
    /// Address and port to listen on; port 0 takes any.
    listen: String, Restart;
    /// Address and port for HTTP: health, metrics and the JSON API; port 0 takes any, `off` takes none. Where another process has the default, the broker starts without HTTP and says so.
    http: String, Restart;
    /// Names that clients call this machine by over HTTP, with commas between, besides its addresses, `localhost`, the name of `http` and the machine's own. Without `authentication` requests under others are refused: a page in a browser could have any name stand for this machine.
    http_names: String, Restart;
    /// Whether HTTP goes through TLS, on the same port: `off`, `optional` or `required`. Default: as `tls`; `optional` where `http_tls_cert` is set. Health is told without it in any case.
    http_tls: TlsName, NewConnections;
    /// PEM file with the certificate for HTTP, as `tls_cert`. Default: that of `tls_cert`. Clients show certificates as for `tls`.
    http_tls_cert: PathBuf, NewConnections;
    /// PEM file with the private key of `http_tls_cert`. Default: that of `tls_key`.
    http_tls_key: PathBuf, NewConnections;
    /// Whether clients have to log in, and may do only what rules allow. While it is off everybody may do everything, and `listen` must be a loopback address.
    authentication: SwitchName, Restart;
    /// Whether other machines may connect without `authentication`, and log in with passwords over connections without TLS. Whoever reaches the port then does as he likes, or reads along.
    insecure: bool, Restart, switch true;
    /// The user as whom clients of protocol version 1 act, which cannot log in, where `authentication` is on. Without it they are turned away. Whoever reaches the port is that user.
    v1_principal: String, Restart;
    /// Whether connections go through TLS, on the same port: `off`, `optional` (as the client begins) or `required` (others are closed). Default: `optional` where `tls_cert` is set, else `off`.
    tls: TlsName, NewConnections;
    /// PEM file with the broker's certificate, and behind it those that lead to its authority. Read again on SIGHUP, as the next two are.
    tls_cert: PathBuf, NewConnections;
    /// PEM file with the private key of that certificate, not encrypted. It should be readable by the broker's user alone.
    tls_key: PathBuf, NewConnections;
    /// PEM file with the authorities whose client certificates are believed. Without it clients are not asked for one.
    tls_client_ca: PathBuf, NewConnections;
    /// Whether clients must show a certificate of `tls_client_ca`: `optional` or `required`. Default: `optional`; one that is shown must be valid all the same.
    tls_client_auth: ClientAuthName, NewConnections;
    /// What an answered message survives, in topics whose creator does not say. With `os` a power cut can take back what was answered.
    durability: DurabilityName, NewTopics, per_topic true;
    /// Bytes of answered messages of a partition with durability `os` that start a flush before `os_flush_interval` is over. More at a time can hold up producers for tens of milliseconds; less costs more flushes.
    os_flush_bytes: Bytes, Restart, range AT_LEAST_ONE;
    /// Time that answered messages of a topic with durability `os` may stay unflushed, where `os_flush_bytes` do not come first.
    os_flush_interval: Time, Restart, range (1, HOUR_MS), former "os_flush_interval_ms" in "ms";
    /// The most bytes that are written ahead of the end of a partition with durability `sync` while it is flushed often, so that a flush writes the messages and nothing else; `0` for none. At least a sixteenth of it is written at a time. Given back by the first round of `maintenance_interval` that finds that nothing came for ten seconds. Used on ext4 and xfs.
    preallocate_bytes: Bytes, Restart, range PREALLOCATE;
    /// What is done with a data directory of an older HermitMQ: `auto` takes it over at start, `never` refuses to start. The old files are kept in both cases.
    import: ImportName, Restart;
    /// Whether producing to a topic that is not there creates it.
    create_topics: bool, AtOnce;
    /// Partitions of a topic whose creator does not say.
    default_partitions: u32, NewTopics, range AT_LEAST_ONE;
    /// Bytes at which a segment is rolled, in topics whose creator does not say. Retention frees space in these steps.
    segment_bytes: Bytes, NewTopics, range SEGMENT, per_topic true;
    /// Time after which records are deleted, in topics that have no such time of their own, or `"never"`.
    retention_age: OrNever<Time>, AtOnce, range AT_LEAST_ONE, former "retention_age_ms" in "ms", per_topic true;
    /// Bytes of a partition beyond which its oldest segments are deleted, in topics that have no such limit of their own, or `"never"`.
    retention_bytes: OrNever<Bytes>, AtOnce, range AT_LEAST_ONE, per_topic true;
    /// Time between two rounds of retention and compaction.
    maintenance_interval: Time, AtOnce, range INTERVAL, former "maintenance_interval_s" in "s";
    /// Bytes of closed segments that are read and verified in a second, at most, while clients leave the disk alone. 0: none ever.
    scrub_bytes_per_second: Rate, Restart;
    /// Time from one such pass over all partitions to the next.
    scrub_interval: Time, Restart, range INTERVAL, former "scrub_interval_s" in "s";
    /// Most bytes of key and payload together in a frame. A connection can make the broker hold about twice as much.
    max_frame_bytes: Bytes, Restart, range FRAME;
    /// Most records in a frame.
    max_record_count: u32, Restart, range AT_LEAST_ONE;
    /// Most connections at a time. An idle one costs some KiB and a file descriptor.
    max_connections: usize, AtOnce, range AT_LEAST_ONE;
    /// Most connections at a time from one address (IPv6: from one /64 network). Behind a proxy or an address translation all clients are one address: set it to `max_connections` there.
    max_connections_per_address: usize, AtOnce, range AT_LEAST_ONE;
    /// Most connections that have not finished their handshake, not counted among `max_connections`. One more closes the oldest of the address that has most. One costs 16 KiB at most, and a file descriptor.
    max_handshakes: usize, AtOnce, range AT_LEAST_ONE;
    /// Bytes in a second below which the sender of a frame over 64 KiB gives way to others that wait for room. A large one closes senders on slow lines under load.
    min_large_frame_rate: Rate, Restart, range (1024, u64::MAX);
    /// Most bytes received and not yet written, over all connections. At the limit the broker stops reading.
    max_inflight_bytes: Bytes, Restart;
    /// Most subscriptions in one session.
    max_subscriptions: u32, NewConnections, range AT_LEAST_ONE;
    /// Most partitions of one topic. Topics that have more keep them.
    max_partitions: u32, AtOnce, range AT_LEAST_ONE;
    /// Most consumer groups that have members at a time.
    max_active_groups: u32, AtOnce, range AT_LEAST_ONE;
    /// Most members of one consumer group.
    max_group_members: u32, AtOnce, range AT_LEAST_ONE;
    /// Most topics and patterns together that a member of a group subscribes to. Patterns cost up to 2 MiB a member.
    max_member_subscriptions: u32, AtOnce, range AT_LEAST_ONE;
    /// Most bytes of a pattern for names of topics.
    max_pattern_bytes: u32, AtOnce, range AT_LEAST_ONE;
    /// Most committed positions of one group.
    max_group_positions: usize, Restart, range AT_LEAST_ONE;
    /// Most bytes that the members of all groups take together, counted roughly.
    max_membership_bytes: Bytes, AtOnce, range (64 << 10, u64::MAX);
    /// Shortest session timeout that a member of a group may ask for. A short one puts out members that only pause.
    min_session_timeout: Time, AtOnce, range (10, YEAR_MS), former "min_session_timeout_ms" in "ms";
    /// Session timeout of members that do not ask for one.
    default_session_timeout: Time, AtOnce, range (10, YEAR_MS), former "default_session_timeout_ms" in "ms";
    /// Longest session timeout that a member may ask for. So long a member that vanished keeps its partitions.
    max_session_timeout: Time, AtOnce, range TIMEOUT, former "max_session_timeout_ms" in "ms";
    /// Shortest processing timeout that a member of a group may ask for.
    min_processing_timeout: Time, AtOnce, range GROUP_TIMEOUT, former "min_processing_timeout_ms" in "ms";
    /// Processing timeout of members that do not ask for one: in this time they give up what another member shall have.
    default_processing_timeout: Time, AtOnce, range GROUP_TIMEOUT, former "default_processing_timeout_ms" in "ms";
    /// Longest processing timeout that a member may ask for.
    max_processing_timeout: Time, AtOnce, range TIMEOUT, former "max_processing_timeout_ms" in "ms";
    /// Time that a new consumer group waits for more members before its partitions are divided.
    group_initial_delay: Time, AtOnce, range DELAY, former "group_initial_delay_ms" in "ms";
    /// The same where its first members held partitions before, as after a restart of the broker.
    group_return_delay: Time, AtOnce, range DELAY, former "group_return_delay_ms" in "ms";
    /// Time after which the positions of a group are deleted that has had neither members nor commits, counted anew from a start of the broker, or `"never"`.
    offsets_retention: OrNever<Time>, AtOnce, range AT_LEAST_ONE, former "offsets_retention_ms" in "ms";
    /// Log files open at a time. Connections need descriptors besides.
    max_open_files: usize, Restart, range FILES;
    /// Time for the whole handshake of a connection.
    handshake_timeout: Time, NewConnections, range TIMEOUT, former "handshake_timeout_ms" in "ms";
    /// Time in which a frame once begun must bring another byte.
    frame_timeout: Time, NewConnections, range TIMEOUT, former "frame_timeout_ms" in "ms";
    /// Time in which a version-2 client must take a byte of what is sent.
    write_timeout: Time, NewConnections, range TIMEOUT, former "write_timeout_ms" in "ms";
    /// Time of silence after which a version-2 client should send a heartbeat; after three times that it is cut off. 0: never.
    heartbeat_interval: Time, NewConnections, range (0, YEAR_MS), former "heartbeat_interval_ms" in "ms";
    /// Time that a graceful stop gives connections to get their answers.
    drain_timeout: Time, AtOnce, range TIMEOUT, former "drain_timeout_ms" in "ms";
    /// Free bytes on the disk below which produce requests are refused. 0: only when the disk is full.
    disk_low_bytes: Bytes, AtOnce;
    /// Free bytes from which on they are taken again. Default: twice `disk_low_bytes`.
    disk_high_bytes: Bytes, AtOnce;
    /// Threads that serve connections.
    threads: usize, Restart, range THREADS;
    /// Threads that sync.
    flush_threads: usize, Restart, range THREADS;
    /// What is logged: `off`, `error`, `warn`, `info`, `debug` or `trace`, and, behind commas, `target=level` for parts.
    log: String, AtOnce;
    /// How each line of the log is written: `text`, or `json` for programs: an object with `timestamp`, `level`, `message` and `target`, and beside them the event's own fields.
    log_format: LogFormatName, Restart;
    /// Whether `/metrics` shows each partition, some 15 series of 100 bytes, and not only topics and groups. To be switched off where there are more partitions than Prometheus should keep.
    metrics_per_partition: bool, AtOnce;
    /// URL of an OpenTelemetry collector, such as `http://127.0.0.1:4318`: metrics are posted to `/v1/metrics` below it, and the events of the log to `/v1/logs`, as OTLP in JSON. Empty: nothing is sent. It is shown as it is: secrets belong into `otlp_headers_file`.
    otlp_endpoint: String, Restart;
    /// Time between two times that metrics are sent to `otlp_endpoint`. Events go within half a second.
    otlp_interval: Time, Restart, range (1000, HOUR_MS);
    /// File with headers for `otlp_endpoint`, `name: value` in a line each, such as `authorization: Bearer …`. It should be readable by the broker's user alone.
    otlp_headers_file: PathBuf, Restart;
    /// PEM file with the authorities that are believed where `otlp_endpoint` begins with `https://`. Default: those that the operating system knows.
    otlp_tls_ca: PathBuf, Restart;
    /// What the collector is told as `service.name`, which Prometheus calls the job.
    otlp_service_name: String, Restart;
    /// What it is told as `service.instance.id`, which must be another one for each broker. Default: the machine's name and the port of `listen`.
    otlp_instance: String, Restart;
}
