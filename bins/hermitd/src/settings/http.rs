//! Where HTTP is served.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use super::Settings;
use super::gather::Gathered;
use super::settle::{is_address, is_host};

const DEFAULT: &str = "127.0.0.1:15672";

/// Where HTTP is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpAddress {
    pub(crate) address: String,
    /// Whether somebody asked for it: what nobody asked for does not keep a broker from starting.
    pub(crate) is_asked: bool,
    /// Names that clients may call it by, in lower case.
    pub(crate) names: Vec<String>,
}

impl HttpAddress {
    /// All addresses that it stands for.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(self.address.to_socket_addrs()?.collect())
    }
}

impl Gathered {
    /// `None` where it is off.
    pub(super) fn settle_http(&mut self) -> Option<HttpAddress> {
        let names = self.settle_http_names();
        match self.given.http.clone().as_deref() {
            Some("off") => None,
            Some(address) => {
                if !is_address(address) {
                    self.wrong(
                        &["http"],
                        format!("`http` is {address:?}: give an address and a port, such as 127.0.0.1:15672, or off"),
                    );
                }
                Some(HttpAddress { address: address.to_owned(), is_asked: true, names })
            }
            None => Some(HttpAddress { address: DEFAULT.to_owned(), is_asked: false, names }),
        }
    }
}

impl Gathered {
    fn settle_http_names(&mut self) -> Vec<String> {
        let given = self.given.http_names.clone().unwrap_or_default();
        let names =
            given.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect::<Vec<_>>();
        if let Some(bad) = names.iter().find(|name| !is_host(name)) {
            self.wrong(
                &["http_names"],
                format!("`http_names` has {bad:?}: give names without ports, with commas between, such as broker.example,mq"),
            );
        }
        names
    }

    /// Refuses ports that `http` would take from `listen`, as one of the two is for every address.
    pub(super) fn look_at_overlap(&mut self, settings: &Settings) {
        let Some(http) = settings.http.as_ref().filter(|http| http.address != settings.listen) else { return };
        if !self.are_sound(&["http", "listen"]) {
            return;
        }
        // A name that cannot be resolved is told elsewhere.
        let (Ok(taken), Ok(wanted)) = (http.addresses(), settings.addresses()) else { return };
        let Some(taken) = taken.first() else { return };
        if !wanted.is_empty() && wanted.iter().all(|wanted| overlap(taken, wanted)) {
            self.wrong(
                &["http", "listen"],
                format!(
                    "`http` is {} and `listen` is {}, which are the same port {} of the same address: give one of them another port",
                    http.address,
                    settings.listen,
                    taken.port()
                ),
            );
        }
    }
}

/// Whether only one of the two can be listened on. All addresses of IPv6 are those of IPv4, too.
fn overlap(one: &SocketAddr, other: &SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    let covers = |all: IpAddr, of: IpAddr| all.is_unspecified() && (all.is_ipv6() || of.is_ipv4());
    one.port() != 0 && one.port() == other.port() && (a == b || covers(a, b) || covers(b, a))
}

#[cfg(test)]
mod tests {
    use super::super::table::Given;
    use super::*;

    #[test]
    fn it_is_an_address_or_off() {
        let settle = |http: Option<&str>| {
            let given = Given { http: http.map(str::to_owned), ..Given::default() };
            let mut gathered = Gathered { given, ..Gathered::default() };
            (gathered.settle_http(), gathered.findings.0.first().map(ToString::to_string))
        };
        assert_eq!(settle(Some("off")), (None, None));
        assert!(!settle(None).0.unwrap().is_asked && settle(Some("[::1]:0")).0.unwrap().is_asked);
        let refusal = settle(Some("on")).1.unwrap();
        let given = Given { http_names: Some(" Broker.example, mq,".into()), ..Given::default() };
        let mut gathered = Gathered { given, ..Gathered::default() };
        assert_eq!(gathered.settle_http().unwrap().names, ["broker.example", "mq"]);
        gathered.given.http_names = Some("mq:15672".into());
        assert!(
            gathered.settle_http().is_some() && gathered.findings.0[0].to_string().starts_with("`http_names` has \"mq:15672\"")
        );
        assert!(refusal.starts_with("`http` is \"on\"") && refusal.ends_with("or off"), "{refusal}");
    }

    #[test]
    fn a_port_of_every_address_is_one_of_each() {
        let refusal = |http: &str, listen: &str| {
            let given = Given { http: Some(http.to_owned()), listen: Some(listen.to_owned()), ..Given::default() };
            let mut gathered = Gathered { given, ..Gathered::default() };
            let settings = gathered.settle();
            gathered.look_at_overlap(&settings);
            gathered.findings.0.first().map(ToString::to_string)
        };
        for (http, listen) in [
            ("127.0.0.1:9092", "0.0.0.0:9092"),
            ("0.0.0.0:9092", "127.0.0.1:9092"),
            ("[::]:9092", "127.0.0.1:9092"),
            ("[::]:9092", "0.0.0.0:9092"),
            ("[::1]:9092", "[::]:9092"),
            ("[::ffff:127.0.0.1]:9092", "127.0.0.1:9092"),
        ] {
            let told = refusal(http, listen).unwrap_or_else(|| panic!("{http} and {listen} are taken"));
            assert!(told.contains(http) && told.contains(listen) && told.contains("another port"), "{told}");
        }
        for (http, listen) in [
            ("127.0.0.1:9093", "0.0.0.0:9092"),
            ("127.0.0.2:9092", "127.0.0.1:9092"),
            ("[::1]:9092", "0.0.0.0:9092"),
            ("0.0.0.0:0", "127.0.0.1:0"),
        ] {
            assert_eq!(refusal(http, listen), None, "{http} and {listen}");
        }
    }
}
