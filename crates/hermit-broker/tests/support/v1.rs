//! A version-1 client.

use hermit_proto::v1::Handshake;
use hermit_proto::{GroupName, Header, Offset, PartitionId, TopicName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Server, within};

pub fn frame(timestamp: u64, key: &[u8], payload: &[u8], record_count: u32) -> Vec<u8> {
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
    let header = Header { magic: 1, timestamp, offset: 0, key_size: size(key), payload_size: size(payload), record_count };
    [&header.encode()[..], key, payload].concat()
}

pub async fn producer(server: &Server, topic: &str) -> TcpStream {
    let handshake = Handshake::Producer { topic: TopicName::new(topic).unwrap(), partition: PartitionId(0) };
    open(server, &handshake).await
}

pub async fn consumer(server: &Server, group: &str, topic: &str) -> TcpStream {
    let (group, topic) = (GroupName::new(group).unwrap(), TopicName::new(topic).unwrap());
    open(server, &Handshake::Consumer { group, topic, partition: PartitionId(0) }).await
}

pub async fn open(server: &Server, handshake: &Handshake) -> TcpStream {
    let mut stream = server.connect().await;
    let mut bytes = Vec::new();
    handshake.encode(&mut bytes);
    stream.write_all(&bytes).await.unwrap();
    stream
}

/// Commits; answers whether the broker said that it is stored.
pub async fn commit(server: &Server, group: &str, topic: &str, partition: u32, offset: u64) -> bool {
    let (group, topic) = (GroupName::new(group).unwrap(), TopicName::new(topic).unwrap());
    let handshake = Handshake::Commit { group, topic, partition: PartitionId(partition), offset: Offset(offset) };
    let mut stream = open(server, &handshake).await;
    let mut answer = Vec::new();
    // A refusal closes the connection, perhaps with a reset.
    let _closed = within(stream.read_to_end(&mut answer)).await;
    assert!(answer.is_empty() || answer == [1], "{answer:?}");
    !answer.is_empty()
}

/// The answer to one frame: status and offset.
pub async fn answer(stream: &mut TcpStream) -> (u8, u64) {
    let mut bytes = [0; 9];
    within(stream.read_exact(&mut bytes)).await.unwrap();
    (bytes[0], u64::from_be_bytes(bytes[1..].try_into().unwrap()))
}

/// The next frame of a consumer.
pub async fn next_frame(stream: &mut TcpStream) -> (Header, Vec<u8>, Vec<u8>) {
    let mut bytes = [0; 29];
    within(stream.read_exact(&mut bytes)).await.unwrap();
    let header = Header::decode(&bytes);
    let mut key = vec![0; header.key_size as usize];
    within(stream.read_exact(&mut key)).await.unwrap();
    let mut payload = vec![0; header.payload_size as usize];
    within(stream.read_exact(&mut payload)).await.unwrap();
    (header, key, payload)
}

/// Whether the broker has closed the connection without sending anything more.
pub async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    matches!(within(stream.read(&mut byte)).await, Ok(0) | Err(_))
}
