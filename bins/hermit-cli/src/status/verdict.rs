//! What needs acting on, and what should be known.

use hermit_client::GroupState;

use crate::observe::{Hidden, Sample, lag};
use crate::quantity::approximate_bytes;
use crate::text::counted;
use crate::time::show_seconds;

/// Unhealthy partitions that are named.
const NAMED: usize = 3;

/// Something found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// For programs: never another word for the same.
    pub(super) kind: &'static str,
    pub(super) message: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// What needs acting on.
    pub(super) problems: Vec<Finding>,
    /// What should be known.
    pub(super) warnings: Vec<Finding>,
}

/// Judges a sample. `max_lag_ms` makes a problem of groups that are further behind.
pub(super) fn judge(sample: &Sample, max_lag_ms: Option<u64>) -> Verdict {
    let mut verdict = Verdict::default();
    partitions(sample, &mut verdict);
    disk(sample, &mut verdict);
    load(sample, &mut verdict);
    groups(sample, max_lag_ms, &mut verdict);
    not_seen(sample, max_lag_ms, &mut verdict);
    verdict
}

fn partitions(sample: &Sample, verdict: &mut Verdict) {
    let figures = sample.figures();
    let mut problem = |kind, message| verdict.problems.push(Finding { kind, message });
    let ill: Vec<_> = sample.unhealthy().collect();
    let named: Vec<_> = ill.iter().take(NAMED).map(|(topic, ill)| format!("{topic}/{} ({})", ill.partition, ill.status)).collect();
    if !ill.is_empty() {
        let more = if ill.len() > NAMED { ", …" } else { "" };
        let message = format!(
            "{} not in order: {}{more}; the broker's log says why",
            counted(ill.len() as u64, "partition"),
            named.join(", ")
        );
        problem("unhealthy_partitions", message);
    } else {
        let count = u64::from(figures.read_only_partitions) + u64::from(figures.down_partitions);
        if count > 0 {
            problem("unhealthy_partitions", format!("{} not in order; the broker's log says why", counted(count, "partition")));
        }
    }
    if figures.damaged_partitions > 0 {
        let count = counted(figures.damaged_partitions.into(), "partition");
        problem(
            "damaged_partitions",
            format!("{count} with damaged ranges: stop the broker and see `hermit-cli log verify --help`"),
        );
    }
    if figures.scrub.read_errors > 0 {
        // It counts since the start. What cannot be read for long is a damaged range by then; the rest could be read later.
        let times = counted(figures.scrub.read_errors, "time");
        let message = format!(
            "the scrub could not read a segment {times} since the start; what stays so counts as damaged: look at the disk"
        );
        verdict.warnings.push(Finding { kind: "scrub_read_errors", message });
    }
}

fn disk(sample: &Sample, verdict: &mut Verdict) {
    let (figures, free) = (sample.figures(), sample.broker.free_bytes);
    if figures.disk_is_low {
        let message =
            format!("the disk is low ({} free): produce requests are refused until there is room", approximate_bytes(free));
        verdict.problems.push(Finding { kind: "disk_low", message });
    } else if figures.disk_low_bytes > 0 && free < figures.disk_low_bytes.saturating_mul(2) {
        let (free, low) = (approximate_bytes(free), approximate_bytes(figures.disk_low_bytes));
        let message = format!("{free} free on the disk: below {low} produce requests are refused");
        verdict.warnings.push(Finding { kind: "disk_soon_low", message });
    }
}

fn load(sample: &Sample, verdict: &mut Verdict) {
    let broker = &sample.broker;
    let mut warn = |kind, message: String| verdict.warnings.push(Finding { kind, message });
    // Nine tenths.
    let is_nearly = |used: u64, all: u64| all > 0 && u128::from(used) * 10 >= u128::from(all) * 9;
    if is_nearly(broker.connections.into(), broker.max_connections.into()) {
        let message = format!("{} of {} connections are taken: max_connections", broker.connections, broker.max_connections);
        warn("connections_nearly_used_up", message);
    }
    if is_nearly(broker.inflight_bytes, broker.max_inflight_bytes) {
        warn(
            "memory_nearly_used_up",
            "the memory budget is nearly used up, and the broker stops reading: max_inflight_bytes".to_owned(),
        );
    }
}

fn groups(sample: &Sample, max_lag_ms: Option<u64>, verdict: &mut Verdict) {
    for (name, group) in &sample.groups {
        let (messages, ms) = lag(group);
        if max_lag_ms.is_some_and(|most| ms > most) {
            let message = format!("group {name} is {} s behind, with {}", show_seconds(ms), counted(messages, "message"));
            verdict.problems.push(Finding { kind: "group_lag", message });
        } else if messages > 0 && group.state == GroupState::Empty {
            let message = format!("group {name} has no members, and {} to read", counted(messages, "message"));
            verdict.warnings.push(Finding { kind: "group_without_members", message });
        }
    }
}

