//! How a connection begins: with TLS or without, in time.

use std::io;

#[cfg(feature = "tls")]
use hermit_broker::{TlsPort, TlsStream};
use tokio::net::TcpStream;

use crate::door::Place;
use crate::stage::Standing;

/// A connection that can be served.
pub(crate) enum Begun {
    /// Without TLS.
    Plain {
        socket: TcpStream,
        /// Whether it should have come with it.
        wants_tls: bool,
    },
    /// With TLS.
    #[cfg(feature = "tls")]
    Secure(Box<TlsStream>),
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unused_async, reason = "as with the feature")]
pub(crate) async fn begin(socket: TcpStream, _place: &Place, _standing: &Standing) -> io::Result<Begun> {
    Ok(Begun::Plain { socket, wants_tls: false })
}

/// Looks how a connection begins, and shakes hands where that is with TLS.
#[cfg(feature = "tls")]
pub(crate) async fn begin(socket: TcpStream, place: &Place, standing: &Standing) -> io::Result<Begun> {
    let (tls, config) = (standing.tls(), standing.config());
    if !tls.is_on() {
        return Ok(Begun::Plain { socket, wants_tls: false });
    }
    let mut first = [0];
    let peeked = tokio::time::timeout(config.header_timeout, socket.peek(&mut first));
    if peeked.await?? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if first != [TlsPort::FIRST_BYTE] {
        return Ok(Begun::Plain { socket, wants_tls: tls.is_required() });
    }
    let _shaking = place.shake();
    let shaken = tls.accept(socket);
    Ok(Begun::Secure(Box::new(tokio::time::timeout(config.handshake_timeout, shaken).await??)))
}
