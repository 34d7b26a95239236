//! The table of all metrics. What is exported is here and nowhere else: the exporter cannot name another one, and the manual's table is made from this.

/// What a metric's value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only rises, while the process and what the labels name live. Shown with `_total` behind the name.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Durations by buckets.
    Histogram,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    /// Its name, without what the kind adds.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) labels: &'static [&'static str],
    /// One sentence, without line ends, backslashes and quotes.
    pub(crate) help: &'static str,
}

macro_rules! families {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(pub(crate) const $constant: Family = Family { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)+
        /// All metrics, in the order in which they are shown.
        pub(crate) const ALL: &[Family] = &[$($constant),+];
    };
}

families! {
    BUILD_INFO = Gauge "hermit_build_info" ["version"] "The release of the broker; always 1.";
    START_TIME = Gauge "hermit_start_time_seconds" [] "When the data directory was opened, in seconds since the Unix epoch.";
    TOPICS = Gauge "hermit_topics" [] "Topics, the internal ones too.";
    PARTITIONS = Gauge "hermit_partitions" ["health"] "Partitions: good ones, those that are read_only until a restart, and those that are down as they could not be opened.";
    PARTITIONS_DAMAGED = Gauge "hermit_partitions_damaged" [] "Partitions with ranges that are known to be damaged.";

    CONNECTIONS = Gauge "hermit_connections" ["state"] "Connections that are open, or in their handshake.";
    CONNECTIONS_LIMIT = Gauge "hermit_connections_limit" [] "Most connections that may be open.";
    CONNECTIONS_ACCEPTED = Counter "hermit_connections_accepted" [] "Connections that were taken from the system.";
    ACCEPT_ERRORS = Counter "hermit_accept_errors" [] "Times that the system gave no connection where one was waiting, for want of descriptors mostly.";
    CONNECTIONS_CLOSED = Counter "hermit_connections_closed" ["reason"] "Connections that have ended: max_... are the limits that turned some away.";
    LOGINS = Counter "hermit_logins" ["kind"] "Logins that were good.";
    LOGIN_FAILURES = Counter "hermit_login_failures" ["reason"] "Logins that were refused; throttled ones were not looked at.";
    REQUEST_ERRORS = Counter "hermit_request_errors" ["status"] "Requests that were answered with an error, and subscriptions that one has ended, by the status on the wire.";
    HTTP_RESPONSES = Counter "hermit_http_responses" ["code"] "Answers over HTTP, by their status.";

    CERTIFICATE_END = Gauge "hermit_tls_certificate_expiry_timestamp_seconds" ["port"] "When the TLS certificate of the port, native or http, ends to be valid, in seconds since the Unix epoch; only with TLS.";

    MEMORY_USED = Gauge "hermit_memory_budget_used_bytes" [] "Bytes that were received and not yet handed on.";
    MEMORY_LIMIT = Gauge "hermit_memory_budget_limit_bytes" [] "Most of them that may be held: max_inflight_bytes.";
    DISK_FREE = Gauge "hermit_disk_free_bytes" [] "Bytes that can be written to the file system of the data directory.";
    DISK_SIZE = Gauge "hermit_disk_size_bytes" [] "Size of the file system of the data directory.";
    DISK_THRESHOLD = Gauge "hermit_disk_threshold_bytes" [] "Below so many free bytes produce requests are refused: disk_low_bytes.";
    DISK_LOW = Gauge "hermit_disk_low" [] "1 while produce requests are refused for want of space.";
    DISK_HELD = Gauge "hermit_disk_held_bytes" [] "Bytes of deleted log files that somebody still reads; they come free when he is done.";
    APPEND_TIME = Histogram "hermit_append_duration_seconds" [] "Appends of one batch to a log: the time of the write, without waiting for others and without the flush.";
    FLUSH_OLDEST = Gauge "hermit_flush_oldest_seconds" [] "Time that the oldest flush is under way that has not ended; 0 where none is. Above 10 s the disk hangs.";
    FLUSH_TIME = Histogram "hermit_flush_duration_seconds" [] "Flushes of one log that succeeded; a flush of many logs together counts for each.";

    RECOVERY_CLEAN = Gauge "hermit_recovery_clean" [] "1 if the last stop was clean, or there was none.";
    RECOVERY_PARTITIONS = Gauge "hermit_recovery_partitions" [] "Partitions that the start opened.";
    RECOVERY_BYTES = Gauge "hermit_recovery_read_bytes" [] "Bytes of logs that the start had to check.";
    RECOVERY_TIME = Gauge "hermit_recovery_duration_seconds" [] "Time that opening the partitions took.";
    FREED_SEGMENTS = Counter "hermit_freed_segments" ["by"] "Segments that retention, trims and compaction removed or rewrote.";
    FREED_BYTES = Counter "hermit_freed_bytes" ["by"] "Bytes that came free by that.";
    UPKEEP_FAILURES = Counter "hermit_upkeep_failures" ["by"] "Rounds of retention or compaction that failed for a partition.";
    COMPACTION_ROUNDS = Counter "hermit_compaction_rounds" [] "Rounds of compaction, one for each partition.";
    COMPACTION_FRAMES = Counter "hermit_compaction_removed_frames" [] "Frames that compaction removed.";
    SCRUB_SEGMENTS = Counter "hermit_scrub_segments" [] "Closed segments that were verified to their ends.";
    SCRUB_BYTES = Counter "hermit_scrub_read_bytes" [] "Bytes that were read for that.";
    SCRUB_DAMAGED = Counter "hermit_scrub_damaged_ranges" [] "Damaged ranges that the scrub found.";
    SCRUB_INDEXES = Counter "hermit_scrub_rebuilt_indexes" [] "Indexes that the scrub made again.";
    SCRUB_ERRORS = Counter "hermit_scrub_read_errors" [] "Times that a segment could not be read.";
    SCRUB_PASSES = Counter "hermit_scrub_passes" [] "Passes over all partitions that came to their ends.";
    SCRUB_BEGAN = Gauge "hermit_scrub_pass_start_time_seconds" [] "When the pass under way, or the last one, began, in seconds since the Unix epoch; 0 if none has.";
    SCRUB_ENDED = Gauge "hermit_scrub_pass_end_time_seconds" [] "When the last pass ended; 0 if none has since the start.";

    TOPIC_RECEIVED = Counter "hermit_topic_received_messages" ["topic"] "Messages that were appended.";
    TOPIC_RECEIVED_BYTES = Counter "hermit_topic_received_bytes" ["topic"] "Bytes that were appended, as they lie in the log.";
    TOPIC_BATCHES = Counter "hermit_topic_received_batches" ["topic"] "Appends that they came in.";
    TOPIC_DELIVERED = Counter "hermit_topic_delivered_messages" ["topic"] "Messages that consumers were given; gaps that a compaction left count with them.";
    TOPIC_DELIVERED_BYTES = Counter "hermit_topic_delivered_bytes" ["topic"] "Bytes that consumers were given, as they lie in the log.";
    TOPIC_MESSAGES = Gauge "hermit_topic_messages" ["topic"] "Messages that can be read now, gaps included.";
    TOPIC_SIZE = Gauge "hermit_topic_size_bytes" ["topic"] "Bytes of all segments.";
    TOPIC_SEGMENTS = Gauge "hermit_topic_segments" ["topic"] "Segments.";
    TOPIC_PARTITIONS = Gauge "hermit_topic_partitions" ["topic"] "Partitions.";
    TOPIC_UNWRITABLE = Gauge "hermit_topic_unwritable_partitions" ["topic"] "Partitions that are read-only until a restart, or could not be opened.";
    TOPIC_DAMAGED = Gauge "hermit_topic_damaged_ranges" ["topic"] "Ranges of offsets that are known to be damaged.";

    PARTITION_RECEIVED = Counter "hermit_partition_received_messages" ["topic", "partition"] "Messages that were appended.";
    PARTITION_RECEIVED_BYTES = Counter "hermit_partition_received_bytes" ["topic", "partition"] "Bytes that were appended, as they lie in the log.";
    PARTITION_DELIVERED = Counter "hermit_partition_delivered_messages" ["topic", "partition"] "Messages that consumers were given; gaps that a compaction left count with them.";
    PARTITION_DELIVERED_BYTES = Counter "hermit_partition_delivered_bytes" ["topic", "partition"] "Bytes that consumers were given, as they lie in the log.";
    PARTITION_START = Gauge "hermit_partition_log_start_offset" ["topic", "partition"] "The oldest offset that can be read, inclusive.";
    PARTITION_HIGH_WATERMARK = Gauge "hermit_partition_high_watermark_offset" ["topic", "partition"] "What lies before can be read; exclusive.";
    PARTITION_END = Gauge "hermit_partition_log_end_offset" ["topic", "partition"] "The offset that the next message gets; exclusive.";
    PARTITION_SIZE = Gauge "hermit_partition_size_bytes" ["topic", "partition"] "Bytes of all segments.";
    PARTITION_SEGMENTS = Gauge "hermit_partition_segments" ["topic", "partition"] "Segments.";
    PARTITION_WRITABLE = Gauge "hermit_partition_writable" ["topic", "partition"] "0 while it is read-only until a restart, or could not be opened.";
    PARTITION_DAMAGED = Gauge "hermit_partition_damaged_ranges" ["topic", "partition"] "Ranges of offsets that are known to be damaged.";

    GROUPS = Gauge "hermit_groups" [] "Groups with members or positions.";
    GROUPS_LEFT_OUT = Gauge "hermit_groups_left_out" [] "Groups that are not shown, as together they have more than 200,000 positions.";
    GROUP_MEMBERS = Gauge "hermit_group_members" ["group"] "Members of a group.";
    GROUP_LAG = Gauge "hermit_group_lag_messages" ["group", "topic"] "Messages between a group's positions and the high watermarks, of all partitions together.";
    GROUP_LAG_TIME = Gauge "hermit_group_lag_seconds" ["group", "topic"] "How long the oldest message has been there that a group is to read next.";
    GROUP_MISSED = Gauge "hermit_group_missed_messages" ["group", "topic"] "Messages that retention or a trim has deleted before the group has read them; 0 again once it goes on behind them.";
    GROUP_PARTITION_LAG = Gauge "hermit_group_partition_lag_messages" ["group", "topic", "partition"] "Messages between a group's position and the high watermark.";
    GROUP_PARTITION_LAG_TIME = Gauge "hermit_group_partition_lag_seconds" ["group", "topic", "partition"] "How long the message has been there that a group is to read next.";

    CPUS = Gauge "hermit_cpus" [] "Processors that the process may use.";
    PROCESS_CPU = Counter "process_cpu_seconds" [] "Processor time of the process.";
    PROCESS_RESIDENT = Gauge "process_resident_memory_bytes" [] "Memory of the process that is really there; mapped files count with it.";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory_bytes" [] "Address space of the process.";
    PROCESS_THREADS = Gauge "process_threads" [] "Threads of the process.";
    PROCESS_OPEN_FDS = Gauge "process_open_fds" [] "Open file descriptors.";
    PROCESS_MAX_FDS = Gauge "process_max_fds" [] "Most file descriptors that may be open.";
    PROCESS_START = Gauge "process_start_time_seconds" [] "When the process was started, in seconds since the Unix epoch.";
}

impl Family {
    /// The name by which its value is asked for.
    pub(crate) fn shown_name(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{}_total", self.name),
            Kind::Gauge | Kind::Histogram => self.name.to_owned(),
        }
    }

    /// What its value is counted in, where the name ends with that.
    pub(crate) fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes"].into_iter().find(|unit| self.name.ends_with(unit))
    }

    /// The names of its series.
    pub(crate) fn queried_names(&self) -> Vec<String> {
        match self.kind {
            Kind::Histogram => ["bucket", "sum", "count"].iter().map(|end| format!("{}_{end}", self.name)).collect(),
            Kind::Counter | Kind::Gauge => vec![self.shown_name()],
        }
    }
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_words_keep_to_the_conventions() {
        let names: HashSet<_> = ALL.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), ALL.len());
        for family in ALL {
            assert!(family.name.starts_with("hermit_") || family.name.starts_with("process_"), "{family:?}");
            assert!(!family.name.ends_with("_total") && family.help.ends_with('.'), "{family:?}");
            assert!(!family.help.contains(['\n', '\\', '"']), "{family:?}");
            assert_eq!(family.labels.contains(&"partition"), family.name.contains("_partition_"), "{family:?}");
        }
    }
}
