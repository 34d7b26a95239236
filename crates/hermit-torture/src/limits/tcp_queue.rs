//! What lies unread in the sockets of another process: the `rx_queue` column of `/proc/PID/net/tcp`.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, bail};

/// Bytes that were received for connections to `local` and not yet read.
pub(super) fn unread_bytes(pid: u32, local: SocketAddr) -> Result<u64> {
    let IpAddr::V4(ip) = local.ip() else { bail!("only IPv4 is looked up") };
    let path = format!("/proc/{pid}/net/tcp");
    let table = std::fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
    // The kernel prints the address's bytes as one number in the machine's own order.
    let name = format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), local.port());
    sum(&table, &name).with_context(|| format!("{path} is not understood"))
}

/// `sl local_address rem_address st tx_queue:rx_queue …`. In a listening socket the queue counts connections that wait to be accepted:
/// they are unread as well.
fn sum(table: &str, local: &str) -> Option<u64> {
    table.lines().skip(1).try_fold(0, |sum, row| {
        let mut columns = row.split_whitespace().skip(1);
        let address = columns.next()?;
        let (_tx, rx) = columns.nth(2)?.split_once(':')?;
        let unread = u64::from_str_radix(rx, 16).ok()?;
        Some(if address == local { sum + unread } else { sum })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0100007F:2384 00000000:0000 0A 00000000:00000003 00:00000000 00000000  1000        0 21784 1\n   \
        1: 0100007F:2384 0100007F:9E40 01 00000000:00000010 00:00000000 00000000  1000        0 21785 1\n   \
        2: 0100007F:9E40 0100007F:2384 01 00000010:00000020 00:00000000 00000000  1000        0 21786 1\n";

    #[test]
    fn connections_waiting_and_bytes_unread_both_count() {
        assert_eq!(sum(TABLE, "0100007F:2384"), Some(0x13));
        assert_eq!(sum(TABLE, "0100007F:9999"), Some(0));
        assert_eq!(sum("head\n0: x\n", "x"), None);
    }

    #[test]
    fn a_real_socket_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut sender = TcpStream::connect(address).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        sender.write_all(&[0; 77]).unwrap();
        // On the loopback interface the bytes have arrived when the call returns.
        assert_eq!(unread_bytes(std::process::id(), address).unwrap(), 77);
        drop(receiver);
    }
}
