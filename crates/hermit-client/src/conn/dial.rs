//! Connecting and the hello.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hermit_proto::session::{HelloRequest, HelloResponse, Message, Operation, Request, Response};
use hermit_proto::{CorrelationId, Deframer, Unit, UnitLimits, magic};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use zeroize::{Zeroize as _, Zeroizing};

use super::reader::{self, session_error};
use super::session::Session;
use super::writer;
use crate::config::ClientConfig;
use crate::error::{Error, ProtocolFault, Result};

const HELLO: CorrelationId = CorrelationId(1);

/// Bytes of a hello request beyond the client's name and the secret, at most.
const HELLO_ROOM: usize = 256;

/// Keys of responses are empty, those of deliveries have 24 bytes; newer ones may have some more.
const MAX_KEY_BYTES: u32 = 1 << 10;

/// Connects, says hello, and starts the session's reader and writer. Gives up after the connect timeout.
pub(super) async fn dial(config: &ClientConfig, server: &Arc<str>, number: u64) -> Result<Session> {
    let after = config.connect_timeout;
    match tokio::time::timeout(after, dial_unhurried(config, server, number)).await {
        Ok(dialled) => dialled,
        Err(_elapsed) => {
            let source = io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {after:?}"));
            Err(Error::Unreachable { server: server.clone(), source: Arc::new(source) })
        }
    }
}

async fn dial_unhurried(config: &ClientConfig, server: &Arc<str>, number: u64) -> Result<Session> {
    let unreachable = |source| Error::Unreachable { server: server.clone(), source: Arc::new(source) };
    // Apart from connecting, so that a name that leads nowhere is told from a broker that does not answer.
    let unresolved = |error: io::Error| {
        let text = error.to_string();
        let why = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
        unreachable(io::Error::new(io::ErrorKind::NotFound, format!("the host name could not be resolved ({why})")))
    };
    let addresses: Vec<_> = tokio::net::lookup_host(&**server).await.map_err(unresolved)?.collect();
    let socket = TcpStream::connect(&*addresses).await.map_err(unreachable)?;
    socket.set_nodelay(true).map_err(unreachable)?;
    #[cfg(feature = "tls")]
    if let Some(connector) = &config.connector {
        let shaken = connector.shake(server, socket).await;
        let socket = shaken.map_err(|error| match crate::tls::handshake_fault(&error) {
            Some(source) => Error::Tls { server: server.clone(), source },
            None => lost(server, error),
        })?;
        return greet(config, server, number, socket, tokio::io::split).await;
    }
    if !config.may_log_in_unencrypted(socket.peer_addr().map_err(unreachable)?.ip()) {
        return Err(Error::InsecureLogin { server: server.clone() });
    }
    greet(config, server, number, socket, TcpStream::into_split).await
}

/// Says hello over a socket, which is then split for the session's reader and writer.
async fn greet<S, R, W>(
    config: &ClientConfig,
    server: &Arc<str>,
    number: u64,
    mut socket: S,
    split: impl FnOnce(S) -> (R, W),
) -> Result<Session>
where
    S: AsyncRead + AsyncWrite + Unpin,
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let lost = |source| lost(server, source);
    let request = hello_request(config)?;
    socket.write_all(&request).await.map_err(lost)?;
    socket.flush().await.map_err(lost)?;
    drop(request);

    let limits = UnitLimits { max_key_bytes: MAX_KEY_BYTES, max_body_bytes: config.max_unit_bytes };
    let mut deframer = Deframer::new(&[magic::RESPONSE, magic::DELIVERY], limits);
    let unit = loop {
        if let Some(unit) = deframer.next_unit().map_err(|fault| protocol(server, fault))? {
            break unit;
        }
        if socket.read_buf(deframer.buffer()).await.map_err(lost)? == 0 {
            return Err(lost(io::ErrorKind::UnexpectedEof.into()));
        }
    };
    let hello = read_hello(server, &unit)?;
    let heartbeat = match hello.limits.heartbeat_interval_ms {
        0 => config.heartbeat_interval,
        ms => config.heartbeat_interval.min(Duration::from_millis(ms.into())),
    };

    let (outgoing, to_write) = mpsc::unbounded_channel();
    let session = Session::new(server.clone(), hello, number, outgoing);
    let (read_half, write_half) = split(socket);
    tokio::spawn(reader::run(read_half, deframer, heartbeat, session.clone()));
    tokio::spawn(writer::run(write_half, to_write, session.clone()));
    Ok(session)
}

/// The connection broke before there was a session. A broker says by TLS that it does not believe the client, or asks for a certificate, when the
/// client has its handshake behind it.
fn lost(server: &Arc<str>, source: io::Error) -> Error {
    #[cfg(feature = "tls")]
    if let Some(source) = crate::tls::fault_of(&source) {
        return Error::Tls { server: server.clone(), source };
    }
    Error::ConnectionLost { server: server.clone(), source: Arc::new(source) }
}

/// The hello, overwritten when it was sent: it may hold a secret.
fn hello_request(config: &ClientConfig) -> Result<Zeroizing<Vec<u8>>> {
    // Room for all of it, as what grows leaves copies behind: header, key, and the hello's fields.
    let mut encoded = BytesMut::with_capacity(HELLO_ROOM + config.name.len() + config.auth.initial.len());
    let mut hello = HelloRequest {
        auth_mechanism: config.auth.mechanism.clone(),
        auth: config.auth.initial.to_vec(),
        ..HelloRequest::new(&*config.name)
    };
    let done = hello.encode(HELLO, &mut encoded);
    hello.auth.zeroize();
    let request = Zeroizing::new(encoded.to_vec());
    encoded.zeroize();
    done?;
    Ok(request)
}

fn read_hello(server: &Arc<str>, unit: &Unit) -> Result<HelloResponse> {
    if unit.correlation() == CorrelationId(0) {
        return Err(match session_error(unit) {
            ProtocolFault::Ended(source) => Error::refused(Operation::Hello, source),
            source => protocol(server, source),
        });
    }
    if unit.correlation() != HELLO || unit.header().magic != magic::RESPONSE {
        let problem = "it answers something else";
        return Err(protocol(server, ProtocolFault::Answer { operation: HelloRequest::OPERATION, problem }));
    }
    HelloResponse::decode_response(unit.header(), unit.key(), unit.payload())
        .map_err(|error| Error::answer(HelloRequest::OPERATION, server, error))
}

fn protocol(server: &Arc<str>, source: impl Into<ProtocolFault>) -> Error {
    Error::Protocol { server: server.clone(), source: source.into() }
}
