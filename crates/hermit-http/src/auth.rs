//! Who asks, from where, and whether that is let in.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hermit_broker::proto::session::AccessOperations;
use hermit_broker::{Broker, Caller, LoginRefused, Shown, StopHold};

use crate::problem::Problem;
use crate::server::Peer;
use crate::stage::{Stage, Standing};

/// A client that was let in, and the broker that it talks to. A stop of the broker waits for it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) caller: Caller,
    pub(crate) broker: Broker,
    _hold: StopHold,
}

impl Client {
    /// Whether something may be done with a topic of that name, by the users and rules that hold now: what was allowed when the request began need not be
    /// once its body is here.
    pub(crate) fn check_topic(&mut self, name: &str, operation: AccessOperations) -> Result<(), Problem> {
        self.renew()?;
        Ok(self.caller.check_topic(name, operation)?)
    }

    /// The same of a group.
    pub(crate) fn check_group(&mut self, name: &str, operation: AccessOperations) -> Result<(), Problem> {
        self.renew()?;
        Ok(self.caller.check_group(name, operation)?)
    }

    fn renew(&mut self) -> Result<(), Problem> {
        if self.caller.renew() { Ok(()) } else { Err(LoginRefused::Wrong.into()) }
    }
}

impl FromRequestParts<Arc<Standing>> for Client {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, standing: &Arc<Standing>) -> Result<Self, Problem> {
        let broker = match standing.now() {
            Stage::Serving(broker) => broker,
            Stage::Starting => return Err(Problem::starting()),
            Stage::Stopping => return Err(Problem::stopping()),
        };
        let hold = broker.hold_stop();
        let peer = *parts.extensions.get::<Peer>().ok_or_else(Problem::internal)?;
        let ip = peer.address.ip().to_canonical();
        refuse_foreign_pages(&parts.headers, &parts.uri, ip, broker.authenticates())?;
        let shown = Credentials::read(&parts.headers)?;
        let caller = broker.log_in(shown.as_shown(), ip, peer.encrypted).await?;
        Ok(Self { caller, broker, _hold: hold })
    }
}

/// Pages of other sites make a browser send requests. What they may not read is kept from them by the browser; what they may not do is refused here.
fn refuse_foreign_pages(headers: &HeaderMap, uri: &axum::http::Uri, peer: IpAddr, authenticates: bool) -> Result<(), Problem> {
    let refused = |field, detail: &str| Err(Problem::new(StatusCode::FORBIDDEN, "ForeignPage", detail).field(field));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or_else(|| uri.host()).unwrap_or_default();
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let of = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if of.is_none_or(|of| !of.eq_ignore_ascii_case(host)) {
            return refused("origin", "requests of pages of other sites are refused");
        }
    }
    // A page can have its own name stand for this machine's address: then the browser takes both for the same site.
    if !authenticates && peer.is_loopback() && !is_of_this_machine(host) {
        return refused("host", "without authentication, this machine is to be named by an address, or as localhost");
    }
    Ok(())
}

/// Whether a host is an address, or the name that always stands for this machine.
fn is_of_this_machine(host: &str) -> bool {
    let without_port = match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _port)| name),
    };
    without_port.eq_ignore_ascii_case("localhost") || without_port.parse::<IpAddr>().is_ok()
}

/// What a request carries of who sends it. Not to be printed.
enum Credentials {
    Nothing,
    Basic { user: String, password: String },
    Bearer(String),
}

impl Credentials {
    fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = given.next() else { return Ok(Self::Nothing) };
        let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "NotAuthenticated", detail).field("authorization");
        if given.next().is_some() {
            return Err(refused("one Authorization header is enough"));
        }
        let form = || refused("the Authorization header is to be Basic with user and password, or Bearer with a token");
        let (scheme, rest) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(form)?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Self::Bearer(rest.to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(form());
        }
        let decoded = STANDARD.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(form)?;
        let (user, password) = decoded.split_once(':').ok_or_else(form)?;
        Ok(Self::Basic { user: user.to_owned(), password: password.to_owned() })
    }

    fn as_shown(&self) -> Shown<'_> {
        match self {
            Self::Nothing => Shown::Nothing,
            Self::Basic { user, password } => Shown::Password { user, password },
            Self::Bearer(token) => Shown::Token(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_can_point_here_are_no_names_of_this_machine() {
        for own in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:15672", "[::1]:15672", "[::1]", "192.0.2.1:1"] {
            assert!(is_of_this_machine(own), "{own}");
        }
        for foreign in ["", "evil.example", "evil.example:15672", "127.0.0.1.evil.example", "localhost.evil.example:1", "[evil]:1"]
        {
            assert!(!is_of_this_machine(foreign), "{foreign}");
        }
    }

    #[test]
    fn what_an_authorization_header_says() {
        let read = |value: &str| Credentials::read(&HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]));
        assert!(
            matches!(read("basic YW5uYTpzZTpjcmV0"), Ok(Credentials::Basic { user, password }) if user == "anna" && password == "se:cret")
        );
        assert!(matches!(read("Bearer  abc"), Ok(Credentials::Bearer(token)) if token == "abc"));
        for bad in ["", "Basic", "Basic !", "Basic YW5uYQ==", "Digest x", "Basic //8="] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
