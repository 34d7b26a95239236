//! What version-1 clients send, and what they get.

use hermit_log::Batch;
use hermit_proto::{Attributes, Codec, FrameLimits, FrameView, Header, Offset, ProducedFrame};

use super::incoming::Incoming;
use super::outgoing::{Outgoing, Place};
use super::unfold::{Sink, unfold};
use crate::fuzzing::Steps;

/// Unpacked record sets end here.
const MAX_SET_BYTES: usize = 64 << 10;

/// The stream of a producer: whatever pieces it comes in, the same frames are taken and the same place refuses the rest.
///
/// # Panics
/// Where that does not hold.
pub fn v1_stream(data: &[u8]) {
    let Some(([flags, piece, most], stream)) = data.split_first_chunk() else { return };
    let compacted = flags % 2 == 1;
    let whole = gather(stream, stream.len(), usize::MAX, compacted);
    let pieces = gather(stream, usize::from(*piece), usize::from(*most).max(1), compacted);
    assert_eq!(whole, pieces);
}

fn gather(stream: &[u8], piece: usize, most: usize, compacted: bool) -> (Vec<u8>, bool) {
    let limits = FrameLimits { max_body_bytes: 1 << 10, max_record_count: 100 };
    let (mut incoming, mut taken) = (Incoming::new(limits, &[]), Vec::new());
    for piece in stream.chunks(piece.max(1)) {
        incoming.deframer.extend(piece);
        loop {
            let mut batch = Batch::default();
            let brought = incoming.gather(most, compacted, &mut batch);
            assert!(batch.frames().len() <= most);
            let parsed = Batch::parse(batch.as_bytes().into(), &limits).expect("what was made here is sound");
            assert_eq!(parsed.frames().len(), batch.frames().len());
            taken.extend_from_slice(batch.as_bytes());
            if brought.refused.is_some() {
                return (taken, true);
            }
            if !brought.more {
                break;
            }
        }
    }
    (taken, false)
}

/// What a consumer gets for a stored frame, whose records a producer made up: whole version-1 frames within the limit, in order, the same however much the socket
/// takes at a time.
///
/// # Panics
/// Where that does not hold.
pub fn v1_consumer(data: &[u8]) {
    let mut steps = Steps(data);
    let (flags, count, from, piece) = (steps.u8(), steps.u8(), steps.u8(), steps.u8());
    let codec = [Codec::None, Codec::Lz4, Codec::Zstd][usize::from(flags % 3)];
    let frame = match flags & 0x80 {
        0 => ProducedFrame::record_set(5, codec, count.into(), steps.0),
        _ => ProducedFrame { record_count: count.into(), ..ProducedFrame::message(5, Some(b"k"), steps.0) },
    };
    let frame = if count == 0 { ProducedFrame { attributes: Attributes(Attributes::CONTROL), ..frame } } else { frame };
    let Ok(bytes) = frame.to_vec() else { return };
    let Ok((view, _)) = FrameView::split(&bytes, &FrameLimits::default()) else { return };
    let (all, sound) = unfolded(&view, from.into(), usize::MAX, usize::MAX);
    let (pieces, sound_too) = unfolded(&view, from.into(), 1 + usize::from(piece), usize::from(piece));
    assert_eq!((&all, sound), (&pieces, sound_too));
    let (mut rest, mut last) = (&*all, None);
    while let Some(header) = Header::peek(rest) {
        assert_eq!(header.magic, 1);
        assert!(last.is_none_or(|last| last < header.offset) && header.record_count > 0);
        last = Some(header.offset);
        let size = hermit_proto::HEADER_SIZE + usize::try_from(header.body_bytes()).expect("it was in memory");
        rest = rest.get(size..).expect("frames are whole");
    }
    assert!(rest.is_empty());
}

/// All bytes for a sink that takes `takes` at a time, and whether the set was what it claims.
fn unfolded(view: &FrameView<'_>, from: u64, most_bytes: usize, takes: usize) -> (Vec<u8>, bool) {
    let all = std::cell::RefCell::new(Vec::new());
    let take = |bytes: &[u8]| {
        let count = bytes.len().min(takes);
        all.borrow_mut().extend_from_slice(&bytes[..count]);
        count
    };
    let mut place = Place::at(Offset(from));
    loop {
        let mut out = Outgoing::default();
        out.begin(place);
        let result = unfold(view, place, MAX_SET_BYTES, &mut out, &Sink { take: &take, most_bytes });
        all.borrow_mut().extend_from_slice(out.as_bytes());
        match result {
            Ok(Some(next)) => place = next,
            whole => return (all.into_inner(), whole.is_ok()),
        }
    }
}
