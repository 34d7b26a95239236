//! The deframer: any segmentation, limits before memory, refusal without losing the stream.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

use std::ops::ControlFlow;

use bytes::{BufMut, BytesMut};
use hermit_proto::session::*;
use hermit_proto::*;
use proptest::prelude::*;

const LIMITS: UnitLimits = UnitLimits { max_key_bytes: 1 << 10, max_body_bytes: 50 << 20 };

fn unit(magic: u8, correlation: u64, key: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = Header {
        magic,
        timestamp: 0,
        offset: correlation,
        key_size: u32::try_from(key.len()).unwrap(),
        payload_size: u32::try_from(payload.len()).unwrap(),
        record_count: Operation::Produce.number(),
    };
    [&header.encode()[..], key, payload].concat()
}

fn announced(correlation: u64, key_size: u32, payload_size: u32) -> Vec<u8> {
    Header { magic: magic::REQUEST, timestamp: 0, offset: correlation, key_size, payload_size, record_count: 49 }.encode().to_vec()
}

fn deframer() -> Deframer {
    Deframer::new(&[magic::REQUEST], LIMITS)
}

#[test]
fn announced_sizes_are_refused_before_anything_is_allocated() {
    for (key, payload) in [(u32::MAX, 0), (0, u32::MAX), (u32::MAX, u32::MAX), (1 << 10, 50 << 20), ((1 << 10) + 1, 0)] {
        let mut deframer = deframer();
        deframer.extend(&announced(77, key, payload));
        let error = deframer.next_unit().unwrap_err();
        assert!(matches!(error, DeframeError::TooLarge { .. }), "{error}");
        assert_eq!(error.correlation(), CorrelationId(77));
        assert!(!error.is_fatal());
        assert!(deframer.buffer().capacity() < 70_000);
        let wire = WireError::from(error);
        assert_eq!((wire.status, wire.details.len()), (Status::TooLarge, 2));
    }
}

#[test]
fn requests_without_frames_have_a_limit_of_their_own() {
    let header = |operation: Operation| Header {
        magic: magic::REQUEST,
        timestamp: 0,
        offset: 5,
        key_size: 0,
        payload_size: (1 << 20) + 1,
        record_count: operation.number(),
    };
    for operation in Operation::ALL {
        let mut deframer = deframer();
        deframer.extend(&header(*operation).encode());
        assert_eq!(deframer.next_unit().is_ok(), *operation == Operation::Produce, "{operation}");
    }
}

#[test]
fn a_body_just_under_the_limit_costs_what_was_sent() {
    let mut deframer = deframer();
    deframer.extend(&announced(1, 0, 50 << 20));
    assert_eq!(deframer.next_unit(), Ok(None));
    assert_eq!(deframer.missing_bytes(), 50 << 20);
    assert!(deframer.buffer().capacity() <= 8 << 10, "a header alone costs a page or two");
    let mut sent = HEADER_SIZE;
    while sent < 8 << 20 {
        let buffer = deframer.buffer();
        let capacity = buffer.capacity();
        assert!(capacity <= 2 * sent + (64 << 10) + (8 << 10), "{capacity} bytes are held for {sent}");
        // As a socket would: whatever there is room for, but not more than it has.
        let piece = (capacity - buffer.len()).min(200_000);
        buffer.put_bytes(0, piece);
        sent += piece;
        assert_eq!(deframer.next_unit(), Ok(None));
    }
}

#[test]
fn an_idle_stream_costs_a_page() {
    let mut deframer = deframer();
    for _ in 0..10 {
        deframer.buffer().extend_from_slice(&unit(magic::REQUEST, 1, b"", b"x"));
        assert!(deframer.next_unit().unwrap().is_some());
    }
    assert!(deframer.buffer().capacity() <= 8 << 10);
    deframer.release();
    assert_eq!(deframer.into_rest().capacity(), 0);
}

#[test]
fn a_burst_after_a_rest_is_read_in_one_piece() {
    let mut deframer = deframer();
    let burst = unit(magic::REQUEST, 1, b"", &[0; 71]).repeat(400);
    let mut reads = 0;
    for _ in 0..20 {
        reads = 0;
        deframer.release();
        let mut rest = &burst[..];
        while !rest.is_empty() {
            let buffer = deframer.buffer();
            let room = (buffer.capacity() - buffer.len()).min(rest.len());
            buffer.extend_from_slice(&rest[..room]);
            rest = &rest[room..];
            reads += 1;
            while deframer.next_unit().unwrap().is_some() {}
        }
    }
    assert_eq!(reads, 1);
    // Single units afterwards: the room follows them down.
    for _ in 0..20 {
        deframer.release();
        deframer.buffer().extend_from_slice(&unit(magic::REQUEST, 1, b"", b"x"));
        assert!(deframer.next_unit().unwrap().is_some());
    }
    deframer.release();
    assert!(deframer.buffer().capacity() <= 8 << 10);
}

