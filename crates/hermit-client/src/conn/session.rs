//! One connection after its hello.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermit_proto::CorrelationId;
use hermit_proto::session::{
    Acks, CreditRequest, GoodbyeRequest, HeartbeatRequest, HelloResponse, ProduceTarget, Request, Response, SessionLimits,
    SubscribeRequest, UnsubscribeRequest,
};
use tokio::sync::{mpsc, oneshot, watch};

use super::inbox::{Inbox, SlotId};
use super::routes::{ProduceAnswer, ProduceOutcome, Route, Routes, Subscription};
use super::spares::Spares;
use crate::error::{Error, Result};

/// A request in at most two pieces, so that payloads are not copied.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) head: Bytes,
    pub(super) body: Bytes,
    /// Dropped with the request, or marked when it was written.
    pub(super) receipt: Option<Receipt>,
}

/// Tells a producer whether a request that is not answered was written.
#[derive(Debug)]
pub(super) struct Receipt {
    session: Session,
    correlation: CorrelationId,
    answers: mpsc::UnboundedSender<ProduceAnswer>,
    written: bool,
}

impl Receipt {
    pub(super) fn written(mut self) {
        self.written = true;
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let outcome = if self.written {
            ProduceOutcome::Written
        } else {
            ProduceOutcome::Lost(self.session.failure().unwrap_or(Error::Closed { what: "client" }))
        };
        let answer = ProduceAnswer { session: self.session.number(), correlation: self.correlation, outcome };
        // A producer that is gone asks no more.
        drop(self.answers.send(answer));
    }
}

#[derive(Debug)]
struct Shared {
    server: Arc<str>,
    hello: HelloResponse,
    number: u64,
    // Unbounded: what waits here is bounded by the producers' buffers, and by one request per caller besides.
    outgoing: mpsc::UnboundedSender<Outgoing>,
    routes: Mutex<Routes>,
    next_correlation: AtomicU64,
    /// Whether anything was written since the last look.
    wrote: AtomicBool,
    said_goodbye: AtomicBool,
    spares: Spares,
    failed: watch::Sender<bool>,
}

/// A handle to one connection. Requests go out in the order of the calls.
#[derive(Clone, Debug)]
pub(crate) struct Session(Arc<Shared>);

impl Session {
    pub(super) fn new(server: Arc<str>, hello: HelloResponse, number: u64, outgoing: mpsc::UnboundedSender<Outgoing>) -> Self {
        Self(Arc::new(Shared {
            server,
            hello,
            number,
            outgoing,
            routes: Mutex::new(Routes::new(number)),
            // 0 is the session's own, 1 was the hello's. Ids of different sessions differ, so that late news are told from fresh ones.
            next_correlation: AtomicU64::new((number << 32) + 2),
            wrote: AtomicBool::new(false),
            said_goodbye: AtomicBool::new(false),
            spares: Spares::default(),
            failed: watch::Sender::new(false),
        }))
    }

    pub(crate) fn server(&self) -> &Arc<str> {
        &self.0.server
    }

    pub(crate) fn hello(&self) -> &HelloResponse {
        &self.0.hello
    }

    pub(crate) fn limits(&self) -> SessionLimits {
        self.0.hello.limits
    }

    /// Grows with each session of a link.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    pub(super) fn routes(&self) -> MutexGuard<'_, Routes> {
        self.0.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory to read into.
    pub(crate) fn spares(&self) -> &Spares {
        &self.0.spares
    }

    /// Ends the session; whoever waits for an answer gets `error`.
    pub(crate) fn fail(&self, error: &Error) {
        if self.routes().fail(error) {
            self.0.failed.send_replace(true);
        }
    }

    pub(super) fn lost(&self, source: io::Error) {
        self.fail(&Error::ConnectionLost { server: self.0.server.clone(), source: Arc::new(source) });
    }

