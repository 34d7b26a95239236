//! A consumer as a [`Stream`].

use std::borrow::BorrowMut;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::{Consumer, Record};
use crate::error::Result;

type Receiving<'a, C> = Pin<Box<dyn Future<Output = (C, Result<Option<Record>>)> + Send + 'a>>;

/// The records of a consumer, as [`Consumer::recv`] hands them out: by [`Consumer::stream`] and [`Consumer::into_stream`].
///
/// An error does not end the stream: what comes behind it is what the next [`Consumer::recv`] would return.
pub struct RecordStream<'a, C = &'a mut Consumer> {
    state: State<'a, C>,
}

enum State<'a, C> {
    Idle(C),
    Receiving(Receiving<'a, C>),
    Ended,
}

impl<C> fmt::Debug for RecordStream<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Idle(_) => "idle",
            State::Receiving(_) => "receiving",
            State::Ended => "ended",
        };
        f.debug_struct("RecordStream").field("state", &state).finish()
    }
}

impl Consumer {
    /// The records as a stream, for the adapters of the `futures` crates. Dropping it loses no record.
    ///
    /// ```no_run
    /// # use std::pin::pin;
    /// # use hermit_client::{Client, Start};
    /// # async fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    /// #     std::future::poll_fn(|cx| std::pin::Pin::new(&mut *stream).poll_next(cx)).await
    /// # }
    /// # async fn example() -> hermit_client::Result<()> {
    /// let client = Client::connect("127.0.0.1:9092").await?;
    /// let mut consumer = client.consumer().group("billing").build()?;
    /// consumer.subscribe("orders").await?;
    /// let mut records = consumer.stream();
    /// while let Some(record) = next(&mut records).await {
    ///     println!("{}", record?.offset);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn stream(&mut self) -> RecordStream<'_> {
        RecordStream { state: State::Idle(self) }
    }

    /// As [`Consumer::stream`], for where the stream has to own the consumer. With the stream the consumer is dropped; where it should
    /// be closed, borrow it.
    #[must_use]
    pub const fn into_stream(self) -> RecordStream<'static, Self> {
        RecordStream { state: State::Idle(self) }
    }
}

impl<'a, C: BorrowMut<Consumer> + Send + Unpin + 'a> Stream for RecordStream<'a, C> {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let State::Idle(consumer) = &mut self.state {
            // Most records need no waiting, and so no future.
            if let Some(item) = consumer.borrow_mut().try_recv().transpose() {
                return Poll::Ready(Some(item));
            }
        }
        self.state = match std::mem::replace(&mut self.state, State::Ended) {
            State::Idle(mut consumer) => State::Receiving(Box::pin(async move {
                let received = consumer.borrow_mut().recv().await;
                (consumer, received)
            })),
            other => other,
        };
        let State::Receiving(receiving) = &mut self.state else { return Poll::Ready(None) };
        let (consumer, received) = ready!(receiving.as_mut().poll(cx));
        // It may be given more to do later: an ended stream is asked again.
        self.state = State::Idle(consumer);
        Poll::Ready(received.transpose())
    }
}
