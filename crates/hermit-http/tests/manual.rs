//! The commands of the manual do what it says.

mod support;

use std::path::Path;
use std::process::Command;

use support::Server;

#[tokio::test]
async fn every_command_of_the_manual_works() {
    let server = Server::start().await;
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/http.md")).unwrap();
    let scripts: Vec<_> = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(scripts.len() >= 7);
    let script = format!("set -eu\n{}", scripts.concat()).replace("127.0.0.1:15672", &server.address.to_string());
    assert!(!script.contains("15672"));
    let run = tokio::task::spawn_blocking(move || Command::new("sh").args(["-c", &script]).env("no_proxy", "*").output().unwrap());
    let output = run.await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("serving") && out.contains("\"lag\":") && out.contains("data: {\"offset\":0,"), "{out}\n{err}");
}
