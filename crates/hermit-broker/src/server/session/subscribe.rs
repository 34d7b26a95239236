//! Subscribe, credit, unsubscribe.

use hermit_proto::session::{
    AccessOperations, CreditRequest, Message, Status, SubscribeRequest, SubscribeResponse, UnsubscribeRequest, UnsubscribeResponse,
    WireError,
};
use hermit_proto::{CorrelationId, Unit};

use super::state::Session;
use super::subscription::Subscription;
use crate::error::{BrokerError, Counted, to_wire};

impl Session {
    pub(super) fn subscribe(&mut self, unit: &Unit) {
        let id = unit.correlation();
        let opened = SubscribeRequest::decode(unit.key(), unit.payload())
            .map_err(WireError::from)
            .and_then(|request| self.open_subscription(id, &request));
        match opened {
            Ok(response) => {
                self.respond(id, &response);
                self.make_ready(id);
            }
            Err(error) => self.tell(id, &error),
        }
    }

    fn open_subscription(&mut self, id: CorrelationId, request: &SubscribeRequest) -> Result<SubscribeResponse, WireError> {
        if self.subscriptions.contains_key(&id) {
            return Err(WireError::new(Status::BadSubscription, "a subscription has this correlation id"));
        }
        let limit = self.broker.limits().max_subscriptions;
        if self.subscriptions.len() as u64 >= u64::from(limit) {
            return Err(to_wire(&BrokerError::TooMany { what: Counted::Subscriptions, limit: limit.into() }));
        }
        self.check_topic(request.topic, AccessOperations::CONSUME).map_err(|error| to_wire(&error))?;
        let partition = self.broker.partition(request.topic, request.partition).map_err(|error| to_wire(&error))?;
        let bounds = partition.bounds().map_err(|error| to_wire(&error))?;
        partition.check_epoch(request.offset, request.leader_epoch).map_err(|error| to_wire(&error))?;
        if request.offset > bounds.high_watermark {
            let (offset, log_start, high_watermark) = (request.offset, bounds.log_start, bounds.high_watermark);
            return Err(to_wire(&BrokerError::Log(hermit_log::LogError::OutOfRange { offset, log_start, high_watermark })));
        }
        let start_offset = request.offset.max(bounds.log_start);
        let token = self.token();
        self.subscriptions.insert(id, Subscription::new(partition, token, start_offset, request.credit_bytes));
        self.by_token.insert(token, id);
        Ok(SubscribeResponse { start_offset, log_start: bounds.log_start, high_watermark: bounds.high_watermark })
    }

    pub(super) fn credit(&mut self, unit: &Unit) {
        let id = unit.correlation();
        match CreditRequest::decode(unit.key(), unit.payload()) {
            // A malformed grant has no answer of its own, and what follows may depend on it.
            Err(error) => self.refuse_session(Status::Malformed, &format!("credit for subscription {id}: {error}")),
            Ok(credit) => {
                if let Some(subscription) = self.subscriptions.get_mut(&id) {
                    subscription.add_credit(credit.bytes);
                    self.make_ready(id);
                }
            }
        }
    }

    pub(super) fn unsubscribe(&mut self, unit: &Unit) {
        let correlation = unit.correlation();
        match UnsubscribeRequest::decode(unit.key(), unit.payload()) {
            Err(error) => self.tell(correlation, &error.into()),
            Ok(request) => {
                if self.end_subscription(request.subscription) {
                    self.respond(correlation, &UnsubscribeResponse);
                } else {
                    let error = WireError::new(Status::BadSubscription, "there is no such subscription").field("subscription");
                    self.tell(correlation, &error);
                }
            }
        }
    }
}
