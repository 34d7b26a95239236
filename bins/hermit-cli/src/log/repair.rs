//! `hermit-cli log repair …`

use std::io::{self, Write};

use anyhow::{Context, Result, ensure};
use hermit_broker::log::repair::{Action, RepairOptions, Repaired};
use hermit_broker::offline::OfflinePartition;
use serde_json::{Value, json};

use super::{Failures, damage_json, damage_text, is_torn_tail, open};
use crate::args::{Output, RepairArgs};
use crate::text::counted;

/// Repairs partitions one after another. An error where damage is left.
pub(super) fn run(args: &RepairArgs, output: Output) -> Result<()> {
    let (dir, partitions) = open(&args.dir)?;
    let options = RepairOptions { drop_damage: args.drop_damage, dry_run: args.dry_run, ..RepairOptions::default() };
    let mut out = io::stdout().lock();
    let (mut actions, mut left, mut failed) = (0, 0, Failures::default());
    for partition in &partitions {
        let place = || format!("topic {}, partition {}", partition.topic, partition.partition);
        let Some(repaired) = failed.note(dir.repair(partition, &options).with_context(place)) else { continue };
        actions += repaired.actions.len() as u64;
        left += repaired.left.iter().filter(|damage| !is_torn_tail(damage, dir.clean())).count() as u64;
        // At once: what is done is done, whatever becomes of the next.
        let told = match output {
            Output::Text => tell(partition, &repaired, dir.clean(), &mut out),
            Output::Json => writeln!(out, "{}", description(partition, &repaired, dir.clean(), args.dry_run)),
        };
        told.context("standard output")?;
    }
    if output == Output::Text {
        let done = if args.dry_run { "to be made: this was a dry run" } else { "made" };
        writeln!(out, "{} {done}", counted(actions, "change")).context("standard output")?;
    }
    failed.end("repaired")?;
    ensure!(
        left == 0,
        "{} left in place; --drop-damage drops what is damaged for good, and consumers are not told of it then",
        counted(left, "damaged range")
    );
    Ok(())
}

fn tell(partition: &OfflinePartition, repaired: &Repaired, clean: bool, out: &mut impl Write) -> io::Result<()> {
    let OfflinePartition { topic, partition, .. } = partition;
    for action in &repaired.actions {
        writeln!(out, "{topic} {partition}: {}", action_text(action, clean))?;
    }
    for damage in &repaired.left {
        writeln!(out, "{topic} {partition}: left as it is: {}", damage_text(damage, clean))?;
    }
    Ok(())
}

fn action_text(action: &Action, clean: bool) -> String {
    match action {
        Action::Removed { name } => format!("{name}: removed"),
        Action::MovedAside { name, to } => format!("{name}: moved aside, to {to}"),
        Action::RebuiltIndex { segment } => format!("segment {segment}: its index was made again"),
        Action::Dropped { damage, next, kept_in } => {
            let kept = kept_in.as_ref().map_or_else(String::new, |name| format!(", and {name} keeps the segment as it was"));
            format!("{}: dropped for good; offset {next} comes next{kept}", damage_text(damage, clean))
        }
    }
}

fn description(partition: &OfflinePartition, repaired: &Repaired, clean: bool, dry_run: bool) -> Value {
    let actions: Vec<_> = repaired.actions.iter().map(|action| action_json(action, clean)).collect();
    let left: Vec<_> = repaired.left.iter().map(|damage| damage_json(damage, clean)).collect();
    json!({
        "topic": partition.topic.to_string(),
        "partition": partition.partition.0,
        "dry_run": dry_run,
        "actions": actions,
        "left": left,
    })
}

fn action_json(action: &Action, clean: bool) -> Value {
    match action {
        Action::Removed { name } => json!({ "action": "removed", "name": name }),
        Action::MovedAside { name, to } => json!({ "action": "moved-aside", "name": name, "to": to }),
        Action::RebuiltIndex { segment } => json!({ "action": "rebuilt-index", "segment": segment.0 }),
        Action::Dropped { damage, next, kept_in } => {
            json!({ "action": "dropped", "damage": damage_json(damage, clean), "next": next.0, "kept_in": kept_in })
        }
    }
}
