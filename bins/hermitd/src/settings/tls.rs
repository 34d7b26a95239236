//! The settings of TLS.

use std::path::Path;

use hermit_broker::TlsConfig;

use super::gather::Gathered;
use super::outside::open_to_others;
use super::table::{ClientAuthName, Given, TlsName};

const ALL: [&str; 5] = ["tls", "tls_cert", "tls_key", "tls_client_ca", "tls_client_auth"];
const ALL_OF_HTTP: [&str; 3] = ["http_tls", "http_tls_cert", "http_tls_key"];

impl Gathered {
    /// `None` where it is off, whatever files are named.
    pub(super) fn settle_tls(&mut self) -> Option<TlsConfig> {
        let given = self.given.clone();
        self.refuse_pem_text("tls_cert", given.tls_cert.as_deref());
        self.refuse_pem_text("tls_key", given.tls_key.as_deref());
        self.refuse_pem_text("tls_client_ca", given.tls_client_ca.as_deref());
        if !self.are_sound(&ALL) {
            return None;
        }
        let mode = match given.tls {
            Some(mode) => mode,
            // Whoever says what clients have to show means to have it.
            None if given.speaks_of_tls() => TlsName::Optional,
            None => TlsName::Off,
        };
        if mode == TlsName::Off {
            if given.speaks_of_tls() {
                self.notes.push("`tls` is off: the certificates that are named have no meaning".to_owned());
            }
            return None;
        }
        if given.tls_cert.is_none() {
            self.wrong(
                &["tls_cert", "tls_key", "tls_client_ca", "tls_client_auth", "tls"],
                "`tls_cert` is not set: name the PEM file with the broker's certificate",
            );
        }
        if given.tls_key.is_none() {
            self.wrong(&["tls_key", "tls_cert", "tls"], "`tls_key` is not set: name the PEM file with the key of `tls_cert`");
        }
        let require_client_certificate = given.tls_client_auth == Some(ClientAuthName::Required);
        if require_client_certificate && given.tls_client_ca.is_none() {
            let message =
                "`tls_client_ca` is not set: with `tls_client_auth` required, name the PEM file with the authorities to believe";
            self.wrong(&["tls_client_ca", "tls_client_auth"], message);
        }
        if require_client_certificate && mode == TlsName::Optional {
            let note = "`tls_client_auth` is required, but `tls` is optional: clients without TLS show no certificate";
            self.notes.push(note.to_owned());
        }
        let (certificate, key) = (given.tls_cert?, given.tls_key?);
        Some(TlsConfig {
            client_ca: given.tls_client_ca,
            require_client_certificate,
            required: mode == TlsName::Required,
            ..TlsConfig::new(certificate, key)
        })
    }

    /// The same for HTTP, which has what the native port has but for what is given for it alone.
    pub(super) fn settle_http_tls(&mut self, native: Option<&TlsConfig>) -> Option<TlsConfig> {
        let given = self.given.clone();
        self.refuse_pem_text("http_tls_cert", given.http_tls_cert.as_deref());
        self.refuse_pem_text("http_tls_key", given.http_tls_key.as_deref());
        if !self.are_sound(&ALL) || !self.are_sound(&ALL_OF_HTTP) {
            return None;
        }
        let files = match (given.http_tls_cert, given.http_tls_key) {
            (Some(_), None) => {
                self.wrong(
                    &["http_tls_key", "http_tls_cert"],
                    "`http_tls_key` is not set: name the PEM file with the key of `http_tls_cert`",
                );
                return None;
            }
            (None, Some(_)) => {
                let message = "`http_tls_cert` is not set: name the PEM file with the certificate that `http_tls_key` belongs to";
                self.wrong(&["http_tls_cert", "http_tls_key"], message);
                return None;
            }
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
        };
        let mode = match (given.http_tls, native) {
            (Some(mode), _) => mode,
            (None, Some(native)) if native.required => TlsName::Required,
            (None, native) if native.is_some() || files.is_some() => TlsName::Optional,
            (None, _) => TlsName::Off,
        };
        if mode == TlsName::Off {
            return None;
        }
        let Some((certificate, key)) = files.or_else(|| Some((given.tls_cert?, given.tls_key?))) else {
            let message = "`http_tls` is not off: name certificate and key with `http_tls_cert` and `http_tls_key`, or with `tls_cert` and `tls_key`";
            self.wrong(&ALL_OF_HTTP, message);
            return None;
        };
        Some(TlsConfig {
            client_ca: given.tls_client_ca,
            require_client_certificate: given.tls_client_auth == Some(ClientAuthName::Required),
            required: mode == TlsName::Required,
            ..TlsConfig::new(certificate, key)
        })
    }

    fn refuse_pem_text(&mut self, name: &'static str, file: Option<&Path>) {
        if file.is_some_and(|file| file.to_string_lossy().contains("-----BEGIN")) {
            // Without the value, which may be the key.
            self.wrong(&[name], format!("`{name}` holds the PEM text itself: name the file that it is in"));
        }
    }

    /// As [`Gathered::check_tls_files`], where HTTP has files of its own.
    pub(super) fn check_http_tls_files(&mut self, tls: &TlsConfig) {
        // The native port's files were read already, and what is wrong with them was told.
        if self.given.http_tls_cert.is_none() && self.given.tls != Some(TlsName::Off) {
            return;
        }
        if self.are_sound(&ALL_OF_HTTP)
            && let Err(error) = tls.check()
        {
            self.wrong(&ALL_OF_HTTP, format!("TLS for HTTP: {error}"));
        }
        self.notes.extend(open_to_others(&tls.key));
    }

