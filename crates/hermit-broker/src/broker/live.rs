//! What can be changed while the broker runs.

use std::sync::Arc;
use std::time::Duration;

use super::Broker;
use crate::config::BrokerConfig;
use crate::error::BrokerError;
use crate::limits::Limits;
use crate::topic::{Topic, TopicMeta, TopicSettings};

/// The part of the settings that can be changed. Read at what it is about, never for a frame: connections keep the limits that they began with.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) limits: Arc<Limits>,
    pub(crate) topic_defaults: TopicSettings,
    pub(crate) default_partitions: u32,
    pub(crate) create_topics: bool,
    pub(crate) maintenance_interval: Duration,
    pub(crate) offsets_retention: Option<Duration>,
    pub(crate) described_settings: Vec<(String, String)>,
}

impl Live {
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        Self {
            limits: Arc::new(config.limits.clone()),
            topic_defaults: config.topic_defaults,
            default_partitions: config.default_partitions,
            create_topics: config.create_topics,
            maintenance_interval: config.maintenance_interval,
            offsets_retention: config.offsets_retention,
            described_settings: config.described_settings.clone(),
        }
    }
}

impl Limits {
    /// These, but for those that sizes and memory were laid out by at the start.
    fn with_fixed_of(&self, start: &Self) -> Self {
        Self {
            max_frame_bytes: start.max_frame_bytes,
            max_record_count: start.max_record_count,
            max_request_bytes: start.max_request_bytes,
            max_inflight_bytes: start.max_inflight_bytes,
            min_large_frame_rate: start.min_large_frame_rate,
            max_pending_answers: start.max_pending_answers,
            max_committed_positions: start.max_committed_positions,
            max_group_positions: start.max_group_positions,
            ..self.clone()
        }
    }
}

impl Broker {
    /// Takes over what `wanted` has for settings that can be changed while the broker runs, and leaves the others as they are: all or nothing.
    ///
    /// Those are `create_topics`, `default_partitions`, `topic_defaults`, `maintenance_interval`, `offsets_retention`, `described_settings`, `tls` (whose files are
    /// read again, but which is never switched off), and the limits, except `max_frame_bytes`, `max_record_count`, `max_request_bytes`, `max_inflight_bytes`,
    /// `min_large_frame_rate`, `max_pending_answers`, `max_committed_positions` and `max_group_positions`. Connections that are there keep their timeouts, their heartbeat
    /// interval and their number of subscriptions; nobody is closed by a lower limit. Topics that have no retention of their own get that of `topic_defaults` at once;
    /// durability and segment size are those of topics created from then on.
    ///
    /// # Errors
    /// Two settings do not go together, a file of TLS cannot be used, or the broker was closed. Everything is then as it was.
    pub fn reconfigure(&self, wanted: &BrokerConfig) -> Result<(), BrokerError> {
        // One at a time, and no topic comes in between.
        let manifest = self.manifest()?;
        let start = self.config();
        let limits = wanted.limits.with_fixed_of(&start.limits);
        let live = Live { limits: Arc::new(limits.clone()), ..Live::new(wanted) };
        let (topic_defaults, default_partitions) = (live.topic_defaults, live.default_partitions);
        let (offsets_retention, tls) = (live.offsets_retention, wanted.tls.clone());
        BrokerConfig { limits, topic_defaults, default_partitions, offsets_retention, tls, ..start.clone() }.check()?;
        if let Some(tls) = &wanted.tls {
            self.reload_tls(tls)?;
        }
        self.inner.door.set_limits(&live.limits);
        self.inner.groups.set_limits(&live.limits);
        self.inner.access.set_limits(&live.limits);
        *self.inner.live.write() = Arc::new(live);
        for topic in self.topics() {
            self.follow_defaults(&topic, &topic_defaults);
        }
        drop(manifest);
        // Its thresholds may be others.
        self.check_space();
        Ok(())
    }

    /// Gives a topic the defaults that it goes by.
    fn follow_defaults(&self, topic: &Topic, defaults: &TopicSettings) {
        let settings = topic.meta.settings.resolved(defaults);
        if settings == topic.meta.settings {
            return;
        }
        let log_config = settings.log_config(&self.config().log, self.config().limits.frame_limits());
        for log in topic.partitions.iter().filter_map(|partition| partition.any_log()) {
            // Durability stays: there is nothing to be flushed for it.
            if let Err(error) = log.set_config(log_config.clone()) {
                tracing::error!(topic = %topic.meta.name, error = %crate::error::line(&error), "the topic's retention cannot be changed");
            }
        }
        let meta = TopicMeta { settings, ..topic.meta.clone() };
        self.inner.registry.insert(&Arc::new(Topic { meta, partitions: topic.partitions.clone() }));
    }

    /// What holds now of what can be changed.
    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.inner.live.read())
    }

    /// The limits as they are now, see [`Broker::reconfigure`].
    #[must_use]
    pub fn limits_in_force(&self) -> Arc<Limits> {
        Arc::clone(&self.inner.live.read().limits)
    }

    /// The same broker, with the limits as they are now: for a connection, which keeps them.
    pub(crate) fn for_connection(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), limits: self.limits_in_force() }
    }
}
