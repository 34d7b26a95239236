//! Consumer groups: sharing partitions, lag, moving, deleting.
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::process::Child;

use serde_json::Value;
use support::{TestBroker, eventually, read_exactly, signal};

fn describe(broker: &TestBroker, group: &str) -> Value {
    serde_json::from_str(&broker.ok(&["group", "describe", group, "--output", "json"], b"")).unwrap()
}

/// Starts a member, and waits until it has so many of the partitions, all of which are given out.
fn join(broker: &TestBroker, partitions: usize) -> Child {
    let child = broker.command(&["consume", "t", "--group", "g", "--format", "%p %s\n"]).spawn().unwrap();
    eventually("the partitions are divided", || {
        // Before the first member the group is not known.
        let run = broker.run(&["group", "describe", "g", "--output", "json"], b"");
        let Ok(group) = serde_json::from_slice::<Value>(&run.stdout) else { return false };
        let members = group["members"].as_array().unwrap();
        group["state"] == "stable" && members.iter().all(|member| member["partitions"].as_array().unwrap().len() == partitions)
    });
    child
}

fn end(child: Child, name: &str) -> String {
    signal(&child, name);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert!(matches!(ended.status.code(), Some(130 | 143)), "{:?}", ended.status);
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn two_members_share_the_partitions_and_hand_over_what_they_committed() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"], b"");
    broker.ok(&["produce", "t", "--partition", "0"], b"a\n");
    broker.ok(&["produce", "t", "--partition", "1"], b"b\n");
    let mut first = join(&broker, 2);
    let mut alone: Vec<_> = [read_exactly(&mut first, 4), read_exactly(&mut first, 4)].to_vec();
    alone.sort();
    assert_eq!(alone, [b"0 a\n", b"1 b\n"]);

    let second = join(&broker, 1);
    broker.ok(&["produce", "t", "--partition", "0"], b"c\n");
    broker.ok(&["produce", "t", "--partition", "1"], b"d\n");
    eventually("both have committed", || describe(&broker, "g")["lag"] == 0);
    let mut rest = end(first, "INT");
    eventually("the other has taken over", || describe(&broker, "g")["members"][0]["partitions"].as_array().unwrap().len() == 2);
    broker.ok(&["produce", "t", "--partition", "0"], b"e\n");
    eventually("it has committed", || describe(&broker, "g")["lag"] == 0);
    let others = end(second, "TERM");
    assert_eq!(others.lines().count(), 2, "{others:?}");
    rest.push_str(&others);
    let mut lines: Vec<_> = rest.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 c", "0 e", "1 d"], "nothing is printed twice");
    let left = describe(&broker, "g");
    assert_eq!((&left["state"], left["members"].as_array().unwrap().len()), (&"empty".into(), 0));
}

#[test]
fn a_group_is_moved_only_while_nobody_is_in_it() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"], b"");
    broker.ok(&["produce", "t", "--partition", "0"], b"a\nb\nc\n");
    let child = join(&broker, 2);
    let seek = ["group", "seek", "g", "--topic", "t", "--to", "earliest"];
    for arguments in [&seek[..], &[&seek[..], &["--dry-run"]].concat(), &["group", "delete", "g"]] {
        let refused = broker.run(arguments, b"");
        assert_eq!(refused.status, 1);
        assert!(refused.stderr.starts_with("error: group `g` has members: stop its consumers first"), "{}", refused.stderr);
    }
    let by_hand = broker.run(&["consume", "t", "--group", "g", "--partition", "0", "--from", "earliest", "--until", "end"], b"");
    assert_eq!(by_hand.status, 1, "its positions are refused");
    assert!(by_hand.stderr.contains("has members") && by_hand.stderr.lines().count() == 1, "{}", by_hand.stderr);
    eventually("it has committed", || describe(&broker, "g")["lag"] == 0);
    end(child, "INT");

    let dry = broker.ok(&[&seek[..], &["--dry-run"]].concat(), b"");
    let words = |text: &str| text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect::<Vec<Vec<_>>>();
    assert_eq!(words(&dry)[..2], words("partition from to\n0 3 0"));
    assert!(dry.ends_with("nothing was changed: this was a dry run\n"), "{dry}");
    assert_eq!(describe(&broker, "g")["lag"], 0);
    let moved = broker.ok(&["group", "seek", "g", "--topic", "t", "--partition", "0", "--to", "-2", "--output", "json"], b"");
    assert_eq!(moved, "{\"dry_run\":false,\"from\":3,\"group\":\"g\",\"partition\":0,\"to\":1,\"topic\":\"t\"}\n");
    assert_eq!(broker.ok(&["consume", "t", "--group", "g", "--until", "end"], b""), "b\nc\n");
    broker.ok(&["group", "seek", "g", "--topic", "t", "--to", "1h"], b"");
    assert_eq!(describe(&broker, "g")["lag"], 3);
    let beyond = broker.run(&["group", "seek", "g", "--topic", "t", "--partition", "0", "--to", "4"], b"");
    assert_eq!(beyond.stderr, "error: partition 0 holds offsets 0 up to 3 (exclusive), and not 4\n");
    let nowhere = broker.run(&["group", "seek", "g", "--topic", "nowhere", "--to", "latest"], b"");
    assert_eq!(nowhere.stderr, "error: there is no topic `nowhere`; see `hermit-cli topic list`\n");
}

