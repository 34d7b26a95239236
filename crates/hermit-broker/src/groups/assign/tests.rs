//! Every division is complete, balanced, stable, and moves as little as can be.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::*;

const TOPICS: u128 = 4;

#[derive(Debug, Clone)]
struct Case {
    members: BTreeMap<MemberId, BTreeSet<TopicId>>,
    topics: BTreeMap<TopicId, u32>,
    holders: Target,
    previous: Target,
    seats: Vec<MemberId>,
}

impl Case {
    fn input(&self) -> Input<'_> {
        Input {
            members: self.members.iter().map(|(member, topics)| (*member, topics)).collect(),
            topics: self.topics.clone(),
            holders: &self.holders,
            previous: &self.previous,
            seats: &self.seats,
        }
    }

    fn divide(&self, strategy: AssignmentStrategy) -> Division {
        divide(strategy, &self.input())
    }

    fn all(&self) -> impl Iterator<Item = TopicPartition> + '_ {
        self.topics.iter().flat_map(|(topic, partitions)| (0..*partitions).map(|partition| (*topic, PartitionId(partition))))
    }

    fn asks(&self, member: MemberId, topic: TopicId) -> bool {
        self.members.get(&member).is_some_and(|topics| topics.contains(&topic))
    }

    /// Partitions whose holder would keep them if it could, and does not.
    fn moved(&self, target: &Target) -> usize {
        let input = self.input();
        self.all().filter(|of| input.holder(of).is_some_and(|holder| target.get(of) != Some(&holder))).count()
    }
}

fn topic() -> impl Strategy<Value = TopicId> {
    (1..=TOPICS).prop_map(TopicId)
}

fn member() -> impl Strategy<Value = MemberId> {
    (1..=7u128).prop_map(MemberId)
}

/// Some partitions, and whose they are; some of those are members no more, or ask for the topic no more.
fn held() -> impl Strategy<Value = Target> {
    btree_map((topic(), (0..12u32).prop_map(PartitionId)), member(), 0..40)
}

fn case(equal: bool) -> impl Strategy<Value = Case> {
    let topics = btree_map(topic(), 0..12u32, 1..=TOPICS as usize);
    let members = btree_map(member(), btree_set(topic(), 0..=TOPICS as usize), 1..7);
    (topics, members, held(), held(), vec(member(), 0..7)).prop_map(move |(topics, mut members, mut holders, previous, seats)| {
        if equal {
            members.values_mut().for_each(|asked| *asked = topics.keys().copied().collect());
        }
        holders.retain(|(topic, partition), _| topics.get(topic).is_some_and(|partitions| partition.0 < *partitions));
        let mut seen = BTreeSet::new();
        let seats = seats.into_iter().filter(|seat| seen.insert(*seat)).collect();
        Case { members, topics, holders, previous, seats }
    })
}

fn counts(case: &Case, target: &Target) -> BTreeMap<MemberId, usize> {
    let mut counts: BTreeMap<_, _> = case.members.keys().map(|member| (*member, 0)).collect();
    for owner in target.values() {
        *counts.get_mut(owner).unwrap() += 1;
    }
    counts
}

/// Every partition that somebody asks for is somebody's who asks for it, and no other is anybody's.
fn check_complete(case: &Case, target: &Target) {
    for of in case.all() {
        let wanted = case.members.keys().any(|member| case.asks(*member, of.0));
        match target.get(&of) {
            Some(owner) => assert!(case.asks(*owner, of.0), "{of:?} went to {owner}"),
            None => assert!(!wanted, "{of:?} is nobody's"),
        }
    }
    assert!(target.keys().all(|of| case.topics.get(&of.0).is_some_and(|partitions| of.1.0 < *partitions)));
}

