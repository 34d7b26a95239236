//! A version-2 session over a socket. The session itself is in [`state`]; here are the reading, the writing and the deadlines.

mod admin;
mod background;
mod groups;
mod hello;
mod owed;
mod positions;
mod produce;
mod state;
mod subscribe;
mod subscription;
mod topics;

use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use hermit_proto::session::WireError;
use hermit_proto::{Deframer, magic};
use tokio::time::{Instant, Sleep};

use self::state::{Session, Stage};
use super::connection::{Connection, End};
use super::door::Entry;
use super::sendfile::FileRange;
use crate::broker::{Phase, reached};
use crate::memory::Share;

/// Unsent answers beyond this stop the reading: the peer does not read them.
const MAX_UNSENT_BYTES: usize = 64 << 10;
/// Requests that are taken before others of this thread get their turn.
const ROUND_REQUESTS: usize = 64;
/// Buffers of idle connections are not kept beyond this.
const KEEP_BYTES: usize = 4 << 10;
/// Bytes of deliveries that are sent before requests are looked at again, and other tasks of this thread get their turn: a millisecond or less
/// for a client that takes all it gets.
const ROUND_BYTES: u64 = 1 << 20;
/// A long time, where there is no deadline.
const FAR: Duration = Duration::from_secs(3600);

pub(super) async fn run(connection: Connection<'_>, entry: Entry, already_read: BytesMut, hello_deadline: Instant) -> End {
    let session = Session::new(connection.broker.clone(), connection.transport.peer, entry);
    let mut deframer = Deframer::new(&[magic::REQUEST], session.unit_limits());
    deframer.extend(&already_read);
    drop(already_read);
    let now = Instant::now();
    let mut driver = Driver {
        share: connection.broker.budget().share(),
        connection,
        session,
        deframer,
        sending: None,
        read_at: now,
        written_at: now,
        deaf_at: now,
        hello_deadline,
        blocked: false,
        more: true,
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
    /// Whether the socket takes nothing now.
    blocked: bool,
    /// Whether whole requests may be in the buffer.
    more: bool,
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
            self.rest();
            // What waits in the buffer is not told by the socket.
            let busy = busy || self.has_requests();
            let may_read = self.may_read();
            let has_room = self.share.has_room();
            let is_deaf = !(may_read && has_room);
            // A deadline that has come nearer must not wait for the old one.
            let (deadline, _) = self.deadline();
            if deadline < timer.deadline() {
                timer.as_mut().reset(deadline);
            }
            let stream = &self.connection.stream;
            tokio::select! {
                // Other sockets of this thread get their turn between two rounds.
                () = tokio::task::yield_now(), if busy => {}
                ready = stream.readable(), if may_read && has_room => {
                    if let Err(error) = ready { return error.into(); }
                    if let Err(error) = self.read() { return error.into(); }
                }
                () = self.share.freed(), if may_read && !has_room => {}
                ready = stream.writable(), if self.blocked => {
                    if let Err(error) = ready { return error.into(); }
                    self.blocked = false;
                }
                () = self.session.signal.notified(), if self.session.awaits_signal() => self.session.wake(),
                () = &mut timer => {
                    if is_deaf { self.deaf_at = Instant::now(); }
                    self.session.look_at_due();
                    let (deadline, missing) = self.deadline();
                    if let (true, Some(missing)) = (deadline <= Instant::now(), missing) {
                        return End::Timeout(missing);
                    }
                    timer.as_mut().reset(deadline);
                }
                () = reached(&mut phase, Phase::Draining), if !stopping => {
                    stopping = true;
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
        for _ in 0..ROUND_REQUESTS {
            if !self.has_requests() {
                break;
            }
            match self.deframer.next_unit() {
                Ok(Some(unit)) => {
                    let was_new = self.session.stage == Stage::New;
                    self.session.request(unit);
                    if was_new {
                        self.deframer.set_limits(self.session.unit_limits());
                    }
                }
                Ok(None) => self.more = false,
                Err(error) => {
                    if error.is_fatal() || self.session.stage == Stage::New {
                        self.session.close(error.correlation(), &error.into());
                        self.more = false;
                    } else {
                        WireError::from(error).encode(error.correlation(), &mut self.session.out);
                    }
                }
            }
        }
        self.share.set(self.deframer.buffered_bytes() as u64);
    }

    fn read(&mut self) -> io::Result<()> {
        match self.connection.stream.try_read(self.deframer.buffer()) {
            Ok(0) => {
                let between = self.deframer.is_between_units();
                self.at_end = Some(if between { End::Peer } else { End::Refused("the stream ended within a request".into()) });
                // Nobody will take deliveries; what was asked before is answered.
                self.session.leave();
            }
            Ok(_) => {
                self.read_at = Instant::now();
                self.more = true;
                self.share.set(self.deframer.buffered_bytes() as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
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
    fn deadline(&self) -> (Instant, Option<&'static str>) {
        let limits = self.connection.broker.limits();
        if self.session.stage == Stage::New {
            return (self.hello_deadline, Some("hello"));
        }
        let look = self.session.next_look();
        let mut next = (look.unwrap_or_else(|| Instant::now() + FAR), None);
        let mut consider = |deadline: Instant, missing| {
            if deadline < next.0 {
                next = (deadline, Some(missing));
            }
        };
        if self.blocked {
            consider(self.written_at + limits.write_timeout, "reading by the client");
        }
        // While the broker does not read, silence is its own.
        if self.may_read() {
            if !self.deframer.is_between_units() {
                consider(self.read_at + limits.frame_timeout, "rest of a request");
            }
            // Where the budget is used up, frames that do not come must still end; but a heartbeat would not be read.
            if !limits.heartbeat_interval.is_zero() && self.share.has_room() {
                let alive_at = self.read_at.max(self.written_at).max(self.deaf_at);
                consider(alive_at + limits.heartbeat_interval.saturating_mul(3), "heartbeat");
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
