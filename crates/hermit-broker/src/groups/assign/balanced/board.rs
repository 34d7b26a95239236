//! The board on which partitions are moved: who has what, kept in order of how much.
//!
//! Members with equal subscriptions are of one *class*, topics with equal subscribers of one *kind*: what is searched grows with the classes and kinds,
//! not with the members and partitions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

use hermit_proto::{MemberId, PartitionId, TopicId};

use super::super::{Input, Target};

pub(super) type Class = usize;
pub(super) type Kind = usize;

/// A partition on the board: whose it is now, and where it was on its way to. In this order the one whose move costs least is found without looking at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    pub(super) holder: Option<MemberId>,
    pub(super) destination: Option<MemberId>,
    pub(super) partition: PartitionId,
}

/// What a member has of one kind.
#[derive(Debug, Default)]
struct Pile {
    pieces: BTreeMap<TopicId, BTreeSet<Piece>>,
    /// The topics by how many pieces there are of each.
    sizes: BTreeSet<(usize, Reverse<TopicId>)>,
}

impl Pile {
    fn change<T>(&mut self, topic: TopicId, change: impl FnOnce(&mut BTreeSet<Piece>) -> T) -> T {
        let pieces = self.pieces.entry(topic).or_default();
        self.sizes.remove(&(pieces.len(), Reverse(topic)));
        let answer = change(pieces);
        if !pieces.is_empty() {
            self.sizes.insert((pieces.len(), Reverse(topic)));
        }
        answer
    }
}

#[derive(Debug)]
struct Share {
    class: Class,
    piles: BTreeMap<Kind, Pile>,
    count: usize,
}

#[derive(Debug, Default)]
pub(super) struct Board {
    shares: BTreeMap<MemberId, Share>,
    kinds: BTreeMap<TopicId, Kind>,
    /// The classes that ask for topics of a kind, and the other way round.
    classes_of: BTreeMap<Kind, BTreeSet<Class>>,
    kinds_of: BTreeMap<Class, BTreeSet<Kind>>,
    /// The members of each class by how much they have.
    by_count: BTreeMap<Class, BTreeSet<(usize, MemberId)>>,
    /// The members that ask for topics of each kind by how much they have.
    asking: BTreeMap<Kind, BTreeSet<(usize, MemberId)>>,
    /// The members of a class that have pieces of a kind.
    having: BTreeMap<(Class, Kind), BTreeSet<MemberId>>,
}

impl Board {
    pub(super) fn new(input: &Input<'_>) -> Self {
        let mut board = Self::default();
        let mut classes = BTreeMap::<Vec<TopicId>, Class>::new();
        for (member, asked) in &input.members {
            let asked: Vec<_> = asked.iter().filter(|topic| input.topics.contains_key(topic)).copied().collect();
            let new = classes.len();
            let class = *classes.entry(asked).or_insert(new);
            board.shares.insert(*member, Share { class, piles: BTreeMap::new(), count: 0 });
            board.by_count.entry(class).or_default().insert((0, *member));
        }
        let mut subscribers: BTreeMap<TopicId, BTreeSet<Class>> =
            input.topics.keys().map(|topic| (*topic, BTreeSet::new())).collect();
        for (asked, class) in &classes {
            for topic in asked {
                subscribers.entry(*topic).or_default().insert(*class);
            }
        }
        let mut kinds = BTreeMap::<BTreeSet<Class>, Kind>::new();
        for (topic, asking) in subscribers {
            let new = kinds.len();
            board.kinds.insert(topic, *kinds.entry(asking).or_insert(new));
        }
        for (asking, kind) in kinds {
            for class in &asking {
                board.kinds_of.entry(*class).or_default().insert(kind);
            }
            let members = asking.iter().filter_map(|class| board.by_count.get(class)).flatten().copied();
            board.asking.insert(kind, members.collect());
            board.classes_of.insert(kind, asking);
        }
        board
    }

    pub(super) fn members(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.shares.keys().copied()
    }

    pub(super) fn count(&self, member: MemberId) -> usize {
        self.shares.get(&member).map_or(0, |share| share.count)
    }

    pub(super) fn class(&self, member: MemberId) -> Option<Class> {
        self.shares.get(&member).map(|share| share.class)
    }

    pub(super) fn class_count(&self) -> usize {
        self.by_count.len()
    }

    pub(super) fn kind(&self, topic: TopicId) -> Option<Kind> {
        self.kinds.get(&topic).copied()
    }

    /// How many members ask for topics of a kind.
    pub(super) fn subscribers(&self, kind: Kind) -> usize {
        self.classes(kind).filter_map(|class| self.by_count.get(&class)).map(BTreeSet::len).sum()
    }

