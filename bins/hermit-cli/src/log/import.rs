//! `hermit-cli log import …`

use std::io::{self, Write};

use anyhow::{Context, Result};
use hermit_broker::BrokerConfig;
use hermit_broker::import::{self, PartitionPlan, Plan, Progress, TopicPlan};
use serde_json::{Value, json};

use crate::args::{LogImportArgs, Output};
use crate::progress;
use crate::quantity::approximate_bytes;
use crate::text::{counted, headings, table};

/// Tells what would be imported, or imports it.
pub(super) fn run(args: &LogImportArgs, output: Output) -> Result<()> {
    let mut config = BrokerConfig::new(args.data_dir.as_ref().unwrap_or(&args.old_dir));
    config.topic_defaults.durability = args.durability;
    if let Some(limit) = args.max_frame_bytes {
        let bytes = u32::try_from(limit.0).ok().context("--max-frame-bytes: it must be below 4GiB")?;
        config.limits.max_frame_bytes = bytes;
        // The request that a client would send it in.
        config.limits.max_request_bytes = config.limits.max_request_bytes.max(bytes.saturating_add(1 << 20));
        let request_bytes = u64::from(config.limits.max_request_bytes);
        config.limits.max_inflight_bytes = config.limits.max_inflight_bytes.max(request_bytes + (1 << 20));
    }
    let plan = if args.dry_run { import::plan(&args.old_dir, &config)? } else { carry_out(args, &config)? };
    let mut out = Vec::new();
    match output {
        Output::Text => tell(&plan, args.dry_run, &mut out)?,
        Output::Json => writeln!(out, "{}", description(&plan, args.dry_run))?,
    }
    io::stdout().write_all(&out).context("standard output")?;
    // A dry run fails where the import would.
    if args.dry_run {
        plan.check()?;
    }
    Ok(())
}

fn carry_out(args: &LogImportArgs, config: &BrokerConfig) -> Result<Plan> {
    let bar = progress::of_bytes();
    let done = import::run(&args.old_dir, config, |so_far| {
        let Progress { topic, partition, done_bytes, total_bytes } = so_far;
        bar.set_length(*total_bytes);
        bar.set_position(*done_bytes);
        bar.set_message(format!("{topic} {partition}"));
    });
    bar.finish_and_clear();
    Ok(done?)
}

fn tell(plan: &Plan, dry_run: bool, out: &mut impl Write) -> io::Result<()> {
    let mut rows = headings(["topic", "partition", "first", "next", "frames", "bytes"]);
    for TopicPlan { name, partitions } in &plan.topics {
        rows.extend(partitions.iter().map(|PartitionPlan { partition, first, end, frames, body_bytes, .. }| {
            let numbers = [first.to_string(), end.to_string(), frames.to_string(), approximate_bytes(*body_bytes)];
            [name.to_string(), partition.to_string()].into_iter().chain(numbers).collect()
        }));
    }
    table(out, &rows)?;
    let (topics, positions) = (counted(plan.topics.len() as u64, "topic"), counted(plan.positions, "committed position"));
    writeln!(out, "{topics}, {}, {positions}", counted(plan.frames(), "frame"))?;
    for finding in &plan.findings {
        writeln!(out, "note: {finding}")?;
    }
    if dry_run {
        for problem in &plan.problems {
            writeln!(out, "problem: {problem}")?;
        }
        let needed = plan.need_bytes.saturating_add(plan.margin_bytes);
        writeln!(out, "needs {} of {} that are free", approximate_bytes(needed), approximate_bytes(plan.free_bytes))?;
        return writeln!(out, "nothing was imported: this was a dry run");
    }
    let (new, old) = (plan.data_dir.display(), plan.old_dir.display());
    writeln!(out, "imported into {new}; the old files in {old} are as they were, and not used any more")
}

fn description(plan: &Plan, dry_run: bool) -> Value {
    let partition = |plan: &PartitionPlan| {
        json!({
            "partition": plan.partition.0,
            "dir": plan.dir.display().to_string(),
            "segments": plan.segments,
            "first": plan.first.0,
            "next": plan.end.0,
            "frames": plan.frames,
            "bytes": plan.body_bytes,
        })
    };
    let topic = |topic: &TopicPlan| {
        let partitions: Vec<_> = topic.partitions.iter().map(partition).collect();
        json!({ "topic": topic.name.to_string(), "partitions": partitions })
    };
    json!({
        "old_dir": plan.old_dir.display().to_string(),
        "data_dir": plan.data_dir.display().to_string(),
        "dry_run": dry_run,
        "topics": plan.topics.iter().map(topic).collect::<Vec<_>>(),
        "committed_positions": plan.positions,
        "findings": plan.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "problems": plan.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "need_bytes": plan.need_bytes,
        "margin_bytes": plan.margin_bytes,
        "free_bytes": plan.free_bytes,
    })
}
