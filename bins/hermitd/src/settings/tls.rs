//! The settings of TLS.

use anyhow::bail;
use hermit_broker::TlsConfig;

use super::table::{ClientAuthName, Given, TlsName};
use super::{Settings, open_to_others};

impl Given {
    /// `None` where it is off, whatever files are named.
    pub(super) fn settle_tls(&self) -> anyhow::Result<Option<TlsConfig>> {
        let mode = match self.tls {
            Some(mode) => mode,
            // Whoever says what clients have to show means to have it.
            None if self.speaks_of_tls() => TlsName::Optional,
            None => TlsName::Off,
        };
        if mode == TlsName::Off {
            return Ok(None);
        }
        let Some(certificate) = &self.tls_cert else {
            bail!("`tls_cert` is not set: name the PEM file with the broker's certificate")
        };
        let Some(key) = &self.tls_key else { bail!("`tls_key` is not set: name the PEM file with the key of `tls_cert`") };
        let require_client_certificate = self.tls_client_auth == Some(ClientAuthName::Required);
        if require_client_certificate && self.tls_client_ca.is_none() {
            bail!("`tls_client_ca` is not set: with `tls_client_auth` required, name the PEM file with the authorities to believe");
        }
        Ok(Some(TlsConfig {
            client_ca: self.tls_client_ca.clone(),
            require_client_certificate,
            required: mode == TlsName::Required,
            ..TlsConfig::new(certificate, key)
        }))
    }

    fn speaks_of_tls(&self) -> bool {
        let files = [&self.tls_cert, &self.tls_key, &self.tls_client_ca];
        files.iter().any(|file| file.is_some()) || self.tls_client_auth.is_some()
    }
}

impl Settings {
    /// Reads the files as a start would, so that `--check` tells what is wrong with them, and notes what may not be meant.
    pub(super) fn with_tls_checked(mut self) -> anyhow::Result<Self> {
        let Some(tls) = &self.broker.tls else { return Ok(self) };
        tls.check()?;
        self.notes.extend(open_to_others(&tls.key));
        if tls.require_client_certificate && !tls.required {
            let note = "`tls_client_auth` is required, but `tls` is optional: clients without TLS show no certificate";
            self.notes.push(note.to_owned());
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Given)) -> anyhow::Result<Option<TlsConfig>> {
        let mut given = Given { tls_cert: Some("c.pem".into()), tls_key: Some("k.pem".into()), ..Given::default() };
        change(&mut given);
        given.settle_tls()
    }

    #[test]
    fn a_certificate_alone_makes_it_optional() {
        assert_eq!(Given::default().settle_tls().unwrap(), None);
        assert_eq!(with(|given| given.tls = Some(TlsName::Off)).unwrap(), None);
        assert!(!with(|_given| {}).unwrap().unwrap().required);
        assert!(with(|given| given.tls = Some(TlsName::Required)).unwrap().unwrap().required);
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing: [(_, fn(&mut Given)); 6] = [
            ("`tls_cert`", |given| given.tls_cert = None),
            ("`tls_key`", |given| given.tls_key = None),
            ("`tls_client_ca`", |given| given.tls_client_auth = Some(ClientAuthName::Required)),
            ("`tls_cert`", |given| *given = Given { tls: Some(TlsName::Required), ..Given::default() }),
            ("`tls_cert`", |given| *given = Given { tls_client_auth: Some(ClientAuthName::Required), ..Given::default() }),
            ("`tls_cert`", |given| *given = Given { tls_client_ca: Some("ca.pem".into()), ..Given::default() }),
        ];
        for (name, change) in missing {
            let refusal = with(change).unwrap_err().to_string();
            assert!(refusal.starts_with(name), "{refusal}");
        }
    }
}
