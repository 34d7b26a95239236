//! `hermit-cli log inspect …` and `hermit-cli log verify …`

use std::io::{self, Write};

use anyhow::{Context, Result, ensure};
use hermit_broker::log::inspect::{Check, IndexReport, Inspected, SegmentReport};
use hermit_broker::offline::{OfflineDir, OfflinePartition};
use serde_json::{Value, json};

use super::{Failures, damage_json, damage_text, is_torn_tail, open};
use crate::args::{DirArgs, Output};
use crate::quantity::approximate_bytes;
use crate::text::{counted, headings, table};
use crate::time::show_moment;

/// Reads the logs, and tells what is in them. An error where some of it is damaged.
pub(super) fn run(args: &DirArgs, check: Check, output: Output) -> Result<()> {
    let (dir, partitions) = open(args)?;
    let (mut found, mut failed) = (Vec::new(), Failures::default());
    for partition in partitions {
        let place = || format!("topic {}, partition {}", partition.topic, partition.partition);
        if let Some(inspected) = failed.note(dir.inspect(&partition, check).with_context(place)) {
            found.push((partition, inspected));
        }
    }
    let mut out = Vec::new();
    match output {
        Output::Text => tell(&dir, &found, &mut out)?,
        Output::Json => {
            for (partition, inspected) in &found {
                writeln!(out, "{}", description(&dir, partition, inspected))?;
            }
        }
    }
    io::stdout().write_all(&out).context("standard output")?;
    failed.end("read")?;
    let damages = found.iter().flat_map(|(_, inspected)| &inspected.damages);
    let damages = damages.filter(|damage| !is_torn_tail(damage, dir.clean())).count() as u64;
    ensure!(
        dir.manifest_damage().is_none(),
        "the manifest is damaged: the next start of the broker makes it good from the topics' copies"
    );
    ensure!(damages == 0, "{} damaged; `hermit-cli log repair --help` says what can be done", counted(damages, "range"));
    Ok(())
}

fn tell(dir: &OfflineDir, found: &[(OfflinePartition, Inspected)], out: &mut impl Write) -> io::Result<()> {
    let stopped = if dir.clean() { "cleanly" } else { "not cleanly: the next start recovers what was not flushed" };
    writeln!(out, "the last broker stopped {stopped}\n")?;
    let head = ["topic", "partition", "segments", "log start", "log end", "records", "bytes", "newest", "damaged"];
    let mut rows = headings(head);
    rows.extend(found.iter().map(|(partition, inspected)| row(partition, inspected)));
    table(out, &rows)?;
    for (partition, inspected) in found {
        for note in notes(inspected, dir.clean()) {
            writeln!(out, "{} {}: {note}", partition.topic, partition.partition)?;
        }
    }
    for name in dir.unknown() {
        writeln!(out, "partitions/{name} belongs to no topic")?;
    }
    Ok(())
}

fn row(partition: &OfflinePartition, inspected: &Inspected) -> Vec<String> {
    let newest = inspected.segments.iter().filter_map(|segment| segment.last_append_time).max();
    vec![
        partition.topic.to_string(),
        partition.partition.to_string(),
        inspected.segments.len().to_string(),
        inspected.log_start.to_string(),
        inspected.log_end.to_string(),
        inspected.records().to_string(),
        approximate_bytes(inspected.log_bytes()),
        show_moment(newest.unwrap_or(0)),
        inspected.damages.len().to_string(),
    ]
}

/// What somebody has to know of a partition.
fn notes(inspected: &Inspected, clean: bool) -> Vec<String> {
    let mut notes: Vec<_> = inspected.damages.iter().map(|damage| damage_text(damage, clean)).collect();
    for segment in &inspected.segments {
        match segment.index {
            IndexReport::Sealed { .. } | IndexReport::Unsealed { .. } => {}
            IndexReport::Missing => {
                notes.push(format!("segment {} has no index; it is made again when it is needed", segment.base));
            }
            IndexReport::Wrong { why } => notes.push(format!("the index of segment {} is to be made again: {why}", segment.base)),
        }
    }
    notes.extend(inspected.damaged_state.iter().map(|name| format!("{name} is damaged; a start does without it")));
    notes.extend(
        inspected
            .kept
            .iter()
            .map(|file| format!("{} keeps {} that were cut off or replaced", file.name, approximate_bytes(file.bytes))),
    );
    notes
}

fn description(dir: &OfflineDir, partition: &OfflinePartition, inspected: &Inspected) -> Value {
    let damages: Vec<_> = inspected.damages.iter().map(|damage| damage_json(damage, dir.clean())).collect();
    json!({
        "topic": partition.topic.to_string(),
        "partition": partition.partition.0,
        "dir": partition.dir.display().to_string(),
        "clean": dir.clean(),
        "sound": inspected.is_sound(),
        "log_start": inspected.log_start.0,
        "log_end": inspected.log_end.0,
        "frames": inspected.frames(),
        "records": inspected.records(),
        "log_bytes": inspected.log_bytes(),
        "segments": inspected.segments.iter().map(segment_json).collect::<Vec<_>>(),
        "damages": damages,
        "damaged_state": inspected.damaged_state,
        "leftovers": inspected.leftovers.iter().map(|file| file.name.clone()).collect::<Vec<_>>(),
        "kept": inspected.kept.iter().map(|file| file.name.clone()).collect::<Vec<_>>(),
    })
}

fn segment_json(segment: &SegmentReport) -> Value {
    let index = match segment.index {
        IndexReport::Sealed { .. } => "sealed",
        IndexReport::Unsealed { .. } => "unsealed",
        IndexReport::Missing => "missing",
        IndexReport::Wrong { .. } => "wrong",
    };
    json!({
        "base": segment.base.0,
        "end": segment.end.0,
        "file_bytes": segment.file_bytes,
        "log_bytes": segment.log_bytes,
        "frames": segment.frames,
        "records": segment.records,
        "missing_offsets": segment.missing_offsets,
        "first_append_time_ns": segment.first_append_time,
        "last_append_time_ns": segment.last_append_time,
        "leader_epochs": segment.leader_epochs.iter().map(|epoch| epoch.0).collect::<Vec<_>>(),
        "index": index,
    })
}
