//! `hermit-cli log …`: data directories, without a broker.

mod import;
mod inspect;
mod repair;
mod restored;

use anyhow::{Error, Result, bail};
use hermit_broker::log::inspect::{Check, DamageKind, FoundDamage};
use hermit_broker::offline::{OfflineDir, OfflinePartition, Selection};
use hermit_broker::proto::{PartitionId, TopicName};
use serde_json::{Value, json};

use crate::args::{DirArgs, LogCommand, Output};

/// Runs one of the log commands.
pub(crate) fn run(command: &LogCommand, output: Output) -> Result<()> {
    match command {
        LogCommand::Inspect(args) => inspect::run(args, Check::Headers, output),
        LogCommand::Verify(args) => inspect::run(args, Check::Everything, output),
        LogCommand::Repair(args) => repair::run(args, output),
        LogCommand::Restored(args) => restored::run(args, output),
        LogCommand::Import(args) => import::run(args, output),
    }
}

/// Opens a data directory that no broker uses, and gives the partitions that are meant.
fn open(args: &DirArgs) -> Result<(OfflineDir, Vec<OfflinePartition>)> {
    let dir = OfflineDir::open(&args.data_dir)?;
    let topic = args.topic.as_deref().map(TopicName::new).transpose()?;
    let selection = Selection { topic, partition: args.partition.map(PartitionId) };
    let partitions = dir.partitions(&selection)?;
    Ok((dir, partitions))
}

/// What could not be done with some partitions: the others are not kept waiting for that.
#[derive(Debug, Default)]
struct Failures(Vec<Error>);

impl Failures {
    fn note<T>(&mut self, done: Result<T>) -> Option<T> {
        done.map_err(|error| self.0.push(error)).ok()
    }

    /// An error that names them all, if there are any.
    fn end(mut self, what: &str) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            count => {
                let all: Vec<_> = self.0.iter().map(|error| format!("{error:#}")).collect();
                bail!("{count} partitions could not be {what}: {}", all.join("; "))
            }
        }
    }
}

/// Whether the next start will most likely cut it off as what a power cut or a kill has torn, which is no loss: nobody was told that it is stored.
fn is_torn_tail(damage: &FoundDamage, clean: bool) -> bool {
    damage.unflushed && !clean
}

fn damage_text(damage: &FoundDamage, clean: bool) -> String {
    let what = match damage.kind {
        DamageKind::Header => "a damaged or cut header",
        DamageKind::Body => "a damaged key or value",
        DamageKind::OutOfPlace => "a frame that does not belong there",
        DamageKind::Missing => "nothing, where records should be",
    };
    let FoundDamage { segment, position, next_position, from, .. } = damage;
    let offsets = match damage.next {
        Some(next) => format!("offsets {from} to {next} (exclusive) are lost"),
        None => format!("what follows offset {from} is lost"),
    };
    let so_far = match (is_torn_tail(damage, clean), damage.fenced) {
        (true, _) => "; it was not flushed: the next start of the broker may cut it off as a torn tail",
        (false, true) => "; consumers are told of it",
        (false, false) => "",
    };
    format!("segment {segment}, bytes {position} to {next_position}: {what}; {offsets}{so_far}")
}

fn damage_json(damage: &FoundDamage, clean: bool) -> Value {
    let kind = match damage.kind {
        DamageKind::Header => "header",
        DamageKind::Body => "body",
        DamageKind::OutOfPlace => "out-of-place",
        DamageKind::Missing => "missing",
    };
    json!({
        "kind": kind,
        "segment": damage.segment.0,
        "position": damage.position,
        "next_position": damage.next_position,
        "from": damage.from.0,
        "next": damage.next.map(|next| next.0),
        "fenced": damage.fenced,
        "torn_tail": is_torn_tail(damage, clean),
    })
}
