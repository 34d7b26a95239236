//! Answers that hold what their request held until they are written to the socket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::held::Held;

/// What the last answer of a connection holds once all of it was handed on, which is before it was written: answers of one piece are handed on at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unwritten(Arc<Mutex<Option<Arc<Held>>>>);

impl Unwritten {
    /// Everything is written, or nobody waits for it.
    pub(crate) fn give_back(&self) {
        let held = self.0.lock().take();
        drop(held);
    }
}

/// A body, and what is given back when it is written.
#[derive(Debug)]
pub(crate) struct Guarded {
    body: Body,
    held: Option<Arc<Held>>,
    unwritten: Unwritten,
}

impl Guarded {
    pub(crate) const fn new(body: Body, held: Option<Arc<Held>>, unwritten: Unwritten) -> Self {
        Self { body, held, unwritten }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.held.is_some() {
            let before = std::mem::replace(&mut *self.unwritten.0.lock(), self.held.take());
            drop(before);
        }
    }
}

impl hyper::body::Body for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket that gives back what answers hold: it is flushed when nothing of them is left to write.
#[derive(Debug)]
pub(crate) struct Written<S> {
    stream: S,
    unwritten: Unwritten,
}

impl<S> Written<S> {
    pub(crate) const fn new(stream: S, unwritten: Unwritten) -> Self {
        Self { stream, unwritten }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Written<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Written<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        self.unwritten.give_back();
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
