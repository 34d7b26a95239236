//! Answers that count in the broker's budget until the client has taken them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hermit_broker::Loan;
use hyper::body::{Body, Frame, SizeHint};

/// What is handed on at a time: little enough that what is left tells what the client has not taken.
const CHUNK_BYTES: usize = 16 << 10;

/// A body that holds a loan.
#[derive(Debug)]
pub(crate) struct Lent {
    bytes: Bytes,
    _loan: Loan,
}

impl Lent {
    pub(crate) const fn new(bytes: Bytes, loan: Loan) -> Self {
        Self { bytes, _loan: loan }
    }
}

impl Body for Lent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        let chunk = self.bytes.len().min(CHUNK_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.bytes.split_to(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
