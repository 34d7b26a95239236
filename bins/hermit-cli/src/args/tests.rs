use super::*;

#[test]
fn the_definition_holds_together() {
    Cli::command().debug_assert();
}

#[test]
fn global_options_may_stand_anywhere() {
    let cli = Cli::try_parse_from(["hermit-cli", "topic", "list", "--server", "[::1]:7", "--output", "json"]).unwrap();
    assert_eq!((cli.connection.server[0].as_str(), cli.output), ("[::1]:7", Output::Json));
}

#[test]
fn nonsense_is_a_usage_error() {
    let bad: &[&[&str]] = &[
        &["consume", "t", "--output", "json", "--format", "%s"],
        &["--output", "json", "consume", "t", "--format", "%s"],
        &["consume", "t", "--from", "yesterday"],
        &["consume", "t", "--format", "%y"],
        &["consume", "t", "--until", "tomorrow"],
        &["consume", "t", "--until", "7"],
        &["consume", "t", "--key", "("],
        &["consume", "t", "--header", "no-pattern"],
        &["consume", "t", "--header", "a=("],
        &["produce", "t", "--key-column", "0"],
        &["produce", "t", "--key-column", "1", "--key-separator", ":"],
        &["produce", "t", "--codec", "gzip"],
        &["produce", "t", "--compression", "gzip"],
        &["produce", "t", "--delimiter", ""],
        &["produce", "t", "--delimiter", r"\q"],
        &["produce", "t", "--whole", "--json"],
        &["produce", "t", "--whole", "--delimiter", "x"],
        &["produce", "t", "--partitions", "by-key"],
        &["produce", "t", "--header", "=x"],
        &["produce", "t", "--timestamp", "soon"],
        &["topic", "create", "t", "--partitions", "0"],
        &["topic", "create", "t", "--retention-age", "7 moons"],
        &["topic", "alter", "t"],
        &["topic", "alter", "t", "--compaction", "maybe"],
        &["topic", "trim", "t"],
        &["topic", "add-partitions", "t"],
        &["group", "seek", "g", "--to", "earliest"],
        &["group", "seek", "g", "--topic", "t"],
        &["group", "seek", "g", "--topic", "t", "--to", "nowhere"],
        &["bench", "produce", "t", "--size", "15"],
        &["bench", "produce", "t", "--rate", "0"],
        &["bench", "produce", "t", "--duration", "never"],
        &["bench", "produce", "t", "--keys", "0"],
        &["bench", "consume", "t", "--from", "-1"],
        &["bench", "consume", "t", "--group", "g", "--from", "latest"],
        &["bench", "e2e", "t", "--rate", "5", "--max-rate"],
        &["--server", "localhost", "topic", "list"],
        &["--server", "http://localhost:9092", "topic", "list"],
        &["topic", "list", "--user", "a", "--token-file", "t"],
        &["topic", "list", "--password", "secret"],
        &["topic", "list", "--token", "secret"],
        &["acl", "add", "a", "--allow", "produce"],
        &["acl", "add", "a", "--topic", "t"],
        &["acl", "add", "a", "--topic", "t", "--allow", "write"],
        &["acl", "remove", "a"],
        &["user", "add", "a", "--no-password", "--new-password-file", "p"],
        &["user", "token", "add", "a"],
    ];
    for arguments in bad {
        let read = Cli::read([&["hermit-cli"], *arguments].concat());
        assert_eq!(read.unwrap_err().exit_code(), 2, "{arguments:?}");
    }
    Cli::read(["hermit-cli", "consume", "t", "--output", "json"]).unwrap();
}

#[test]
fn negative_numbers_are_places() {
    for arguments in [
        &["consume", "t", "--from", "-1"][..],
        &["group", "seek", "g", "--topic", "t", "--to", "-1"],
        &["topic", "trim", "t", "--before", "-1"],
    ] {
        Cli::read([&["hermit-cli"], arguments].concat()).unwrap();
    }
}

#[test]
fn every_command_has_an_example() {
    fn check(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        if command.get_subcommands().next().is_none() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(path.trim_start()), "{path}: {help}");
        }
        command.get_subcommands().for_each(|command| check(command, &path));
    }
    check(&Cli::command(), "");
}
