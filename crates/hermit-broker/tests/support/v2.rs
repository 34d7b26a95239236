//! A version-2 client, byte by byte over `hermit-proto`.

use std::collections::VecDeque;

use bytes::BytesMut;
use hermit_proto::session::{
    Acks, CreateTopicRequest, CreditRequest, DeliveryHead, HelloRequest, HelloResponse, InitProducerIdRequest,
    InitProducerIdResponse, ProduceResponse, ProduceTarget, Request, Response, ResponseError, SubscribeRequest, SubscribeResponse,
    TopicConfig, WireError,
};
use hermit_proto::{CorrelationId, Deframer, LeaderEpoch, Offset, PartitionId, ProducedFrame, TopicId, Unit, UnitLimits, magic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Server, within};

/// One record, as a producer sends it.
pub fn message(payload: &[u8]) -> Vec<u8> {
    ProducedFrame::message(7, None, payload).to_vec().unwrap()
}

pub struct Session {
    pub stream: TcpStream,
    deframer: Deframer,
    next: u64,
    /// Units that were read while another was waited for.
    pub aside: VecDeque<Unit>,
}

impl Session {
    /// Connected, and nothing said yet.
    pub async fn raw(server: &Server) -> Self {
        let limits = UnitLimits { max_key_bytes: 1 << 20, max_body_bytes: 1 << 30 };
        let deframer = Deframer::new(&[magic::RESPONSE, magic::DELIVERY], limits);
        Self { stream: server.connect().await, deframer, next: 1, aside: VecDeque::new() }
    }

    pub async fn open(server: &Server) -> Self {
        let mut session = Self::raw(server).await;
        let _hello: HelloResponse = session.call(&HelloRequest::new("test")).await.unwrap();
        session
    }

    pub fn correlation(&mut self) -> CorrelationId {
        self.next += 1;
        CorrelationId(self.next)
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.unwrap();
    }

    /// Sends a request; its answer comes later.
    pub async fn request<Q: Request>(&mut self, request: &Q) -> CorrelationId {
        let correlation = self.correlation();
        let mut bytes = BytesMut::new();
        request.encode(correlation, &mut bytes).unwrap();
        self.send(&bytes).await;
        correlation
    }

    pub async fn call<Q: Request>(&mut self, request: &Q) -> Result<Q::Response, WireError> {
        let correlation = self.request(request).await;
        self.response(correlation).await
    }

    /// The response to a request that was sent.
    pub async fn response<R: Response>(&mut self, correlation: CorrelationId) -> Result<R, WireError> {
        let unit = self.unit_for(magic::RESPONSE, correlation).await.expect("the broker has closed");
        match R::decode_response(unit.header(), unit.key(), unit.payload()) {
            Ok(response) => Ok(response),
            Err(ResponseError::Refused(error)) => Err(error),
            Err(malformed) => panic!("{malformed}"),
        }
    }

    /// The next unit of that kind for that correlation id; `None` at the end of the stream.
    pub async fn unit_for(&mut self, magic: u8, correlation: CorrelationId) -> Option<Unit> {
        let is_it = |unit: &Unit| unit.header().magic == magic && unit.correlation() == correlation;
        if let Some(at) = self.aside.iter().position(is_it) {
            return self.aside.remove(at);
        }
        loop {
            let unit = self.read_unit().await?;
            if is_it(&unit) {
                return Some(unit);
            }
            self.aside.push_back(unit);
        }
    }

    /// The next unit from the socket; `None` at the end of the stream.
    pub async fn read_unit(&mut self) -> Option<Unit> {
        loop {
            if let Some(unit) = self.deframer.next_unit().unwrap() {
                return Some(unit);
            }
            let read = within(self.stream.read_buf(self.deframer.buffer())).await;
            if !matches!(read, Ok(n) if n > 0) {
                return None;
            }
        }
    }

    /// The next answer, whichever it is: correlation id, and the response.
    pub async fn next_response<R: Response>(&mut self) -> (CorrelationId, Result<R, WireError>) {
        let unit = self.read_unit().await.expect("the broker has closed");
        assert_eq!(unit.header().magic, magic::RESPONSE);
        let response = R::decode_response(unit.header(), unit.key(), unit.payload());
        let response = response.map_err(|error| match error {
            ResponseError::Refused(error) => error,
            ResponseError::Malformed(error) => panic!("{error}"),
        });
        (unit.correlation(), response)
    }

    pub async fn create(&mut self, name: &str, partitions: u32, config: TopicConfig) -> Result<TopicId, WireError> {
        Ok(self.call(&CreateTopicRequest { name: name.into(), partitions, config }).await?.topic)
    }

    pub async fn produce(&mut self, topic: TopicId, partition: u32, frames: &[u8]) -> Result<ProduceResponse, WireError> {
        let correlation = self.send_produce(topic, partition, Acks::Committed, frames).await;
        self.response(correlation).await
    }

    pub async fn send_produce(&mut self, topic: TopicId, partition: u32, acks: Acks, frames: &[u8]) -> CorrelationId {
        self.send_together(topic, &[(partition, acks, frames)]).await[0]
    }

    /// Produce requests in one write.
    pub async fn send_together(&mut self, topic: TopicId, requests: &[(u32, Acks, &[u8])]) -> Vec<CorrelationId> {
        let (mut bytes, mut correlations) = (BytesMut::new(), Vec::new());
        for (partition, acks, frames) in requests {
            let target = ProduceTarget { topic, partition: PartitionId(*partition), acks: *acks };
            correlations.push(self.correlation());
            target.encode(correlations[correlations.len() - 1], frames, &mut bytes).unwrap();
        }
        self.send(&bytes).await;
        correlations
    }

    pub async fn subscribe(
        &mut self,
        topic: TopicId,
        offset: u64,
        credit_bytes: u64,
    ) -> Result<(CorrelationId, SubscribeResponse), WireError> {
        let request = SubscribeRequest {
            topic,
            partition: PartitionId(0),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch::UNKNOWN,
            credit_bytes,
        };
        let id = self.request(&request).await;
        Ok((id, self.response(id).await?))
    }

    pub async fn credit(&mut self, subscription: CorrelationId, bytes: u64) {
        let mut out = BytesMut::new();
        CreditRequest { bytes }.encode(subscription, &mut out).unwrap();
        self.send(&out).await;
    }

    /// The next delivery of a subscription: its head, and its frames.
    pub async fn delivery(&mut self, subscription: CorrelationId) -> (DeliveryHead, Unit) {
        let unit = self.unit_for(magic::DELIVERY, subscription).await.expect("the broker has closed");
        assert_eq!(unit.header().record_count, 0, "{unit:?}");
        (DeliveryHead::decode(unit.key()).unwrap(), unit)
    }

    pub async fn init_producer(&mut self) -> InitProducerIdResponse {
        self.call(&InitProducerIdRequest::default()).await.unwrap()
    }
}
