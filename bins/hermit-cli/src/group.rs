//! `hermit-cli group …`

use std::io::{self, Write};

use anyhow::{Context, Result, ensure};
use hermit_client::{
    Admin, AssignmentStrategy, Client, DescribeGroupResponse, Error, GroupMember, GroupPartition, GroupState, MemberId, Offset,
    PartitionId,
};
use serde_json::{Value, json};

use crate::args::{GroupCommand, Output, SeekArgs};
use crate::consume::partitions;
use crate::observe::{lag, state, status_word};
use crate::place::Place;
use crate::text::{counted, headings, table};
use crate::time::{seconds, show_moment, show_seconds};

/// Runs one of the group commands.
pub(crate) async fn run(client: &Client, command: GroupCommand, output: Output) -> Result<()> {
    let admin = client.admin();
    let mut out = Vec::new();
    match command {
        GroupCommand::List => list(&admin, output, &mut out).await?,
        GroupCommand::Describe { group } => {
            let found = admin.describe_group(&group).await?;
            match output {
                Output::Text => describe(&group, &found, &mut out)?,
                Output::Json => writeln!(out, "{}", description(&group, &found))?,
            }
        }
        GroupCommand::Seek(args) => seek(&admin, &args, output, &mut out).await?,
        GroupCommand::Delete { group } => {
            admin.delete_group(&group).await?;
            match output {
                Output::Text => writeln!(out, "deleted {group}")?,
                Output::Json => writeln!(out, "{}", json!({ "group": group, "deleted": true }))?,
            }
        }
    }
    io::stdout().write_all(&out).context("standard output")
}

