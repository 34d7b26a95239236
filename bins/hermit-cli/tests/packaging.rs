//! What packages bring along: completions and manual pages.
mod support;

use std::fs;
use std::process::Command;

use support::{command, run};

/// Nobody listens there: neither needs a broker.
const NOWHERE: &str = "127.0.0.1:1";

#[test]
fn every_shell_gets_completions_of_all_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = run(command(NOWHERE, &["completions", shell]), b"");
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{shell}");
        let script = String::from_utf8(run.stdout).unwrap();
        for word in ["add-partitions", "tls-server-name", "whoami"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        if shell == "bash" {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("script"), script).unwrap();
            // What it offers behind `hermit-cli topic d`.
            let ask = "source ./script; COMP_WORDS=(hermit-cli topic d); COMP_CWORD=2; _hermit__cli hermit-cli d topic; echo ${COMPREPLY[*]}";
            let asked = Command::new("bash").args(["-c", ask]).current_dir(dir.path()).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&asked.stdout), "describe delete\n", "{}", String::from_utf8_lossy(&asked.stderr));
        }
    }
}

#[test]
fn every_command_gets_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("a/man1");
    let run = run(command(NOWHERE, &["man", target.to_str().unwrap(), "--output", "json"]), b"");
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    let told: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let pages: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(told["pages"], pages.len());
    for (page, said) in [
        ("hermit-cli.1", "HERMIT_SERVER"),
        ("hermit-cli-topic-create.1", "retention"),
        ("hermit-cli-user-token-add.1", "hermit\\-cli user token add"),
    ] {
        let text = fs::read_to_string(target.join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains(said), "{page}: {text}");
    }
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
}
