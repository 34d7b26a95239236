//! Requests that change topics, or ask about the broker.

use hermit_proto::session::{
    AccessOperations, AddPartitionsRequest, AddPartitionsResponse, AlterTopicRequest, AlterTopicResponse, CreateTopicRequest,
    CreateTopicResponse, DeleteTopicRequest, DeleteTopicResponse, DescribeBrokerRequest, TrimRequest, TrimResponse,
};
use hermit_proto::{TopicName, Unit};

use super::state::Session;
use crate::error::BrokerError;

impl Session {
    pub(super) fn create_topic(&mut self, unit: &Unit) {
        self.in_background(
            unit,
            named(AccessOperations::CREATE, |request: &CreateTopicRequest| &request.name),
            |broker, request: CreateTopicRequest| {
                let topic = broker.create_topic(&request.name, request.partitions, &request.config)?;
                let meta = &topic.meta;
                Ok(CreateTopicResponse { topic: meta.id, partitions: meta.partitions, config: meta.settings.to_wire() })
            },
        );
    }

    pub(super) fn alter_topic(&mut self, unit: &Unit) {
        self.in_background(
            unit,
            named(AccessOperations::ADMINISTER, |request: &AlterTopicRequest| &request.name),
            |broker, request: AlterTopicRequest| {
                let topic = broker.alter_topic(&TopicName::new(&request.name)?, &request.config)?;
                Ok(AlterTopicResponse { config: topic.meta.settings.to_wire() })
            },
        );
    }

    pub(super) fn add_partitions(&mut self, unit: &Unit) {
        self.in_background(
            unit,
            named(AccessOperations::ADMINISTER, |request: &AddPartitionsRequest| &request.name),
            |broker, request: AddPartitionsRequest| {
                let topic = broker.add_partitions(&TopicName::new(&request.name)?, request.partitions)?;
                Ok(AddPartitionsResponse { partitions: topic.meta.partitions })
            },
        );
    }

    pub(super) fn delete_topic(&mut self, unit: &Unit) {
        self.in_background(
            unit,
            named(AccessOperations::ADMINISTER, |request: &DeleteTopicRequest| &request.name),
            |broker, request: DeleteTopicRequest| {
                broker.delete_topic(&TopicName::new(&request.name)?)?;
                Ok(DeleteTopicResponse)
            },
        );
    }

    pub(super) fn trim(&mut self, unit: &Unit) {
        let allow = |session: &mut Self, request: &TrimRequest| session.check_topic(request.topic, AccessOperations::ADMINISTER);
        self.in_background(unit, allow, |broker, request: TrimRequest| {
            Ok(TrimResponse { log_start: broker.trim(request.topic, request.partition, request.offset)? })
        });
    }

    /// Looks at every partition, which may take its time.
    pub(super) fn describe_broker(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, _request: DescribeBrokerRequest| Ok(broker.describe()));
    }
}

/// What a request needs that names a topic.
fn named<Q>(
    operation: AccessOperations,
    name: impl Fn(&Q) -> &str + 'static,
) -> impl FnOnce(&mut Session, &Q) -> Result<(), BrokerError> + 'static {
    move |session, request| session.rights.authority().check_topic(name(request), operation, "topic")
}
