//! TLS over a socket, with the calls of a socket.
//!
//! What is written is encrypted, at most [`COPY_BYTES`] at a time, and counts as taken once the socket has all of it: whoever is told `WouldBlock` comes again with
//! the same bytes. So nothing is left behind here that somebody would have to remember, and a peer that takes nothing holds no more than this.

use std::cell::RefCell;
use std::io::{self, BufRead as _, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use parking_lot::Mutex;
use rustls::ServerConnection;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;

use crate::limits::COPY_BYTES;

/// Bytes that are asked of the socket at a time, at least: a large record.
const LEAST_READ_BYTES: usize = 18 << 10;

thread_local! {
    /// Where encrypted bytes are read to. They go on at once, so that all connections of a thread use the same room in turn.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket with TLS. Dropping it says that nothing more comes, as far as the socket takes that at once.
#[derive(Debug)]
pub(super) struct SecureStream {
    pub(super) socket: TcpStream,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connection: ServerConnection,
    /// Bytes of those that were offered last, which are encrypted and not all taken by the socket.
    pending_bytes: usize,
    /// The peer has said that nothing more comes.
    at_end: bool,
    /// The connection cannot go on.
    broken: bool,
    /// Bytes came without a whole record.
    received: bool,
    /// Bytes went, not all that are encrypted.
    sent: bool,
}

impl SecureStream {
    /// Behind the handshake.
    pub(super) const fn new(socket: TcpStream, connection: ServerConnection, at_end: bool) -> Self {
        let state = State { connection, pending_bytes: 0, at_end, broken: false, received: false, sent: false };
        Self { socket, state: Mutex::new(state) }
    }

    /// Appends what has come, of `most` bytes from the socket; `Ok(0)` where the peer has said that nothing more does.
    ///
    /// # Errors
    /// `WouldBlock` where no whole record has come; `UnexpectedEof` where the stream was cut.
    pub(super) fn try_read(&mut self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        let socket = &mut self.socket;
        receive(self.state.get_mut(), buffer, most, |room| {
            let mut room = ReadBuf::new(room);
            match Pin::new(&mut *socket).poll_read(&mut Context::from_waker(Waker::noop()), &mut room) {
                Poll::Ready(read) => read.map(|()| room.filled().len()),
                Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
    }

    /// The same, for those who do not have the connection to themselves.
    ///
    /// # Errors
    /// As [`SecureStream::try_read`].
    pub(super) fn try_read_shared(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        receive(&mut self.state.lock(), buffer, usize::MAX, |room| self.socket.try_read(room))
    }

    /// Writes; answers how much the socket has got.
    ///
    /// # Errors
    /// `WouldBlock` while it does not have all that is encrypted.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        if state.pending_bytes == 0 {
            state.pending_bytes = state.encrypt(bytes)?;
            // What TLS itself had to say may have taken all the room.
            if state.pending_bytes == 0 && !bytes.is_empty() {
                state.send(&self.socket)?;
                state.pending_bytes = state.encrypt(bytes)?;
            }
        }
        Ok(state.finish(&self.socket)?.min(bytes.len()))
    }

    /// Takes bytes that others follow: they are sent together with those.
    ///
    /// # Errors
    /// As [`SecureStream::try_write`].
    pub(super) fn try_write_more(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        if state.pending_bytes > 0 {
            return Ok(state.finish(&self.socket)?.min(bytes.len()));
        }
        state.send(&self.socket)?;
        state.encrypt(bytes)
    }

    /// How much the socket has got of what was offered last; `None` where nothing waits for that.
    ///
    /// # Errors
    /// As [`SecureStream::try_write`].
    pub(super) fn try_finish(&self) -> io::Result<Option<usize>> {
        let mut state = self.state.lock();
        if state.pending_bytes == 0 { Ok(None) } else { state.finish(&self.socket).map(Some) }
    }

    /// Says that nothing more comes, as far as the socket takes that at once.
    pub(super) fn close(&mut self) {
        let state = self.state.get_mut();
        if !std::mem::replace(&mut state.broken, true) {
            state.connection.send_close_notify();
            let _as_far_as_it_goes = state.send(&self.socket);
        }
    }

    /// Whether bytes came since the last look, though not a whole record: a sign of life.
    pub(super) fn take_received(&self) -> bool {
        std::mem::take(&mut self.state.lock().received)
    }

    /// Whether the socket took bytes since the last look, though not all that are encrypted.
    pub(super) fn take_sent(&self) -> bool {
        std::mem::take(&mut self.state.lock().sent)
    }
}

impl Drop for SecureStream {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if !state.broken {
            state.connection.send_close_notify();
        }
        let _as_far_as_it_goes = state.send(&self.socket);
    }
}

impl State {
    /// Encrypts as much as there is room for.
    fn encrypt(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.writer().write(bytes.get(..COPY_BYTES).unwrap_or(bytes))
    }

    /// Hands everything to the socket, and answers how much of what was offered that is.
    fn finish(&mut self, socket: &TcpStream) -> io::Result<usize> {
        self.send(socket)?;
        Ok(std::mem::take(&mut self.pending_bytes))
    }

    fn send(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => self.sent = true,
                Err(error) => return Err(error),
            }
        }
        self.sent = false;
        Ok(())
    }
}