/// What nobody could look at is not well for that.
fn not_seen(sample: &Sample, max_lag_ms: Option<u64>, verdict: &mut Verdict) {
    if let Some((first, more)) = sample.groups_unknown.split_first() {
        let more = if more.is_empty() { String::new() } else { format!("; and {} more", more.len()) };
        let message = format!("the broker could not tell of {first}{more}; the broker's log says why");
        verdict.problems.push(Finding { kind: "groups_unknown", message });
    }
    let Hidden { groups, topics } = sample.hidden;
    if groups == 0 && topics == 0 {
        return;
    }
    let message = format!(
        "this user may not look at {} and {}: see `hermit-cli acl add USER --topic-prefix '' --group-prefix '' --allow administer`",
        counted(groups, "group"),
        counted(topics, "topic")
    );
    // Who asks about lag is not answered.
    let list = if max_lag_ms.is_some() { &mut verdict.problems } else { &mut verdict.warnings };
    list.push(Finding { kind: "not_all_seen", message });
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_client::{
        BrokerFigures, DescribeBrokerResponse, DescribeGroupResponse, LeaderEpoch, Offset, PartitionId, PartitionMetadata,
        ScrubFigures, Status, TopicConfig, TopicId, TopicMetadata,
    };

    fn sample(figures: BrokerFigures) -> Sample {
        let broker = DescribeBrokerResponse {
            max_connections: 100,
            max_inflight_bytes: 1000,
            free_bytes: 5 << 30,
            figures: Some(figures),
            ..DescribeBrokerResponse::default()
        };
        Sample { broker, ..Sample::default() }
    }

    fn kinds(verdict: &Verdict) -> (Vec<&str>, Vec<&str>) {
        let of = |list: &[Finding]| list.iter().map(|found| found.kind).collect();
        (of(&verdict.problems), of(&verdict.warnings))
    }

    #[test]
    fn a_broker_that_is_well_has_nothing_to_tell() {
        assert_eq!(judge(&sample(BrokerFigures::default()), Some(0)), Verdict::default());
        // Nor has an old one that tells no figures.
        assert_eq!(judge(&Sample::default(), None), Verdict::default());
    }

    #[test]
    fn whatever_is_wrong_is_told() {
        let scrub = ScrubFigures { read_errors: 2, ..ScrubFigures::default() };
        let figures =
            BrokerFigures { disk_is_low: true, down_partitions: 1, damaged_partitions: 2, scrub, ..BrokerFigures::default() };
        let mut ill = sample(figures);
        ill.broker.connections = 90;
        ill.broker.inflight_bytes = 900;
        let verdict = judge(&ill, None);
        let problems = vec!["unhealthy_partitions", "damaged_partitions", "disk_low"];
        assert_eq!(kinds(&verdict), (problems, vec!["scrub_read_errors", "connections_nearly_used_up", "memory_nearly_used_up"]));

        let partition = |partition, status| PartitionMetadata {
            partition: PartitionId(partition),
            status,
            leader_epoch: LeaderEpoch(1),
            log_start: Offset(0),
            high_watermark: Offset(0),
            log_bytes: 0,
        };
        let partitions = vec![partition(0, Status::Ok), partition(1, Status::ReadOnly)];
        let mut ill = sample(BrokerFigures { disk_low_bytes: 4 << 30, ..BrokerFigures::default() });
        ill.topics.push(TopicMetadata { name: "t".into(), topic: TopicId(1), config: TopicConfig::default(), partitions });
        let verdict = judge(&ill, None);
        assert_eq!(kinds(&verdict), (vec!["unhealthy_partitions"], vec!["disk_soon_low"]));
        assert!(verdict.problems[0].message.contains("t/1 ("), "{verdict:?}");
    }

    #[test]
    fn what_was_not_seen_is_not_well() {
        let mut partly = sample(BrokerFigures { down_partitions: u32::MAX, read_only_partitions: u32::MAX, ..Default::default() });
        partly.hidden = Hidden { groups: 1, topics: 0 };
        assert_eq!(kinds(&judge(&partly, None)), (vec!["unhealthy_partitions"], vec!["not_all_seen"]));
        partly.groups_unknown = vec!["the groups: no".into(), "group a: no".into()];
        let verdict = judge(&partly, Some(1));
        assert_eq!(kinds(&verdict), (vec!["unhealthy_partitions", "groups_unknown", "not_all_seen"], vec![]));
        assert!(verdict.problems[1].message.contains("the groups: no; and 1 more"), "{verdict:?}");
    }

    #[test]
    fn lag_is_a_problem_where_it_was_said_to_be_one() {
        let mut behind = sample(BrokerFigures::default());
        let partition = hermit_client::GroupPartition {
            topic: TopicId(1),
            name: "t".into(),
            partition: PartitionId(0),
            status: Status::Ok,
            owner: hermit_client::MemberId(0),
            generation: hermit_client::Generation(0),
            committed: Some(Offset(1)),
            committed_at: 1,
            log_start: Offset(0),
            high_watermark: Offset(8),
            lag: 7,
            lag_ms: 1500,
        };
        let group = DescribeGroupResponse { partitions: vec![partition], ..crate::observe::empty_group() };
        behind.groups.push(("g".into(), group));
        assert_eq!(kinds(&judge(&behind, None)), (vec![], vec!["group_without_members"]));
        assert_eq!(kinds(&judge(&behind, Some(1500))), (vec![], vec!["group_without_members"]));
        assert_eq!(kinds(&judge(&behind, Some(1499))), (vec!["group_lag"], vec![]));
    }
}
