//! What a connection's bytes go through. Everything here is without waiting but [`Stream::readable`] and [`Stream::writable`].

use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut as _, BytesMut};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt as _, Interest};
use tokio::net::TcpStream;

#[cfg(feature = "tls")]
use super::secure::SecureStream;

/// A socket.
///
/// **Who writes comes again with the same bytes**: after `WouldBlock`, and with what was not taken, the next bytes to be written begin with those that were offered.
#[derive(Debug)]
pub(super) enum Stream {
    /// The socket itself.
    Plain(TcpStream),
    /// TLS over it.
    #[cfg(feature = "tls")]
    Secure(Box<SecureStream>),
}

impl Stream {
    /// Resolves when there may be something to read.
    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.readable().await,
            #[cfg(feature = "tls")]
            Self::Secure(secure) => secure.socket.readable().await,
        }
    }

    /// Resolves when the socket may take something.
    pub(super) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.writable().await,
            #[cfg(feature = "tls")]
            Self::Secure(secure) => secure.socket.writable().await,
        }
    }

    /// Appends what is there, not more than `most` bytes (at least 1). Where that leaves room, the system has no more: unlike
    /// [`Stream::try_read_shared`], this then notes so, which spares the call that would find nothing.
    ///
    /// # Errors
    /// `WouldBlock` while there is nothing.
    pub(super) fn try_read(&mut self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => {
                let (mut reader, _writer) = socket.split();
                match pin!(reader.read_buf(&mut buffer.limit(most))).poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(read) => read,
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
            #[cfg(feature = "tls")]
            Self::Secure(secure) => secure.try_read(buffer, most),
        }
    }

    /// The same, for those who do not have the connection to themselves.
    ///
    /// # Errors
    /// As [`Stream::try_read`].
    pub(super) fn try_read_shared(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_read_buf(buffer),
            #[cfg(feature = "tls")]
            Self::Secure(secure) => secure.try_read_shared(buffer),
        }
    }

    /// Throws away some of what is there; answers how much.
    ///
    /// # Errors
    /// As [`Stream::try_read`].
    pub(super) fn discard(&self) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_read(&mut [0; 64]),
            #[cfg(feature = "tls")]
            Self::Secure(secure) => secure.try_read_shared(&mut BytesMut::new()),
        }
    }

    /// Writes; answers how much was taken.
    ///
    /// # Errors
    /// `WouldBlock` while nothing is taken.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write(bytes),
            #[cfg(feature = "tls")]
            Self::Secure(secure) => secure.try_write(bytes),
        }
    }

    /// The same for bytes that a range of a file follows, so that both are sent in one segment.
    ///
    /// # Errors
    /// As [`Stream::try_write`].
    pub(super) fn try_write_more(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => send_more(socket, bytes),
            #[cfg(feature = "tls")]
            Self::Secure(secure) => secure.try_write_more(bytes),
        }
    }

    /// Whether bytes came since the last look that no read has told of: with TLS, part of a record.
    pub(super) fn take_received(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            #[cfg(feature = "tls")]
            Self::Secure(secure) => secure.take_received(),
        }
    }

    /// Whether the socket took bytes since the last look that no write has told of.
    pub(super) fn take_sent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            #[cfg(feature = "tls")]
            Self::Secure(secure) => secure.take_sent(),
        }
    }

    /// Writes what is taken now; answers how much. What keeps it from taking more comes to light with the next write.
    pub(super) fn write_now(&self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while let Some(unwritten) = bytes.get(written..).filter(|unwritten| !unwritten.is_empty()) {
            match self.try_write(unwritten) {
                Ok(more) if more > 0 => written += more,
                _ => break,
            }
        }
        written
    }
}

fn send_more(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    socket.try_io(Interest::WRITABLE, || {
        loop {
            match rustix::net::send(socket, bytes, rustix::net::SendFlags::MORE | rustix::net::SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(error) => return Err(error.into()),
                Ok(sent) => return Ok(sent),
            }
        }
    })
}
