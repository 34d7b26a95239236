//! One value of every message and frame, with fixed contents: the source of the examples in `docs/protocol.md`.

mod access;
mod groups;
mod values;

use std::fmt::Debug;

use bytes::BytesMut;
use hermit_proto::record_set::{NewRecord, RecordSet, RecordSetBuilder, compress, unpack};
use hermit_proto::session::*;
use hermit_proto::v1::{Answer, COMMIT_STORED, Handshake, HandshakeProgress};
use hermit_proto::*;

pub(crate) use values::all;

/// Reads bytes, compares what they say with the sample's value, and writes them again.
type Reread = Box<dyn Fn(&[u8]) -> Result<Vec<u8>, String>>;

pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) reread: Reread,
}

const TOPIC: TopicId = TopicId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
const PARTITION: PartitionId = PartitionId(3);
/// 2023-11-14 22:13:20 UTC.
const TIME: u64 = 1_700_000_000_000_000_000;

fn told<E: Debug>(error: E) -> String {
    format!("{error:?}")
}

fn same<T: PartialEq + Debug>(found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}")) }
}

fn parts(bytes: &[u8]) -> Result<(Header, &[u8], &[u8]), String> {
    let header = Header::peek(bytes).ok_or("the header is cut")?;
    let body = &bytes[HEADER_SIZE..];
    let key_size = header.key_size as usize;
    if body.len() as u64 != header.body_bytes() {
        return Err("the sizes do not fit the bytes".into());
    }
    Ok((header, &body[..key_size], &body[key_size..]))
}

fn request<R: Request + PartialEq + Debug + 'static>(name: &'static str, correlation: u64, value: R) -> Sample {
    let write = move |value: &R| {
        let mut out = BytesMut::new();
        value.encode(CorrelationId(correlation), &mut out).map(|()| out.to_vec()).map_err(told)
    };
    let bytes = write(&value).unwrap();
    let reread = move |bytes: &[u8]| {
        let (header, key, payload) = parts(bytes)?;
        same(&(header.magic, header.offset), &(magic::REQUEST, correlation))?;
        same(&Operation::from_number(header.record_count), &Some(R::OPERATION))?;
        let found = R::decode(key, payload).map_err(told)?;
        same(&found, &value)?;
        write(&found)
    };
    Sample { name, bytes, reread: Box::new(reread) }
}

fn response<R: Response + PartialEq + Debug + 'static>(name: &'static str, correlation: u64, value: R) -> Sample {
    let write = move |value: &R| {
        let mut out = BytesMut::new();
        value.encode(CorrelationId(correlation), &mut out).map(|()| out.to_vec()).map_err(told)
    };
    let bytes = write(&value).unwrap();
    let reread = move |bytes: &[u8]| {
        let (header, key, payload) = parts(bytes)?;
        same(&(header.magic, header.offset, header.record_count), &(magic::RESPONSE, correlation, 0))?;
        let found = R::decode_response(&header, key, payload).map_err(told)?;
        same(&found, &value)?;
        write(&found)
    };
    Sample { name, bytes, reread: Box::new(reread) }
}

fn refusal(name: &'static str, correlation: u64, value: WireError) -> Sample {
    let write = move |value: &WireError| {
        let mut out = BytesMut::new();
        value.encode(CorrelationId(correlation), &mut out);
        out.to_vec()
    };
    let bytes = write(&value);
    let reread = move |bytes: &[u8]| {
        let (header, _, payload) = parts(bytes)?;
        same(&(header.magic, header.offset), &(magic::RESPONSE, correlation))?;
        let found = WireError::decode(&header, payload).map_err(told)?;
        same(&found, &value)?;
        Ok(write(&found))
    };
    Sample { name, bytes, reread: Box::new(reread) }
}

fn credit(name: &'static str, subscription: u64, value: CreditRequest) -> Sample {
    let write = move |value: &CreditRequest| {
        let mut out = BytesMut::new();
        value.encode(CorrelationId(subscription), &mut out).map(|()| out.to_vec()).map_err(told)
    };
    let bytes = write(&value).unwrap();
    let reread = move |bytes: &[u8]| {
        let (header, key, payload) = parts(bytes)?;
        same(&(header.magic, header.offset), &(magic::REQUEST, subscription))?;
        let found = CreditRequest::decode(key, payload).map_err(told)?;
        same(&found, &value)?;
        write(&found)
    };
    Sample { name, bytes, reread: Box::new(reread) }
}

