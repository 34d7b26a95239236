//! Where a collector is, and what it wants to see: its URL, its certificate's authorities, and headers.

use std::path::Path;
use std::sync::Arc;

use hyper::Uri;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

use crate::settings::{OtlpSettings, read_small};

/// A longer file is the wrong one.
const MAX_HEADERS_FILE_BYTES: u64 = 64 << 10;
/// What the exporter says itself.
const OWN_HEADERS: [HeaderName; 7] = [
    header::HOST,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::USER_AGENT,
];

/// What is wrong with a setting.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) setting: &'static str,
    pub(crate) message: String,
}

impl Wrong {
    /// `message` must not show what may be a secret.
    fn new(setting: &'static str, message: impl std::fmt::Display) -> Self {
        Self { setting, message: format!("`{setting}`: {message}") }
    }
}

/// A collector.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// As the URL has host and port.
    pub(super) authority: String,
    /// Before `/v1/…`; without a slash behind.
    pub(super) path: String,
    /// They may be secrets.
    pub(super) headers: HeaderMap,
    /// Where connections go through TLS.
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("authority", &self.authority).field("path", &self.path).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Reads the files that the settings name, and connects to nobody.
    ///
    /// # Errors
    /// A setting that cannot be used.
    pub(crate) fn open(settings: &OtlpSettings) -> Result<Self, Wrong> {
        let wrong = |message: &str| Wrong::new("otlp_endpoint", message);
        // Without the value: what somebody has put there may be a secret.
        let uri: Uri =
            settings.endpoint.parse().map_err(|_invalid| wrong("it is no URL: give one such as http://127.0.0.1:4318"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it must begin with http:// or https://, as in http://127.0.0.1:4318")),
        };
        let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
            return Err(wrong("it names no host: give a URL such as http://127.0.0.1:4318"));
        };
        if authority.as_str().contains('@') {
            return Err(wrong("a login does not belong into it, where everybody sees it: give a header in `otlp_headers_file`"));
        }
        if uri.query().is_some() {
            return Err(wrong("it must have no `?`: what is sent goes to /v1/metrics and /v1/logs below it"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = if is_tls {
            let name = ServerName::try_from(host.clone()).map_err(|_invalid| wrong("no certificate can be for its host"))?;
            Some((connector(settings.tls_ca.as_deref())?, name))
        } else {
            None
        };
        Ok(Self {
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authority: authority.to_string(),
            path: uri.path().trim_end_matches('/').to_owned(),
            headers: settings.headers_file.as_deref().map(headers).transpose()?.unwrap_or_default(),
            host,
            tls,
        })
    }

    /// Whether what is sent goes to another machine as everybody on the way can read it.
    pub(crate) fn is_open_to_readers(&self) -> bool {
        let is_loopback = self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        self.tls.is_none() && !is_loopback
    }
}

fn connector(ca: Option<&Path>) -> Result<TlsConnector, Wrong> {
    let wrong = |message: String| Wrong::new("otlp_tls_ca", message);
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        let shown = path.display();
        let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let all = all.map_err(|error| match error {
            pem::Error::Io(error) => wrong(format!("{shown} cannot be read: {error}")),
            // Without what stands in it, which may be a key.
            _ => wrong(format!("{shown} is no PEM")),
        })?;
        for certificate in all {
            roots.add(certificate).map_err(|error| wrong(format!("{shown}: {error}")))?;
        }
        if roots.is_empty() {
            return Err(wrong(format!("{shown} has no certificate (looking for `BEGIN CERTIFICATE`)")));
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(wrong("the operating system knows no authorities: name a PEM file with the collector's".to_owned()));
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Lines of `name: value`.
fn headers(path: &Path) -> Result<HeaderMap, Wrong> {
    let shown = path.display();
    let wrong = |message: String| Wrong::new("otlp_headers_file", message);
    let read = std::fs::metadata(path).and_then(|metadata| {
        if !metadata.is_file() {
            return Err(std::io::Error::other("it is no regular file"));
        }
        read_small(std::fs::File::open(path)?, MAX_HEADERS_FILE_BYTES, "the file with the headers")
    });
    let text = read.map_err(|error| wrong(format!("{shown} cannot be read: {error}")))?;
    let mut headers = HeaderMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
        let refuse = |why: &str| wrong(format!("{shown}, line {number}: {why}"));
        let parsed = line.split_once(':').and_then(|(name, value)| {
            let name = name.trim().parse::<HeaderName>().ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        // Without the line, which may be a secret.
        let (name, mut value) = parsed.ok_or_else(|| refuse("give a header as `name: value`"))?;
        if OWN_HEADERS.contains(&name) {
            return Err(refuse(&format!("the header `{name}` is the exporter's own: leave it out")));
        }
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(change: impl FnOnce(&mut OtlpSettings)) -> Result<Endpoint, String> {
        let mut settings = OtlpSettings { endpoint: "http://127.0.0.1:4318".into(), ..OtlpSettings::default() };
        change(&mut settings);
        Endpoint::open(&settings).map_err(|wrong| {
            assert!(wrong.message.starts_with(&format!("`{}`: ", wrong.setting)), "{wrong:?}");
            wrong.message
        })
    }

    #[test]
    fn a_url_tells_host_port_and_path() {
        for (url, host, port, path) in [
            ("http://127.0.0.1:4318", "127.0.0.1", 4318, ""),
            ("http://collector/", "collector", 80, ""),
            ("http://[::1]:4318/otlp/", "::1", 4318, "/otlp"),
        ] {
            let endpoint = open(|settings| settings.endpoint = url.into()).unwrap();
            assert_eq!((&*endpoint.host, endpoint.port, &*endpoint.path), (host, port, path));
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_showing_it() {
        for url in
            ["s3cret", "ftp://s3cret", "http://", "http://user:s3cret@host", "http://host/?key=s3cret", "/s3cret", "http:// s3cret"]
        {
            let refusal = open(|settings| settings.endpoint = url.into()).unwrap_err();
            assert!(!refusal.contains("s3cret"), "{refusal}");
        }
    }

    #[test]
    fn headers_are_read_from_a_file_and_shown_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("headers");
        let with = |text: &str| {
            std::fs::write(&file, text).unwrap();
            open(|settings| settings.headers_file = Some(file.clone()))
        };
        let endpoint = with("# mine\n\nauthorization: Bearer s3cret\nx-scope:  a:b \n").unwrap();
        assert_eq!(
            (&endpoint.headers["authorization"], &endpoint.headers["x-scope"]),
            (&"Bearer s3cret".parse().unwrap(), &"a:b".parse().unwrap())
        );
        assert!(!format!("{endpoint:?} {:?}", endpoint.headers).contains("s3cret"));
        for (text, line) in [("s3cret", 1), ("a: b\nx y: s3cret", 2), ("a: s3cret\u{1}", 1), ("#\nHost: s3cret", 2)] {
            let refusal = with(text).unwrap_err();
            assert!(refusal.contains(&format!("line {line}: ")) && !refusal.contains("s3cret"), "{refusal}");
        }
        let refusal = open(|settings| settings.headers_file = Some(dir.path().into())).unwrap_err();
        assert!(refusal.contains("no regular file"), "{refusal}");
    }

    #[test]
    fn tls_needs_authorities_that_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        let with = || open(|settings| (settings.endpoint, settings.tls_ca) = ("https://localhost".into(), Some(file.clone())));
        assert!(with().unwrap_err().contains("ca.pem cannot be read"));
        std::fs::write(&file, "nothing").unwrap();
        assert!(with().unwrap_err().contains("has no certificate"));
        let ca = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&file, ca.cert.pem()).unwrap();
        let endpoint = with().unwrap();
        assert!(endpoint.tls.is_some() && endpoint.port == 443);
    }
}