#[test]
fn lag_is_told_in_messages_and_seconds() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"], b"");
    broker.ok(&["group", "seek", "g", "--topic", "t", "--to", "earliest"], b"");
    assert_eq!(describe(&broker, "g")["lag_seconds"].as_f64(), Some(0.0));
    broker.ok(&["produce", "t", "--partition", "0"], b"a\nb\n");
    broker.ok(&["produce", "t", "--partition", "1"], b"c\n");
    eventually("the lag has an age", || describe(&broker, "g")["lag_seconds"].as_f64().unwrap() > 0.0);
    let group = describe(&broker, "g");
    assert_eq!((&group["lag"], &group["state"]), (&3.into(), &"empty".into()));
    assert_eq!((&group["partitions"][0]["lag"], &group["partitions"][1]["lag"]), (&2.into(), &1.into()));
    assert_eq!((&group["partitions"][0]["committed"], &group["partitions"][0]["owner"]), (&0.into(), &Value::Null));
    let shown = broker.ok(&["group", "describe", "g"], b"");
    assert!(shown.contains("lag    3 messages, ") && shown.contains("topic  partition  position"), "{shown}");

    let listed = broker.ok(&["group", "list", "--output", "json"], b"");
    assert_eq!(listed, "{\"group\":\"g\",\"members\":0,\"partitions\":2,\"state\":\"empty\"}\n");
    assert_eq!(broker.ok(&["group", "list"], b"").lines().count(), 2);
    assert_eq!(broker.ok(&["group", "delete", "g"], b""), "deleted g\n");
    let gone = broker.run(&["group", "describe", "g"], b"");
    assert!(gone.stderr.starts_with("error: there is no group `g`") && gone.stderr.contains("group list"), "{}", gone.stderr);
}

#[test]
fn a_member_ends_when_the_group_has_reached_the_end() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "3"], b"");
    for partition in ["0", "1", "2"] {
        broker.ok(&["produce", "t", "--partition", partition], b"x\ny\n");
    }
    let until = ["consume", "t", "--group", "g", "--until", "end"];
    let both: Vec<_> = (0..2).map(|_| broker.command(&until).spawn().unwrap()).collect();
    let printed: usize = both
        .into_iter()
        .map(|child| {
            let ended = child.wait_with_output().unwrap();
            assert!(ended.status.success(), "{ended:?}");
            String::from_utf8(ended.stdout).unwrap().lines().count()
        })
        .sum();
    assert_eq!(printed, 6);
    assert_eq!(broker.ok(&until, b""), "");
    let elsewhere = broker.run(&["consume", "t", "--group", "g", "--from", "-1"], b"");
    assert!(elsewhere.status == 2 && elsewhere.stderr.contains("group seek"), "{}", elsewhere.stderr);
}
