//! The beginning of a version-2 session over a bare socket: what comes before the load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use hermit_proto::session::{HelloRequest, Request, Response};
use hermit_proto::{CorrelationId, HEADER_SIZE, Header, magic};

use super::connect;

/// Connects and says hello, under correlation id 1.
pub(super) fn open(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = connect(address)?;
    hello(&mut stream)?;
    Ok(stream)
}

/// Says hello over a new connection.
pub(super) fn hello(stream: &mut TcpStream) -> Result<()> {
    ask(stream, CorrelationId(1), &HelloRequest::new("hermit-bench")).map(drop)
}

/// Sends a request and waits for its answer; nothing else may be under way.
pub(super) fn ask<R: Request>(stream: &mut TcpStream, correlation: CorrelationId, request: &R) -> Result<R::Response> {
    let mut bytes = BytesMut::new();
    request.encode(correlation, &mut bytes)?;
    stream.write_all(&bytes)?;
    let mut header = [0; HEADER_SIZE];
    stream.read_exact(&mut header).context("the broker does not answer")?;
    let header = Header::decode(&header);
    let mut body = vec![0; usize::try_from(header.body_bytes())?];
    stream.read_exact(&mut body).context("the broker does not answer")?;
    ensure!(header.magic == magic::RESPONSE && header.offset == correlation.0, "no answer: {header:?}");
    let (key, payload) = body.split_at(usize::try_from(header.key_size)?);
    R::Response::decode_response(&header, key, payload).with_context(|| format!("{} failed", R::OPERATION))
}
