//! Version-2 sessions: what each request does, and what each fault is answered with.
#![expect(clippy::unwrap_used, reason = "a test")]

mod damage;
mod opening;
mod positions;
mod producing;
mod reading;
mod refusals;
#[path = "../support/mod.rs"]
mod support;
mod topics;

use hermit_proto::{CorrelationId, FrameLimits, FrameSalt, FrameView, PartitionId, TopicId};

use support::v2::Session;

/// Checks both checksums of all frames, and gives offsets and payloads.
fn frames(topic: TopicId, mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (view, rest) = FrameView::split(bytes, &FrameLimits::default()).unwrap();
        view.verify_body().unwrap();
        view.verify_frame(&FrameSalt::new(topic, PartitionId(0))).unwrap();
        frames.push((view.prefix.offset().0, view.payload().to_vec()));
        bytes = rest;
    }
    frames
}

/// Reads deliveries until there are `count` frames.
async fn read(session: &mut Session, topic: TopicId, subscription: CorrelationId, count: usize) -> Vec<(u64, Vec<u8>)> {
    let mut read = Vec::new();
    while read.len() < count {
        let (_, unit) = session.delivery(subscription).await;
        read.extend(frames(topic, unit.payload()));
    }
    read
}
