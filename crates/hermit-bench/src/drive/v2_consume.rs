//! Consumers of version 2: what they get is walked over delivery by delivery, or every frame is checked as the SDK does.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, bail, ensure};
use hermit_proto::session::{DeliveryError, DeliveryHead, SubscribeRequest};
use hermit_proto::{
    CorrelationId, FrameLimits, FrameSalt, FrameView, HEADER_SIZE, Header, LeaderEpoch, Offset, PREFIX_SIZE, PartitionId, TopicId,
    magic,
};
use serde::{Deserialize, Serialize};

use super::v1_consume::{Check, Extent};
use super::{READ_BYTES, Until, passes, read_some, session};
use crate::tally::{Tally, digest};
use crate::worker::Outcome;

/// More credit than any run needs.
const CREDIT_BYTES: u64 = 1 << 50;
/// A frame of 1 MiB and some.
const FRAME_BYTES: usize = (1 << 20) + 4096;

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consume {
    /// The broker.
    pub address: SocketAddr,
    /// The topic's id.
    pub topic: String,
    /// What each partition from 0 holds, of which all is read in a pass.
    pub partitions: Vec<Extent>,
    /// Records of a frame.
    pub records: u32,
    /// What it looks at; at least at heads.
    pub check: Check,
    /// `Count` is passes; in a given time as many whole passes as begin in it.
    pub until: Until,
}

impl Consume {
    pub(super) fn run(&self) -> Result<Outcome> {
        let topic: TopicId = self.topic.parse()?;
        passes(&self.partitions, self.records, self.until, READ_BYTES.max(2 * FRAME_BYTES), |partition, extent, buffer| {
            self.pass(topic, partition, extent, buffer)
        })
    }

    fn pass(&self, topic: TopicId, partition: PartitionId, extent: Extent, buffer: &mut [u8]) -> Result<Tally> {
        let mut stream = session::open(self.address)?;
        let subscription = CorrelationId(2);
        let request = SubscribeRequest {
            topic,
            partition,
            offset: Offset(0),
            leader_epoch: LeaderEpoch::UNKNOWN,
            credit_bytes: CREDIT_BYTES,
        };
        let start = session::ask(&mut stream, subscription, &request)?.start_offset;
        ensure!(start == Offset(0), "the log begins at {start}");
        let records = self.records;
        let deliveries = Deliveries {
            subscription,
            salt: FrameSalt::new(topic, partition),
            records,
            next: 0,
            within: 0,
            bytes: 0,
            tally: Tally::default(),
        };
        match self.check {
            Check::All => deliveries.check(&mut stream, buffer, extent),
            Check::Heads | Check::Nothing => deliveries.walk(&mut stream, buffer, extent),
        }
    }
}

/// Deliveries as they come in, in pieces.
struct Deliveries {
    subscription: CorrelationId,
    salt: FrameSalt,
    records: u32,
    /// The offset that comes next.
    next: u64,
    /// Bytes of the present delivery that have not come yet.
    within: u64,
    /// Bytes of frames so far.
    bytes: u64,
    tally: Tally,
}

impl Deliveries {
    /// Looks at the heads alone.
    fn walk(mut self, stream: &mut TcpStream, buffer: &mut [u8], extent: Extent) -> Result<Tally> {
        // Small enough for the core's cache: the same as the reader has that this is compared with.
        let most = READ_BYTES.min(buffer.len());
        let mut held = 0;
        while self.bytes + self.within < extent.bytes || self.within > 0 {
            held += read_some(stream, &mut buffer[held..most])?;
            let mut at = 0;
            loop {
                let pass = usize::try_from(self.within)?.min(held - at);
                at += pass;
                self.bytes += pass as u64;
                self.within -= pass as u64;
                let Some(head) = buffer[at..held].first_chunk::<{ DeliveryHead::HEAD_SIZE }>().filter(|_whole| self.within == 0)
                else {
                    break;
                };
                let head = *head;
                self.head(&head, &buffer[at..held])?;
                at += head.len();
            }
            buffer.copy_within(at..held, 0);
            held -= at;
        }
        ensure!(held == 0 && self.bytes == extent.bytes, "{} bytes of frames where {} are stored", self.bytes, extent.bytes);
        let expected = extent.frames * u64::from(self.records);
        ensure!(self.next == expected, "delivered up to {} where the log ends at {expected}", self.next);
        Ok(Tally { frames: extent.frames, records: self.next, ..Tally::default() })
    }

