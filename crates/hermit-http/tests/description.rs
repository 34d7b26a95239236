//! The description of the API is the one that is committed.

use std::path::Path;

use hermit_http::openapi_json;

#[test]
fn the_committed_description_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let made = openapi_json();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == made, "run `UPDATE_DOCS=1 cargo test -p hermit-http`");
}

#[test]
fn every_operation_says_what_it_does_and_what_it_refuses() {
    let described: serde_json::Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut operations = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            assert!(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{method} {path}");
            assert!(operation["responses"]["default"].is_object(), "{method} {path}");
        }
    }
    assert!(operations > 25, "{operations}");
}
