//! What an embedder tells the server.

use std::time::Duration;

/// The settings of an HTTP server. The broker's own limits hold besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Most connections at a time. Default 1,024, at least 1. Where one more comes it waits to be taken in. One costs some 10 KiB and a descriptor.
    pub max_connections: usize,
    /// Time for a TLS handshake. Default 5 s.
    pub handshake_timeout: Duration,
    /// Most TLS handshakes that are under way. Default 256, at least 1. Where one more comes, it waits within its time. One costs 48 KiB at most for what it sends.
    pub max_handshakes: usize,
    /// Time for the head of a request, and that a connection may be idle between two requests. Default 30 s.
    pub header_timeout: Duration,
    /// A body once begun must bring a byte in this time. Default 30 s.
    pub body_timeout: Duration,
    /// A client must take a byte in this time while something is being sent. Default 60 s.
    pub write_timeout: Duration,
    /// Whether `/metrics` shows each partition, some 15 series of 100 bytes, and not only topics. Default: yes. To be switched off where there are so many of them
    /// that Prometheus should not keep them.
    pub metrics_per_partition: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            handshake_timeout: Duration::from_secs(5),
            max_handshakes: 256,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            metrics_per_partition: true,
        }
    }
}
