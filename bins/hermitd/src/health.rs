//! `hermitd health`: asks the broker that runs with the same settings how it is, for who has nothing else to ask it with, such as a container.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::settings::Settings;

/// Time for each step of asking: a broker that is alive answers at once.
const PATIENCE: Duration = Duration::from_secs(3);
/// A longer answer is not the broker's.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Whether it is alive.
    Alive,
    /// Whether it serves clients.
    Ready,
}

/// Asks, and gives the answer if it is a good one.
pub(crate) fn ask(settings: &Settings, question: Question) -> anyhow::Result<String> {
    let Some(http) = &settings.http else { return ask_without_http(settings, question) };
    let addresses = http.addresses().with_context(|| format!("`http` is {}, which cannot be resolved", http.address))?;
    let addresses: Vec<_> = addresses.into_iter().map(reachable).collect();
    if addresses.iter().any(|address| address.port() == 0) {
        bail!("`http` is {}, and only the broker's own first line tells the port that it took: name one", http.address);
    }
    let path = match question {
        Question::Alive => "/healthz",
        Question::Ready => "/readyz",
    };
    let mut last = None;
    for address in addresses {
        match get(address, path) {
            Ok((200, body)) => return Ok(body),
            Ok((status, body)) => bail!("{path} at {address} answers {status}: {body}"),
            Err(error) => last = Some(error.context(format!("{path} at {address} is not answered"))),
        }
    }
    Err(last.with_context(|| format!("`http` is {}, which stands for no address", http.address))?)
}

/// Whether it is alive nobody can be asked then: it is not called dead for that. Whether it serves clients shows at the port that they connect to.
fn ask_without_http(settings: &Settings, question: Question) -> anyhow::Result<String> {
    if question == Question::Alive {
        return Ok("`http` is off: there is nobody to ask".to_owned());
    }
    let listen = &settings.listen;
    let addresses = settings.addresses().with_context(|| format!("`listen` is {listen}, which cannot be resolved"))?;
    let address = addresses.into_iter().next().with_context(|| format!("`listen` is {listen}, which stands for no address"))?;
    if address.port() == 0 {
        bail!(
            "`http` is off, and `listen` is {listen}, where only the broker's own first line tells the port that it took: name one"
        );
    }
    TcpStream::connect_timeout(&reachable(address), PATIENCE).with_context(|| format!("nobody listens on {listen}"))?;
    Ok(format!("`http` is off; somebody listens on {listen}"))
}

/// Where a broker answers that listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Status and body. Health is told without TLS, and to whoever asks.
fn get(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok((status.context("what answers there is no broker")?, body.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_on_all_addresses_is_asked_on_loopback() {
        for (listens, asked) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("192.0.2.7:1", "192.0.2.7:1"), ("127.0.0.1:1", "127.0.0.1:1")]
        {
            assert_eq!(reachable(listens.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
