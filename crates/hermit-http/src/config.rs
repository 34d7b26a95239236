//! What an embedder tells the server.

use std::time::Duration;

/// The settings of an HTTP server. The broker's own limits hold besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Most connections at a time. Default 1,024, at least 1. Where one more comes, one that waits for a request is closed. Requests that are under way have fifteen sixteenths
    /// of them, streams among these three quarters. One costs some 10 KiB and a descriptor.
    pub max_connections: usize,
    /// Most connections at a time from one address (IPv6: from one /64 network). Default 512, at least 2. Requests and streams that are under way have fifteen sixteenths of them, and
    /// leave one at least. Behind a proxy all clients are one address: then it should be `max_connections`.
    pub max_connections_per_address: usize,
    /// Time for a TLS handshake. Default 5 s.
    pub handshake_timeout: Duration,
    /// Most TLS handshakes that are under way. Default 256, at least 1. Where one more comes, the oldest of the address that has most of them is closed. One costs 48 KiB at most for what it sends.
    pub max_handshakes: usize,
    /// Time for the head of a request, and that a connection may be idle between two requests. Default 30 s.
    pub header_timeout: Duration,
    /// What a client may be behind `min_rate` in sending a body; what comes faster is no credit for later. Default 30 s.
    pub body_timeout: Duration,
    /// What a client may be behind `min_rate` in taking what is sent to it. Default 60 s.
    pub write_timeout: Duration,
    /// Bytes in a second below which a client that sends a body, or takes an answer, is cut off once it is late. Default 16 KiB, at least 1: a bad line of a telephone has more, and
    /// who is slower holds memory that others wait for.
    pub min_rate: u64,
    /// Whether `/metrics` shows each partition, some 15 series of 100 bytes, and not only topics. Default: yes. To be switched off where there are so many of them
    /// that Prometheus should not keep them.
    pub metrics_per_partition: bool,
    /// Names that clients call this machine by, besides its addresses and `localhost`, in lower case. Default: none. Where nobody has to log in, requests under other names are
    /// refused: a page in a browser could have any name of its own stand for an address of this machine.
    pub names: Vec<String>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            max_connections_per_address: 512,
            handshake_timeout: Duration::from_secs(5),
            max_handshakes: 256,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            min_rate: 16 << 10,
            metrics_per_partition: true,
            names: Vec::new(),
        }
    }
}
