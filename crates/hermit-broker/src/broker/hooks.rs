//! Asking and telling the embedder. Without hooks each of these is a look at an `Option`.

use std::sync::Arc;

use hermit_log::Batch;

use super::Broker;
use crate::error::BrokerError;
use crate::events::{Event, Events};
use crate::hooks::{self, AppendContext, Client};
use crate::partition::Partition;

impl Broker {
    pub(crate) fn events(&self) -> Option<&Arc<Events>> {
        self.inner.events.as_ref()
    }

    /// Tells an event, behind those that wait. The caller holds no lock.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        if let Some(events) = self.events() {
            events.push(event());
            events.tell();
        }
    }

    /// Tells what was queued where it could not be told.
    pub(crate) fn tell_waiting(&self) {
        if let Some(events) = self.events() {
            events.tell();
        }
    }

    pub(super) fn ask_hooks(&self, partition: &Partition, batch: &Batch, client: Option<Client<'_>>) -> Result<(), BrokerError> {
        let Some(events) = self.events() else { return Ok(()) };
        let topic = self.topic_by_id(partition.topic())?;
        let (topic, topic_id) = (&topic.meta.name, topic.meta.id);
        let context = AppendContext { topic, topic_id, partition: partition.id(), client };
        hooks::before_append(events.hooks(), &self.lines().hook, &context, batch)
            .map_err(|rejection| BrokerError::Rejected { message: rejection.message().to_owned() })
    }

    /// The first events: what was found at start.
    pub(super) fn tell_start(&self) {
        let Some(events) = self.events() else { return };
        let report = self.report();
        let topics = self.topics().iter().filter(|topic| !topic.meta.name.is_internal()).count();
        for partition in &report.partitions {
            if let Err(error) = &partition.recovery {
                let (topic, partition, reason) = (partition.topic.clone(), partition.partition, BrokerError::Log(error.clone()));
                events.push(Event::PartitionDown { topic, partition, reason });
            }
        }
        events.push_first(Event::Started { clean: report.clean, topics });
        events.tell();
    }
}
