//! The recorded exchanges of version 1, in every segmentation.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

use hermit_proto::v1::{self, Answer, COMMIT_STORED, Handshake, HandshakeError, HandshakeProgress};
use hermit_proto::*;

const LIMITS: UnitLimits = UnitLimits { max_key_bytes: 1 << 20, max_body_bytes: 50 << 20 };

macro_rules! recorded {
    ($name:literal) => {
        &include_bytes!(concat!("data/", $name, ".bin"))[..]
    };
}

fn partition_0(topic: &str) -> (TopicName, PartitionId) {
    (TopicName::new(topic).unwrap(), PartitionId(0))
}

fn producer() -> Handshake {
    let (topic, partition) = partition_0("golden");
    Handshake::Producer { topic, partition }
}

fn consumer(group: &str) -> Handshake {
    let (topic, partition) = partition_0("golden");
    Handshake::Consumer { group: GroupName::new(group).unwrap(), topic, partition }
}

fn commit(group: &str, offset: u64) -> Handshake {
    let (topic, partition) = partition_0("golden");
    Handshake::Commit { group: GroupName::new(group).unwrap(), topic, partition, offset: Offset(offset) }
}

/// Feeds the bytes in pieces of `piece`: the handshake, then the frames.
fn client_side(bytes: &[u8], piece: usize) -> (Handshake, Vec<Unit>) {
    let mut deframer = Deframer::new(&[magic::DATA_V1], LIMITS);
    let mut begun = Vec::new();
    let mut handshake = None;
    let mut units = Vec::new();
    for piece in bytes.chunks(piece) {
        if handshake.is_some() {
            deframer.extend(piece);
        } else {
            begun.extend_from_slice(piece);
            match Handshake::parse(&begun).unwrap() {
                HandshakeProgress::Complete { handshake: complete, used_bytes } => {
                    handshake = Some(complete);
                    deframer.extend(&begun[used_bytes..]);
                }
                HandshakeProgress::Incomplete { missing_bytes } => assert!(missing_bytes > 0),
            }
        }
        while let Some(unit) = deframer.next_unit().unwrap() {
            units.push(unit);
        }
    }
    assert!(deframer.is_between_units());
    (handshake.unwrap(), units)
}

#[test]
fn handshakes_read_as_recorded_in_every_segmentation() {
    let exchanges = [
        (recorded!("01_producer_raw.c2b"), producer()),
        (recorded!("02_producer_goclient.c2b"), producer()),
        (recorded!("03_producer_pipelined_odd.c2b"), producer()),
        (recorded!("04_consumer_goclient_and_commit.c2b"), consumer("grp")),
        (recorded!("04_consumer_goclient_and_commit.conn2.c2b"), commit("grp", 3)),
        (recorded!("05_consumer_resume_midbatch.c2b"), consumer("grp")),
        (recorded!("06_commit_raw.c2b"), commit("grp2", 5)),
        (recorded!("07_commit_backwards.c2b"), commit("grp", 1)),
        (recorded!("08_consumer_after_restart.c2b"), consumer("fresh")),
    ];
    for (bytes, expected) in exchanges {
        let (_, whole) = client_side(bytes, bytes.len());
        for piece in 1..=bytes.len() {
            let (handshake, units) = client_side(bytes, piece);
            assert_eq!(handshake, expected);
            assert_eq!(units, whole);
        }
        let mut again = Vec::new();
        expected.encode(&mut again);
        assert_eq!(&bytes[..again.len()], again);
    }
}

/// The log that the recorded producers wrote, as a recorded consumer got it.
fn log() -> Vec<Unit> {
    let mut deframer = Deframer::new(&[magic::DATA_V1], LIMITS);
    deframer.extend(recorded!("08_consumer_after_restart.b2c"));
    std::iter::from_fn(|| deframer.next_unit().unwrap()).collect()
}

#[test]
fn produced_frames_come_back_as_recorded() {
    let sent = ["01", "02", "03"].map(|number| match number {
        "01" => (recorded!("01_producer_raw.c2b"), recorded!("01_producer_raw.b2c")),
        "02" => (recorded!("02_producer_goclient.c2b"), recorded!("02_producer_goclient.b2c")),
        _ => (recorded!("03_producer_pipelined_odd.c2b"), recorded!("03_producer_pipelined_odd.b2c")),
    });
    let mut next = Offset::ZERO;
    let mut delivered = Vec::new();
    for (client, broker) in sent {
        let mut answers = Vec::new();
        for unit in client_side(client, client.len()).1 {
            let accepted = v1::accept_header(unit.header(), &FrameLimits::default()).unwrap();
            let stored = v1::opaque_frame(&accepted, unit.key(), unit.payload()).to_vec().unwrap();
            let (view, _) = FrameView::split(&stored, &FrameLimits::default()).unwrap();
            view.verify_body().unwrap();
            let mut prefix = view.prefix;
            prefix.header.offset = next.0;
            answers.extend(Answer::Stored(next).encode());
            delivered.extend(v1::consumer_header(&prefix).unwrap());
            delivered.extend_from_slice(view.key().unwrap_or_default());
            delivered.extend_from_slice(view.payload());
            next = prefix.next_offset();
        }
        assert_eq!(answers, broker);
        for answer in broker.as_chunks().0 {
            assert_eq!(Answer::decode(answer).unwrap().encode(), *answer);
        }
    }
    assert_eq!(delivered, recorded!("04_consumer_goclient_and_commit.b2c"));
    assert_eq!(delivered, recorded!("08_consumer_after_restart.b2c"));
    assert_eq!(log().len(), 8);
}

