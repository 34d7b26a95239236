//! A version-2 session over a socket. The session itself is in [`state`]; here are the reading, the writing and the deadlines.

mod admin;
mod background;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod groups;
mod hello;
mod owed;
mod positions;
mod produce;
mod rights;
mod state;
mod subscribe;
mod subscription;
mod topics;
mod users;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use hermit_proto::session::{Operation, Status, WireError};
use hermit_proto::{CorrelationId, Deframer, magic};
use tokio::time::{Instant, Sleep};

use self::state::{Session, Stage};
use super::connection::{Connection, End, STALLED_AT_STOP};
use super::door::Entry;
use super::sendfile::FileRange;
use super::turn::Turn;
use crate::broker::{Phase, reached};
use crate::limits::READ_TURN_BYTES;
use crate::memory::Share;

/// Unsent answers beyond this stop the reading: the peer does not read them.
const MAX_UNSENT_BYTES: usize = 64 << 10;
/// Requests that are taken before others of this thread get their turn.
const ROUND_REQUESTS: usize = 64;
/// The same where they are produce requests that are gathered, all of which take about as long.
const ROUND_GATHERED: usize = 512;
/// Time for requests other than produce that are taken in one round. The last may exceed it.
const ROUND_TIME: Duration = Duration::from_micros(500);
/// Buffers of idle connections are not kept beyond this.
const KEEP_BYTES: usize = 4 << 10;
/// Bytes that are read at a time before the session is open: many may come who never get so far.
const HANDSHAKE_READ_BYTES: usize = 4 << 10;
/// Bytes of deliveries that are sent before requests are looked at again, and other tasks of this thread get their turn: a millisecond or less
/// for a client that takes all it gets.
const ROUND_BYTES: u64 = 1 << 20;
const NOT_READING: &str = "reading by the client";
/// A long time, where there is no deadline.
const FAR: Duration = Duration::from_secs(3600);

pub(super) async fn run(connection: Connection<'_>, entry: Entry, already_read: BytesMut, hello_deadline: Instant) -> End {
    let mut session = Session::new(connection.broker.clone(), connection.transport.clone(), entry);
    session.listed = Some(Arc::clone(&connection.listed));
    let mut deframer = Deframer::new(&[magic::REQUEST], session.unit_limits());
    deframer.extend(&already_read);
    drop(already_read);
    let now = Instant::now();
    let mut driver = Driver {
        share: connection.broker.budget().share(session.entry.address(), 1),
        connection,
        session,
        deframer,
        sending: None,
        read_at: now,
        written_at: now,
        deaf_at: now,
        hello_deadline,
        stopped_at: None,
        blocked: false,
        more: true,
        turn: Turn::of(READ_TURN_BYTES),
        is_small: true,
        at_end: None,
    };
    driver.run().await
}

struct Driver<'a> {
    connection: Connection<'a>,
    session: Session,
    deframer: Deframer,
    share: Share,
    sending: Option<Sending>,
    read_at: Instant,
    written_at: Instant,
    /// When the broker last was not reading: until then silence was its own.
    deaf_at: Instant,
    hello_deadline: Instant,
    /// When the broker began to stop.
    stopped_at: Option<Instant>,
    /// Whether the socket takes nothing now.
    blocked: bool,
    /// Whether whole requests may be in the buffer.
    more: bool,
    turn: Turn,
    /// Whether only a hello's bytes are taken: the session is not open yet.
    is_small: bool,
    /// The peer sends nothing more.
    at_end: Option<End>,
}

/// Frames that are sent from their file.
struct Sending {
    /// What goes before them: answers, and their head.
    head_bytes: usize,
    frames: FileRange,
}