/// The fewest moves with which equal subscribers come to equal shares: what somebody has above its share must go, and the larger shares are
/// best given to those who have most.
fn fewest_moves(case: &Case) -> usize {
    let input = case.input();
    let mut held: BTreeMap<_, usize> = case.members.keys().map(|member| (*member, 0)).collect();
    for holder in case.all().filter_map(|of| input.holder(&of)) {
        *held.get_mut(&holder).unwrap() += 1;
    }
    let (all, members) = (case.all().count(), held.len());
    let (share, over) = (all / members, all % members);
    let mut excess: Vec<_> = held.values().map(|held| held.saturating_sub(share)).collect();
    excess.sort_unstable();
    excess.iter().rev().enumerate().map(|(at, excess)| excess.saturating_sub(usize::from(at < over))).sum()
}

/// Whether some chain of members could take one partition from somebody to one who has two fewer.
fn has_a_way_down(case: &Case, target: &Target) -> bool {
    let counts = counts(case, target);
    counts.keys().any(|start| {
        let mut reached = BTreeSet::from([*start]);
        loop {
            let next: BTreeSet<_> = target
                .iter()
                .filter(|(_, owner)| reached.contains(owner))
                .flat_map(|((topic, _), _)| case.members.keys().filter(|member| case.asks(**member, *topic)))
                .copied()
                .collect();
            let before = reached.len();
            reached.extend(next);
            if reached.len() == before {
                break reached.iter().any(|member| counts[member] + 2 <= counts[start]);
            }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equal_subscribers_get_equal_shares_with_the_fewest_moves(case in case(true)) {
        let target = case.divide(AssignmentStrategy::Balanced).target;
        check_complete(&case, &target);
        let counts = counts(&case, &target);
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        prop_assert!(most - least <= 1, "{counts:?}");
        prop_assert_eq!(case.moved(&target), fewest_moves(&case));
    }

    #[test]
    fn unequal_subscribers_get_shares_that_no_chain_of_moves_makes_more_equal(case in case(false)) {
        let target = case.divide(AssignmentStrategy::Balanced).target;
        check_complete(&case, &target);
        prop_assert!(!has_a_way_down(&case, &target), "{:?}", counts(&case, &target));
    }

    #[test]
    fn a_range_is_contiguous_and_the_same_for_equal_topics(case in case(false)) {
        let target = case.divide(AssignmentStrategy::Range).target;
        check_complete(&case, &target);
        let rows: BTreeMap<_, Vec<_>> = case.topics.iter().map(|(topic, partitions)| {
            (*topic, (0..*partitions).filter_map(|partition| target.get(&(*topic, PartitionId(partition))).copied()).collect())
        }).collect();
        for (topic, row) in &rows {
            let mut blocks = row.clone();
            blocks.dedup();
            let distinct: BTreeSet<_> = blocks.iter().collect();
            prop_assert_eq!(distinct.len(), blocks.len(), "{:?}", row);
            let sizes: Vec<_> = blocks.iter().map(|member| row.iter().filter(|other| *other == member).count()).collect();
            prop_assert!(sizes.iter().max().unwrap_or(&0) - sizes.iter().min().unwrap_or(&0) <= 1);
            for (other, other_row) in &rows {
                let equal = case.topics[topic] == case.topics[other]
                    && case.members.keys().all(|member| case.asks(*member, *topic) == case.asks(*member, *other));
                prop_assert!(!equal || row == other_row);
            }
        }
    }

    /// A division is its own best continuation: nothing moves for nothing.
    #[test]
    fn what_was_divided_stays(case in case(false), range in any::<bool>()) {
        let strategy = if range { AssignmentStrategy::Range } else { AssignmentStrategy::Balanced };
        let Division { target, seats } = case.divide(strategy);
        let again = Case { holders: target.clone(), previous: target.clone(), seats, ..case };
        prop_assert_eq!(again.divide(strategy).target, target);
    }
}

#[test]
fn who_leaves_a_range_has_its_seat_taken_by_who_comes() {
    let topics = BTreeMap::from([(TopicId(1), 12)]);
    let members = |ids: &[u128]| ids.iter().map(|id| (MemberId(*id), BTreeSet::from([TopicId(1)]))).collect();
    let first = Case { members: members(&[1, 2, 3]), topics, holders: Target::new(), previous: Target::new(), seats: Vec::new() };
    let Division { target, seats } = first.divide(AssignmentStrategy::Range);
    let mut holders = target.clone();
    holders.retain(|_, owner| *owner != MemberId(2));
    let second = Case { members: members(&[1, 3, 9]), holders, previous: target, seats, ..first };
    let target = second.divide(AssignmentStrategy::Range).target;
    assert_eq!(second.moved(&target), 0);
    assert_eq!(target[&(TopicId(1), PartitionId(5))], MemberId(9));
}

/// A thousand members, of which one holds all 20 × 1,000 partitions.
fn all_with_one(asks: impl Fn(u128, u128) -> bool) -> Case {
    let topics: BTreeMap<_, _> = (1..=20).map(|topic| (TopicId(topic), 1000)).collect();
    let asked = |member| topics.keys().filter(|topic| asks(member, topic.0)).copied().collect();
    let members = (1..=1000).map(|member| (MemberId(member), asked(member))).collect();
    let mut case = Case { members, topics, holders: Target::new(), previous: Target::new(), seats: Vec::new() };
    case.holders = case.all().map(|of| (of, MemberId(1))).collect();
    case
}

#[test]
fn work_grows_with_the_partitions_where_all_ask_for_the_same() {
    let case = all_with_one(|_, _| true);
    let (target, visits) = balanced::divide_counting(&case.input());
    assert!(counts(&case, &target).values().all(|count| *count == 20));
    assert_eq!(case.moved(&target), 19_980);
    assert!(visits < 10 * 20_000, "{visits}");
}

#[test]
fn work_grows_with_the_partitions_and_classes_where_a_few_ask_otherwise() {
    // The first asks for everything, and each fifth of the others for every fifth topic and the next one.
    let case = all_with_one(|member, topic| member == 1 || topic % 5 == member % 5 || topic % 5 == (member + 1) % 5);
    let (target, visits) = balanced::divide_counting(&case.input());
    check_complete(&case, &target);
    let counts = counts(&case, &target);
    assert!(counts.values().max().unwrap() - counts.values().min().unwrap() <= 1, "{counts:?}");
    assert!(visits < 6 * 5 * 2 * 20_000, "{visits}");
}

#[test]
fn work_stays_bounded_where_a_chain_is_needed_for_most_moves() {
    // Each class asks for two neighbouring topics: what the first holds goes down a row of ten classes.
    let mut case = all_with_one(|member, topic| topic <= 11 && (topic == member % 10 + 1 || topic == member % 10 + 2));
    case.topics.retain(|topic, _| topic.0 <= 11);
    let holder_of = |(topic, partition): TopicPartition| {
        let class = if topic.0 == 1 { 0 } else { topic.0 - 2 };
        MemberId(if topic.0 == 1 { 10 } else { class + 10 + 10 * u128::from(partition.0 % 50) })
    };
    case.holders = case.all().map(|of| (of, holder_of(of))).collect();
    let (target, visits) = balanced::divide_counting(&case.input());
    check_complete(&case, &target);
    let counts = counts(&case, &target);
    assert!(counts.values().max().unwrap() - counts.values().min().unwrap() <= 1, "{counts:?}");
    assert!(visits < 10 * 3 * 2 * 11_000, "{visits}");
}

#[test]
fn work_stays_bounded_where_each_asks_for_topics_of_its_own() {
    let case = all_with_one(|member, topic| member == 1 || ((member * 2_654_435_761) >> (7 + topic)) & 1 == 1);
    let (target, visits) = balanced::divide_counting(&case.input());
    check_complete(&case, &target);
    assert!(visits < 50 * 20_000, "{visits}");
}
