//! Tells systemd how far the broker is (`sd_notify(3)`), where it asks to be told: `Type=notify` and `Type=notify-reload`.

use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use hermit_broker::StartProgress;
use rustix::time::{ClockId, clock_gettime};

/// Time from one look at a start to the next.
const TELL_INTERVAL: Duration = Duration::from_millis(500);
/// Time that the start may take from now on. It is asked for again as long as something gets done.
const START_PATIENCE: Duration = Duration::from_secs(90);

/// Time to close the logs, on a slow disk, once nobody is served any more.
const CLOSE_PATIENCE: Duration = Duration::from_secs(80);

/// It serves, at this address: after the start, and after settings were read again, of which `word` tells what came of that.
pub(crate) fn ready(address: SocketAddr, word: Option<&str>) {
    let word = word.map(|word| format!("; {word}")).unwrap_or_default();
    notify(&format!("READY=1\nSTATUS=Serving at {address}{word}"));
}

/// The settings are being read again.
pub(crate) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={}{:06}\nSTATUS=Reading the settings again", now.tv_sec, now.tv_nsec / 1000));
}

/// It stops, and gives clients so long. Whatever the unit allows, it has to have that, and the time to close the logs.
pub(crate) fn stopping(drain: Duration) {
    let patience = drain.saturating_add(CLOSE_PATIENCE).as_micros();
    notify(&format!("STOPPING=1\nSTATUS=Stopping: answering what was asked\nEXTEND_TIMEOUT_USEC={patience}"));
}

/// The logs are being closed.
pub(crate) fn closing() {
    notify(&format!("STATUS=Stopping: closing the logs\nEXTEND_TIMEOUT_USEC={}", CLOSE_PATIENCE.as_micros()));
}

/// It gets on.
pub(crate) fn alive() {
    notify("WATCHDOG=1");
}

/// The start has come so far: it must not be taken for one that hangs.
pub(crate) fn starting(how_far: &str) {
    notify(&format!("STATUS={how_far}\nEXTEND_TIMEOUT_USEC={}", START_PATIENCE.as_micros()));
}

/// Tells how far the start is, whenever it has come further, for as long as this is polled.
pub(crate) async fn follow_start(progress: Arc<StartProgress>) {
    let mut told = (0, 0);
    loop {
        let (opened, partitions) = (progress.opened(), progress.partitions());
        if told != (opened, partitions) {
            told = (opened, partitions);
            starting(&format!("Starting: {opened} of {partitions} partitions are open"));
        }
        tokio::time::sleep(TELL_INTERVAL).await;
    }
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
        Some(name) => UnixAddress::from_abstract_name(name)?,
        None => UnixAddress::from_pathname(std::ffi::OsStr::from_bytes(socket))?,
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
