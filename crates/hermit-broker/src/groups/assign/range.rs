//! Topic by topic, neighbouring partitions to the same member: the members sit in a row, the same one for all topics, and each topic is dealt along it. So
//! partitions of the same number, of topics with as many partitions and the same subscribers, come to the same member.
//!
//! Which row moves least is not searched for among all: two are tried, the last one with its empty seats taken by newcomers, and the one
//! in which each member sits where most of its partitions are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hermit_proto::{MemberId, PartitionId};

use super::{Division, Input, Target};

pub(super) fn divide(input: &Input<'_>) -> Division {
    let last = deal(input, last_row(input));
    let held = deal(input, row_by_holdings(input));
    if kept(input, &held.target) > kept(input, &last.target) { held } else { last }
}

/// How many partitions stay where they are.
fn kept(input: &Input<'_>, target: &Target) -> usize {
    target.iter().filter(|(of, member)| input.holder(of) == Some(**member)).count()
}

/// The seats of the last division. Newcomers take the seats of those that are gone, or sit down at the end.
fn last_row(input: &Input<'_>) -> Vec<MemberId> {
    let seated: BTreeSet<_> = input.seats.iter().copied().collect();
    let mut newcomers = input.members.keys().copied().filter(|member| !seated.contains(member));
    let mut row = Vec::with_capacity(input.members.len());
    for seat in input.seats {
        row.extend(if input.members.contains_key(seat) { Some(*seat) } else { newcomers.next() });
    }
    row.extend(newcomers);
    row
}

/// Each member in the seat to which most of what it holds is dealt, as far as nobody holds more there.
fn row_by_holdings(input: &Input<'_>) -> Vec<MemberId> {
    let seats = input.members.len();
    let mut weights = BTreeMap::<(MemberId, usize), u32>::new();
    for (topic, partitions) in &input.topics {
        for partition in (0..*partitions).map(PartitionId) {
            if let Some(holder) = input.holder(&(*topic, partition)) {
                *weights.entry((holder, seat_of(partition.0 as usize, *partitions as usize, seats))).or_default() += 1;
            }
        }
    }
    let mut wishes: Vec<_> = weights.into_iter().map(|((member, seat), weight)| (Reverse(weight), seat, member)).collect();
    wishes.sort_unstable();
    let (mut taken, mut seated) = (BTreeMap::new(), BTreeSet::new());
    for (_, seat, member) in wishes {
        if !seated.contains(&member) && !taken.contains_key(&seat) {
            taken.insert(seat, member);
            seated.insert(member);
        }
    }
    let mut others = input.members.keys().copied().filter(|member| !seated.contains(member));
    (0..seats).filter_map(|seat| taken.get(&seat).copied().or_else(|| others.next())).collect()
}

/// The seat to which a partition is dealt where everybody asks for the topic: the first seats get one more where it does not come out even.
fn seat_of(partition: usize, partitions: usize, seats: usize) -> usize {
    let (share, over) = (partitions / seats.max(1), partitions % seats.max(1));
    let in_larger = over * (share + 1);
    if partition < in_larger { partition / (share + 1) } else { over + (partition - in_larger) / share.max(1) }
}

fn deal(input: &Input<'_>, row: Vec<MemberId>) -> Division {
    let mut target = Target::new();
    for (topic, partitions) in &input.topics {
        let asks = |member: &&MemberId| input.members.get(*member).is_some_and(|topics| topics.contains(topic));
        let subscribers: Vec<_> = row.iter().filter(asks).copied().collect();
        for partition in 0..*partitions {
            let seat = seat_of(partition as usize, *partitions as usize, subscribers.len());
            if let Some(member) = subscribers.get(seat) {
                target.insert((*topic, PartitionId(partition)), *member);
            }
        }
    }
    Division { target, seats: row }
}
