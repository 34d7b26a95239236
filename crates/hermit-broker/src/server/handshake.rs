//! TLS handshakes: computed on threads of their own, so few at a time that connections which are there go on.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hermit_proto::CorrelationId;
use hermit_proto::session::{Status, WireError};
use rustls::ServerConnection;
use tokio::net::TcpStream;

use super::connection::{Connection, End};
use super::secure::{SecureStream, Socket, decrypt};
use super::stream::Stream;
use crate::address::PeerAddress;
use crate::memory::Share;
use crate::tls::{Active, Facts, Tls};

/// The first byte of a TLS connection: a record of a handshake (RFC 8446, section 5.1).
pub(super) const FIRST_BYTE: u8 = 0x16;
/// Most bytes that a client may send for a handshake: a chain of some large certificates, and what stands around it.
const MAX_HANDSHAKE_BYTES: usize = 48 << 10;
/// Bytes that are read at a time.
const READ_BYTES: usize = 4 << 10;

/// Most time that somebody who was refused has to close.
const LINGER: Duration = Duration::from_secs(1);

/// Shakes hands with a client that has sent `begun` so far; answers what it has sent behind the handshake. Whoever calls this sets the deadline.
pub(super) async fn secure<'a>(connection: Connection<'a>, begun: &[u8]) -> Result<(Connection<'a>, BytesMut), End> {
    let Connection { broker, stream: Stream::Plain(socket), mut transport, listed } = connection else {
        return Err(End::Refused("TLS within TLS".into()));
    };
    let Some(active) = broker.tls().active() else {
        return Err(End::Refused("a TLS handshake, and TLS is not switched on here: it takes `tls_cert` and `tls_key`".into()));
    };
    let share = broker.budget().share(PeerAddress::of(transport.peer.ip()), 1);
    let Progress { connection, plain, at_end, .. } = shake(broker.tls(), Some(share), &active, &socket, begun).await?;
    transport.encrypted = true;
    transport.client_certificate = connection.peer_certificates().and_then(<[_]>::first).map(|der| {
        // It was found to be valid, but need not be one that can be told.
        Facts::read(der).map_or_else(|| "(no subject)".into(), |facts| facts.subject)
    });
    tracing::debug!(
        peer = %transport.peer,
        version = ?connection.protocol_version(),
        client_certificate = transport.client_certificate.as_deref(),
        resumed = connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
        "TLS is up"
    );
    let stream = Stream::Secure(Box::new(SecureStream::new(socket, *connection, at_end)));
    Ok((Connection { broker, stream, transport, listed }, plain))
}

/// Tells a client that begins without TLS, where that is required, as far as its protocol has words for it.
pub(super) async fn refuse_plain(stream: &Stream, first: u8) -> End {
    if first == hermit_proto::session::FIRST_BYTE {
        let mut answer = BytesMut::new();
        let refusal =
            WireError::new(Status::TlsRequired, "this broker takes connections over TLS only: switch TLS on in the client");
        refusal.encode(CorrelationId(0), &mut answer);
        let _told = stream.try_write(&answer);
        if let Stream::Plain(socket) = stream {
            linger(socket).await;
        }
    }
    End::Refused("a connection without TLS, which is required here".into())
}

/// The same on a port that is not the broker's.
pub(super) async fn secure_elsewhere(tls: &Tls, socket: TcpStream) -> Result<(SecureStream, BytesMut), End> {
    let Some(active) = tls.active() else { return Err(End::Refused("a TLS handshake, and TLS is not switched on here".into())) };
    let Progress { connection, plain, at_end, .. } = shake(tls, None, &active, &socket, &[]).await?;
    Ok((SecureStream::new(socket, *connection, at_end), plain))
}

/// The handshake itself.
async fn shake(tls: &Tls, mut share: Option<Share>, active: &Active, socket: &TcpStream, begun: &[u8]) -> Result<Progress, End> {
    let connection = ServerConnection::new(Arc::clone(&active.server)).map_err(|error| refused(&error))?;
    let mut progress = Progress { connection: Box::new(connection), plain: BytesMut::new(), at_end: false, failed: None };
    let (mut received, mut received_bytes) = (begun.to_vec(), begun.len());
    loop {
        if let Some(share) = &mut share {
            share.update(received_bytes as u64, None);
        }
        progress = compute(tls, progress, received).await?;
        send(&mut progress, socket).await?;
        if let Some(error) = &progress.failed {
            linger(socket).await;
            return Err(refused(error));
        }
        if !progress.connection.is_handshaking() {
            return Ok(progress);
        }
        if received_bytes > MAX_HANDSHAKE_BYTES {
            return Err(End::Refused(format!("a TLS handshake of more than {MAX_HANDSHAKE_BYTES} bytes")));
        }
        received = vec![0; READ_BYTES];
        socket.readable().await?;
        match socket.try_read(&mut received) {
            Ok(0) => return Err(End::Refused("closed by the peer within the TLS handshake".into())),
            Ok(read) => received.truncate(read),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => received.clear(),
            Err(error) => return Err(error.into()),
        }
        received_bytes = received_bytes.saturating_add(received.len());
    }
}

fn refused(error: &rustls::Error) -> End {
    End::Refused(format!("no TLS: {error}"))
}

/// Where a handshake stands.
struct Progress {
    connection: Box<ServerConnection>,
    plain: BytesMut,
    at_end: bool,
    failed: Option<rustls::Error>,
}

/// Takes in what was received. To sign takes up to some milliseconds: a reactor's thread that did so for each of a thousand clients would serve nobody meanwhile.
async fn compute(tls: &Tls, mut progress: Progress, received: Vec<u8>) -> Result<Progress, End> {
    if received.is_empty() {
        return Ok(progress);
    }
    // Whoever gives up while waiting costs nothing: the permit is taken first.
    let Ok(permit) = Arc::clone(tls.handshakes()).acquire_owned().await else { return Err(End::Stopping) };
    let computed = tokio::task::spawn_blocking(move || {
        match decrypt(&mut progress.connection, &received, &mut progress.plain) {
            Ok(at_end) => progress.at_end = at_end,
            Err(error) => progress.failed = Some(error),
        }
        drop(permit);
        progress
    });
    computed.await.map_err(|_panicked| End::Refused("a fault in the broker".into()))
}

async fn send(progress: &mut Progress, socket: &TcpStream) -> io::Result<()> {
    while progress.connection.wants_write() {
        match progress.connection.write_tls(&mut Socket(socket)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until the peer closes: it was told why this ends, and a socket that is closed with something to read takes back what it has sent.
async fn linger(socket: &TcpStream) {
    if rustix::net::shutdown(socket, rustix::net::Shutdown::Write).is_ok() {
        let _in_time = tokio::time::timeout(LINGER, closed(socket)).await;
    }
}

async fn closed(socket: &TcpStream) {
    let (mut sink, mut left_bytes) = ([0; 1024], MAX_HANDSHAKE_BYTES);
    while left_bytes > 0 && socket.readable().await.is_ok() {
        match socket.try_read(&mut sink) {
            Ok(0) => return,
            Ok(read) => left_bytes = left_bytes.saturating_sub(read),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_broken) => return,
        }
    }
}
