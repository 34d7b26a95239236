//! Where HTTP is served.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use super::settle::check_address;

const DEFAULT: &str = "127.0.0.1:15672";

/// Where HTTP is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpAddress {
    pub(crate) address: String,
    /// Whether somebody asked for it: what nobody asked for does not keep a broker from starting.
    pub(crate) is_asked: bool,
}

impl HttpAddress {
    /// All addresses that it stands for.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(self.address.to_socket_addrs()?.collect())
    }
}

/// `None` where it is off.
pub(super) fn settle(given: Option<&str>) -> anyhow::Result<Option<HttpAddress>> {
    match given {
        Some("off") => Ok(None),
        Some(address) => {
            check_address("http", address, "such as 127.0.0.1:15672, or off")?;
            Ok(Some(HttpAddress { address: address.to_owned(), is_asked: true }))
        }
        None => Ok(Some(HttpAddress { address: DEFAULT.to_owned(), is_asked: false })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_an_address_or_off() {
        assert_eq!(settle(Some("off")).unwrap(), None);
        assert!(!settle(None).unwrap().unwrap().is_asked && settle(Some("[::1]:0")).unwrap().unwrap().is_asked);
        let refusal = settle(Some("on")).unwrap_err().to_string();
        assert!(refusal.starts_with("`http` is `on`") && refusal.ends_with("or off"), "{refusal}");
    }
}
