//! What each fuzz target does with its bytes: plain functions, which `crates/hermit-proto/tests/fuzz_corpus.rs` runs
//! over the stored corpus on a stable compiler too. None may panic but for its own assertions.

use bytes::BytesMut;
use hermit_proto::record_set::{NewRecord, RecordSet, RecordSetBuilder, unpack_into};
use hermit_proto::session::*;
use hermit_proto::v1::{self, Answer, Handshake, HandshakeProgress};
use hermit_proto::*;

/// Unpacked record sets end here.
const MAX_UNPACKED: usize = 1 << 20;

/// Headers and data frames: what is accepted is written again as it was.
pub fn frame(data: &[u8]) {
    if let Some(bytes) = data.first_chunk() {
        let header = Header::decode(bytes);
        assert_eq!(&header.encode(), bytes);
        if let Ok(accepted) = v1::accept_header(&header, &FrameLimits::default()) {
            assert!(accepted.record_count > 0);
        }
    }
    let mut rest = data;
    while let Ok((view, behind)) = FrameView::split(rest, &FrameLimits::default()) {
        let again = [&view.prefix.encode()[..], view.key().unwrap_or_default(), view.payload()].concat();
        assert_eq!(again, view.as_bytes());
        let _intact = view.verify_body().is_ok() && view.verify_frame(&FrameSalt::new(TopicId(1), PartitionId(0))).is_ok();
        rest = behind;
    }
}

/// Record sets, compressed and not: memory stays bounded, and what can be read survives a round trip.
pub fn record_set(data: &[u8]) {
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let mut set = Vec::new();
        if unpack_into(codec, data, MAX_UNPACKED, &mut set).is_err() {
            continue;
        }
        assert!(set.len() <= MAX_UNPACKED);
        let mut builder = RecordSetBuilder::new(0);
        let mut seen = Vec::new();
        for record in RecordSet::new(&set).records() {
            let Ok(record) = record else { break };
            let headers: Vec<_> = record.headers.collect();
            let timestamp_ms = record.timestamp_ms(0);
            let new = NewRecord { timestamp_ms, key: record.key, value: record.value, headers: &headers };
            builder.append(&new).expect("what was read fits");
            seen.push((timestamp_ms, record.key, record.value, headers));
        }
        assert_eq!(RecordSet::new(builder.as_bytes()).verify_count(builder.count()), Ok(()));
        for (record, seen) in RecordSet::new(builder.as_bytes()).records().zip(seen) {
            let record = record.expect("what was written reads");
            assert_eq!((record.timestamp_ms(0), record.key, record.value, record.headers.collect::<Vec<_>>()), seen);
        }
    }
}

/// The handshake and answers of version 1.
pub fn v1_handshake(data: &[u8]) {
    match Handshake::parse(data) {
        Ok(HandshakeProgress::Complete { handshake, used_bytes }) => {
            let mut again = Vec::new();
            handshake.encode(&mut again);
            assert_eq!(Some(again.as_slice()), data.get(..used_bytes));
            assert!(used_bytes <= Handshake::MAX_BYTES);
        }
        Ok(HandshakeProgress::Incomplete { missing_bytes }) => {
            assert!(missing_bytes > 0 && data.len() + missing_bytes <= Handshake::MAX_BYTES);
        }
        Err(_refused) => {}
    }
    if let Some(bytes) = data.first_chunk()
        && let Ok(answer) = Answer::decode(bytes)
    {
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }
}

fn again<M: Message + PartialEq + std::fmt::Debug>(key: &[u8], payload: &[u8]) {
    if let Ok(message) = M::decode(key, payload) {
        let mut body = BytesMut::new();
        let mut writer = BodyWriter::new(&mut body);
        message.write(&mut writer);
        writer.finish().expect("what was read fits");
        assert_eq!(M::decode(b"", &body), Ok(message));
    }
}

