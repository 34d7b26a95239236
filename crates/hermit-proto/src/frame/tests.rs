use proptest::prelude::*;

use super::*;
use crate::header::magic;
use crate::ids::{LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, TopicId};

const SALT: FrameSalt = FrameSalt::new(TopicId(7), PartitionId(3));

fn stamped(frame: &ProducedFrame<'_>) -> Vec<u8> {
    let mut bytes = frame.to_vec().unwrap();
    let stamp = BrokerStamp { offset: Offset(41), leader_epoch: LeaderEpoch(2), append_time: 99, flushed_distance: 1000 };
    FramePrefix::stamp(bytes.first_chunk_mut().unwrap(), &stamp, &SALT);
    bytes
}

fn verified(bytes: &[u8]) -> Result<(), FrameError> {
    let (view, rest) = FrameView::split(bytes, &FrameLimits::default())?;
    assert!(rest.is_empty());
    view.verify_frame(&SALT)?;
    view.verify_body()
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = stamped(&ProducedFrame::message(5, Some(b"key"), b"payload"));
    assert_eq!(verified(&bytes), Ok(()));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        // A size that no longer fits gives `Truncated` or leaves a rest; both are damage too.
        let found = std::panic::catch_unwind(|| verified(&damaged).is_err());
        assert!(found.unwrap_or(true), "bit {bit}");
    }
}

#[test]
fn a_frame_of_another_partition_is_refused() {
    let bytes = stamped(&ProducedFrame::message(5, None, b"x"));
    let (view, _) = FrameView::split(&bytes, &FrameLimits::default()).unwrap();
    for other in [FrameSalt::new(TopicId(7), PartitionId(4)), FrameSalt::new(TopicId(8), PartitionId(3))] {
        assert!(matches!(view.verify_frame(&other), Err(FrameError::FrameCrc { .. })));
    }
}

#[test]
fn sizes_are_checked_before_the_body_is_asked_for() {
    let mut prefix = FramePrefix::decode(&ProducedFrame::message(0, Some(b"k"), b"p").prefix().unwrap());
    prefix.header.key_size = u32::MAX;
    prefix.header.payload_size = u32::MAX;
    let error = FrameView::split(&prefix.encode(), &FrameLimits::default()).unwrap_err();
    assert_eq!(error, FrameError::TooLarge { body_bytes: 2 * u64::from(u32::MAX), limit_bytes: 50 << 20 });
    prefix.header.key_size = 0;
    prefix.header.payload_size = 0;
    prefix.header.record_count = u32::MAX;
    let error = FrameView::split(&prefix.encode(), &FrameLimits::default()).unwrap_err();
    assert_eq!(error, FrameError::TooManyRecords { count: u32::MAX, limit: 1_000_000 });
}

#[test]
fn null_and_empty_keys_differ() {
    for key in [None, Some(&b""[..]), Some(b"k")] {
        let bytes = stamped(&ProducedFrame::message(0, key, b""));
        let (view, _) = FrameView::split(&bytes, &FrameLimits::default()).unwrap();
        assert_eq!(view.key(), key);
        assert_eq!(view.payload(), b"");
    }
}

#[test]
fn contradictions_are_refused() {
    let good = FramePrefix::decode(&ProducedFrame::message(0, Some(b"k"), b"").prefix().unwrap());
    let mut cases = Vec::new();
    let mut case = |change: fn(&mut FramePrefix)| {
        let mut bad = good;
        change(&mut bad);
        cases.push(bad);
    };
    case(|p| p.header.record_count = 0);
    case(|p| p.header.magic = magic::DATA_V1);
    case(|p| p.extension.attributes = Attributes(0));
    case(|p| p.extension.attributes.0 |= 1 << 15);
    case(|p| p.extension.attributes.0 |= 1);
    case(|p| p.extension.attributes.0 |= 3);
    case(|p| p.extension.attributes.0 |= Attributes::RECORD_SET);
    case(|p| p.extension.attributes.0 |= Attributes::CONTROL);
    case(|p| p.extension.producer_id = ProducerId(-2));
    case(|p| p.extension.producer_id = ProducerId(0));
    case(|p| p.extension.producer_epoch = ProducerEpoch(0));
    case(|p| {
        p.extension.attributes.0 |= Attributes::TOMBSTONE;
        p.header.payload_size = 1;
    });
    assert_eq!(good.check(&FrameLimits::default()), Ok(()));
    for bad in cases {
        assert!(bad.check(&FrameLimits::default()).is_err(), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn any_frame_survives_the_round_trip(
        timestamp in any::<u64>(),
        key in prop::option::of(prop::collection::vec(any::<u8>(), 0..50)),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        producer in prop::option::of((0i64.., 0i16.., 0i32..)),
        count in 1u32..1_000_000,
    ) {
        let producer = producer.map(|(id, epoch, sequence)| ProducerStamp {
            id: ProducerId(id), epoch: ProducerEpoch(epoch), first_sequence: Sequence(sequence),
        });
        let frame = ProducedFrame { timestamp, attributes: Attributes(0), record_count: count, producer, key: key.as_deref(), payload: &payload };
        let bytes = stamped(&frame);
        let mut streamed = Vec::new();
        frame.encode_into(&mut streamed).unwrap();
        prop_assert_eq!(&streamed[PREFIX_SIZE..], &bytes[PREFIX_SIZE..]);
        let (view, rest) = FrameView::split(&bytes, &FrameLimits::default()).unwrap();
        prop_assert!(rest.is_empty());
        prop_assert_eq!(view.verify_body(), Ok(()));
        prop_assert_eq!(view.verify_frame(&SALT), Ok(()));
        prop_assert_eq!(view.prefix.header.timestamp, timestamp);
        prop_assert_eq!(view.prefix.offset(), Offset(41));
        prop_assert_eq!(view.prefix.producer(), producer);
        prop_assert_eq!(view.key(), key.as_deref());
        prop_assert_eq!(view.payload(), &payload[..]);
        let prefix = bytes.first_chunk().unwrap();
        prop_assert_eq!(FramePrefix::decode(prefix).encode(), *prefix);
        for cut in 0..bytes.len() {
            let truncated = matches!(FrameView::split(&bytes[..cut], &FrameLimits::default()), Err(FrameError::Truncated { .. }));
            prop_assert!(truncated);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((view, _)) = FrameView::split(&bytes, &FrameLimits::default()) {
            let _ = (view.key(), view.payload(), view.verify_body().is_ok(), view.verify_frame(&SALT).is_ok());
        }
    }
}
