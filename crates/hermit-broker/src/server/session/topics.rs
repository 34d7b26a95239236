//! Requests about what there is: metadata, list, offsets; and producer ids. Those that change topics are in [`super::admin`].

use std::collections::HashSet;
use std::sync::Arc;

use bytes::BytesMut;
use hermit_proto::session::{
    AccessOperations, InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse, ListTopicsRequest,
    ListTopicsResponse, ListedTopic, MetadataRequest, MetadataResponse, MissingTopic, OffsetQuery, PartitionMetadata, Request,
    Response, Status, TopicMetadata, TopicSelection, WireError,
};
use hermit_proto::{CorrelationId, LeaderEpoch, Offset, TopicId, TopicName, Unit};

use super::state::Session;
use crate::access::Authority;
use crate::broker::Broker;
use crate::error::{BrokerError, status_of, to_wire};
use crate::metrics::Counters;
use crate::partition::Partition;
use crate::topic::Topic;

/// Topics on one page of a list, unless the client wants fewer.
const PAGE: usize = 1000;

/// Topics that are described while the session waits: what a producer or a consumer asks for.
const MAX_INLINE: usize = 32;

pub(super) type Answer<T> = Result<T, WireError>;

/// Decodes, asks, encodes.
pub(super) fn answer<Q: Request>(unit: &Unit, counters: &Counters, out: &mut BytesMut, ask: impl FnOnce(Q) -> Answer<Q::Response>) {
    let correlation = unit.correlation();
    let answered = Q::decode(unit.key(), unit.payload()).map_err(WireError::from).and_then(ask);
    write(correlation, answered, counters, out);
}

/// Writes an answer. One that is an error is counted.
pub(super) fn write<R: Response>(correlation: CorrelationId, answered: Answer<R>, counters: &Counters, out: &mut BytesMut) {
    let error = match answered {
        Ok(response) => match response.encode(correlation, out) {
            Ok(()) => return,
            Err(error) => WireError::new(Status::TooLarge, error.to_string()),
        },
        Err(error) => error,
    };
    counters.refused(error.status);
    error.encode(correlation, out);
}

/// Whether others of the session would wait for it: rules may be many, and dear to match with all topics, and a long list has many partitions.
fn may_take_time(authority: &Authority, topics: &TopicSelection) -> bool {
    match topics {
        TopicSelection::All => !authority.is_open(),
        TopicSelection::Names(names) => names.len() > MAX_INLINE,
        TopicSelection::Ids(ids) => ids.len() > MAX_INLINE,
    }
}

impl Session {
    pub(super) fn metadata(&mut self, unit: &Unit) {
        let request = match MetadataRequest::decode_request(unit) {
            Ok(request) => request,
            Err(error) => return self.tell(unit.correlation(), &error),
        };
        let creates = request.create_missing && self.broker.live().create_topics;
        let (broker, authority) = (self.broker.clone(), self.rights.authority().clone());
        let correlation = unit.correlation();
        // For who may not create, nothing is: he could tell by the order of the answers what there is.
        let names_missing = || {
            let creates = |name: &String| authority.on_topic(name).contains(AccessOperations::CREATE) && is_missing(&broker, name);
            matches!(&request.topics, TopicSelection::Names(names) if names.iter().any(creates))
        };
        if creates && names_missing() {
            self.background.run(move |out| write(correlation, Ok(metadata(&broker, &authority, &request)), broker.counters(), out));
        } else if may_take_time(&authority, &request.topics) {
            self.background.search(Arc::clone(broker.searches()), move |out| {
                write(correlation, Ok(metadata(&broker, &authority, &request)), broker.counters(), out);
            });
        } else {
            write(correlation, Ok(metadata(&broker, &authority, &request)), broker.counters(), &mut self.out);
        }
    }

    pub(super) fn list_topics(&mut self, unit: &Unit) {
        let (broker, authority) = (&self.broker, self.rights.authority().clone());
        if authority.is_open() {
            return answer(unit, broker.counters(), &mut self.out, |request: ListTopicsRequest| {
                Ok(list(&broker.topics(), &request))
            });
        }
        self.searching(unit, Self::checked, move |broker, request: ListTopicsRequest| {
            let mut topics = broker.topics();
            topics.retain(|topic| !authority.on_topic(topic.meta.name.as_str()).is_empty());
            Ok(list(&topics, &request))
        });
    }

    /// Everything that the request needs was checked by its operation.
    #[expect(clippy::unnecessary_wraps, reason = "it stands where others refuse")]
    pub(super) fn checked<Q>(&mut self, _request: &Q) -> Result<(), BrokerError> {
        Ok(())
    }

