//! Sending a file's bytes to a socket: by `sendfile`, so that they never enter this process; by a bounded copy where the file has no
//! descriptor, and with TLS.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use hermit_log::disk::DiskFile;
use rustix::io::Errno;
use tokio::io::Interest;

use super::stream::Stream;
use crate::limits::{COPY_BYTES, SENDFILE_BYTES};

thread_local! {
    /// Where bytes are copied through. They go on at once, so that all connections of a thread use the same room in turn.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A range of a file that is being sent.
#[derive(Debug)]
pub(super) struct FileRange {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) position: u64,
    pub(super) left_bytes: u64,
}

impl FileRange {
    pub(super) fn of(range: &hermit_log::Range) -> Self {
        Self { file: Arc::clone(range.file()), position: range.position(), left_bytes: range.len_bytes() }
    }

    pub(super) const fn is_done(&self) -> bool {
        self.left_bytes == 0
    }

    /// Sends some, without waiting; answers how many bytes the socket took.
    ///
    /// # Errors
    /// `WouldBlock` while the socket takes none; `UnexpectedEof` where the file ends early: the peer was promised more, so that the
    /// connection cannot go on.
    pub(super) fn try_send(&mut self, stream: &Stream) -> io::Result<u64> {
        let sent = match (stream, self.file.descriptor()) {
            (Stream::Plain(socket), Some(descriptor)) => {
                let mut position = self.position;
                let most = usize::try_from(self.left_bytes).unwrap_or(usize::MAX).min(SENDFILE_BYTES);
                socket.try_io(Interest::WRITABLE, || {
                    loop {
                        match rustix::fs::sendfile(socket, descriptor, Some(&mut position), most) {
                            Err(Errno::INTR) => {}
                            // `try_io` clears the readiness at `WouldBlock` alone.
                            Err(Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                            Err(error) => return Err(error.into()),
                            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                            Ok(sent) => return Ok(sent as u64),
                        }
                    }
                })?
            }
            _ => self.copy(stream)?,
        };
        self.position = self.position.saturating_add(sent);
        self.left_bytes = self.left_bytes.saturating_sub(sent);
        Ok(sent)
    }

    fn copy(&self, stream: &Stream) -> io::Result<u64> {
        #[cfg(feature = "tls")]
        if let Stream::Secure(secure) = stream
            && let Some(sent) = secure.try_finish()?
        {
            // These were read before.
            return Ok(sent as u64);
        }
        let most = usize::try_from(self.left_bytes).unwrap_or(usize::MAX).min(COPY_BYTES);
        let mut room = ROOM.take();
        room.resize(COPY_BYTES, 0);
        let bytes = room.get_mut(..most).unwrap_or_default();
        let sent = match self.file.read_full_at(bytes, self.position) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => stream.try_write(bytes.get(..read).unwrap_or_default()),
            Err(error) => Err(error),
        };
        ROOM.set(room);
        Ok(sent? as u64)
    }
}
