//! Reads units off the socket and hands each to whoever waits for it; never waits for anyone itself.

use std::io;
use std::time::Duration;

use bytes::BufMut as _;
use hermit_proto::session::WireError;
use hermit_proto::{CorrelationId, Deframer, Unit, magic};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::session::Session;
use crate::error::{Error, ProtocolFault};

/// A broker that says nothing for so many heartbeat intervals is gone.
const SILENT_INTERVALS: u32 = 3;

/// Behind a unit of this size whoever waits for it gets a turn before more is read.
const LARGE_BYTES: usize = 256 << 10;

/// Runs until the session fails.
pub(super) async fn run(mut socket: impl AsyncRead + Unpin, mut deframer: Deframer, heartbeat: Duration, session: Session) {
    let ended = session.ended();
    tokio::pin!(ended);
    let mut tick = interval_at(Instant::now() + heartbeat, heartbeat);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent_intervals = 0;
    loop {
        if let Some(size) = deframer.wanted_bytes()
            && let Some(spare) = session.spares().take(size)
        {
            deframer.go_on_in(spare);
        }
        let most = deframer.useful_bytes();
        let mut room = deframer.buffer().limit(most);
        tokio::select! {
            _error = &mut ended => return,
            read = socket.read_buf(&mut room) => {
                silent_intervals = 0;
                let handed_on = match read {
                    Ok(0) => return session.lost(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => hand_on(&mut deframer, &session),
                    Err(error) => return session.lost(error),
                };
                match handed_on {
                    // It is in the processor's cache now, and its memory is soon free for the next.
                    Ok(bytes) if bytes >= LARGE_BYTES => tokio::task::yield_now().await,
                    Ok(_) => {}
                    Err(source) => return session.fail(&Error::Protocol { server: session.server().clone(), source }),
                }
            }
            _ = tick.tick() => {
                if silent_intervals >= SILENT_INTERVALS {
                    let silence = heartbeat.saturating_mul(silent_intervals);
                    return session.lost(io::Error::new(io::ErrorKind::TimedOut, format!("no sign of life for {silence:?}")));
                }
                // A heartbeat is answered: it keeps the session alive at the broker, and shows whether the broker is.
                if (!session.take_written() || silent_intervals > 0)
                    && let Err(error) = session.heartbeat()
                {
                    return session.fail(&error);
                }
                silent_intervals += 1;
                session.spares().rest();
            }
        }
    }
}

/// Answers the size of the largest unit.
fn hand_on(deframer: &mut Deframer, session: &Session) -> Result<usize, ProtocolFault> {
    let mut largest = 0;
    while let Some(unit) = deframer.next_unit()? {
        largest = largest.max(unit.payload().len());
        if unit.header().magic == magic::DELIVERY {
            session.routes().delivery(unit)?;
        } else if unit.correlation() == CorrelationId(0) {
            return Err(session_error(&unit));
        } else {
            session.routes().response(unit)?;
        }
    }
    Ok(largest)
}

/// "A response with correlation id 0 concerns no single request, and the broker closes behind it."
pub(super) fn session_error(unit: &Unit) -> ProtocolFault {
    match WireError::decode(unit.header(), unit.payload()) {
        Ok(error) => ProtocolFault::Ended(error),
        Err(malformed) => malformed.into(),
    }
}