    /// Why the session ended, if it has.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.routes().failure().cloned()
    }

    /// Returns when the session has ended.
    pub(crate) async fn ended(&self) -> Error {
        let mut failed = self.0.failed.subscribe();
        // The sender lives in `self`, so the wait ends by the value alone.
        if failed.wait_for(|failed| *failed).await.is_err() {
            tracing::debug!("a session without its flag");
        }
        self.failure().unwrap_or(Error::Closed { what: "client" })
    }

    pub(super) fn note_written(&self) {
        self.0.wrote.store(true, Ordering::Relaxed);
    }

    /// Whether anything was written since the last call.
    pub(super) fn take_written(&self) -> bool {
        self.0.wrote.swap(false, Ordering::Relaxed)
    }

    fn next_correlation(&self) -> CorrelationId {
        CorrelationId(self.0.next_correlation.fetch_add(1, Ordering::Relaxed))
    }

    fn send(&self, head: impl Into<Bytes>) {
        self.send_pieces(Outgoing { head: head.into(), body: Bytes::new(), receipt: None });
    }

    fn send_pieces(&self, outgoing: Outgoing) {
        // Without a writer the session has failed, and its routes have been told.
        if self.0.outgoing.send(outgoing).is_err() {
            tracing::debug!("a request for a session that has ended");
        }
    }

    /// Asks, and waits for the answer without a deadline of its own: the session's end ends the wait.
    pub(crate) async fn request<R: Request>(&self, request: &R) -> Result<R::Response> {
        let correlation = self.next_correlation();
        let mut head = BytesMut::new();
        request.encode(correlation, &mut head)?;
        let (waiter, answer) = oneshot::channel();
        self.routes().add(correlation, Route::Once(waiter))?;
        self.send(head);
        let unit = match answer.await {
            Ok(unit) => unit?,
            Err(_dropped) => return Err(self.failure().unwrap_or(Error::Closed { what: "client" })),
        };
        R::Response::decode_response(unit.header(), unit.key(), unit.payload())
            .map_err(|error| Error::answer(R::OPERATION, self.server(), error))
    }

    /// Sends the frames `head` and `tail`, of which the tail is not copied. How it fares goes to `answers`: with
    /// [`Acks::None`] when it was written, else when it is answered.
    pub(crate) fn produce(
        &self,
        target: &ProduceTarget,
        head: &[u8],
        tail: Bytes,
        answers: &mpsc::UnboundedSender<ProduceAnswer>,
        refusals: Option<CorrelationId>,
    ) -> Result<CorrelationId> {
        let token = self.next_correlation();
        let correlation = if target.acks == Acks::None { refusals.unwrap_or(token) } else { token };
        let mut out = BytesMut::with_capacity(ProduceTarget::HEAD_SIZE + head.len());
        out.extend_from_slice(&target.encode_head(correlation, head.len().saturating_add(tail.len()))?);
        out.extend_from_slice(head);
        let receipt = match target.acks {
            Acks::Committed => {
                self.routes().add(token, Route::Produce(answers.clone()))?;
                None
            }
            Acks::None => match self.failure() {
                Some(error) => return Err(error),
                None => Some(Receipt { session: self.clone(), correlation: token, answers: answers.clone(), written: false }),
            },
        };
        self.send_pieces(Outgoing { head: out.freeze(), body: tail, receipt });
        Ok(token)
    }

    /// A correlation id under which refusals of unanswered requests come to `answers`.
    pub(crate) fn collect_refusals(&self, answers: &mpsc::UnboundedSender<ProduceAnswer>) -> Result<CorrelationId> {
        let correlation = self.next_correlation();
        self.routes().add(correlation, Route::Refusals(answers.clone()))?;
        Ok(correlation)
    }

    /// Opens a subscription; the answer and the deliveries go to `inbox`.
    pub(crate) fn subscribe(&self, request: &SubscribeRequest, inbox: &Arc<Inbox>, slot: SlotId) -> Result<CorrelationId> {
        let correlation = self.next_correlation();
        let mut head = BytesMut::new();
        request.encode(correlation, &mut head)?;
        let window_bytes = request.credit_bytes;
        let (inbox, credit_left_bytes) = (inbox.clone(), window_bytes);
        let subscription = Subscription { inbox, slot, window_bytes, credit_left_bytes, unread_bytes: 0 };
        self.routes().add(correlation, Route::Subscription(subscription))?;
        self.send(head);
        Ok(correlation)
    }

    /// Notes bytes of deliveries that were handed out, and gives the broker credit for others when that is due.
    pub(crate) fn consumed(&self, subscription: CorrelationId, bytes: u64) -> Result<()> {
        // Noted before it is sent: the broker may use it at once.
        let grant = self.routes().consumed(subscription, bytes);
        if let Some(bytes) = grant {
            let mut head = BytesMut::new();
            CreditRequest { bytes }.encode(subscription, &mut head)?;
            self.send(head);
        }
        Ok(())
    }

    /// Ends a subscription; deliveries that are on their way are dropped.
    pub(crate) fn unsubscribe(&self, subscription: CorrelationId) -> Result<()> {
        self.routes().remove(subscription);
        self.send_unanswered(&UnsubscribeRequest { subscription })
    }

    pub(super) fn heartbeat(&self) -> Result<()> {
        self.send_unanswered(&HeartbeatRequest)
    }

    fn send_unanswered<R: Request>(&self, request: &R) -> Result<()> {
        let mut head = BytesMut::new();
        request.encode(self.next_correlation(), &mut head)?;
        self.send(head);
        Ok(())
    }

    /// Says goodbye, unless somebody else has, and closes, whether or not it is answered.
    pub(super) async fn close(&self, patience: Duration) {
        let goodbye = async {
            if self.0.said_goodbye.swap(true, Ordering::Relaxed) {
                self.ended().await;
            } else if let Err(error) = self.request(&GoodbyeRequest).await {
                tracing::debug!(%error, "no goodbye");
            }
        };
        if tokio::time::timeout(patience, goodbye).await.is_err() {
            tracing::debug!("the goodbye was not answered");
        }
        self.fail(&Error::Closed { what: "client" });
    }
}
