//! A whole session, without its socket.

use std::net::SocketAddr;
use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use hermit_proto::session::{HelloRequest, Operation, Request as _};
use hermit_proto::{CorrelationId, Deframer, FrameLimits, FrameView, ProducedFrame, TopicId, UnitLimits, magic};
use tokio::runtime::Runtime;

use super::state::{Session, Stage};
use crate::address::PeerAddress;
use crate::fuzzing::World;
use crate::server::connection::Transport;
use crate::{Broker, TopicConfig};

/// Stands for the topic that is there: the one of the seeds.
const SAMPLE_TOPIC: [u8; 16] = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be had"))
}

/// A stream of requests to a broker with a topic `t`, which has one frame: every answer and delivery is a whole unit, nothing comes behind the last word, and
/// the broker goes on and closes. The first byte says whether a hello stands before the stream, and whether all of it is read together.
///
/// # Panics
/// Where that does not hold.
pub fn requests(data: &[u8]) {
    let Some((flags, stream)) = data.split_first() else { return };
    let world = World::new();
    let broker = world.open(1).expect("the disk has no faults");
    broker.create_topic("t", 4, &TopicConfig::default()).expect("it is the first");
    let topic = broker.topic(&"t".parse().expect("a name")).expect("it is there");
    let frame = ProducedFrame::message(5, None, b"x").to_vec().expect("it is small");
    let mut batch = broker.parse(BytesMut::from(&*frame)).expect("it is sound");
    let ticket = broker.append(&topic.partitions()[3], &mut batch).expect("it can be written");
    ticket.wait().expect("the disk has no faults");
    runtime().block_on(run(&world, &broker, flags % 2 == 0, flags & 2 != 0, &known_topic(stream, topic.meta.id)));
    broker.close().expect("the disk has no faults");
}

/// The stream with the id of the topic that is there for the one that stands for it.
fn known_topic(stream: &[u8], id: TopicId) -> Vec<u8> {
    let mut stream = stream.to_vec();
    let places: Vec<_> = stream.windows(16).enumerate().filter(|(_, bytes)| **bytes == SAMPLE_TOPIC).map(|(at, _)| at).collect();
    for at in places {
        stream[at..at + 16].copy_from_slice(&id.0.to_be_bytes());
    }
    stream
}

async fn run(world: &World, broker: &Broker, hello: bool, gathers: bool, stream: &[u8]) {
    let peer = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut session = Session::new(
        broker.clone(),
        Transport { peer, encrypted: false, client_certificate: None },
        broker.door().enter(PeerAddress::of(peer.ip())),
    );
    let (mut received, mut sent) = (BytesMut::new(), BytesMut::new());
    if hello {
        HelloRequest::new("fuzz").encode(CorrelationId(1), &mut received).expect("it is small");
    }
    received.extend_from_slice(stream);
    let mut deframer = Deframer::new(&[magic::REQUEST], session.unit_limits());
    deframer.extend(&received);
    while let Ok(Some(unit)) = deframer.next_unit() {
        if !session.takes_requests() {
            break;
        }
        let is_produce = unit.header().record_count == Operation::Produce.number();
        session.request(if is_produce { with_sound_frames(unit) } else { unit });
        deframer.set_limits(session.unit_limits());
        if gathers && is_produce {
            continue;
        }
        settle(world, &mut session).await;
        collect(&mut session, &mut sent);
    }
    session.leave();
    settle(world, &mut session).await;
    collect(&mut session, &mut sent);
    let closed = session.stage == Stage::Closing;
    check(&sent);
    if closed {
        session.wake();
        assert!(session.out.is_empty(), "something comes behind the last word");
    }
}

/// Waits until nothing is under way.
async fn settle(world: &World, session: &mut Session) {
    session.append_gathered();
    session.wake();
    while session.background.is_busy() {
        session.signal.notified().await;
        session.wake();
    }
    world.flusher.run_until_idle();
    session.wake();
}

/// Takes what is to be sent, as the driver does.
fn collect(session: &mut Session, sent: &mut BytesMut) {
    while let Some(range) = session.deliveries() {
        sent.unsplit(session.out.split());
        let start = sent.len();
        sent.resize(start + usize::try_from(range.left_bytes).expect("it is small"), 0);
        range.file.read_exact_at(&mut sent[start..], range.position).expect("what is delivered is there");
    }
    sent.unsplit(session.out.split());
}

fn check(sent: &[u8]) {
    let limits = UnitLimits { max_key_bytes: u32::MAX, max_body_bytes: u64::MAX };
    let mut deframer = Deframer::new(&[magic::RESPONSE, magic::DELIVERY], limits);
    deframer.extend(sent);
    let mut bytes = 0;
    while let Some(unit) = deframer.next_unit().expect("what is sent are whole units") {
        bytes += hermit_proto::HEADER_SIZE + unit.key().len() + unit.payload().len();
    }
    assert_eq!(bytes, sent.len(), "the last unit is cut");
}

/// The same request, its frames under right checksums, as far as they are frames.
fn with_sound_frames(unit: hermit_proto::Unit) -> hermit_proto::Unit {
    let (mut rest, mut frames) = (unit.payload(), BytesMut::new());
    while let Ok((view, behind)) = FrameView::split(rest, &FrameLimits::default()) {
        let (header, extension) = (view.prefix.header, view.prefix.extension);
        let frame = ProducedFrame {
            timestamp: header.timestamp,
            attributes: extension.attributes,
            record_count: header.record_count,
            producer: view.prefix.producer(),
            key: view.key(),
            payload: view.payload(),
        };
        frame.encode_into(&mut frames).expect("it was in memory");
        rest = behind;
    }
    frames.extend_from_slice(rest);
    let header = *unit.header();
    let mut whole = BytesMut::from(
        &hermit_proto::Header { payload_size: u32::try_from(frames.len()).unwrap_or(u32::MAX), ..header }.encode()[..],
    );
    whole.extend_from_slice(unit.key());
    whole.extend_from_slice(&frames);
    let mut deframer = Deframer::new(&[magic::REQUEST], UnitLimits { max_key_bytes: u32::MAX, max_body_bytes: u64::MAX });
    deframer.extend(&Bytes::from(whole));
    deframer.next_unit().ok().flatten().unwrap_or(unit)
}