    /// Reads the files as a start would, and changes nothing.
    pub(super) fn check_tls_files(&mut self, tls: &TlsConfig) {
        if !self.are_sound(&ALL) {
            return;
        }
        let files = [("tls_cert", Some(&tls.certificate)), ("tls_key", Some(&tls.key)), ("tls_client_ca", tls.client_ca.as_ref())];
        for (name, file) in files.into_iter().filter_map(|(name, file)| Some((name, file?))) {
            if let Err(error) = std::fs::File::open(file) {
                self.wrong(&[name], format!("`{name}`: {}: it cannot be read: {error}", file.display()));
            }
        }
        if self.are_sound(&ALL)
            && let Err(error) = tls.check()
        {
            let message = error.to_string();
            let named = ALL.iter().copied().filter(|name| message.contains(&format!("`{name}`"))).collect::<Vec<_>>();
            self.wrong(if named.is_empty() { &ALL } else { &named }, message);
        }
        self.notes.extend(open_to_others(&tls.key));
    }
}

impl Given {
    fn speaks_of_tls(&self) -> bool {
        let files = [&self.tls_cert, &self.tls_key, &self.tls_client_ca];
        files.iter().any(|file| file.is_some()) || self.tls_client_auth.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Given)) -> Result<Option<TlsConfig>, Vec<String>> {
        let given = Given { tls_cert: Some("c.pem".into()), tls_key: Some("k.pem".into()), ..Given::default() };
        let mut gathered = Gathered { given, ..Gathered::default() };
        change(&mut gathered.given);
        let settled = gathered.settle_tls();
        if gathered.findings.0.is_empty() {
            Ok(settled)
        } else {
            Err(gathered.findings.0.iter().map(ToString::to_string).collect())
        }
    }

    #[test]
    fn a_certificate_alone_makes_it_optional() {
        assert_eq!(with(|given| *given = Given::default()).unwrap(), None);
        assert_eq!(with(|given| given.tls = Some(TlsName::Off)).unwrap(), None);
        assert!(!with(|_given| {}).unwrap().unwrap().required);
        assert!(with(|given| given.tls = Some(TlsName::Required)).unwrap().unwrap().required);
    }

    #[test]
    fn http_has_what_the_native_port_has_unless_something_else_is_said() {
        let settle = |change: fn(&mut Given)| {
            let given = Given { tls_cert: Some("c.pem".into()), tls_key: Some("k.pem".into()), ..Given::default() };
            let mut gathered = Gathered { given, ..Gathered::default() };
            change(&mut gathered.given);
            let native = gathered.settle_tls();
            let settled = gathered.settle_http_tls(native.as_ref());
            (settled.map(|tls| (tls.certificate, tls.required)), gathered.findings.0.first().map(ToString::to_string))
        };
        let with = |change| settle(change).0;
        assert_eq!(with(|given| *given = Given::default()), None);
        assert_eq!(with(|_given| {}), Some(("c.pem".into(), false)));
        assert_eq!(with(|given| given.tls = Some(TlsName::Required)), Some(("c.pem".into(), true)));
        assert_eq!(with(|given| given.http_tls = Some(TlsName::Off)), None);
        assert_eq!(
            with(|given| (given.tls, given.http_tls) = (Some(TlsName::Required), Some(TlsName::Optional))),
            Some(("c.pem".into(), false))
        );
        let own = |given: &mut Given| (given.http_tls_cert, given.http_tls_key) = (Some("h.pem".into()), Some("hk.pem".into()));
        assert_eq!(with(own), Some(("h.pem".into(), false)));
        assert_eq!(with(|given| given.http_tls_cert = Some("h.pem".into())), None);
        let refusal = settle(|given| given.http_tls_cert = Some("h.pem".into())).1.unwrap();
        assert!(refusal.starts_with("`http_tls_key` is not set"), "{refusal}");
        let refusal = settle(|given| *given = Given { http_tls: Some(TlsName::Required), ..Given::default() }).1.unwrap();
        assert!(refusal.starts_with("`http_tls` is not off: name certificate"), "{refusal}");
    }

    #[test]
    fn what_is_missing_is_named() {
        type Change = fn(&mut Given);
        let missing: [(&[&str], Change); 7] = [
            (&["`tls_cert`"], |given| given.tls_cert = None),
            (&["`tls_key`"], |given| given.tls_key = None),
            (&["`tls_client_ca`"], |given| given.tls_client_auth = Some(ClientAuthName::Required)),
            (&["`tls_cert`", "`tls_key`"], |given| *given = Given { tls: Some(TlsName::Required), ..Given::default() }),
            (&["`tls_cert`", "`tls_key`", "`tls_client_ca`"], |given| {
                *given = Given { tls_client_auth: Some(ClientAuthName::Required), ..Given::default() };
            }),
            (&["`tls_cert`", "`tls_key`"], |given| *given = Given { tls_client_ca: Some("ca.pem".into()), ..Given::default() }),
            (&["`tls_key` holds the PEM text itself: name the file that it is in"], |given| {
                given.tls_key = Some("-----BEGIN PRIVATE KEY-----\ns3cret".into());
            }),
        ];
        for (names, change) in missing {
            let refusals = with(change).unwrap_err();
            assert_eq!(refusals.len(), names.len(), "{refusals:?}");
            for (refusal, name) in refusals.iter().zip(names) {
                assert!(refusal.starts_with(name) && !refusal.contains("s3cret"), "{refusal}");
            }
        }
    }
}
