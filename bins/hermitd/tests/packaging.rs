//! What packages bring along: completions and manual pages.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::{Command, Output};

/// Whatever the environment says: it may be that of a build.
fn hermitd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hermitd")).args(arguments).env("HERMITD_LISTEN", "nonsense").output().unwrap()
}

#[test]
fn every_shell_gets_completions_of_all_settings() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = hermitd(&["completions", shell]);
        let (script, told) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && told.is_empty(), "{shell}: {told}");
        assert!(script.contains("data-dir") && script.contains("reference"), "{shell}: {script}");
    }
    let refused = hermitd(&["completions", "tcsh"]);
    assert!(!refused.status.success());
}

#[test]
fn manual_pages_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("a/man1");
    let output = hermitd(&["man", target.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(target.join("hermitd.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("max\\-inflight\\-bytes"), "{page}");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 5);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with("wrote 5 pages"), "{told}");
    let blocked = target.join("hermitd.1/below");
    let refused = hermitd(&["man", blocked.to_str().unwrap()]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("cannot write there"));
}
