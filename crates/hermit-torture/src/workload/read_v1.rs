//! Consumers of version 1: a connection streams from the committed position on, and commits take connections of their own.

use std::time::Duration;

use anyhow::Result;
use hermit_proto::v1::{COMMIT_STORED, Handshake};
use hermit_proto::{GroupName, HEADER_SIZE, Header, Offset, PartitionId, magic};
use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Task;
use super::place::Place;
use crate::check::history::Happened;

const AWAY: Duration = Duration::from_millis(50);
/// The broker may be paused for seconds.
const COMMIT_WITHIN: Duration = Duration::from_secs(20);

pub(super) async fn run(mut context: Task, place: Place, partition: PartitionId, group: String) -> Result<()> {
    let number = context.recorder.group(&group);
    let mut follower = Follower {
        reader: context.recorder.reader(format!("version 1 of {group}"), Some(number)),
        group: number,
        name: GroupName::new(&group)?,
        place,
        partition,
    };
    context.recorder.expect(None, Some(number), follower.place.part(partition));
    while !*context.stop.borrow() {
        follower.connection(&mut context).await;
    }
    Ok(())
}

struct Follower {
    reader: u16,
    group: u16,
    name: GroupName,
    place: Place,
    partition: PartitionId,
}

impl Follower {
    /// Reads from what is committed until the connection ends, or for as long as it was going to.
    async fn connection(&mut self, context: &mut Task) {
        let begun = context.recorder.now();
        let (group, topic, partition) = (self.name.clone(), self.place.name.clone(), self.partition);
        let Some(stream) = context.target.v1(&Handshake::Consumer { group, topic, partition }).await else {
            sleep(AWAY).await;
            return;
        };
        let mut stream = BufReader::new(stream);
        let mut frames = context.random.u32(20..3000);
        let mut until_commit = 0;
        let mut next = None;
        while frames > 0 {
            let read = tokio::select! {
                _ = context.stop.wait_for(|stop| *stop) => return,
                read = frame(&mut stream) => read,
            };
            let Ok((header, payload)) = read else { break };
            let (part, offset) = (self.place.part(partition), header.offset);
            if header.magic != magic::DATA_V1 {
                context.recorder.problem(format!("{}: no frame: {header:?}", self.name.as_str()));
                break;
            }
            if next.is_none() {
                context.recorder.note(Happened::Resumes { group: self.group, part, offset, begun });
                context.recorder.note(Happened::Begins { reader: self.reader, part, offset });
            }
            context.recorder.read(self.reader, Some(self.group), part, offset, header.record_count, &payload);
            next = Some(offset + u64::from(header.record_count));
            frames -= 1;
            if until_commit == 0 {
                until_commit = context.random.u32(20..200);
                self.commit(context, next.unwrap_or(offset)).await;
            }
            until_commit -= 1;
        }
        // A connection that broke while the broker was away is not made again in a hurry.
        sleep(AWAY).await;
    }

    async fn commit(&self, context: &Task, offset: u64) {
        let (group, topic, partition) = (self.name.clone(), self.place.name.clone(), self.partition);
        let part = self.place.part(partition);
        let begun = context.recorder.note(Happened::Commits { group: self.group, part, offset });
        let handshake = Handshake::Commit { group, topic, partition, offset: Offset(offset) };
        let Some(mut stream) = context.target.v1(&handshake).await else { return };
        let mut answer = [0];
        if let Ok(Ok(_)) = timeout(COMMIT_WITHIN, stream.read_exact(&mut answer)).await
            && answer == [COMMIT_STORED]
        {
            context.recorder.note(Happened::Committed { group: self.group, part, offset, begun });
        }
    }
}

async fn frame(stream: &mut BufReader<TcpStream>) -> Result<(Header, Vec<u8>)> {
    let mut header = [0; HEADER_SIZE];
    stream.read_exact(&mut header).await?;
    let header = Header::decode(&header);
    let mut key = vec![0; usize::try_from(header.key_size)?];
    stream.read_exact(&mut key).await?;
    let mut payload = vec![0; usize::try_from(header.payload_size)?];
    stream.read_exact(&mut payload).await?;
    Ok((header, payload))
}
