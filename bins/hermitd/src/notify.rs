//! Tells systemd how far the broker is (`sd_notify(3)`), where it asks to be told: `Type=notify` and `Type=notify-reload`.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// It serves: after the start, and after settings were read again.
pub(crate) fn ready() {
    notify("READY=1");
}

/// The settings are being read again.
pub(crate) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={}{:06}", now.tv_sec, now.tv_nsec / 1000));
}

/// It stops.
pub(crate) fn stopping() {
    notify("STOPPING=1");
}

fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(socket.as_encoded_bytes(), state) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

fn send(socket: &[u8], state: &str) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str().as_encoded_bytes(), "READY=1").unwrap();
        let mut told = [0; 64];
        let length = socket.recv(&mut told).unwrap();
        assert_eq!(&told[..length], b"READY=1");
    }
}