#[test]
fn a_large_unit_is_read_to_its_end_in_memory_that_is_there() {
    let size = 1 << 20;
    let stream = [unit(magic::REQUEST, 1, b"", &vec![1; size]), unit(magic::REQUEST, 2, b"", b"x")].concat();
    let mut deframer = deframer();
    assert_eq!((deframer.wanted_bytes(), deframer.useful_bytes()), (None, usize::MAX));
    deframer.extend(&stream[..100]);
    assert_eq!(deframer.wanted_bytes(), Some(HEADER_SIZE + size));
    let mut memory = BytesMut::with_capacity(HEADER_SIZE + size);
    memory.extend_from_slice(b"what was there");
    let at = memory.as_ptr();
    deframer.go_on_in(memory);
    assert_eq!((deframer.wanted_bytes(), deframer.buffered_bytes()), (None, 100));
    let mut read = 100;
    while deframer.missing_bytes() > 0 {
        let most = deframer.useful_bytes();
        assert_eq!(most as u64, deframer.missing_bytes(), "what comes behind it is not read with it");
        let piece = &stream[read..read + most.min(300_000)];
        deframer.buffer().extend_from_slice(piece);
        read += piece.len();
    }
    let unit = deframer.next_unit().unwrap().unwrap();
    assert_eq!(unit.payload(), vec![1; size]);
    assert_eq!(unit.payload().as_ptr(), at.wrapping_add(HEADER_SIZE), "it did not move");
    deframer.extend(&stream[read..]);
    assert_eq!(deframer.wanted_bytes(), None, "a small one");
    assert_eq!(deframer.next_unit().unwrap().unwrap().payload(), b"x");
}

#[test]
fn what_comes_behind_a_large_unit_does_not_keep_its_memory() {
    let mut stream = unit(magic::REQUEST, 1, b"", &vec![1; 20 << 20]);
    // A small unit behind it, and the first byte of another.
    stream.extend(unit(magic::REQUEST, 2, b"", b"x"));
    stream.push(magic::REQUEST);
    for in_place in [false, true] {
        let mut deframer = deframer();
        let (mut rest, mut seen) = (&stream[..], 0);
        let mut each = |deframer: &mut Deframer| {
            if in_place {
                let each = |_: UnitView<'_>| {
                    seen += 1;
                    ControlFlow::<()>::Continue(())
                };
                assert!(deframer.each_unit(each).unwrap().is_continue());
            } else {
                while deframer.next_unit().unwrap().is_some() {
                    seen += 1;
                }
            }
        };
        while !rest.is_empty() {
            let buffer = deframer.buffer();
            let (piece, behind) = rest.split_at((buffer.capacity() - buffer.len()).min(rest.len()));
            buffer.extend_from_slice(piece);
            rest = behind;
            each(&mut deframer);
        }
        assert_eq!((seen, deframer.buffered_bytes()), (2, 1));
        assert!(deframer.buffer().capacity() <= 128 << 10);
        assert!(!deframer.into_rest().try_reclaim(1 << 20), "the large unit's memory is still there, in place: {in_place}");
    }
}

#[test]
fn a_refused_unit_is_passed_over_and_the_stream_goes_on() {
    let limits = UnitLimits { max_key_bytes: 10, max_body_bytes: 100 };
    let mut bytes = unit(magic::REQUEST, 1, b"", &[1; 100]);
    bytes.extend(unit(magic::REQUEST, 2, b"", &[2; 100_000]));
    bytes.extend(unit(magic::REQUEST, 3, b"key", b"payload"));
    for piece in [1, 7, 29, 1000, 70_000, bytes.len()] {
        let mut deframer = Deframer::new(&[magic::REQUEST], limits);
        let mut seen = Vec::new();
        for piece in bytes.chunks(piece) {
            deframer.extend(piece);
            loop {
                match deframer.next_unit() {
                    Ok(Some(unit)) => seen.push((unit.correlation().0, unit.payload().len())),
                    Ok(None) => break,
                    Err(error) => seen.push((error.correlation().0, 0)),
                }
            }
            assert!(deframer.buffered_bytes() <= 200 || piece.len() > 1000, "what is passed over is not kept");
        }
        assert_eq!(seen, [(1, 100), (2, 0), (3, 7)], "pieces of {piece}");
        assert!(deframer.is_between_units());
    }
}

