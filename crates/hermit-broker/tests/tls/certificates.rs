//! Who is believed, and what is shown, now and after a reload.

use std::io::ErrorKind;

use hermit_broker::{BrokerError, TlsConfig};
use hermit_proto::session::HelloRequest;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::rustls::{AlertDescription, Error as TlsError};

use crate::clients::{BOTH, bridge, client, connect, end, secured, shown, try_connect};
use crate::pki::{Authority, Pair, file};
use crate::support::v2::Session;
use crate::support::{Server, config};

/// The alert behind an error, if that is one.
fn alert(error: &std::io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref()? {
        TlsError::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

/// Whether a client is let in; the alert if not.
async fn let_in(server: &Server, authority: &Authority, shows: Option<&Pair>) -> Result<(), Option<AlertDescription>> {
    for version in BOTH {
        let mut stream = match try_connect(server, &client(authority, shows, &[version])).await {
            Ok(stream) => stream,
            Err(error) => return Err(alert(&error)),
        };
        // A consumer of a topic that is not there: nobody speaks, until the client ends it.
        stream.write_all(b"\x02\x01g\x01t\0\0\0\0").await.unwrap();
        stream.shutdown().await.unwrap();
        match end(&mut stream).await {
            (said, Ok(())) => assert!(said.is_empty()),
            (_, Err(error)) => return Err(alert(&error)),
        }
    }
    Ok(())
}

#[tokio::test]
async fn client_certificates_are_asked_for_and_checked() {
    let (authority, other) = (Authority::new("ca"), Authority::new("others"));
    let (known, stranger) = (authority.client("alice\n"), other.client("mallory"));
    let expired = authority.issue(&[], |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
    for required in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = secured(dir.path(), &authority);
        let tls = config.tls.as_mut().unwrap();
        tls.client_ca = Some(file(dir.path(), "ca.pem", &authority.pem));
        tls.require_client_certificate = required;
        let server = Server::with(config).await;
        assert_eq!(let_in(&server, &authority, Some(&known)).await, Ok(()));
        let without = let_in(&server, &authority, None).await;
        if required {
            assert!(matches!(without, Err(Some(AlertDescription::CertificateRequired))), "{without:?}");
        } else {
            assert_eq!(without, Ok(()));
        }
        for bad in [&stranger, &expired] {
            let refused = let_in(&server, &authority, Some(bad)).await;
            assert!(matches!(refused, Err(Some(_))), "{refused:?}");
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn a_reload_changes_new_connections_and_a_bad_one_nothing() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::with(secured(dir.path(), &first)).await;
    let address = server.address;
    bridge(&mut server, client(&first, None, &BOTH)).await;
    let mut old = Session::open(&server).await;
    server.address = address;

    let stays = async |server: &Server| {
        connect(server, &client(&first, None, &BOTH)).await;
        try_connect(server, &client(&second, None, &BOTH)).await.unwrap_err();
    };
    let pair = second.broker();
    let mixed = TlsConfig::new(file(dir.path(), "new.pem", &pair.certificate), file(dir.path(), "old.key", &first.broker().key));
    let error = server.broker.reload_tls(&mixed).unwrap_err();
    assert!(matches!(&error, BrokerError::InvalidConfig { field: "tls_key", rule } if rule.contains("does not belong")), "{error}");
    stays(&server).await;
    std::fs::remove_file(dir.path().join("old.key")).unwrap();
    server.broker.reload_tls(&mixed).unwrap_err();
    stays(&server).await;

    let report = server.broker.reload_tls(&shown(dir.path(), &pair)).unwrap();
    assert_eq!(report.subject, "(no subject)");
    connect(&server, &client(&second, None, &BOTH)).await;
    try_connect(&server, &client(&first, None, &BOTH)).await.unwrap_err();
    old.call(&hermit_proto::session::HeartbeatRequest).await.unwrap();

    // And from optional to required, and back.
    let mut required = shown(dir.path(), &pair);
    required.required = true;
    server.broker.reload_tls(&required).unwrap();
    let mut plain = Session::raw(&server).await;
    plain.request(&HelloRequest::new("plain")).await;
    assert_eq!(plain.read_unit().await.unwrap().correlation().0, 0);
    server.broker.reload_tls(&shown(dir.path(), &pair)).unwrap();
    Session::open(&server).await;
    drop(old);
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_files_is_said_with_the_setting() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let good = authority.broker();
    let key = |text: &str| file(dir.path(), &format!("{}.key", text.len()), text);
    let certificate = |text: &str| file(dir.path(), &format!("{}.pem", text.len()), text);
    let good_pair = TlsConfig::new(certificate(&good.certificate), key(&good.key));
    let body = good.certificate.lines().nth(1).unwrap();
    let cases = [
        (TlsConfig::new("/nowhere/cert.pem", key(&good.key)), "tls_cert", "cannot be read"),
        (TlsConfig::new(certificate(""), key(&good.key)), "tls_cert", "no certificate in it"),
        (TlsConfig::new(certificate(&good.key), key(&good.key)), "tls_cert", "no certificate in it"),
        (TlsConfig::new(certificate("-----BEGIN CERTIFICATE-----\nAAAA"), key(&good.key)), "tls_cert", "no end"),
        (TlsConfig::new(certificate(&good.certificate.replace(body, "!")), key(&good.key)), "tls_cert", "base64"),
        (TlsConfig::new(certificate(&good.certificate.replace(body, "")), key(&good.key)), "tls_cert", "certificate 1 is no X.509"),
        (TlsConfig::new(certificate(&" ".repeat((1 << 20) + 1)), key(&good.key)), "tls_cert", "more than"),
        (TlsConfig::new(certificate(&good.certificate), "/nowhere/key"), "tls_key", "cannot be read"),
        (TlsConfig::new(certificate(&good.certificate), key(&good.certificate)), "tls_key", "no private key in it"),
        (
            TlsConfig::new(certificate(&good.certificate), key(&good.key.replace("PRIVATE", "ENCRYPTED PRIVATE"))),
            "tls_key",
            "not one encrypted",
        ),
        (TlsConfig { require_client_certificate: true, ..good_pair.clone() }, "tls_client_auth", "tls_client_ca"),
        (TlsConfig { client_ca: Some("/nowhere/ca".into()), ..good_pair.clone() }, "tls_client_ca", "cannot be read"),
        (TlsConfig { client_ca: Some(certificate("x")), ..good_pair.clone() }, "tls_client_ca", "no certificate in it"),
    ];
    for (tls, expected, says) in cases {
        let mut config = config(&dir.path().join("data"));
        config.tls = Some(tls);
        let error = hermit_broker::Broker::open(config).unwrap_err();
        let secret = good.key.lines().nth(1).unwrap();
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
        assert!(
            matches!(&error, BrokerError::InvalidConfig { field, rule } if *field == expected && rule.contains(says)),
            "{error}"
        );
    }
    // Nothing was begun.
    assert!(!dir.path().join("data").exists());
    // One that has expired is warned of: whoever starts the broker may have no other at hand.
    let expired = authority.issue(&["127.0.0.1"], |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
    let mut config = config(&dir.path().join("data"));
    config.tls = Some(shown(dir.path(), &expired));
    let server = Server::with(config).await;
    let error = try_connect(&server, &client(&authority, None, &BOTH)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    server.stop().await;
}
