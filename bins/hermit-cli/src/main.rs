//! The command line of HermitMQ: topics and groups, producing from files and pipes, consuming into them, moving topics, users and what they may do.
//!
//! Exit status: 0 if all was done, 1 if not, 2 for a command line that cannot be understood, 128 + N if signal N, or a reader
//! of its output that went away (13), ended it.

mod acl;
mod args;
mod bench;
mod broker;
mod connect;
mod consume;
mod escape;
mod export;
mod failure;
mod format;
mod group;
mod import;
mod json;
mod json_record;
mod key;
mod lines;
mod log;
mod observe;
mod packaging;
mod place;
mod produce;
mod profile;
mod progress;
mod quantity;
mod secret;
mod signals;
mod status;
mod text;
mod time;
mod top;
mod topic;
mod topic_file;
mod user;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_load::Via;

use crate::args::{Cli, Command};

/// How long a command that has failed waits for the broker's goodbye.
const GOODBYE_AFTER_ERROR: Duration = Duration::from_millis(500);

/// Of a command line that cannot be understood.
const USAGE_STATUS: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let mut cli = match Cli::read(&arguments) {
        Ok(cli) => cli,
        Err(error) => match failure::usage_line(&error, &arguments) {
            Some(line) => {
                say(&line);
                return ExitCode::from(USAGE_STATUS);
            }
            None => error.exit(),
        },
    };
    let output = cli.output;
    let prepared = if cli.command.needs_broker() { profile::apply(&mut cli.connection) } else { Ok(()) };
    let connection = cli.connection.clone();
    let done = prepared.and_then(|()| start(cli));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let failure = failure::explain(&error, &connection);
            if let Some(line) = failure.line(output) {
                say(&line);
            }
            ExitCode::from(failure.exit_status)
        }
    }
}

/// If nobody reads standard error, the exit status has to do.
fn say(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

fn start(cli: Cli) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().context("cannot start").and_then(|runtime| {
        let done = runtime.block_on(run(cli));
        // A read of standard input may never return; the process does not wait for it.
        runtime.shutdown_background();
        done
    })
}

async fn run(cli: Cli) -> Result<()> {
    match &cli.command {
        Command::Log(command) => return log::run(command, cli.output),
        Command::Completions(args) => return packaging::completions(args),
        Command::Man(args) => return packaging::man(args, cli.output),
        Command::Profile(command) => return profile::run(command, cli.connection.profile.as_deref(), cli.output),
        _ => {}
    }
    let builder = connect::builder(&cli.connection).await?;
    let client = builder.clone().connect().await?;
    let done = match cli.command {
        Command::Topic(command) => topic::run(&client, command, cli.output).await,
        // Needs no broker.
        Command::Log(_) | Command::Profile(_) | Command::Completions(_) | Command::Man(_) => Ok(()),
        Command::Produce(args) => produce::run(&client, args, cli.output).await,
        Command::Consume(args) => consume::run(&client, args, cli.output).await,
        Command::Group(command) => group::run(&client, command, cli.output).await,
        Command::Status(args) => status::run(&client, &args, cli.output).await,
        Command::Top(args) => top::run(&client, &args, cli.output).await,
        Command::Broker(command) => broker::run(&client, command, cli.output).await,
        Command::User(command) => user::run(&client, command, cli.output).await,
        Command::Acl(command) => acl::run(&client, command, cli.output).await,
        Command::Bench(command) => bench::run(&client, command, Via::new(builder), cli.output).await,
        Command::Export(args) => export::run(&client, args, cli.output).await,
        Command::Import(args) => import::run(&client, args, cli.output).await,
    };
    if done.is_ok() {
        client.close().await;
    } else {
        // A goodbye all the same, or the broker's log tells of a connection that broke; but nobody waits long for it.
        drop(tokio::time::timeout(GOODBYE_AFTER_ERROR, client.close()).await);
    }
    done
}