impl Driver<'_> {
    async fn run(&mut self) -> End {
        let mut phase = self.connection.broker.phase();
        let mut timer: Pin<Box<Sleep>> = Box::pin(tokio::time::sleep_until(self.hello_deadline));
        let mut stopping = false;
        loop {
            self.requests();
            let busy = match self.write() {
                Ok(busy) => busy,
                Err(error) => return error.into(),
            };
            if self.is_over() {
                let end = self.session.turned_away.take().map(End::TurnedAway).or_else(|| self.at_end.take());
                return end.unwrap_or(if stopping { End::Stopping } else { End::Peer });
            }
            self.turn.pass().await;
            self.rest();
            // What waits in the buffer is not told by the socket.
            let busy = busy || self.has_requests();
            let may_read = self.may_read();
            let permit = self.permit().filter(|_| may_read);
            let is_deaf = permit.is_none();
            // A deadline that has come nearer must not wait for the old one.
            let (deadline, _) = self.deadline(is_deaf);
            if deadline < timer.deadline() {
                timer.as_mut().reset(deadline);
            }
            let stream = &self.connection.stream;
            tokio::select! {
                // Other sockets of this thread get their turn between two rounds.
                () = tokio::task::yield_now(), if busy => {}
                ready = stream.readable(), if !is_deaf => {
                    if let Err(error) = ready { return error.into(); }
                    if let Err(error) = self.read(permit.unwrap_or_default()) { return error.into(); }
                }
                () = self.share.changed(), if self.share.is_waiting() => {}
                ready = stream.writable(), if self.blocked => {
                    if let Err(error) = ready { return error.into(); }
                    self.blocked = false;
                }
                () = self.session.signal.notified(), if self.session.awaits_signal() => self.session.wake(),
                () = &mut timer => {
                    if is_deaf { self.deaf_at = Instant::now(); }
                    self.session.look_at_due();
                    if self.hello_deadline <= Instant::now() { self.session.login_late(); }
                    self.end_turn();
                    let (deadline, missing) = self.deadline(is_deaf);
                    if let (true, Some(missing)) = (deadline <= Instant::now(), missing) {
                        return End::Timeout(missing);
                    }
                    timer.as_mut().reset(deadline);
                }
                () = reached(&mut phase, Phase::Draining), if !stopping => {
                    stopping = true;
                    self.stopped_at = Some(Instant::now());
                    self.session.stop();
                }
            }
            if is_deaf {
                self.deaf_at = Instant::now();
            }
        }
    }

    fn may_read(&self) -> bool {
        self.at_end.is_none() && !self.more && self.session.takes_requests() && self.session.out.len() < MAX_UNSENT_BYTES
    }

    /// Whether requests can be taken out of the buffer.
    fn has_requests(&self) -> bool {
        self.more && self.session.takes_requests() && self.session.out.len() < MAX_UNSENT_BYTES
    }

    /// Whether everything that will ever be sent was sent.
    fn is_over(&self) -> bool {
        let sent = self.session.out.is_empty() && self.sending.is_none();
        sent && (self.session.stage == Stage::Closing || (self.at_end.is_some() && self.session.is_idle()))
    }

    /// Takes whole requests out of the buffer, as many as make one round.
    fn requests(&mut self) {
        let mut round_ends_at = None;
        if self.is_small && self.session.stage == Stage::Open {
            self.is_small = false;
            self.deframer.set_limits(self.session.unit_limits());
        }
        let (mut taken, mut all) = (0, 0);
        while taken < ROUND_REQUESTS && all < ROUND_GATHERED && self.has_requests() {
            all += 1;
            let gathered = self.session.gathering.len();
            match self.deframer.next_unit() {
                Ok(Some(unit)) => {
                    let is_produce = unit.header().record_count == Operation::Produce.number();
                    if !is_produce && round_ends_at.is_none() {
                        round_ends_at = Some(Instant::now() + ROUND_TIME);
                    }
                    self.session.request(unit);
                    if self.is_small && self.session.stage == Stage::Open {
                        self.is_small = false;
                        self.deframer.set_limits(self.session.unit_limits());
                    }
                    // A few bytes may ask for much.
                    if !is_produce && round_ends_at.is_some_and(|end| Instant::now() >= end) {
                        break;
                    }
                }
                Ok(None) => self.more = false,
                Err(error) => {
                    if error.is_fatal() || self.session.stage == Stage::New {
                        self.session.close(error.correlation(), &error.into());
                        self.more = false;
                    } else {
                        self.session.tell(error.correlation(), &error.into());
                    }
                }
            }
            if self.session.gathering.len() <= gathered {
                taken += 1;
            }
        }
        self.session.append_gathered();
        self.count();
    }

    /// Tells the budget what is in the buffer.
    fn count(&mut self) {
        self.share.update(self.deframer.buffered_bytes() as u64, self.deframer.announced_bytes());
    }

    /// How much may be read now, of what the peer may send.
    fn permit(&mut self) -> Option<usize> {
        let permit = self.share.permit()?;
        Some(if matches!(self.session.stage, Stage::New | Stage::LoggingIn) { permit.min(HANDSHAKE_READ_BYTES) } else { permit })
    }

    /// Whoever is slow with a large request while others wait gives them their turn; who is in their way is told so.
    fn end_turn(&mut self) {
        if self.share.turn_ends_at().is_some_and(|at| at <= Instant::now()) && !self.share.turn_ends(self.blocked) {
            let correlation = self.deframer.front().map_or(CorrelationId(0), |header| CorrelationId(header.offset));
            let message = "the request came too slowly while others waited for its room; send it again";
            self.session.close(correlation, &WireError::new(Status::Throttled, message));
            self.at_end = Some(End::Timeout("large request"));
            self.more = false;
            // What was sent of it is not kept until the peer has read why.
            self.deframer = Deframer::new(&[magic::REQUEST], self.session.unit_limits());
            self.count();
        }
    }

    fn read(&mut self, most: usize) -> io::Result<()> {
        match self.connection.stream.try_read(self.deframer.buffer(), most) {
            Ok(0) => {
                let between = self.deframer.is_between_units();
                self.at_end = Some(if between { End::Peer } else { End::Refused("the stream ended within a request".into()) });
                // Nobody will take deliveries; what was asked before is answered.
                self.session.leave();
            }
            Ok(read) => {
                self.turn.moved(read as u64);
                self.read_at = Instant::now();
                self.more = true;
                self.count();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.turn.begin();
                if self.connection.stream.take_received() {
                    self.read_at = Instant::now();
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends answers and deliveries in turn, without waiting. Answers whether there is more to send right now.
    fn write(&mut self) -> io::Result<bool> {
        let mut round_bytes = 0;
        while !self.blocked {
            if self.sending.is_none() {
                if round_bytes >= ROUND_BYTES {
                    return Ok(true);
                }
                let frames = self.session.deliveries();
                self.sending = frames.map(|frames| Sending { head_bytes: self.session.out.len(), frames });
                if self.session.out.is_empty() {
                    return Ok(false);
                }
            }
            match self.send() {
                Ok(sent) => {
                    self.written_at = Instant::now();
                    round_bytes += sent;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    if self.connection.stream.take_sent() {
                        self.written_at = Instant::now();
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Sends what comes next, as far as the socket takes it; answers how many bytes that were.
    fn send(&mut self) -> io::Result<u64> {
        let (stream, out) = (&self.connection.stream, &mut self.session.out);
        let Some(Sending { head_bytes, frames }) = &mut self.sending else {
            let sent = stream.try_write(out)?;
            out.advance(sent);
            return Ok(sent as u64);
        };
        if *head_bytes > 0 {
            let sent = stream.try_write_more(out.get(..*head_bytes).unwrap_or(out))?;
            out.advance(sent);
            *head_bytes = head_bytes.saturating_sub(sent);
            return Ok(sent as u64);
        }
        let sent = frames.try_send(stream)?;
        if frames.is_done() {
            self.sending = None;
        }
        Ok(sent)
    }

    /// The next deadline, and what is missing when it passes; `None` where the session has something to look at then.
    fn deadline(&self, is_deaf: bool) -> (Instant, Option<&'static str>) {
        let limits = self.connection.broker.limits();
        if self.session.stage == Stage::New {
            return (self.hello_deadline, Some("hello"));
        }
        if self.session.stage == Stage::LoggingIn {
            return (self.hello_deadline, None);
        }
        let mut next = (Instant::now() + FAR, None);
        let mut consider = |deadline: Instant, missing| {
            if deadline < next.0 {
                next = (deadline, missing);
            }
        };
        for look_at in self.session.next_look().into_iter().chain(self.share.turn_ends_at()) {
            consider(look_at, None);
        }
        if self.blocked {
            consider(self.written_at + limits.write_timeout, Some(NOT_READING));
            // Who takes nothing does not hold up a stop.
            if let Some(stopped_at) = self.stopped_at {
                consider(self.written_at.max(stopped_at) + STALLED_AT_STOP, Some(NOT_READING));
            }
        }
        // While the broker does not read, silence is its own.
        if !is_deaf {
            if !self.deframer.is_between_units() {
                consider(self.read_at.max(self.deaf_at) + limits.frame_timeout, Some("rest of a request"));
            }
            if !limits.heartbeat_interval.is_zero() {
                let alive_at = self.read_at.max(self.written_at).max(self.deaf_at);
                consider(alive_at + limits.heartbeat_interval.saturating_mul(3), Some("heartbeat"));
            }
        }
        next
    }

    /// An idle connection keeps no buffers.
    fn rest(&mut self) {
        if !self.more {
            self.deframer.release();
            self.session.owed.rest();
        }
        if self.session.out.is_empty() && self.session.out.capacity() > KEEP_BYTES {
            self.session.out = BytesMut::new();
        }
    }
}