fn produce(name: &'static str, correlation: u64, frames: Vec<u8>) -> Sample {
    let target = ProduceTarget { topic: TOPIC, partition: PARTITION, acks: Acks::Committed };
    let write = move |target: &ProduceTarget, frames: &[u8]| {
        let mut out = BytesMut::new();
        target.encode(CorrelationId(correlation), frames, &mut out).map(|()| out.to_vec()).map_err(told)
    };
    let bytes = write(&target, &frames).unwrap();
    let reread = move |bytes: &[u8]| {
        let (header, key, payload) = parts(bytes)?;
        same(&(header.magic, header.offset), &(magic::REQUEST, correlation))?;
        same(&header.record_count, &Operation::Produce.number())?;
        let found = ProduceTarget::decode(key).map_err(told)?;
        same(&found, &target)?;
        same(&payload, &frames.as_slice())?;
        write(&found, payload)
    };
    Sample { name, bytes, reread: Box::new(reread) }
}

fn delivery(name: &'static str, subscription: u64, frames: Vec<u8>) -> Sample {
    let head = DeliveryHead { high_watermark: Offset(42), log_start: Offset(0), next_offset: Offset(42) };
    let write = move |head: &DeliveryHead, frames: &[u8]| {
        let mut out = head.encode(CorrelationId(subscription), u32::try_from(frames.len()).unwrap()).to_vec();
        out.extend_from_slice(frames);
        out
    };
    let bytes = write(&head, &frames);
    let reread = move |bytes: &[u8]| {
        let (header, key, payload) = parts(bytes)?;
        same(&(header.magic, header.offset, header.record_count), &(magic::DELIVERY, subscription, 0))?;
        let found = DeliveryHead::decode(key).map_err(told)?;
        same(&found, &head)?;
        same(&payload, &frames.as_slice())?;
        Ok(write(&found, payload))
    };
    Sample { name, bytes, reread: Box::new(reread) }
}

fn delivery_error(name: &'static str, subscription: u64, value: DeliveryError) -> Sample {
    let write = move |value: &DeliveryError| {
        let mut out = BytesMut::new();
        value.encode(CorrelationId(subscription), &mut out).map(|()| out.to_vec()).map_err(told)
    };
    let bytes = write(&value).unwrap();
    let reread = move |bytes: &[u8]| {
        let (header, _, payload) = parts(bytes)?;
        same(&(header.magic, header.offset), &(magic::DELIVERY, subscription))?;
        let found = DeliveryError::decode(&header, payload).map_err(told)?;
        same(&found, &value)?;
        write(&found)
    };
    Sample { name, bytes, reread: Box::new(reread) }
}

fn handshake(name: &'static str, value: Handshake) -> Sample {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    let reread = move |bytes: &[u8]| {
        let complete = HandshakeProgress::Complete { handshake: value.clone(), used_bytes: bytes.len() };
        same(&Handshake::parse(bytes).map_err(told)?, &complete)?;
        let mut out = Vec::new();
        value.encode(&mut out);
        Ok(out)
    };
    Sample { name, bytes, reread: Box::new(reread) }
}

fn answer(name: &'static str, value: Answer) -> Sample {
    let reread = move |bytes: &[u8]| {
        let found = Answer::decode(bytes.try_into().map_err(told)?).map_err(told)?;
        same(&found, &value)?;
        Ok(found.encode().to_vec())
    };
    Sample { name, bytes: value.encode().to_vec(), reread: Box::new(reread) }
}

fn produced(key: Option<&'static [u8]>, payload: &'static [u8]) -> ProducedFrame<'static> {
    let stamp = ProducerStamp { id: ProducerId(7), epoch: ProducerEpoch(0), first_sequence: Sequence(100) };
    ProducedFrame { producer: Some(stamp), ..ProducedFrame::message(TIME, key, payload) }
}

