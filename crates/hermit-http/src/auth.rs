//! Who asks, from where, and whether that is let in.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hermit_broker::proto::session::AccessOperations;
use hermit_broker::{Broker, Caller, LoginRefused, Shown};
use zeroize::Zeroizing;

use crate::held::Held;
use crate::listing::Listing;
use crate::problem::Problem;
use crate::server::Peer;
use crate::stage::{Stage, Standing};

/// A client that was let in, and the broker that it talks to. A stop of the broker waits until its answer is out.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) caller: Caller,
    pub(crate) broker: Broker,
}

impl Client {
    /// Whether something may be done with a topic of that name, by the users and rules that hold now: what was allowed when the request began need not be
    /// once its body is here.
    pub(crate) fn check_topic_now(&mut self, name: &str, operation: AccessOperations) -> Result<(), Problem> {
        self.renew()?;
        Ok(self.caller.check_topic(name, operation)?)
    }

    /// The same of a group.
    pub(crate) fn check_group_now(&mut self, name: &str, operation: AccessOperations) -> Result<(), Problem> {
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
        let peer = *parts.extensions.get::<Peer>().ok_or_else(Problem::internal)?;
        refuse_foreign_pages(parts, peer.address.ip().to_canonical(), broker.authenticates(), &standing.config().names)?;
        let shown = Credentials::take(&mut parts.headers)?;
        // A stop lets logins that are under way be decided, and what they are for be done.
        if let Some(held) = parts.extensions.get::<Arc<Held>>() {
            held.is_of(&broker);
        }
        let mut caller = broker.log_in(shown.as_shown(), peer.address, peer.encrypted).await?;
        let agent = parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        caller.calls_itself(agent);
        if let Some(listing) = parts.extensions.get::<Arc<Listing>>() {
            listing.is_of(&caller);
        }
        Ok(Self { caller, broker })
    }
}

/// Pages of other sites make a browser send requests. What they may not read is kept from them by the browser; what they may not do is refused here.
fn refuse_foreign_pages(parts: &Parts, peer: IpAddr, authenticates: bool, names: &[String]) -> Result<(), Problem> {
    let refused = |field, detail: &str| Err(Problem::new(StatusCode::FORBIDDEN, "ForeignPage", detail).field(field));
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).or_else(|| parts.uri.host()).unwrap_or_default();
    if let Some(origin) = parts.headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let of = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if of.is_none_or(|of| !of.eq_ignore_ascii_case(host)) {
            return refused("origin", "requests of pages of other sites are refused");
        }
    }
    // A page can have its own name stand for an address of this machine: then the browser takes both for the same site. Where people log in, it has nothing to show here.
    if authenticates || is_of_this_machine(host) || names.iter().any(|name| name.eq_ignore_ascii_case(without_port(host))) {
        return Ok(());
    }
    if peer.is_loopback() {
        return refused(
            "host",
            "without authentication, this machine is to be named by an address, as localhost, or by a name that the setting http_names has",
        );
    }
    // What a network's own resolver makes of a word without dots, no page's owner decides. And figures are for who scrapes by any name: they tell no records.
    let is_scrape = parts.uri.path() == "/metrics";
    if is_scrape || is_of_the_network(host) {
        return Ok(());
    }
    refused("host", "without authentication, the broker is to be named by an address, or by a name that the setting http_names has")
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _port)| name),
    }
}

/// Whether a host is a word that only the network at hand has a meaning for.
fn is_of_the_network(host: &str) -> bool {
    let name = without_port(host);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Whether a host is an address, or the name that always stands for this machine.
fn is_of_this_machine(host: &str) -> bool {
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// What a request carries of who sends it. Not to be printed, and overwritten when it is dropped.
enum Credentials {
    Nothing,
    Basic { user: String, password: Zeroizing<String> },
    Bearer(Zeroizing<String>),
}

impl Credentials {
    /// Takes them out of the head, so that nobody else finds them there.
    fn take(headers: &mut HeaderMap) -> Result<Self, Problem> {
        let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "NotAuthenticated", detail).field("authorization");
        let is_alone = headers.get_all(header::AUTHORIZATION).iter().nth(1).is_none();
        let Some(value) = headers.remove(header::AUTHORIZATION) else { return Ok(Self::Nothing) };
        if !is_alone {
            return Err(refused("one Authorization header is enough"));
        }
        let form = || refused("the Authorization header is to be Basic with user and password, or Bearer with a token");
        let (scheme, rest) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(form)?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Self::Bearer(Zeroizing::new(rest.to_owned())));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(form());
        }
        // With room for all of it from the start: what grows leaves copies behind.
        let mut decoded = Zeroizing::new(Vec::with_capacity(rest.len()));
        STANDARD.decode_vec(rest, &mut decoded).map_err(|_not_base64| form())?;
        let (user, password) = std::str::from_utf8(&decoded).ok().and_then(|text| text.split_once(':')).ok_or_else(form)?;
        Ok(Self::Basic { user: user.to_owned(), password: Zeroizing::new(password.to_owned()) })
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
    fn without_logins_a_page_that_has_its_name_stand_for_this_broker_is_refused_from_everywhere() {
        let told = |host: &str, path: &str, peer: &str, authenticates: bool| {
            let request = axum::http::Request::builder().uri(path).header(header::HOST, host).body(()).unwrap();
            let names = ["broker.lan".to_owned()];
            refuse_foreign_pages(&request.into_parts().0, peer.parse().unwrap(), authenticates, &names).is_ok()
        };
        let (near, far, topics) = ("127.0.0.1", "192.0.2.7", "/api/v1/topics");
        for host in ["192.0.2.1:15672", "[2001:db8::1]:15672", "localhost", "broker.lan", "BROKER.lan:15672"] {
            assert!(told(host, topics, near, false) && told(host, topics, far, false), "{host}");
        }
        for host in ["evil.example", "evil.example:15672", "broker.lan.evil.example", "x.localhost", ""] {
            assert!(!told(host, topics, near, false) && !told(host, topics, far, false), "{host}");
            assert!(told(host, topics, far, true) && told(host, topics, near, true), "{host}");
        }
        // Services of a container network, and scrapes by any name.
        assert!(told("hermit:15672", topics, far, false) && !told("hermit:15672", topics, near, false));
        assert!(told("broker.example:15672", "/metrics", far, false) && !told("evil.example", "/metrics", near, false));
    }

    #[test]
    fn what_an_authorization_header_says() {
        let read = |value: &str| {
            let mut headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            let taken = Credentials::take(&mut headers);
            assert!(headers.is_empty());
            taken
        };
        assert!(
            matches!(read("basic YW5uYTpzZTpjcmV0"), Ok(Credentials::Basic { user, password }) if user == "anna" && *password == "se:cret")
        );
        assert!(matches!(read("Bearer  abc"), Ok(Credentials::Bearer(token)) if *token == "abc"));
        for bad in ["", "Basic", "Basic !", "Basic YW5uYQ==", "Digest x", "Basic //8="] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