    /// Checks every frame, as the SDK does.
    fn check(mut self, stream: &mut TcpStream, buffer: &mut [u8], extent: Extent) -> Result<Tally> {
        let (mut start, mut end, mut offset) = (0, 0, 0);
        while self.bytes < extent.bytes {
            // A frame that begins near the end of the buffer is moved to its start.
            if end == buffer.len() || end - start > 0 && buffer.len() - start < FRAME_BYTES {
                buffer.copy_within(start..end, 0);
                (start, end) = (0, end - start);
            } else if start == end {
                (start, end) = (0, 0);
            }
            let most = buffer.len().min(end + READ_BYTES);
            end += read_some(stream, &mut buffer[end..most])?;
            loop {
                if self.within == 0 {
                    let Some(head) = buffer[start..end].first_chunk::<{ DeliveryHead::HEAD_SIZE }>() else { break };
                    ensure!(self.next == offset, "frames up to {offset}, but {} was announced", self.next);
                    let head = *head;
                    self.head(&head, &buffer[start..end])?;
                    start += head.len();
                } else {
                    let Some(size) = self.frame(&buffer[start..end], &mut offset)? else { break };
                    start += size;
                }
            }
        }
        ensure!(start == end && self.next == offset && self.bytes == extent.bytes, "the frames do not end where they should");
        Ok(self.tally)
    }

    /// The size of the frame at the start, if it is whole.
    fn frame(&mut self, bytes: &[u8], offset: &mut u64) -> Result<Option<usize>> {
        let Some(prefix) = bytes.first_chunk::<PREFIX_SIZE>() else { return Ok(None) };
        let size = u64::try_from(PREFIX_SIZE)? + Header::peek(prefix).map_or(0, |header| header.body_bytes());
        if size > bytes.len() as u64 {
            return Ok(None);
        }
        let (frame, _rest) = FrameView::split(bytes, &FrameLimits::default())?;
        frame.verify_frame(&self.salt)?;
        frame.verify_body()?;
        let fits =
            frame.prefix.offset() == Offset(*offset) && frame.prefix.header.record_count == self.records && size <= self.within;
        ensure!(fits, "not the frame at offset {offset}, of {} records: {:?}", self.records, frame.prefix.header);
        *offset = frame.prefix.next_offset().0;
        self.tally.add(self.tally.frames, self.records, frame.payload().len() as u64, digest(frame.payload(), false));
        self.within -= size;
        self.bytes += size;
        Ok(Some(usize::try_from(size)?))
    }

    fn head(&mut self, head: &[u8; DeliveryHead::HEAD_SIZE], bytes: &[u8]) -> Result<()> {
        let Some((header, key)) = head.split_first_chunk::<HEADER_SIZE>() else { bail!("no header") };
        let header = Header::decode(header);
        ensure!(header.magic == magic::DELIVERY && header.offset == self.subscription.0, "no delivery: {header:?}");
        if header.record_count != 0 {
            let payload = bytes.get(HEADER_SIZE..).unwrap_or_default();
            let end = payload.len().min(usize::try_from(header.payload_size)?);
            bail!("the subscription reports: {}", DeliveryError::decode(&header, &payload[..end])?.error);
        }
        let key = DeliveryHead::decode(key)?;
        ensure!(key.next_offset.0 >= self.next, "a delivery goes back to {}", key.next_offset);
        self.next = key.next_offset.0;
        self.within = header.payload_size.into();
        Ok(())
    }
}
