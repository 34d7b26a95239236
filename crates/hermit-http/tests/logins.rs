//! Who is let in, and may do what.

mod support;

use serde_json::json;
use support::{JSON, PASSWORD, Server, basic, read_until};
use tokio::io::AsyncWriteExt as _;

/// So that what scrapes needs nobody's password who may do everything.
#[tokio::test]
async fn who_may_read_the_metrics_may_do_nothing_else() {
    let server = Server::with_logins().await;
    let admin = basic("admin", PASSWORD);
    server.send("PUT", "/api/v1/users/prometheus", &[JSON, &admin], r#"{"password":"a-long-enough-password"}"#).await.good();
    let scraper = basic("prometheus", "a-long-enough-password");
    assert_eq!(server.send("GET", "/metrics", &[&scraper], "").await.problem().0, 403);
    let rule =
        |operation: &str| format!(r#"{{"rules":[{{"principal":"prometheus","resource":"broker","operations":["{operation}"]}}]}}"#);
    server.send("POST", "/api/v1/rules", &[JSON, &admin], rule("consume")).await.good();
    assert_eq!(server.send("POST", "/api/v1/rules", &[JSON, &admin], rule("produce")).await.problem().0, 400);
    let scraped = server.send("GET", "/metrics", &[&scraper], "").await;
    assert!(scraped.status == 200 && scraped.body.contains("hermit_topics "), "{}", scraped.body);
    let rules = rule("administer");
    for (method, path, body) in [
        ("GET", "/api/v1/broker", ""),
        ("GET", "/api/v1/connections", ""),
        ("GET", "/api/v1/settings", ""),
        ("GET", "/api/v1/users", ""),
        ("GET", "/api/v1/rules", ""),
        ("POST", "/api/v1/rules", rules.as_str()),
        ("POST", "/api/v1/topics", r#"{"name":"new"}"#),
    ] {
        assert_eq!(server.send(method, path, &[JSON, &scraper], body).await.problem().0, 403, "{method} {path}");
    }
    assert_eq!(server.send("GET", "/metrics", &[&admin], "").await.status, 200);
}

#[tokio::test]
async fn logins_and_rights_are_those_of_the_native_port() {
    let server = Server::with_logins().await;
    let admin = basic("admin", PASSWORD);
    for open in ["/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1"] {
        assert_eq!(server.get(open).await.status, 200, "{open}");
    }
    for closed in ["/metrics", "/api/v1/topics", "/api/v1/whoami", "/api/v1/broker", "/api/v1/topics/x/partitions/0/stream"] {
        let refused = server.get(closed).await;
        assert_eq!(refused.problem(), (401, "authorization".into()), "{closed}");
        assert!(refused.head.to_ascii_lowercase().contains("www-authenticate: basic"), "{}", refused.head);
    }
    assert_eq!(server.send("GET", "/api/v1/whoami", &[&admin], "").await.good(), json!({"user": "admin", "login": "password"}));
    for topic in ["seen", "hidden"] {
        server.send("POST", "/api/v1/topics", &[JSON, &admin], format!(r#"{{"name":"{topic}"}}"#)).await.good();
    }
    server.send("PUT", "/api/v1/users/anna", &[JSON, &admin], r#"{"password":"a-long-enough-password"}"#).await.good();
    let rules =
        r#"{"rules":[{"principal":"anna","resource":"topic","match":"prefix","name":"se","operations":["produce","consume"]}]}"#;
    assert_eq!(server.send("POST", "/api/v1/rules", &[JSON, &admin], rules).await.good()["changed"], 1);
    let made = server.send("POST", "/api/v1/users/anna/tokens", &[JSON, &admin], r#"{"label":"laptop"}"#).await;
    let token = format!("authorization: Bearer {}", made.good()["token"].as_str().unwrap());
    let anna = basic("anna", "a-long-enough-password");
    for login in [&anna, &token] {
        assert_eq!(server.send("GET", "/api/v1/whoami", &[login], "").await.good()["user"], "anna");
        let topics = server.send("GET", "/api/v1/topics", &[login], "").await.good();
        assert_eq!((topics["topics"].as_array().unwrap().len(), &topics["topics"][0]["name"]), (1, &json!("seen")));
        server.send("POST", "/api/v1/topics/seen/records", &[JSON, login], r#"{"value":"x"}"#).await.good();
        assert_eq!(server.send("GET", "/api/v1/topics/seen/partitions/0/records", &[login], "").await.status, 200);
        for (method, path, body) in [
            ("GET", "/metrics", ""),
            ("GET", "/api/v1/broker", ""),
            ("GET", "/api/v1/connections", ""),
            ("DELETE", "/api/v1/connections/1", ""),
            ("GET", "/api/v1/settings", ""),
            ("GET", "/api/v1/users", ""),
            ("GET", "/api/v1/rules", ""),
            ("PUT", "/api/v1/users/anna", r#"{"enabled":true}"#),
            ("DELETE", "/api/v1/users/admin", ""),
            ("POST", "/api/v1/users/admin/tokens", r#"{"label":"x"}"#),
            ("DELETE", "/api/v1/users/anna/tokens/laptop", ""),
            ("POST", "/api/v1/rules", rules),
            ("POST", "/api/v1/rules/delete", rules),
            ("POST", "/api/v1/topics", r#"{"name":"new"}"#),
            ("PATCH", "/api/v1/topics/seen", r#"{"settings":{"durability":"os"}}"#),
            ("DELETE", "/api/v1/topics/seen", ""),
            ("POST", "/api/v1/topics/seen/partitions/0/trim", "{}"),
            ("POST", "/api/v1/topics/hidden/records", r#"{"value":"x"}"#),
            ("POST", "/api/v1/topics/new/records", r#"{"value":"x"}"#),
            ("GET", "/api/v1/topics/hidden", ""),
            ("GET", "/api/v1/topics/nowhere", ""),
            ("GET", "/api/v1/topics/hidden/partitions", ""),
            ("GET", "/api/v1/topics/hidden/partitions/0", ""),
            ("GET", "/api/v1/topics/hidden/partitions/0/offset?time_ms=1", ""),
            ("GET", "/api/v1/topics/hidden/partitions/0/records", ""),
            ("GET", "/api/v1/topics/hidden/partitions/0/stream", ""),
            ("GET", "/api/v1/groups/g", ""),
            ("DELETE", "/api/v1/groups/g", ""),
            ("POST", "/api/v1/groups/g/seek", r#"{"topic":"seen","offset":0}"#),
        ] {
            let answer = server.send(method, path, &[JSON, login], body).await;
            assert_eq!(answer.problem().0, 403, "{method} {path}: {}", answer.body);
        }
    }
    let users = server.send("GET", "/api/v1/users", &[&admin], "").await.good();
    assert_eq!((&users["users"][1]["name"], &users["users"][1]["tokens"][0]["label"]), (&json!("anna"), &json!("laptop")));
    let listed = server.send("GET", "/api/v1/rules?principal=anna", &[&admin], "").await.good();
    assert_eq!(
        listed["rules"],
        json!([{"principal": "anna", "resource": "topic", "match": "prefix", "name": "se", "operations": ["produce", "consume"]}])
    );
    assert_eq!(server.send("DELETE", "/api/v1/users/admin", &[&admin], "").await.problem().0, 409);
    assert_eq!(server.send("DELETE", "/api/v1/users/anna/tokens/laptop", &[&admin], "").await.status, 204);
    assert_eq!(server.send("GET", "/api/v1/whoami", &[&token], "").await.status, 401);
}

#[tokio::test]
async fn who_guesses_waits_and_gets_no_word_of_it() {
    let server = Server::with_logins().await;
    let mut words = std::collections::BTreeSet::new();
    let mut statuses = Vec::new();
    for guess in 0..60 {
        let answer =
            server.send("GET", "/api/v1/whoami", &[&basic(if guess % 2 == 0 { "admin" } else { "nobody" }, "wrong")], "").await;
        statuses.push(answer.status);
        if answer.status == 401 {
            words.insert(answer.body);
        } else {
            assert!(answer.head.to_ascii_lowercase().contains("retry-after: "), "{}", answer.head);
            break;
        }
    }
    assert_eq!(words.len(), 1, "{words:?}");
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    assert_eq!(server.send("GET", "/api/v1/whoami", &["authorization: Bearer nonsense"], "").await.problem().0 / 100, 4);
}

#[tokio::test]
async fn a_stream_ends_when_its_right_is_taken_back() {
    let server = Server::with_logins().await;
    let admin = basic("admin", PASSWORD);
    server.send("PUT", "/api/v1/users/anna", &[JSON, &admin], r#"{"password":"a-long-enough-password"}"#).await.good();
    server.send("POST", "/api/v1/topics", &[JSON, &admin], r#"{"name":"t"}"#).await.good();
    let rules = r#"{"rules":[{"principal":"anna","resource":"topic","name":"t","operations":["consume"]}]}"#;
    server.send("POST", "/api/v1/rules", &[JSON, &admin], rules).await.good();
    let anna = basic("anna", "a-long-enough-password");
    let request = format!("GET /api/v1/topics/t/partitions/0/stream HTTP/1.1\r\nhost: localhost\r\n{anna}\r\n\r\n");
    let mut stream = server.begin(&request).await;
    let mut text = String::new();
    read_until(&mut stream, &mut text, ": here").await;
    server.send("POST", "/api/v1/topics/t/records", &[JSON, &admin], r#"{"value":"first"}"#).await.good();
    read_until(&mut stream, &mut text, "first").await;
    server.send("POST", "/api/v1/rules/delete", &[JSON, &admin], rules).await.good();
    server.send("POST", "/api/v1/topics/t/records", &[JSON, &admin], r#"{"value":"second"}"#).await.good();
    read_until(&mut stream, &mut text, "event: error").await;
    assert!(!text.contains("second"), "{text}");
}

#[tokio::test]
async fn what_was_allowed_before_a_body_came_is_looked_at_again() {
    let server = Server::with_logins().await;
    let (admin, anna) = (basic("admin", PASSWORD), basic("anna", "a-long-enough-password"));
    server.send("POST", "/api/v1/topics", &[JSON, &admin], r#"{"name":"t"}"#).await.good();
    let rules = r#"{"rules":[{"principal":"anna","resource":"topic","name":"t","operations":["administer"]}]}"#;
    for (method, path, body) in [
        ("POST", "/api/v1/topics/t/records", r#"{"value":"late"}"#),
        ("POST", "/api/v1/topics/t/partitions/0/trim", "{}"),
        ("PATCH", "/api/v1/topics/t", r#"{"partitions":2}"#),
    ] {
        for ends_login in [false, true] {
            server.send("PUT", "/api/v1/users/anna", &[JSON, &admin], r#"{"password":"a-long-enough-password"}"#).await.good();
            server.send("POST", "/api/v1/rules", &[JSON, &admin], rules).await.good();
            let length = body.len();
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{anna}\r\n{JSON}\r\ncontent-length: {length}\r\nexpect: 100-continue\r\n\r\n"
            );
            let mut slow = server.begin(&head).await;
            let mut text = String::new();
            // Said when the body is asked for: who sends it is let in by then.
            read_until(&mut slow, &mut text, "100 Continue").await;
            if ends_login {
                server.send("DELETE", "/api/v1/users/anna", &[&admin], "").await;
            } else {
                server.send("POST", "/api/v1/rules/delete", &[JSON, &admin], rules).await.good();
            }
            slow.write_all(body.as_bytes()).await.unwrap();
            read_until(&mut slow, &mut text, if ends_login { "401" } else { "403" }).await;
        }
    }
    let topic = server.send("GET", "/api/v1/topics/t", &[&admin], "").await.good();
    assert_eq!(topic["partitions"].as_array().unwrap().len(), 1, "{topic}");
    let records = server.send("GET", "/api/v1/topics/t/partitions/0/records", &[&admin], "").await.good();
    assert_eq!(records["records"], json!([]));
}

#[tokio::test]
async fn where_nobody_logs_in_secrets_are_refused() {
    let server = Server::start().await;
    assert_eq!(server.send("GET", "/api/v1/whoami", &[&basic("anna", "x")], "").await.problem(), (403, "authorization".into()));
}