fn frame_bytes() -> Vec<u8> {
    produced(Some(b"key-1"), b"hello").to_vec().unwrap()
}

fn stamped_frame_bytes() -> Vec<u8> {
    let mut bytes = frame_bytes();
    let stamp =
        BrokerStamp { offset: Offset(41), leader_epoch: LeaderEpoch(2), append_time: TIME + 1_000_000, flushed_distance: 0 };
    FramePrefix::stamp(bytes.first_chunk_mut().unwrap(), &stamp, &FrameSalt::new(TOPIC, PARTITION));
    bytes
}

fn frame(name: &'static str, bytes: Vec<u8>, stamped: bool) -> Sample {
    let reread = move |bytes: &[u8]| {
        let (view, rest) = FrameView::split(bytes, &FrameLimits::default()).map_err(told)?;
        same(&rest.len(), &0)?;
        view.verify_body().map_err(told)?;
        same(&view.key(), &Some(&b"key-1"[..]))?;
        same(&view.payload(), &&b"hello"[..])?;
        if stamped {
            view.verify_frame(&FrameSalt::new(TOPIC, PARTITION)).map_err(told)?;
            same(&view.prefix.offset(), &Offset(41))?;
        }
        let mut out = view.prefix.encode().to_vec();
        out.extend_from_slice(view.key().unwrap_or_default());
        out.extend_from_slice(view.payload());
        Ok(out)
    };
    Sample { name, bytes, reread: Box::new(reread) }
}

fn v1_frame(name: &'static str) -> Sample {
    let header = Header { magic: magic::DATA_V1, timestamp: TIME, offset: 0, key_size: 5, payload_size: 5, record_count: 1 };
    let write = |header: &Header, key: &[u8], payload: &[u8]| [&header.encode()[..], key, payload].concat();
    let reread = move |bytes: &[u8]| {
        let (found, key, payload) = parts(bytes)?;
        same(&v1::accept_header(&found, &FrameLimits::default()).map_err(told)?, &header)?;
        same(&(key, payload), &(&b"key-1"[..], &b"hello"[..]))?;
        Ok(write(&found, key, payload))
    };
    Sample { name, bytes: write(&header, b"key-1", b"hello"), reread: Box::new(reread) }
}

/// The records of the example set.
const RECORDS: [NewRecord<'static>; 2] = [
    NewRecord { timestamp_ms: 1_700_000_000_000, key: Some(b"k"), value: Some(b"hello"), headers: &[] },
    NewRecord { timestamp_ms: 1_700_000_000_150, key: None, value: None, headers: &[("h", Some(b"")), ("i", None)] },
];

fn record_set(name: &'static str, codec: Codec) -> Sample {
    let mut builder = RecordSetBuilder::new(TIME);
    for record in &RECORDS {
        builder.append(record).unwrap();
    }
    let reread = move |bytes: &[u8]| {
        let set = unpack(Attributes(Attributes::RECORD_SET).with_codec(codec), bytes, 1 << 10).map_err(told)?;
        RecordSet::new(&set).verify_count(2).map_err(told)?;
        let mut builder = RecordSetBuilder::new(TIME);
        for (record, expected) in RecordSet::new(&set).records().zip(RECORDS) {
            let record = record.map_err(told)?;
            let headers: Vec<_> = record.headers.collect();
            same(&(record.key, record.value, headers.as_slice()), &(expected.key, expected.value, expected.headers))?;
            same(&record.timestamp_ms(TIME), &expected.timestamp_ms)?;
            builder
                .append(&NewRecord {
                    timestamp_ms: record.timestamp_ms(TIME),
                    key: record.key,
                    value: record.value,
                    headers: &headers,
                })
                .map_err(told)?;
        }
        match codec {
            Codec::None => compress(codec, builder.as_bytes()).map_err(told),
            // Another release of a compressor may pack otherwise; what counts is that the example unpacks.
            _ => Ok(bytes.to_vec()),
        }
    };
    let bytes = builder.finish(codec).unwrap();
    Sample { name, bytes, reread: Box::new(reread) }
}
