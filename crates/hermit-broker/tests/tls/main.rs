//! TLS on the port of the broker, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test")]

mod certificates;
mod clients;
mod handshakes;
mod hostile;
#[path = "../pki/mod.rs"]
mod pki;
mod serving;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/vectors.rs"]
mod vectors;
