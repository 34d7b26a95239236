//! Requests that change topics, or ask about the broker.

use hermit_proto::session::{
    AddPartitionsRequest, AddPartitionsResponse, AlterTopicRequest, AlterTopicResponse, CreateTopicRequest, CreateTopicResponse,
    DeleteTopicRequest, DeleteTopicResponse, DescribeBrokerRequest, TrimRequest, TrimResponse,
};
use hermit_proto::{TopicName, Unit};

use super::state::Session;

impl Session {
    pub(super) fn create_topic(&mut self, unit: &Unit) {
        self.in_background(unit, |broker, request: CreateTopicRequest| {
            let topic = broker.create_topic(&request.name, request.partitions, &request.config)?;
            let meta = &topic.meta;
            Ok(CreateTopicResponse { topic: meta.id, partitions: meta.partitions, config: meta.settings.to_wire() })
        });
    }

    pub(super) fn alter_topic(&mut self, unit: &Unit) {
        self.in_background(unit, |broker, request: AlterTopicRequest| {
            let topic = broker.alter_topic(&TopicName::new(&request.name)?, &request.config)?;
            Ok(AlterTopicResponse { config: topic.meta.settings.to_wire() })
        });
    }

    pub(super) fn add_partitions(&mut self, unit: &Unit) {
        self.in_background(unit, |broker, request: AddPartitionsRequest| {
            let topic = broker.add_partitions(&TopicName::new(&request.name)?, request.partitions)?;
            Ok(AddPartitionsResponse { partitions: topic.meta.partitions })
        });
    }

    pub(super) fn delete_topic(&mut self, unit: &Unit) {
        self.in_background(unit, |broker, request: DeleteTopicRequest| {
            broker.delete_topic(&TopicName::new(&request.name)?)?;
            Ok(DeleteTopicResponse)
        });
    }

    pub(super) fn trim(&mut self, unit: &Unit) {
        self.in_background(unit, |broker, request: TrimRequest| {
            Ok(TrimResponse { log_start: broker.trim(request.topic, request.partition, request.offset)? })
        });
    }

    /// Looks at every partition, which may take its time.
    pub(super) fn describe_broker(&mut self, unit: &Unit) {
        self.in_background(unit, |broker, _request: DescribeBrokerRequest| Ok(broker.describe()));
    }
}
