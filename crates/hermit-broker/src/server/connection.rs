//! One connection, from its first byte to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hermit_proto::session::FIRST_BYTE;
use hermit_proto::v1;
use hermit_proto::v1::{Handshake, HandshakeProgress, Role};
use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::door::Entry;
#[cfg(feature = "tls")]
use super::handshake;
use super::line_gate::Line;
use super::stream::Stream;
use super::{session, v1 as serve_v1};
use crate::broker::{Broker, Phase, reached};
use crate::error::{BrokerError, Counted};
use crate::events::Event;
use crate::metrics::ConnectionEnd;
use crate::roster::{ConnectionProtocol, ListedConnection};

/// Silence after which the system asks a peer whether it is still there; it is given up after as long again.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(120);

/// Once the broker stops, who takes nothing of what is sent for so long is cut.
pub(super) const STALLED_AT_STOP: Duration = Duration::from_secs(1);

/// What a connection's task works with.
pub(super) struct Connection<'a> {
    pub(super) broker: &'a Broker,
    pub(super) stream: Stream,
    pub(super) transport: Transport,
    /// Its entry in the list of connections.
    pub(super) listed: Arc<ListedConnection>,
}

/// What is known of the way between a connection's peer and the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transport {
    pub(super) peer: SocketAddr,
    /// Whether it is TLS, so that secrets may be sent.
    pub(super) encrypted: bool,
    /// Whom the certificate names that the peer has shown, and that is valid, if it has shown one. Escaped, for the log.
    pub(super) client_certificate: Option<String>,
}

/// Why a connection ends; all that is worth a line in the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The peer closed, between frames.
    #[error("closed by the peer")]
    Peer,
    /// The broker is stopping.
    #[error("the broker is stopping")]
    Stopping,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// Something did not come, or was not taken, in time.
    #[error("no {0} in time")]
    Timeout(&'static str),
    /// The peer broke the protocol.
    #[error("refused: {0}")]
    Refused(String),
    /// The broker cannot go on with it.
    #[error("given up: {}", crate::error::line(.0))]
    Broker(#[from] BrokerError),
    /// There are too many connections.
    #[error("turned away: {}", crate::error::line(.0))]
    TurnedAway(BrokerError),
    /// It had not finished its handshake when others came.
    #[error("its handshake was not over when newer connections needed room")]
    PutOut,
    /// An administrator has closed it.
    #[error("closed by an administrator")]
    Administrator,
}

impl End {
    const fn kind(&self) -> ConnectionEnd {
        match self {
            Self::Peer => ConnectionEnd::Peer,
            Self::Stopping => ConnectionEnd::Stopping,
            Self::Broken(_) => ConnectionEnd::Broken,
            Self::Timeout(_) => ConnectionEnd::Timeout,
            Self::Refused(_) => ConnectionEnd::Refused,
            Self::Broker(_) => ConnectionEnd::Failed,
            Self::TurnedAway(BrokerError::TooMany { what: Counted::ConnectionsOfAddress, .. }) => ConnectionEnd::TooManyOfAddress,
            Self::TurnedAway(_) => ConnectionEnd::TooMany,
            Self::PutOut => ConnectionEnd::PutOut,
            Self::Administrator => ConnectionEnd::Administrator,
        }
    }
}

/// Serves a connection to its end.
pub(super) async fn run(broker: &Broker, stream: TcpStream, peer: SocketAddr, entry: Entry) {
    let listed = Arc::new(broker.list_connection(peer, ConnectionProtocol::Handshake, false));
    if let Err(error) = stream.set_nodelay(true).and_then(|()| keep_alive(&stream)) {
        tracing::debug!(%peer, error = %crate::error::line(&error), "small answers may be slow, or a vanished peer stay unnoticed");
    }
    let transport = Transport { peer, encrypted: false, client_certificate: None };
    let to_be_closed = listed.to_be_closed();
    let connection = Connection { broker, stream: Stream::Plain(stream), transport, listed };
    let mut told = Told::new(broker, peer);
    let (mut phase, put_out) = (broker.phase(), entry.put_out());
    let end = tokio::select! {
        end = Box::pin(serve(connection, entry)) => end,
        () = put_out => End::PutOut,
        () = to_be_closed => End::Administrator,
        () = reached(&mut phase, Phase::Cutting) => End::Stopping,
    };
    told.ends(&end);
    broker.counters().ended(end.kind());
    tell(broker, peer, &end);
}

/// One line in the log, unless there were many of its kind lately: peers must not be able to fill the disk with them.
fn tell(broker: &Broker, peer: SocketAddr, end: &End) {
    let lines = broker.lines();
    match end {
        End::Administrator => tracing::info!(%peer, %end, "connection closed"),
        End::Peer | End::Stopping => tracing::debug!(%peer, %end, "connection ended"),
        End::Broken(_) | End::Timeout(_) => {
            if let Line::Write { left_out } = lines.ended.line() {
                tracing::info!(%peer, %end, left_out, "connection ended");
            }
        }
        End::Refused(_) | End::Broker(_) => {
            if let Line::Write { left_out } = lines.closed.line() {
                tracing::warn!(%peer, %end, left_out, "connection closed");
            }
        }
        End::TurnedAway(_) | End::PutOut => {
            if let Line::Write { left_out } = lines.turned_away.line() {
                tracing::warn!(%peer, %end, left_out, "connection closed");
            }
        }
    }
}

/// Tells the embedder that a connection was opened and, also where its task is cut off or panics, that it has ended.
struct Told<'a> {
    broker: &'a Broker,
    peer: SocketAddr,
    reason: String,
}