#[test]
fn units_before_a_refused_one_are_given_in_place() {
    let limits = UnitLimits { max_key_bytes: 10, max_body_bytes: 100 };
    let mut deframer = Deframer::new(&[magic::REQUEST], limits);
    deframer.extend(&unit(magic::REQUEST, 1, b"", b"x"));
    deframer.extend(&unit(magic::REQUEST, 2, b"", &[2; 1000]));
    deframer.extend(&unit(magic::REQUEST, 3, b"key", b"y"));
    deframer.extend(&[0x16]);
    let mut seen = Vec::new();
    let mut look = |deframer: &mut Deframer| {
        deframer.each_unit(|unit| {
            seen.push(unit.header().offset);
            ControlFlow::<()>::Continue(())
        })
    };
    assert_eq!(look(&mut deframer).unwrap_err().correlation(), CorrelationId(2));
    assert_eq!(look(&mut deframer).unwrap_err(), DeframeError::Magic { found: 0x16 });
    assert_eq!(seen, [1, 3]);
}

#[test]
fn a_stream_of_another_kind_is_refused_at_its_first_byte() {
    let mut deframer = deframer();
    deframer.extend(&[0x16]);
    let error = deframer.next_unit().unwrap_err();
    assert_eq!(error, DeframeError::Magic { found: 0x16 });
    assert!(error.is_fatal());
    assert_eq!(error.correlation(), CorrelationId(0));
}

#[test]
fn data_frames_of_version_2_carry_their_extension() {
    let frame = ProducedFrame::message(5, Some(b"key"), b"payload").to_vec().unwrap();
    let mut deframer = Deframer::new(&[magic::DATA_V2], LIMITS);
    deframer.extend(&frame);
    deframer.extend(&frame[..PREFIX_SIZE]);
    let unit = deframer.next_unit().unwrap().unwrap();
    assert_eq!((unit.key(), unit.payload(), unit.as_bytes()), (&b"key"[..], &b"payload"[..], frame.as_slice()));
    assert_eq!(unit.into_payload(), &b"payload"[..]);
    assert_eq!(deframer.next_unit(), Ok(None));
    assert_eq!(deframer.missing_bytes(), 10);
}

#[test]
fn limits_can_be_raised_after_a_login() {
    let mut deframer = Deframer::new(&[magic::REQUEST], UnitLimits { max_key_bytes: 0, max_body_bytes: 10 });
    deframer.extend(&announced(1, 0, 11));
    assert!(deframer.next_unit().is_err());
    deframer.extend(&[0; 11]);
    deframer.set_limits(LIMITS);
    deframer.extend(&unit(magic::REQUEST, 2, b"", &[0; 11]));
    assert_eq!(deframer.next_unit().unwrap().unwrap().correlation(), CorrelationId(2));
}

proptest! {
    #[test]
    fn every_segmentation_gives_the_same_units(
        bodies in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..3000)), 1..20),
        pieces in prop::collection::vec(1usize..5000, 1..50),
    ) {
        let mut stream = BytesMut::new();
        for (number, (key, payload)) in bodies.iter().enumerate() {
            stream.extend_from_slice(&unit(magic::REQUEST, number as u64, key, payload));
        }
        let (mut deframer, mut in_place) = (deframer(), deframer());
        let (mut units, mut viewed) = (Vec::new(), Vec::new());
        let mut pieces = pieces.iter().cycle();
        while !stream.is_empty() {
            let buffer = deframer.buffer();
            let room = buffer.capacity() - buffer.len();
            let piece = stream.split_to((*pieces.next().unwrap()).min(stream.len()).min(room));
            buffer.extend_from_slice(&piece);
            while let Some(unit) = deframer.next_unit().unwrap() {
                units.push(unit);
            }
            in_place.buffer().extend_from_slice(&piece);
            // Ended at every third unit, and taken up again.
            let mut view = |unit: UnitView<'_>| {
                viewed.push((*unit.header(), unit.key().to_vec(), unit.payload().to_vec()));
                if viewed.len() % 3 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            while in_place.each_unit(&mut view).unwrap().is_break() {}
        }
        prop_assert!(deframer.is_between_units() && in_place.is_between_units());
        let copied: Vec<_> = units.iter().map(|unit| (*unit.header(), unit.key().to_vec(), unit.payload().to_vec())).collect();
        prop_assert_eq!(viewed, copied);
        prop_assert_eq!(units.len(), bodies.len());
        for (number, (unit, (key, payload))) in units.into_iter().zip(&bodies).enumerate() {
            prop_assert_eq!(unit.correlation().0, number as u64);
            prop_assert_eq!(unit.key(), key.as_slice());
            prop_assert_eq!(unit.payload(), payload.as_slice());
        }
    }
}
