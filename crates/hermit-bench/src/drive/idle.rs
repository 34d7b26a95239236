//! Consumers that have read all there is, and wait for a frame more.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use hermit_proto::session::{DeliveryHead, SubscribeRequest};
use hermit_proto::v1::Handshake;
use hermit_proto::{CorrelationId, GroupName, HEADER_SIZE, Header, LeaderEpoch, Offset, PartitionId, TopicName, magic};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::{SILENCE, session};
use crate::clock::now;
use crate::material::Protocol;
use crate::worker::{Outcome, Ready, Run};

/// Connections from one source address; there are some 28,000 ports for each.
const OF_ADDRESS: u32 = 5000;
/// Each subscription may get so much.
const CREDIT_BYTES: u64 = 1 << 20;

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// The broker.
    pub address: SocketAddr,
    /// The topic's name and id; its first partition holds `next` records.
    pub topic: (String, String),
    /// The offset that comes next.
    pub next: u64,
    /// Which protocol they speak.
    pub protocol: Protocol,
    /// How many.
    pub count: u32,
}

impl Idle {
    /// All of them have read what there is before it is ready; then each waits for one frame more.
    pub(super) fn prepare(self) -> Result<(Ready, Run)> {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit })
            .context("more files cannot be opened")?;
        let mut streams = (0..self.count).map(|number| self.open(number)).collect::<Result<Vec<_>>>()?;
        let run = move || {
            let begun = now();
            for stream in &mut streams {
                self.woken(stream, self.next)?;
            }
            let frames = streams.len() as u64;
            Ok(Outcome { seconds: begun.elapsed().as_secs_f64(), frames, records: frames, ..Outcome::default() })
        };
        Ok((Ready::default(), Box::new(run)))
    }

    fn open(&self, number: u32) -> Result<TcpStream> {
        let [a, b, c, _] = Ipv4Addr::LOCALHOST.octets();
        let source = IpAddr::from([a, b, c, u8::try_from(number / OF_ADDRESS)? + 1]);
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::new(source, 0))?;
        connect(&socket, &self.address).with_context(|| format!("connection {number} is refused"))?;
        let mut stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        match self.protocol {
            Protocol::V1 => {
                let (group, topic) = (GroupName::new("idle")?, TopicName::new(&self.topic.0)?);
                let mut bytes = Vec::new();
                Handshake::Consumer { group, topic, partition: PartitionId(0) }.encode(&mut bytes);
                stream.write_all(&bytes)?;
            }
            Protocol::V2 => {
                session::hello(&mut stream)?;
                let (topic, partition) = (self.topic.1.parse()?, PartitionId(0));
                let (offset, leader_epoch) = (Offset(0), LeaderEpoch::UNKNOWN);
                let request = SubscribeRequest { topic, partition, offset, leader_epoch, credit_bytes: CREDIT_BYTES };
                session::ask(&mut stream, CorrelationId(2), &request)?;
            }
        }
        for next in 0..self.next {
            self.woken(&mut stream, next)?;
        }
        Ok(stream)
    }

    /// Reads one frame, of one record.
    fn woken(&self, stream: &mut TcpStream, offset: u64) -> Result<()> {
        let mut header = [0; HEADER_SIZE];
        stream.read_exact(&mut header).context("an idle consumer got nothing")?;
        let header = Header::decode(&header);
        let mut body = vec![0; usize::try_from(header.body_bytes())?];
        stream.read_exact(&mut body).context("an idle consumer got half a frame")?;
        match self.protocol {
            Protocol::V1 => ensure!(header.magic == magic::DATA_V1 && header.offset == offset, "not offset {offset}: {header:?}"),
            Protocol::V2 => {
                let key = body.get(..DeliveryHead::KEY_SIZE).context("no delivery")?;
                let next = DeliveryHead::decode(key)?.next_offset.0;
                ensure!(header.magic == magic::DELIVERY && next == offset + 1, "not offset {offset}: {header:?}");
            }
        }
        Ok(())
    }
}