async fn list(admin: &Admin, output: Output, out: &mut impl Write) -> Result<()> {
    let groups = admin.list_groups().await?;
    if output == Output::Json {
        for group in &groups {
            let (name, state) = (&group.name, state(group.state));
            let line = json!({ "group": name, "state": state, "members": group.members, "partitions": group.partitions });
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    let mut rows = headings(["group", "state", "members", "partitions"]);
    rows.extend(
        groups
            .into_iter()
            .map(|group| vec![group.name, state(group.state).to_owned(), group.members.to_string(), group.partitions.to_string()]),
    );
    Ok(table(out, &rows)?)
}

const fn strategy(strategy: AssignmentStrategy) -> &'static str {
    match strategy {
        AssignmentStrategy::Balanced => "balanced",
        AssignmentStrategy::Range => "range",
    }
}

fn describe(name: &str, group: &DescribeGroupResponse, out: &mut impl Write) -> io::Result<()> {
    let (messages, ms) = lag(group);
    let mut rows = vec![["group", name].map(str::to_owned).to_vec(), vec!["state".to_owned(), state(group.state).to_owned()]];
    if group.state != GroupState::Empty {
        rows.push(vec!["generation".to_owned(), group.generation.to_string()]);
        rows.push(vec!["strategy".to_owned(), strategy(group.strategy).to_owned()]);
    }
    rows.push(vec!["lag".to_owned(), format!("{}, {} s", counted(messages, "message"), show_seconds(ms))]);
    table(out, &rows)?;
    if !group.members.is_empty() {
        writeln!(out)?;
        let mut rows = headings(["member", "client", "address", "partitions", "reads"]);
        rows.extend(group.members.iter().map(|member| member_row(member, &group.partitions)));
        table(out, &rows)?;
    }
    if !group.partitions.is_empty() {
        writeln!(out)?;
        let head = ["topic", "partition", "position", "end", "lag", "lag s", "committed at", "owner", "status"];
        let mut rows = headings(head);
        rows.extend(group.partitions.iter().map(partition_row));
        table(out, &rows)?;
    }
    Ok(())
}

fn member_row(member: &GroupMember, partitions: &[GroupPartition]) -> Vec<String> {
    let owned: Vec<_> = owned(member.member, partitions).map(|found| format!("{}/{}", found.name, found.partition)).collect();
    let patterns = member.patterns.iter().map(|pattern| format!("/{pattern}/"));
    let reads: Vec<_> = member.topics.iter().cloned().chain(patterns).collect();
    let owned = if owned.is_empty() { "-".to_owned() } else { owned.join(",") };
    vec![short(member.member), member.client.clone(), member.address.clone(), owned, reads.join(",")]
}

fn owned(member: MemberId, partitions: &[GroupPartition]) -> impl Iterator<Item = &GroupPartition> {
    partitions.iter().filter(move |partition| partition.owner == member)
}

fn partition_row(partition: &GroupPartition) -> Vec<String> {
    vec![
        partition.name.clone(),
        partition.partition.to_string(),
        partition.committed.map_or_else(|| "-".to_owned(), |offset| offset.to_string()),
        partition.high_watermark.to_string(),
        partition.lag.to_string(),
        show_seconds(partition.lag_ms),
        show_moment(partition.committed_at),
        if partition.owner.is_some() { short(partition.owner) } else { "-".to_owned() },
        partition.status.to_string(),
    ]
}

/// The first digits of a random number tell one from another.
fn short(member: MemberId) -> String {
    member.to_string().chars().take(8).collect()
}

fn description(name: &str, group: &DescribeGroupResponse) -> Value {
    let (lag, lag_ms) = lag(group);
    let members: Vec<_> = group.members.iter().map(|member| member_json(member, &group.partitions)).collect();
    let partitions: Vec<_> = group.partitions.iter().map(partition_json).collect();
    json!({
        "group": name,
        "state": state(group.state),
        "generation": group.generation.0,
        "strategy": strategy(group.strategy),
        "lag": lag,
        "lag_seconds": seconds(lag_ms),
        "members": members,
        "partitions": partitions,
    })
}

fn member_json(member: &GroupMember, partitions: &[GroupPartition]) -> Value {
    let owned: Vec<_> =
        owned(member.member, partitions).map(|found| json!({ "topic": found.name, "partition": found.partition.0 })).collect();
    json!({
        "member": member.member.to_string(),
        "client": member.client,
        "address": member.address,
        "session_timeout_ms": member.session_timeout_ms,
        "processing_timeout_ms": member.processing_timeout_ms,
        "topics": member.topics,
        "patterns": member.patterns,
        "partitions": owned,
    })
}

fn partition_json(partition: &GroupPartition) -> Value {
    json!({
        "topic": partition.name,
        "partition": partition.partition.0,
        "status": status_word(partition.status),
        "owner": partition.owner.is_some().then(|| partition.owner.to_string()),
        "committed": partition.committed.map(|offset| offset.0),
        "committed_at_ns": partition.committed.map(|_offset| partition.committed_at),
        "log_start": partition.log_start.0,
        "high_watermark": partition.high_watermark.0,
        "lag": partition.lag,
        "lag_seconds": seconds(partition.lag_ms),
    })
}

/// A partition's move.
struct Move {
    partition: PartitionId,
    from: Option<Offset>,
    to: Offset,
}

async fn seek(admin: &Admin, args: &SeekArgs, output: Output, out: &mut impl Write) -> Result<()> {
    let SeekArgs { group, topic, .. } = args;
    refuse_active(admin, group).await?;
    let found = admin.describe_topic(topic).await.map_err(crate::topic::or_list)?;
    let mut moves = Vec::new();
    for partition in partitions(&found, &args.partition)? {
        let from = admin.committed(group, topic, partition).await?.map(|committed| committed.offset);
        let (to, held) = args.to.resolve(admin, topic, partition).await?;
        if let Place::Offset(position) = args.to {
            let (log_start, high_watermark) = (held.log_start, held.high_watermark);
            let held = (log_start..=high_watermark).contains(&position);
            ensure!(held, "partition {partition} holds offsets {log_start} up to {high_watermark} (exclusive), and not {position}");
        }
        moves.push(Move { partition, from, to });
    }
    if !args.dry_run {
        let positions: Vec<_> = moves.iter().map(|made| (topic.as_str(), made.partition, made.to)).collect();
        admin.commit_group(group, &positions).await?;
    }
    tell(args, &moves, output, out)
}

/// The broker refuses it too, but only when it is to be done, and not for a dry run.
async fn refuse_active(admin: &Admin, group: &str) -> Result<()> {
    match admin.describe_group(group).await {
        Ok(found) if found.members.is_empty() => Ok(()),
        Ok(_active) => Err(Error::GroupActive { group: group.into() }.into()),
        // It begins with these positions.
        Err(Error::UnknownGroup { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn tell(args: &SeekArgs, moves: &[Move], output: Output, out: &mut impl Write) -> Result<()> {
    if output == Output::Json {
        for Move { partition, from, to } in moves {
            let line = json!({
                "group": args.group, "topic": args.topic, "partition": partition.0,
                "from": from.map(|offset| offset.0), "to": to.0, "dry_run": args.dry_run,
            });
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    let mut rows = headings(["partition", "from", "to"]);
    rows.extend(moves.iter().map(|made| {
        let from = made.from.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
        vec![made.partition.to_string(), from, made.to.to_string()]
    }));
    table(out, &rows)?;
    if args.dry_run {
        writeln!(out, "nothing was changed: this was a dry run")?;
    }
    Ok(())
}
