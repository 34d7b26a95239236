//! Reads units off the socket and hands each to whoever waits for it; never waits for anyone itself.

use std::io;
use std::time::Duration;

use hermit_proto::session::WireError;
use hermit_proto::{CorrelationId, Deframer, Unit, magic};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::session::Session;
use crate::error::{Error, ProtocolFault};

/// A broker that says nothing for so many heartbeat intervals is gone.
const SILENT_INTERVALS: u32 = 3;

/// Runs until the session fails.
pub(super) async fn run(mut socket: impl AsyncRead + Unpin, mut deframer: Deframer, heartbeat: Duration, session: Session) {
    let ended = session.ended();
    tokio::pin!(ended);
    let mut tick = interval_at(Instant::now() + heartbeat, heartbeat);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent_intervals = 0;
    loop {
        tokio::select! {
            _error = &mut ended => return,
            read = socket.read_buf(deframer.buffer()) => {
                silent_intervals = 0;
                let handed_on = match read {
                    Ok(0) => return session.lost(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => hand_on(&mut deframer, &session),
                    Err(error) => return session.lost(error),
                };
                if let Err(source) = handed_on {
                    return session.fail(&Error::Protocol { server: session.server().clone(), source });
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
            }
        }
    }
}

fn hand_on(deframer: &mut Deframer, session: &Session) -> Result<(), ProtocolFault> {
    while let Some(unit) = deframer.next_unit()? {
        if unit.header().magic == magic::DELIVERY {
            session.routes().delivery(unit)?;
        } else if unit.correlation() == CorrelationId(0) {
            return Err(session_error(&unit));
        } else {
            session.routes().response(unit)?;
        }
    }
    Ok(())
}

/// "A response with correlation id 0 concerns no single request, and the broker closes behind it."
pub(super) fn session_error(unit: &Unit) -> ProtocolFault {
    match WireError::decode(unit.header(), unit.payload()) {
        Ok(error) => ProtocolFault::Ended(error),
        Err(malformed) => malformed.into(),
    }
}
