//! Taking connections in: with patience where the system has no descriptors left, and each in a task of its own.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::connection;
use super::line_gate::Line;
use crate::address::PeerAddress;
use crate::broker::{Broker, Phase, reached};
use crate::metrics::ConnectionEnd;

const FIRST_BACK_OFF: Duration = Duration::from_millis(10);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(1);

pub(super) async fn serve(broker: &Broker, listener: TcpListener) {
    let mut phase = broker.phase();
    let mut tasks = JoinSet::new();
    let mut back_off = FIRST_BACK_OFF;
    loop {
        tokio::select! {
            // Draining must win over connections that keep coming.
            biased;
            () = reached(&mut phase, Phase::Draining) => break,
            Some(ended) = tasks.join_next() => report_panic(broker, ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    back_off = FIRST_BACK_OFF;
                    take_in(broker, &mut tasks, stream, peer);
                }
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    broker.counters().not_taken_in();
                    // Out of descriptors or memory: the connection stays in the backlog, and trying at once would spin.
                    if let Line::Write { left_out } = broker.lines().not_taken_in.line() {
                        tracing::warn!(error = %crate::error::line(&error), wait_ms = back_off.as_millis(), left_out, "no connection can be taken in now");
                    }
                    tokio::time::sleep(back_off).await;
                    back_off = back_off.saturating_mul(2).min(LONGEST_BACK_OFF);
                }
            },
        }
    }
    // Whoever comes now is refused by the system.
    drop(listener);
    loop {
        tokio::select! {
            biased;
            ended = tasks.join_next() => match ended {
                Some(ended) => report_panic(broker, ended),
                None => return,
            },
            () = reached(&mut phase, Phase::Cutting) => {
                tasks.shutdown().await;
                return;
            }
        }
    }
}

fn take_in(broker: &Broker, tasks: &mut JoinSet<()>, stream: TcpStream, peer: std::net::SocketAddr) {
    broker.counters().accepted();
    let (connected, entry) = (broker.connect(), broker.door().enter(PeerAddress::of(peer.ip())));
    let broker = broker.for_connection();
    tasks.spawn(async move {
        connection::run(&broker, stream, peer, entry).await;
        drop(connected);
    });
}

/// Errors of `accept` that concern the one connection that was to be accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    let transient = [Errno::CONNABORTED, Errno::INTR, Errno::PROTO, Errno::PERM, Errno::CONNRESET];
    error.raw_os_error().is_some_and(|code| transient.iter().any(|errno| errno.raw_os_error() == code))
}

/// A panic takes one connection, and is a fault to be told.
fn report_panic(broker: &Broker, ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        broker.counters().ended(ConnectionEnd::Panicked);
        if let Line::Write { left_out } = broker.lines().panicked.line() {
            tracing::error!(error = %crate::error::line(&error), left_out, "a connection's task panicked; the connection is closed");
        }
    }
}