    pub(super) fn classes(&self, kind: Kind) -> impl Iterator<Item = Class> + '_ {
        self.classes_of.get(&kind).into_iter().flatten().copied()
    }

    /// Who of a class has least, and how much.
    pub(super) fn lightest(&self, class: Class) -> Option<(usize, MemberId)> {
        self.by_count.get(&class)?.first().copied()
    }

    /// Who of those that ask for topics of a kind has least, and how much.
    pub(super) fn lightest_asking(&self, kind: Kind) -> Option<(usize, MemberId)> {
        self.asking.get(&kind)?.first().copied()
    }

    /// How much whoever has least of all has.
    pub(super) fn least(&self) -> Option<usize> {
        self.asking.values().filter_map(|members| members.first()).map(|(count, _)| *count).min()
    }

    /// The kinds of which a member has pieces.
    pub(super) fn kinds_held(&self, member: MemberId) -> impl Iterator<Item = Kind> + '_ {
        self.shares.get(&member).into_iter().flat_map(|share| share.piles.keys().copied())
    }

    /// The kinds of which somebody of a class has pieces, and who that is.
    pub(super) fn kinds_held_in(&self, class: Class) -> impl Iterator<Item = (Kind, MemberId)> + '_ {
        let kinds = self.kinds_of.get(&class).into_iter().flatten();
        kinds.filter_map(move |kind| Some((*kind, *self.having.get(&(class, *kind))?.first()?)))
    }

    pub(super) fn put(&mut self, member: MemberId, topic: TopicId, piece: Piece) {
        let (Some(kind), Some(share)) = (self.kinds.get(&topic), self.shares.get_mut(&member)) else { return };
        share.piles.entry(*kind).or_default().change(topic, |pieces| pieces.insert(piece));
        self.having.entry((share.class, *kind)).or_default().insert(member);
        let (class, before) = (share.class, share.count);
        share.count += 1;
        self.recount(member, class, before, before + 1);
    }

    fn recount(&mut self, member: MemberId, class: Class, before: usize, now: usize) {
        let kinds = self.kinds_of.get(&class).into_iter().flatten();
        for kind in kinds {
            if let Some(members) = self.asking.get_mut(kind) {
                members.remove(&(before, member));
                members.insert((now, member));
            }
        }
        if let Some(members) = self.by_count.get_mut(&class) {
            members.remove(&(before, member));
            members.insert((now, member));
        }
    }

    /// Moves the partition of a kind whose move costs least, of the topic of which the member has most, so that no topic moves as a whole.
    pub(super) fn shift(&mut self, from: MemberId, kind: Kind, to: MemberId) {
        let Some(share) = self.shares.get_mut(&from) else { return };
        let Some(pile) = share.piles.get_mut(&kind) else { return };
        let Some(Reverse(topic)) = pile.sizes.last().map(|(_, topic)| *topic) else { return };
        let Some(piece) = pile.change(topic, |pieces| cheapest(pieces, from, to).filter(|piece| pieces.remove(piece))) else {
            return;
        };
        if pile.sizes.is_empty() {
            share.piles.remove(&kind);
            if let Some(having) = self.having.get_mut(&(share.class, kind)) {
                having.remove(&from);
            }
        }
        let (class, before) = (share.class, share.count);
        share.count -= 1;
        self.recount(from, class, before, before - 1);
        self.put(to, topic, piece);
    }

    pub(super) fn target(self) -> Target {
        let piles = self.shares.into_iter().flat_map(|(member, share)| share.piles.into_values().map(move |pile| (member, pile)));
        let topics = piles.flat_map(|(member, pile)| pile.pieces.into_iter().map(move |(topic, pieces)| (member, topic, pieces)));
        topics.flat_map(|(member, topic, pieces)| pieces.into_iter().map(move |piece| ((topic, piece.partition), member))).collect()
    }
}

/// What goes home, then what somebody else holds anyway, then what was on its way there, then what was leaving anyway.
fn cheapest(pieces: &BTreeSet<Piece>, from: MemberId, to: MemberId) -> Option<Piece> {
    let first = |holder, destination| Piece { holder, destination, partition: PartitionId(0) };
    let last = |holder, destination| Piece { holder, destination, partition: PartitionId(u32::MAX) };
    let (none, all, from, to) = (None, Some(MemberId(u128::MAX)), Some(from), Some(to));
    let between = |low, high| pieces.range((Included(low), Included(high))).next_back().copied();
    between(first(to, none), last(to, all))
        .or_else(|| pieces.range((Unbounded, Excluded(first(from, none)))).next_back().copied())
        .or_else(|| pieces.range((Excluded(last(from, all)), Unbounded)).next_back().copied())
        .or_else(|| between(first(from, to), last(from, to)))
        .or_else(|| pieces.range((Included(first(from, none)), Excluded(first(from, from)))).next_back().copied())
        .or_else(|| pieces.range((Excluded(last(from, from)), Included(last(from, all)))).next_back().copied())
        .or_else(|| pieces.last().copied())
}
