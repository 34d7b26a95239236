//! Answers that hold what their request held until they are out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

use crate::server::Held;

/// A body, and what is given back when the last of it was handed on.
#[derive(Debug)]
pub(crate) struct Guarded {
    body: Body,
    held: Option<Arc<Held>>,
}

impl Guarded {
    pub(crate) const fn new(body: Body, held: Option<Arc<Held>>) -> Self {
        Self { body, held }
    }
}

impl hyper::body::Body for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() {
            self.held = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