/// Reads once, and decrypts all that this brought.
fn receive(
    state: &mut State,
    buffer: &mut BytesMut,
    most: usize,
    read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    if state.at_end {
        return Ok(0);
    }
    let before_bytes = buffer.len();
    let room_bytes = (buffer.capacity() - before_bytes).clamp(LEAST_READ_BYTES, COPY_BYTES).min(most);
    let mut room = ROOM.take();
    room.resize(COPY_BYTES.max(room.len()), 0);
    let received = read(room.get_mut(..room_bytes).unwrap_or_default()).and_then(|received| {
        if received == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "TLS was cut off: the peer did not say that it had ended"));
        }
        state.received = true;
        let received = room.get(..received).unwrap_or_default();
        let decrypted = decrypt(&mut state.connection, received, buffer);
        state.at_end =
            decrypted.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)).inspect_err(|_| state.broken = true)?;
        Ok(())
    });
    ROOM.set(room);
    received?;
    match buffer.len() - before_bytes {
        0 if state.at_end => Ok(0),
        0 => Err(io::ErrorKind::WouldBlock.into()),
        received => {
            state.received = false;
            Ok(received)
        }
    }
}

/// Decrypts what has come to the end of `plain`; answers whether the peer has said that nothing more comes.
pub(super) fn decrypt(connection: &mut ServerConnection, mut bytes: &[u8], plain: &mut BytesMut) -> Result<bool, rustls::Error> {
    let general = |error: io::Error| rustls::Error::General(error.to_string());
    while !bytes.is_empty() {
        if connection.read_tls(&mut bytes).map_err(general)? == 0 {
            return Ok(true);
        }
        let state = connection.process_new_packets()?;
        let mut left_bytes = state.plaintext_bytes_to_read();
        while left_bytes > 0 {
            let mut reader = connection.reader();
            let chunk = reader.fill_buf().map_err(general)?;
            plain.extend_from_slice(chunk);
            let taken = chunk.len();
            if taken == 0 {
                break;
            }
            reader.consume(taken);
            left_bytes = left_bytes.saturating_sub(taken);
        }
        if state.peer_has_closed() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The socket, as one writes to it without waiting.
pub(super) struct Socket<'a>(pub(super) &'a TcpStream);

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::sync::Arc;

    use rustls::crypto::ring;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
    use tokio::net::TcpListener;

    /// Both sides behind their handshake, in memory.
    fn shaken() -> (ServerConnection, ClientConnection) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (der, key) = (made.cert.der().clone(), PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut roots = RootCertStore::empty();
        roots.add(der.clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth().with_single_cert(vec![der], key.into()).unwrap();
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        let mut client = ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
        while server.is_handshaking() || client.is_handshaking() {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            decrypt(&mut server, &wire, &mut BytesMut::new()).unwrap();
            wire.clear();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            let mut wire = &wire[..];
            while !wire.is_empty() {
                client.read_tls(&mut wire).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        (server, client)
    }

    async fn pair() -> (SecureStream, TcpStream, ClientConnection) {
        let (server, client) = shaken();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (peer, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (SecureStream::new(accepted.unwrap().0, server, false), peer.unwrap(), client)
    }

    /// Takes what is on the wire; answers how many bytes of plaintext that was.
    fn take(peer: &TcpStream, client: &mut ClientConnection) -> usize {
        let (mut wire, mut plain) = (vec![0; 4096], vec![0; 64 << 10]);
        let mut taken = 0;
        while let Ok(received) = peer.try_read(&mut wire) {
            let mut wire = &wire[..received];
            while !wire.is_empty() {
                client.read_tls(&mut wire).unwrap();
                let mut left = client.process_new_packets().unwrap().plaintext_bytes_to_read();
                while left > 0 {
                    let read = client.reader().read(&mut plain).unwrap();
                    (left, taken) = (left - read, taken + read);
                }
            }
        }
        taken
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_holds_little_and_what_it_takes_counts() {
        let (stream, peer, mut client) = pair().await;
        stream.socket.writable().await.unwrap();
        let (offered, mut written) = (vec![7; 1 << 20], 0);
        while let Ok(more) = stream.try_write(&offered) {
            written += more;
        }
        assert!(written > 0);
        // Nothing moves, and nothing more is encrypted.
        stream.take_sent();
        for _ in 0..100 {
            assert_eq!(stream.try_write(&offered).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        assert!(!stream.take_sent());
        let (mut taken, mut finished) = (0, None);
        while finished.is_none() {
            tokio::select! {
                _ready = peer.readable() => taken += take(&peer, &mut client),
                _ready = stream.socket.writable() => {}
            }
            finished = stream.try_finish().ok().flatten();
        }
        let finished = finished.unwrap();
        assert!(finished <= COPY_BYTES, "{finished} bytes were encrypted and not taken");
        while taken < written + finished {
            peer.readable().await.unwrap();
            taken += take(&peer, &mut client);
        }
        assert_eq!(taken, written + finished);
    }
}