impl<'a> Told<'a> {
    fn new(broker: &'a Broker, peer: SocketAddr) -> Self {
        broker.tell(|| Event::ConnectionOpened { peer });
        Self { broker, peer, reason: String::new() }
    }

    fn ends(&mut self, end: &End) {
        if self.broker.events().is_some() {
            self.reason = end.to_string();
        }
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.broker.tell(|| {
            let reason = if self.reason.is_empty() { "cut off".into() } else { std::mem::take(&mut self.reason) };
            Event::ConnectionClosed { peer: self.peer, reason }
        });
    }
}

/// Peers of version 1 say nothing while they wait: only the system can tell that one has vanished.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_IDLE / 4)?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    Ok(())
}

async fn serve(connection: Connection<'_>, mut entry: Entry) -> End {
    let deadline = Instant::now() + connection.broker.limits().handshake_timeout;
    let (connection, mut bytes, first) = match tokio::time::timeout_at(deadline, Box::pin(begin(connection))).await {
        Ok(Ok(begun)) => begun,
        Ok(Err(end)) => return end,
        Err(_elapsed) => return End::Timeout("handshake"),
    };
    if first == FIRST_BYTE {
        connection.listed.speaks(ConnectionProtocol::Native2, connection.transport.encrypted);
        return Box::pin(session::run(connection, entry, bytes, deadline)).await;
    }
    if Role::from_byte(first).is_none() {
        return End::Refused(format!("the connection begins with {first:#04x}, which is no protocol of this port"));
    }
    let handshake = match tokio::time::timeout_at(deadline, first_words(&connection, &mut bytes)).await {
        Ok(Ok(handshake)) => handshake,
        Ok(Err(end)) => return end,
        Err(_elapsed) => return End::Timeout("handshake"),
    };
    // Version 1 has no words for a refusal.
    if let Err(error) = entry.open() {
        return End::TurnedAway(error);
    }
    connection.listed.speaks(ConnectionProtocol::Native1, connection.transport.encrypted);
    connection.listed.is_of(serve_v1::user(connection.broker), "");
    match handshake {
        Handshake::Producer { topic, partition } => {
            Box::pin(serve_v1::produce(connection, bytes, topic, partition, entry.address())).await
        }
        Handshake::Consumer { group, topic, partition } => Box::pin(serve_v1::consume(connection, group, topic, partition)).await,
        Handshake::Commit { group, topic, partition, offset } => {
            Box::pin(serve_v1::commit(connection, group, topic, partition, offset)).await
        }
    }
}

/// Waits for the first byte of a protocol of this port: inside TLS, where the connection begins with that.
async fn begin(connection: Connection<'_>) -> Result<(Connection<'_>, BytesMut, u8), End> {
    let mut bytes = BytesMut::new();
    let first = first_byte(&connection, &mut bytes).await?;
    #[cfg(feature = "tls")]
    if first == handshake::FIRST_BYTE {
        let (connection, mut bytes) = handshake::secure(connection, &bytes).await?;
        let first = first_byte(&connection, &mut bytes).await?;
        return Ok((connection, bytes, first));
    }
    #[cfg(feature = "tls")]
    if connection.broker.tls().is_required() {
        return Err(handshake::refuse_plain(&connection.stream, first).await);
    }
    Ok((connection, bytes, first))
}

async fn first_byte(connection: &Connection<'_>, bytes: &mut BytesMut) -> Result<u8, End> {
    loop {
        if let Some(first) = bytes.first() {
            return Ok(*first);
        }
        connection.read(bytes).await?;
    }
}

async fn first_words(connection: &Connection<'_>, bytes: &mut BytesMut) -> Result<v1::Handshake, End> {
    loop {
        match Handshake::parse(bytes).map_err(|error| End::Refused(error.to_string()))? {
            HandshakeProgress::Complete { handshake, used_bytes } => {
                drop(bytes.split_to(used_bytes));
                return Ok(handshake);
            }
            HandshakeProgress::Incomplete { .. } => connection.read(bytes).await?,
        }
    }
}

impl Connection<'_> {
    /// Appends what the peer sends next; the end of the stream is [`End::Peer`]. Used for handshakes only: the room is theirs.
    async fn read(&self, bytes: &mut BytesMut) -> Result<(), End> {
        bytes.reserve(Handshake::MAX_BYTES);
        loop {
            self.stream.readable().await?;
            match self.stream.try_read_shared(bytes) {
                Ok(0) => return Err(End::Peer),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes everything, waiting for the peer as long as it takes, until the broker stops.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> Result<(), End> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Resolves when the socket may take something; once the broker stops, not much later.
    pub(super) async fn writable(&self) -> Result<(), End> {
        let mut phase = self.broker.phase();
        tokio::select! {
            ready = self.stream.writable() => return Ok(ready?),
            () = reached(&mut phase, Phase::Draining) => {}
        }
        match tokio::time::timeout(STALLED_AT_STOP, self.stream.writable()).await {
            Ok(ready) => Ok(ready?),
            Err(_elapsed) => Err(End::Stopping),
        }
    }

    /// Resolves when the peer closes or breaks the connection; what it sends is thrown away. For peers that have nothing to say.
    pub(super) async fn closed(&self) -> End {
        loop {
            if let Err(error) = self.stream.readable().await {
                return error.into();
            }
            match self.stream.discard() {
                Ok(0) => return End::Peer,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return error.into(),
            }
        }
    }
}
