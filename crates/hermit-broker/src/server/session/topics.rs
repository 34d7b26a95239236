//! Requests about what there is: metadata, list, offsets; and producer ids. Those that change topics are in [`super::admin`].

use std::collections::HashSet;
use std::sync::Arc;

use bytes::BytesMut;
use hermit_proto::session::{
    InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse, ListTopicsRequest, ListTopicsResponse,
    ListedTopic, MetadataRequest, MetadataResponse, MissingTopic, OffsetQuery, PartitionMetadata, Request, Response, Status,
    TopicMetadata, TopicSelection, WireError,
};
use hermit_proto::{CorrelationId, LeaderEpoch, Offset, TopicId, TopicName, Unit};

use super::state::Session;
use crate::broker::Broker;
use crate::error::{BrokerError, status_of, to_wire};
use crate::partition::Partition;
use crate::topic::Topic;

/// Topics on one page of a list, unless the client wants fewer.
const PAGE: usize = 1000;

pub(super) type Answer<T> = Result<T, WireError>;

/// Decodes, asks, encodes.
pub(super) fn answer<Q: Request>(unit: &Unit, out: &mut BytesMut, ask: impl FnOnce(Q) -> Answer<Q::Response>) {
    let correlation = unit.correlation();
    let answered = Q::decode(unit.key(), unit.payload()).map_err(WireError::from).and_then(ask);
    write(correlation, answered, out);
}

pub(super) fn write<R: Response>(correlation: CorrelationId, answered: Answer<R>, out: &mut BytesMut) {
    let error = match answered {
        Ok(response) => match response.encode(correlation, out) {
            Ok(()) => return,
            Err(error) => WireError::new(Status::TooLarge, error.to_string()),
        },
        Err(error) => error,
    };
    error.encode(correlation, out);
}

impl Session {
    pub(super) fn metadata(&mut self, unit: &Unit) {
        let request = match MetadataRequest::decode_request(unit) {
            Ok(request) => request,
            Err(error) => return error.encode(unit.correlation(), &mut self.out),
        };
        let creates = request.create_missing && self.broker.config().create_topics;
        let broker = self.broker.clone();
        let correlation = unit.correlation();
        if creates && matches!(&request.topics, TopicSelection::Names(names) if names.iter().any(|name| is_missing(&broker, name)))
        {
            self.background.run(move |out| write(correlation, Ok(metadata(&broker, &request)), out));
        } else {
            write(correlation, Ok(metadata(&broker, &request)), &mut self.out);
        }
    }

    pub(super) fn list_topics(&mut self, unit: &Unit) {
        let broker = &self.broker;
        answer(unit, &mut self.out, |request: ListTopicsRequest| Ok(list(broker, &request)));
    }

    pub(super) fn init_producer(&mut self, unit: &Unit) {
        self.in_background(unit, |broker, request: InitProducerIdRequest| {
            let (producer_id, producer_epoch) = broker.init_producer(request.producer_id, request.producer_epoch)?;
            Ok(InitProducerIdResponse { producer_id, producer_epoch })
        });
    }

    /// A search by time reads the log, so that it may block.
    pub(super) fn list_offsets(&mut self, unit: &Unit) {
        self.searching(unit, |broker, request: ListOffsetsRequest| {
            let partition = broker.partition(request.topic, request.partition)?;
            list_offsets(&partition, request.query)
        });
    }

    pub(super) fn in_background<Q>(
        &mut self,
        unit: &Unit,
        ask: impl FnOnce(&Broker, Q) -> Result<Q::Response, BrokerError> + Send + 'static,
    ) where
        Q: Request + Send + 'static,
    {
        if let Some(work) = self.prepare(unit, ask) {
            self.background.run(work);
        }
    }

    /// The same for what takes computing time, or searches in logs.
    pub(super) fn searching<Q>(
        &mut self,
        unit: &Unit,
        ask: impl FnOnce(&Broker, Q) -> Result<Q::Response, BrokerError> + Send + 'static,
    ) where
        Q: Request + Send + 'static,
    {
        if let Some(work) = self.prepare(unit, ask) {
            self.background.search(Arc::clone(self.broker.searches()), work);
        }
    }

    fn prepare<Q, A>(&mut self, unit: &Unit, ask: A) -> Option<impl FnOnce(&mut BytesMut) + Send + use<Q, A>>
    where
        Q: Request + Send + 'static,
        A: FnOnce(&Broker, Q) -> Result<Q::Response, BrokerError> + Send + 'static,
    {
        let correlation = unit.correlation();
        let request = match Q::decode(unit.key(), unit.payload()) {
            Ok(request) => request,
            Err(error) => {
                WireError::from(error).encode(correlation, &mut self.out);
                return None;
            }
        };
        let broker = self.broker.clone();
        Some(move |out: &mut BytesMut| {
            let answered = ask(&broker, request).map_err(|error| to_wire(&error));
            // Before the answer is seen, so that whoever counts handles after it counts right.
            drop(broker);
            write(correlation, answered, out);
        })
    }
}

