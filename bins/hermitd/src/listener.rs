//! Where the broker listens, and how many may wait there to be taken in.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that clients have made and that were not taken in yet. Beyond that the system drops what comes, and forgets some whose clients take them for made: these
/// are reset as soon as they send. 128, as is usual, are no more than come in an instant on a busy machine. The system has a limit of its own
/// (`net.core.somaxconn`), and takes the lower one; what waits costs it some hundred bytes each, and no memory of this process.
const BACKLOG: u32 = 1 << 16;

/// Listens on the first of the addresses that can be had.
pub(crate) fn listen(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut failed = ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        match listen_at(*address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that a restart need not wait for connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::net::TcpStream;
    use tokio::task::JoinSet;

    /// As many as may come at once from a crowd.
    const CROWD: usize = 600;
    const SYSTEMS_LIMIT: &str = "/proc/sys/net/core/somaxconn";

    #[tokio::test]
    async fn a_crowd_that_comes_at_once_waits_until_it_is_taken_in() {
        let most = std::fs::read_to_string(SYSTEMS_LIMIT).map_or(CROWD, |limit| limit.trim().parse().unwrap());
        let listener = listen(&[([127, 0, 0, 1], 0).into()]).unwrap();
        let address = listener.local_addr().unwrap();
        let mut crowd = JoinSet::new();
        for _ in 0..CROWD.min(most) {
            crowd.spawn(TcpStream::connect(address));
        }
        let came = tokio::time::timeout(Duration::from_secs(20), crowd.join_all()).await;
        assert!(came.expect("all are connected, though nobody takes them in").iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn the_next_address_is_taken_where_the_first_cannot_be_had() {
        let taken = listen(&[([127, 0, 0, 1], 0).into()]).unwrap().local_addr().unwrap();
        let holder = listen(&[taken]).unwrap();
        let second = listen(&[holder.local_addr().unwrap(), ([127, 0, 0, 1], 0).into()]).unwrap();
        assert_ne!(second.local_addr().unwrap(), taken);
        let refused = listen(&[holder.local_addr().unwrap()]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
    }
}
