//! `hermit-cli topic trim …`

use std::io::Write;

use anyhow::{Result, ensure};
use hermit_client::{Admin, Offset, PartitionId};
use serde_json::json;

use super::or_list;
use crate::args::{Output, TrimArgs};
use crate::consume::partitions;
use crate::place::Place;
use crate::text::{headings, table};

/// What is deleted of a partition.
struct Cut {
    partition: PartitionId,
    from: Offset,
    to: Offset,
}

/// Deletes what stands before a place, in each partition.
pub(super) async fn run(admin: &Admin, args: &TrimArgs, output: Output, out: &mut impl Write) -> Result<()> {
    let topic = &args.topic;
    let found = admin.describe_topic(topic).await.map_err(or_list)?;
    let mut cuts = Vec::new();
    for partition in partitions(&found, &args.partition)? {
        let (to, held) = args.before.resolve(admin, topic, partition).await?;
        if let Place::Offset(named) = args.before {
            let end = held.high_watermark;
            ensure!(
                named <= end,
                "partition {partition} ends at offset {end}, before {named}; `--before latest` deletes all of it"
            );
        }
        cuts.push(Cut { partition, from: held.log_start, to: to.max(held.log_start) });
    }
    // All places are known to be good before anything is deleted.
    if !args.dry_run {
        for cut in cuts.iter_mut().filter(|cut| cut.from < cut.to) {
            cut.to = admin.trim(topic, cut.partition, cut.to).await?;
        }
    }
    tell(args, &cuts, output, out)
}

fn tell(args: &TrimArgs, cuts: &[Cut], output: Output, out: &mut impl Write) -> Result<()> {
    if output == Output::Json {
        for Cut { partition, from, to } in cuts {
            let (topic, dry_run) = (&args.topic, args.dry_run);
            let line = json!({ "topic": topic, "partition": partition.0, "from": from.0, "to": to.0, "dry_run": dry_run });
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    let mut rows = headings(["partition", "log start", "new log start"]);
    rows.extend(cuts.iter().map(|cut| vec![cut.partition.to_string(), cut.from.to_string(), cut.to.to_string()]));
    table(out, &rows)?;
    if args.dry_run {
        writeln!(out, "nothing was deleted: this was a dry run")?;
    }
    Ok(())
}