/// [`hermit_proto::session::Message::decode`] of a unit.
trait DecodeRequest: Request {
    fn decode_request(unit: &Unit) -> Answer<Self> {
        Self::decode(unit.key(), unit.payload()).map_err(WireError::from)
    }
}

impl<Q: Request> DecodeRequest for Q {}

fn is_missing(broker: &Broker, name: &str) -> bool {
    TopicName::new_public(name).is_ok_and(|name| broker.topic(&name).is_err())
}

fn metadata(broker: &Broker, request: &MetadataRequest) -> MetadataResponse {
    let mut response = MetadataResponse::default();
    // A name costs the client a few bytes, and the broker a description of all partitions: once is enough.
    let (mut names_told, mut ids_told) = (HashSet::new(), HashSet::new());
    match &request.topics {
        TopicSelection::All => response.topics.extend(broker.topics().iter().map(|topic| describe(topic))),
        TopicSelection::Names(names) => {
            for name in names.iter().filter(|name| names_told.insert(name.as_str())) {
                match by_name(broker, name, request.create_missing) {
                    Ok(topic) => response.topics.push(describe(&topic)),
                    Err(error) => {
                        let (name, status) = (name.clone(), status_of(&error));
                        response.missing.push(MissingTopic { name, topic: TopicId(0), status });
                    }
                }
            }
        }
        TopicSelection::Ids(ids) => {
            for id in ids.iter().filter(|id| ids_told.insert(**id)) {
                match broker.topic_by_id(*id) {
                    Ok(topic) => response.topics.push(describe(&topic)),
                    Err(error) => {
                        response.missing.push(MissingTopic { name: String::new(), topic: *id, status: status_of(&error) });
                    }
                }
            }
        }
    }
    response
}

fn by_name(broker: &Broker, name: &str, create_missing: bool) -> Result<std::sync::Arc<Topic>, BrokerError> {
    let name = TopicName::new(name)?;
    match broker.topic(&name) {
        Err(BrokerError::UnknownTopic { .. }) if create_missing => {
            broker.topic_for_producer(&name, broker.config().default_partitions)
        }
        found => found,
    }
}

fn describe(topic: &Topic) -> TopicMetadata {
    TopicMetadata {
        name: topic.meta.name.to_string(),
        topic: topic.meta.id,
        config: topic.meta.settings.to_wire(),
        partitions: topic.partitions().iter().map(|partition| describe_partition(partition)).collect(),
    }
}

fn describe_partition(partition: &Partition) -> PartitionMetadata {
    let log = partition.log();
    let bounds = log.as_ref().map(|log| log.bounds()).unwrap_or_default();
    PartitionMetadata {
        partition: partition.id(),
        status: partition.trouble().map_or(Status::Ok, |trouble| match trouble {
            BrokerError::Log(_) => Status::ReadOnly,
            other => status_of(&other),
        }),
        leader_epoch: log.map_or(LeaderEpoch::UNKNOWN, hermit_log::Log::leader_epoch),
        log_start: bounds.log_start,
        high_watermark: bounds.high_watermark,
        log_bytes: partition.log().map_or(0, hermit_log::Log::size_bytes),
    }
}

fn list(broker: &Broker, request: &ListTopicsRequest) -> ListTopicsResponse {
    let page = usize::try_from(request.limit).unwrap_or(PAGE).min(PAGE);
    let page = if page == 0 { PAGE } else { page };
    let topics = broker.topics();
    let behind = topics.partition_point(|topic| topic.meta.name.as_str() <= request.after.as_str());
    let rest = topics.get(behind..).unwrap_or_default();
    let listed = rest.iter().take(page).map(|topic| ListedTopic {
        name: topic.meta.name.to_string(),
        topic: topic.meta.id,
        partitions: topic.meta.partitions,
    });
    ListTopicsResponse { topics: listed.collect(), more: rest.len() > page }
}

fn list_offsets(partition: &Partition, query: OffsetQuery) -> Result<ListOffsetsResponse, BrokerError> {
    let log = partition.log()?;
    let bounds = log.bounds();
    let offset: Offset = match query {
        OffsetQuery::Earliest => bounds.log_start,
        OffsetQuery::Latest => bounds.high_watermark,
        OffsetQuery::AtOrAfter(time) => log.find_time(time)?,
        OffsetQuery::Last(count) => Offset(bounds.high_watermark.0.saturating_sub(count)).max(bounds.log_start),
    };
    Ok(ListOffsetsResponse {
        offset,
        leader_epoch: partition.epoch_of(offset)?,
        log_start: bounds.log_start,
        high_watermark: bounds.high_watermark.max(offset),
        log_end: bounds.log_end.max(offset),
    })
}