    pub(super) fn init_producer(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: InitProducerIdRequest| {
            let (producer_id, producer_epoch) = broker.init_producer(request.producer_id, request.producer_epoch)?;
            Ok(InitProducerIdResponse { producer_id, producer_epoch })
        });
    }

    /// A search by time reads the log, so that it may block.
    pub(super) fn list_offsets(&mut self, unit: &Unit) {
        let allow = |session: &mut Self, request: &ListOffsetsRequest| session.check_any_right(request.topic);
        self.searching(unit, allow, |broker, request: ListOffsetsRequest| {
            let partition = broker.partition(request.topic, request.partition)?;
            list_offsets(&partition, request.query)
        });
    }

    /// Does what is asked on another thread, if `allow` finds that the session may ask it.
    pub(super) fn in_background<Q>(
        &mut self,
        unit: &Unit,
        allow: impl FnOnce(&mut Self, &Q) -> Result<(), BrokerError> + 'static,
        ask: impl FnOnce(&Broker, Q) -> Result<Q::Response, BrokerError> + Send + 'static,
    ) where
        Q: Request + Send + 'static,
    {
        if let Some(work) = self.prepare(unit, allow, ask) {
            self.background.run(work);
        }
    }

    /// The same for what takes computing time, or searches in logs.
    pub(super) fn searching<Q>(
        &mut self,
        unit: &Unit,
        allow: impl FnOnce(&mut Self, &Q) -> Result<(), BrokerError> + 'static,
        ask: impl FnOnce(&Broker, Q) -> Result<Q::Response, BrokerError> + Send + 'static,
    ) where
        Q: Request + Send + 'static,
    {
        if let Some(work) = self.prepare(unit, allow, ask) {
            self.background.search(Arc::clone(self.broker.searches()), work);
        }
    }

    fn prepare<Q, C, A>(&mut self, unit: &Unit, allow: C, ask: A) -> Option<impl FnOnce(&mut BytesMut) + Send + use<Q, C, A>>
    where
        Q: Request + Send + 'static,
        C: FnOnce(&mut Self, &Q) -> Result<(), BrokerError>,
        A: FnOnce(&Broker, Q) -> Result<Q::Response, BrokerError> + Send + 'static,
    {
        let correlation = unit.correlation();
        let request = match Q::decode(unit.key(), unit.payload()) {
            Ok(request) => request,
            Err(error) => {
                self.tell(correlation, &error.into());
                return None;
            }
        };
        if let Err(error) = allow(self, &request) {
            self.refuse(correlation, &error);
            return None;
        }
        let broker = self.broker.clone();
        Some(move |out: &mut BytesMut| {
            let answered = ask(&broker, request).map_err(|error| to_wire(&error));
            write(correlation, answered, broker.counters(), out);
            // Before the answer is seen, so that whoever counts handles after it counts right.
            drop(broker);
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

fn metadata(broker: &Broker, authority: &Authority, request: &MetadataRequest) -> MetadataResponse {
    let mut response = MetadataResponse::default();
    // A name costs the client a few bytes, and the broker a description of all partitions: once is enough.
    let (mut names_told, mut ids_told) = (HashSet::new(), HashSet::new());
    match &request.topics {
        TopicSelection::All => {
            let topics = broker.topics();
            let shown = topics.iter().filter(|topic| may_see(authority, topic.meta.name.as_str()));
            response.topics.extend(shown.map(|topic| describe(topic)));
        }
        TopicSelection::Names(names) => {
            for name in names.iter().filter(|name| names_told.insert(name.as_str())) {
                match by_name(broker, authority, name, request.create_missing) {
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
                match by_id(broker, authority, *id) {
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

fn may_see(authority: &Authority, topic: &str) -> bool {
    authority.is_open() || !authority.on_topic(topic).is_empty()
}

const fn unseen() -> BrokerError {
    BrokerError::NotAuthorized { operation: AccessOperations::CONSUME, field: "topic" }
}

fn by_id(broker: &Broker, authority: &Authority, id: TopicId) -> Result<Arc<Topic>, BrokerError> {
    match broker.topic_by_id(id) {
        Ok(topic) if !may_see(authority, topic.meta.name.as_str()) => Err(unseen()),
        // As everywhere where ids are told: who has a right on some topic hears that one was deleted.
        Err(_) if authority.on_some_topic().is_empty() => Err(unseen()),
        found => found,
    }
}

fn by_name(broker: &Broker, authority: &Authority, name: &str, create_missing: bool) -> Result<Arc<Topic>, BrokerError> {
    if !may_see(authority, name) {
        return Err(unseen());
    }
    let name = TopicName::new(name)?;
    match broker.topic(&name) {
        Err(BrokerError::UnknownTopic { .. }) if create_missing => {
            authority.check_topic(name.as_str(), AccessOperations::CREATE, "topic")?;
            broker.topic_for_producer(&name, broker.live().default_partitions)
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

fn list(topics: &[Arc<Topic>], request: &ListTopicsRequest) -> ListTopicsResponse {
    let page = usize::try_from(request.limit).unwrap_or(PAGE).min(PAGE);
    let page = if page == 0 { PAGE } else { page };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_does_not_hold_up_its_session() {
        let ids = |count: u128| TopicSelection::Ids((0..count).map(TopicId).collect());
        assert!(!may_take_time(&Authority::open(), &ids(1)) && may_take_time(&Authority::open(), &ids(1024)));
        let names = TopicSelection::Names(vec!["a".to_owned(); 1024]);
        assert!(may_take_time(&Authority::nobody(), &names));
        assert!(
            may_take_time(&Authority::nobody(), &TopicSelection::All) && !may_take_time(&Authority::open(), &TopicSelection::All)
        );
    }
}