#[test]
fn a_consumer_resumes_at_the_frame_that_holds_its_offset() {
    let bytes: Vec<u8> = log()
        .iter()
        .filter(|unit| unit.header().offset + u64::from(unit.header().record_count) > 3)
        .flat_map(|unit| unit.as_bytes().to_vec())
        .collect();
    assert_eq!(bytes, recorded!("05_consumer_resume_midbatch.b2c"));
}

#[test]
fn commits_are_answered_with_one_byte() {
    for bytes in [
        recorded!("04_consumer_goclient_and_commit.conn2.b2c"),
        recorded!("06_commit_raw.b2c"),
        recorded!("07_commit_backwards.b2c"),
    ] {
        assert_eq!(bytes, [COMMIT_STORED]);
    }
}

#[test]
fn handshakes_are_refused_as_soon_as_the_fault_is_there() {
    assert_eq!(Handshake::parse(&[0x16]), Err(HandshakeError::Role { found: 0x16 }));
    assert_eq!(Handshake::parse(&[1, 0]), Err(HandshakeError::Name(NameError::Empty { kind: "topic" })));
    assert_eq!(Handshake::parse(&[2, 0]), Err(HandshakeError::Name(NameError::Empty { kind: "group" })));
    assert_eq!(Handshake::parse(&[3, 1, b'g', 0]), Err(HandshakeError::Name(NameError::Empty { kind: "topic" })));
    let not_utf8 = NameError::NotUtf8 { kind: "topic", position: 1 };
    assert_eq!(Handshake::parse(&[1, 2, b'x', 0xff]), Err(HandshakeError::Name(not_utf8)));
    let control = NameError::Control { kind: "topic", character: '\n', position: 0 };
    assert_eq!(Handshake::parse(b"\x01\x01\n"), Err(HandshakeError::Name(control)));
    assert_eq!(Handshake::parse(b""), Ok(HandshakeProgress::Incomplete { missing_bytes: 1 }));
    assert_eq!(Handshake::parse(b"\x01\x06gol"), Ok(HandshakeProgress::Incomplete { missing_bytes: 3 }));
}

#[test]
fn no_handshake_needs_more_than_the_maximum() {
    let longest = Handshake::Commit {
        group: GroupName::new("g".repeat(255)).unwrap(),
        topic: TopicName::new("t".repeat(255)).unwrap(),
        partition: PartitionId(u32::MAX),
        offset: Offset(u64::MAX),
    };
    let mut bytes = Vec::new();
    longest.encode(&mut bytes);
    assert_eq!(bytes.len(), Handshake::MAX_BYTES);
    let complete = HandshakeProgress::Complete { handshake: longest, used_bytes: bytes.len() };
    assert_eq!(Handshake::parse(&bytes), Ok(complete));
}

#[test]
fn headers_are_checked_before_their_body_is_there() {
    let header = Header { magic: 1, timestamp: 0, offset: 0, key_size: 0, payload_size: 0, record_count: 0 };
    let limits = FrameLimits { max_body_bytes: 100, max_record_count: 10 };
    assert_eq!(v1::accept_header(&header, &limits).unwrap().record_count, 1);
    let magic = Header { magic: 2, ..header };
    assert_eq!(v1::accept_header(&magic, &limits), Err(v1::V1FrameError::Magic { found: 2 }));
    let huge = Header { key_size: u32::MAX, payload_size: u32::MAX, ..header };
    let too_large = v1::V1FrameError::TooLarge { body_bytes: 2 * u64::from(u32::MAX), limit_bytes: 100 };
    assert_eq!(v1::accept_header(&huge, &limits), Err(too_large));
    let many = Header { record_count: u32::MAX, ..header };
    assert_eq!(v1::accept_header(&many, &limits), Err(v1::V1FrameError::TooManyRecords { count: u32::MAX, limit: 10 }));
}

#[test]
fn version_1_sees_neither_control_frames_nor_folded_records() {
    let (view, kinds) = (ProducedFrame::message(1, None, b"x").to_vec().unwrap(), [Attributes::CONTROL, Attributes::RECORD_SET]);
    let (view, _) = FrameView::split(&view, &FrameLimits::default()).unwrap();
    for kind in kinds {
        let mut prefix = view.prefix;
        prefix.extension.attributes = Attributes(kind);
        assert_eq!(v1::consumer_header(&prefix), None);
    }
    let record = v1::record_header(5, Offset(6), 1, 2).unwrap();
    let expected = Header { magic: 1, timestamp: 5, offset: 6, key_size: 1, payload_size: 2, record_count: 1 };
    assert_eq!(Header::decode(&record), expected);
    assert_eq!(Answer::Refused.encode(), [0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(Answer::decode(&[7; 9]).is_err());
}
