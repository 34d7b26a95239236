//! A socket whose peer has to take what is sent to it, and in time.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::pace::Pace;

/// Fails a write once the peer is behind the least rate for too long.
#[derive(Debug)]
pub(crate) struct Timed<S> {
    stream: S,
    pace: Pace,
    /// Runs while the peer takes nothing.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    /// A peer that takes so many bytes in a second may be behind by so much time.
    pub(crate) const fn new(stream: S, patience: Duration, bytes_per_second: u64) -> Self {
        Self { stream, pace: Pace::new(patience, bytes_per_second), deadline: None }
    }

    fn timed(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let late = || Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes what is sent too slowly"));
        if let Poll::Ready(written) = polled {
            self.deadline = None;
            let bytes = *written.as_ref().unwrap_or(&0);
            let is_in_time = self.pace.took(bytes, Instant::now());
            return Poll::Ready(if is_in_time { written } else { written.and(late()) });
        }
        let until = self.pace.waits(Instant::now());
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(until)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(late())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(cx, polled)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.timed(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.timed(cx, polled.map_ok(|()| 0)).map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.timed(cx, polled.map_ok(|()| 0)).map_ok(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::sleep;

    /// Writes 64 KiB to a peer that takes `bytes` every `pause`.
    async fn write_to(bytes: usize, pause: Duration) -> (io::Result<()>, Duration) {
        let (near, mut far) = tokio::io::duplex(1024);
        let mut near = Timed::new(near, Duration::from_secs(60), 1024);
        let began = Instant::now();
        let taking = tokio::spawn(async move {
            let mut taken = vec![0; bytes];
            while far.read_exact(&mut taken).await.is_ok() {
                sleep(pause).await;
            }
        });
        let written = near.write_all(&[7; 64 << 10]).await;
        let took = began.elapsed();
        taking.abort();
        (written, took)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_a_little_now_and_then_is_cut_and_a_slow_one_is_not() {
        let (trickle, took) = write_to(1, Duration::from_secs(29)).await;
        assert_eq!(trickle.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(took < Duration::from_secs(62), "{took:?}");
        let (slower, took) = write_to(512, Duration::from_secs(1)).await;
        assert_eq!(slower.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(took < Duration::from_secs(125), "{took:?}");
        let (slow, took) = write_to(1024, Duration::from_secs(1)).await;
        slow.unwrap();
        assert!(took > Duration::from_secs(60), "{took:?}");
    }
}
