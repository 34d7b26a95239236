//! Whom the broker can be reached by: without logins, by this machine alone.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use anyhow::bail;

use super::Settings;
use super::gather::Gathered;

impl Settings {
    /// All addresses that `listen` stands for.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(self.listen.to_socket_addrs()?.collect())
    }

    /// Refuses addresses that other machines may reach, where nobody has to log in and nobody has said that this is meant.
    pub(crate) fn check_reach(&self, addresses: &[SocketAddr]) -> anyhow::Result<()> {
        self.check_reach_of("listen", &self.listen, addresses)
    }

    /// The same for the addresses of another setting.
    pub(crate) fn check_reach_of(&self, setting: &str, listen: &str, addresses: &[SocketAddr]) -> anyhow::Result<()> {
        if self.broker.access.enabled || self.insecure {
            return Ok(());
        }
        let Some(open) = addresses.iter().find(|address| is_open(address)) else { return Ok(()) };
        let stands_for = if open.to_string() == listen { String::new() } else { format!(", which is {open}") };
        bail!(
            "`{setting}` is {listen}{stands_for}: other machines may reach it, and whoever does could read, write and delete everything; set \
             `authentication` to \"on\" (--authentication on), so that clients log in, or, if this is meant, `insecure` to true (--insecure)"
        );
    }
}

impl Gathered {
    /// As [`Settings::check_reach`], before anything is begun. A name that cannot be resolved now is looked at when it can.
    pub(super) fn look_at_reach(&mut self, settings: &Settings) {
        if !self.are_sound(&["listen", "authentication", "insecure"]) {
            return;
        }
        if let Some(http) = settings.http.as_ref().filter(|_http| self.are_sound(&["http"])) {
            match http.addresses() {
                Ok(addresses) => {
                    if let Err(error) = settings.check_reach_of("http", &http.address, &addresses) {
                        self.wrong(&["http"], error.to_string());
                    } else if settings.http_tls.is_none() && !settings.insecure && addresses.iter().any(is_open) {
                        let note = "`http` is for other machines, too, and has no TLS: their logins will be refused; set `http_tls_cert` and `http_tls_key`";
                        self.notes.push(note.to_owned());
                    }
                }
                Err(error) => self.notes.push(format!("`http` is {}, which cannot be resolved: {error}", http.address)),
            }
        }
        let addresses = match settings.addresses() {
            Ok(addresses) => addresses,
            Err(error) => {
                self.notes.push(format!("`listen` is {}, which cannot be resolved: {error}", settings.listen));
                return;
            }
        };
        if let Err(error) = settings.check_reach(&addresses) {
            self.wrong(&["listen", "authentication"], error.to_string());
        } else if settings.broker.tls.is_none() && !settings.insecure && addresses.iter().any(is_open) {
            let note = "`listen` is for other machines, too, and there is no TLS: their logins will be refused; set `tls_cert` and `tls_key`";
            self.notes.push(note.to_owned());
        }
    }
}

/// Whether other machines may reach it.
fn is_open(address: &SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::super::gather::Gathered;
    use super::super::table::{Given, SwitchName};

    fn refusal(given: Given) -> Option<String> {
        let mut gathered = Gathered { given, ..Gathered::default() };
        let settings = gathered.settle();
        gathered.look_at_reach(&settings);
        gathered.findings.0.first().map(ToString::to_string)
    }

    fn at(listen: &str) -> Given {
        Given { listen: Some(listen.into()), ..Given::default() }
    }

    #[test]
    fn only_loopback_needs_no_logins() {
        for listen in ["127.0.0.1:0", "127.9.9.9:9092", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            assert_eq!(refusal(at(listen)), None, "{listen}");
        }
        for listen in ["0.0.0.0:0", "[::]:9092", "192.0.2.7:9092", "[2001:db8::1]:0", "[::ffff:192.0.2.7]:0"] {
            let refusal = refusal(at(listen)).unwrap_or_else(|| panic!("{listen} is taken"));
            assert!(
                refusal.contains(listen) && refusal.contains("--authentication on") && refusal.contains("--insecure"),
                "{refusal}"
            );
            for way_out in
                [Given { authentication: Some(SwitchName::On), ..at(listen) }, Given { insecure: Some(true), ..at(listen) }]
            {
                assert_eq!(self::refusal(way_out), None);
            }
            assert!(self::refusal(Given { insecure: Some(false), authentication: Some(SwitchName::Off), ..at(listen) }).is_some());
        }
    }
}