/// Every request and response of the session: what can be read survives a round trip. The header is that of the unit.
pub fn session(data: &[u8]) {
    let Some((head, body)) = data.split_first_chunk() else { return };
    let header = Header::decode(head);
    let (key, payload) = body.split_at(body.len().min(header.key_size as usize));
    again::<HelloRequest>(key, payload);
    again::<HelloResponse>(key, payload);
    again::<MetadataRequest>(key, payload);
    again::<MetadataResponse>(key, payload);
    again::<CreateTopicRequest>(key, payload);
    again::<CreateTopicResponse>(key, payload);
    again::<DeleteTopicRequest>(key, payload);
    again::<ListTopicsRequest>(key, payload);
    again::<ListTopicsResponse>(key, payload);
    again::<AlterTopicRequest>(key, payload);
    again::<AlterTopicResponse>(key, payload);
    again::<AddPartitionsRequest>(key, payload);
    again::<AddPartitionsResponse>(key, payload);
    again::<TrimRequest>(key, payload);
    again::<TrimResponse>(key, payload);
    again::<ListOffsetsRequest>(key, payload);
    again::<ListOffsetsResponse>(key, payload);
    again::<InitProducerIdRequest>(key, payload);
    again::<InitProducerIdResponse>(key, payload);
    again::<ProduceResponse>(key, payload);
    again::<SubscribeRequest>(key, payload);
    again::<SubscribeResponse>(key, payload);
    again::<CreditRequest>(key, payload);
    again::<UnsubscribeRequest>(key, payload);
    again::<CommitRequest>(key, payload);
    again::<CommitResponse>(key, payload);
    again::<FetchCommittedRequest>(key, payload);
    again::<FetchCommittedResponse>(key, payload);
    again::<JoinGroupRequest>(key, payload);
    again::<JoinGroupResponse>(key, payload);
    again::<GroupHeartbeatRequest>(key, payload);
    again::<GroupHeartbeatResponse>(key, payload);
    again::<LeaveGroupRequest>(key, payload);
    again::<ListGroupsRequest>(key, payload);
    again::<ListGroupsResponse>(key, payload);
    again::<DescribeGroupRequest>(key, payload);
    again::<DescribeGroupResponse>(key, payload);
    again::<DeleteGroupRequest>(key, payload);
    again::<DescribeBrokerResponse>(key, payload);
    again::<PutUserRequest>(key, payload);
    again::<PutUserResponse>(key, payload);
    again::<DeleteUserRequest>(key, payload);
    again::<ListUsersRequest>(key, payload);
    again::<ListUsersResponse>(key, payload);
    again::<CreateTokenRequest>(key, payload);
    again::<CreateTokenResponse>(key, payload);
    again::<DeleteTokenRequest>(key, payload);
    again::<AddRulesRequest>(key, payload);
    again::<AddRulesResponse>(key, payload);
    again::<DeleteRulesRequest>(key, payload);
    again::<DeleteRulesResponse>(key, payload);
    again::<ListRulesRequest>(key, payload);
    again::<ListRulesResponse>(key, payload);
    again::<WhoAmIResponse>(key, payload);
    if let Ok(target) = ProduceTarget::decode(key) {
        let head = target.encode_head(CorrelationId(0), payload.len()).expect("what was read fits");
        assert_eq!(head.get(HEADER_SIZE..), Some(key));
    }
    if let Ok(delivery) = DeliveryHead::decode(key) {
        assert_eq!(delivery.encode(CorrelationId(0), 0).get(HEADER_SIZE..), Some(key));
    }
    if let Ok(error) = DeliveryError::decode(&header, payload) {
        let mut out = BytesMut::new();
        error.encode(CorrelationId(0), &mut out).expect("errors are cut to fit");
    }
    if let Ok(error) = WireError::decode(&header, payload) {
        error.encode(CorrelationId(0), &mut BytesMut::new());
    }
}

/// The deframer: the first byte is the size of the pieces in which the others arrive. Any segmentation gives the same.
pub fn deframer(data: &[u8]) {
    let Some((piece, stream)) = data.split_first() else { return };
    let whole = deframe(stream, stream.len().max(1));
    let pieces = deframe(stream, usize::from(*piece).max(1));
    assert_eq!(whole, pieces);
}

fn deframe(stream: &[u8], piece: usize) -> Vec<Result<Unit, DeframeError>> {
    let limits = UnitLimits { max_key_bytes: 64, max_body_bytes: 1 << 10 };
    let mut deframer = Deframer::new(&[magic::DATA_V1, magic::DATA_V2, magic::REQUEST], limits);
    let mut seen = Vec::new();
    for piece in stream.chunks(piece) {
        deframer.extend(piece);
        loop {
            match deframer.next_unit() {
                Ok(None) => break,
                Ok(Some(unit)) => seen.push(Ok(unit)),
                Err(error) => {
                    seen.push(Err(error));
                    if error.is_fatal() {
                        return seen;
                    }
                }
            }
        }
        assert!(deframer.buffer().capacity() <= 2 * stream.len() + (128 << 10));
    }
    seen
}
