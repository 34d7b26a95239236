//! TLS for a port that is not the broker's own, such as that of HTTP: with the same handshakes, as few at a time, and certificates that are read again in the same way.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::handshake;
use super::secure::SecureStream;
use crate::error::BrokerError;
use crate::tls::{Tls, TlsConfig, TlsReport};

/// TLS for connections that an embedder takes in. Off until it is [given files](TlsPort::reload).
#[derive(Debug)]
pub struct TlsPort {
    tls: Tls,
}

impl TlsPort {
    /// The first byte of a connection that begins with a TLS handshake, whichever version that is for.
    pub const FIRST_BYTE: u8 = handshake::FIRST_BYTE;

    /// No TLS yet.
    #[must_use]
    pub fn new() -> Self {
        Self { tls: Tls::off() }
    }

    /// Reads certificate, key and authorities, for the first time or again. Handshakes that begin from now on see them; connections that are there go on.
    ///
    /// # Errors
    /// As [`Broker::reload_tls`](crate::Broker::reload_tls).
    #[expect(
        clippy::disallowed_methods,
        reason = "certificates go by the time of day, and here is no broker whose clock that would be"
    )]
    pub fn reload(&self, config: &TlsConfig) -> Result<TlsReport, BrokerError> {
        self.tls.load(config, std::time::SystemTime::now())
    }

    /// Whether there is TLS.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.tls.active().is_some()
    }

    /// When the certificate ends to be valid that is shown; `None` without TLS.
    #[must_use]
    pub fn certificate_end(&self) -> Option<SystemTime> {
        self.tls.certificate_end()
    }

    /// Whether there is to be nothing else.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.tls.is_required()
    }

    /// Shakes hands with a client that begins with [`TlsPort::FIRST_BYTE`], of which nothing was read yet. A client sends 48 KiB at most for it; for how long is for the
    /// caller to limit. Runs on threads that may block, of which it takes one for every two processors.
    ///
    /// # Errors
    /// The connection breaks, or the client is no proper one; in words for the log.
    pub async fn accept(&self, socket: TcpStream) -> io::Result<TlsStream> {
        let (stream, plain) =
            handshake::secure_elsewhere(&self.tls, socket).await.map_err(|end| io::Error::other(end.to_string()))?;
        Ok(TlsStream { stream, plain })
    }
}

impl Default for TlsPort {
    fn default() -> Self {
        Self::new()
    }
}

/// A connection with TLS.
///
/// **Who writes comes again with the same bytes** where a write found no room: those are encrypted already. Hyper does, and everything else that keeps what was not taken.
#[derive(Debug)]
pub struct TlsStream {
    stream: SecureStream,
    /// What was decrypted, and not yet asked for.
    plain: BytesMut,
}

impl AsyncRead for TlsStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, plain } = &mut *self;
        loop {
            if !plain.is_empty() {
                let taken = plain.len().min(out.remaining());
                out.put_slice(plain.get(..taken).unwrap_or_default());
                plain.advance(taken);
                return Poll::Ready(Ok(()));
            }
            // Who waits for long keeps no room.
            *plain = BytesMut::new();
            match stream.try_read(plain, usize::MAX) {
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(stream.socket.poll_read_ready(cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.stream.socket.poll_write_ready(cx))?,
                written => return Poll::Ready(written),
            }
        }
    }

    /// What counts as written is with the socket.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.close();
        Pin::new(&mut self.stream.socket).poll_shutdown(cx)
    }
}
