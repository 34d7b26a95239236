//! A client's bytes and a broker's answers, without a socket between them.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use bytes::BytesMut;
use hermit_proto::record_set::{NewRecord, RecordSet, RecordSetBuilder, unpack};
use hermit_proto::session::{
    Acks, DeleteTopicRequest, DeleteTopicResponse, Message, Operation, ProduceResponse, ProduceTarget, Request, Response,
    ResponseError, Status, WireError,
};
use hermit_proto::*;

const LIMITS: UnitLimits = UnitLimits { max_key_bytes: 1 << 10, max_body_bytes: 1 << 20 };
const NOW: u64 = 1_700_000_000_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut to_broker = BytesMut::new();

    // Two records, compressed as a whole, in one frame of a produce request.
    let mut builder = RecordSetBuilder::new(NOW);
    for value in [&b"first"[..], b"second"] {
        builder.append(&NewRecord { timestamp_ms: 1_700_000_000_000, key: Some(b"k"), value: Some(value), headers: &[] })?;
    }
    let set = builder.finish(Codec::Lz4)?;
    let frame = ProducedFrame::record_set(builder.frame_timestamp(), Codec::Lz4, builder.count(), &set).to_vec()?;
    let target = ProduceTarget { topic: TopicId(1), partition: partition_for_key(b"k", 8), acks: Acks::Committed };
    target.encode(CorrelationId(1), &frame, &mut to_broker)?;
    DeleteTopicRequest { name: "no-such-topic".into() }.encode(CorrelationId(2), &mut to_broker)?;

    let to_client = broker(&to_broker)?;

    let mut deframer = Deframer::new(&[magic::RESPONSE], LIMITS);
    deframer.extend(&to_client);
    let unit = deframer.next_unit()?.ok_or("an answer is missing")?;
    let produced = ProduceResponse::decode_response(unit.header(), unit.key(), unit.payload())?;
    println!("request {}: stored from offset {} to {}", unit.correlation(), produced.base_offset, produced.end_offset);
    let unit = deframer.next_unit()?.ok_or("an answer is missing")?;
    match DeleteTopicResponse::decode_response(unit.header(), unit.key(), unit.payload()) {
        Err(ResponseError::Refused(error)) => println!("request {}: {error}", unit.correlation()),
        other => return Err(format!("expected a refusal, got {other:?}").into()),
    }
    Ok(())
}

/// What a broker does with the bytes, storage apart.
fn broker(received: &[u8]) -> Result<BytesMut, Box<dyn Error>> {
    let mut answers = BytesMut::new();
    let mut deframer = Deframer::new(&[magic::REQUEST], LIMITS);
    deframer.extend(received);
    while let Some(unit) = deframer.next_unit()? {
        match Operation::from_number(unit.header().record_count) {
            Some(Operation::Produce) => {
                let target = ProduceTarget::decode(unit.key())?;
                let (frame, _) = FrameView::split(unit.payload(), &FrameLimits::default())?;
                frame.verify_body()?;
                let set = unpack(frame.prefix.extension.attributes, frame.payload(), 1 << 20)?;
                for record in RecordSet::new(&set).records() {
                    let record = record?;
                    let value = String::from_utf8_lossy(record.value.unwrap_or_default());
                    println!("partition {}, offset {}: {value}", target.partition, record.offset_delta);
                }
                let end_offset = Offset(frame.prefix.header.record_count.into());
                ProduceResponse { base_offset: Offset::ZERO, end_offset, append_time: NOW, duplicate: false }
                    .encode(unit.correlation(), &mut answers)?;
            }
            Some(Operation::DeleteTopic) => {
                let request = DeleteTopicRequest::decode(unit.key(), unit.payload())?;
                let message = format!("there is no topic `{}`; list the topics to see what there is", request.name);
                WireError::new(Status::UnknownTopic, message).field("topic").encode(unit.correlation(), &mut answers);
            }
            _ => WireError::new(Status::UnknownOperation, "this example does not know it").encode(unit.correlation(), &mut answers),
        }
    }
    Ok(answers)
}
