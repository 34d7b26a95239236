//! Equal shares, moving as few partitions as possible.
//!
//! What somebody holds stays; what nobody holds goes to whoever has least; then partitions move from who has most to who has two fewer, or more,
//! directly where that is possible and else along a chain of members. When no such chain is left the shares are as equal as the subscriptions allow (Harvey, Ladner,
//! Lovász, Tamir: "Semi-matchings for bipartite graphs and load balancing", 2006). Among members with equal subscriptions a member
//! loses only what lies above its share, so that no division moves less.
//!
//! A chain is searched for among the classes of members and the kinds of topics (see [`board`]). So a move costs the logarithm of the members where all
//! ask for the same topics, where they do not a look at each kind of topic that a member asks for, and only where a chain is needed one at each class and the
//! kinds that it asks for, at most.

mod board;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use hermit_proto::{MemberId, PartitionId, TopicId};

use super::{Input, Target};
use board::{Board, Class, Kind, Piece};

pub(super) fn divide(input: &Input<'_>) -> Target {
    divide_counting(input).0
}

/// Divides, and tells how many classes and kinds were looked at, and pieces handled, on the way.
pub(super) fn divide_counting(input: &Input<'_>) -> (Target, usize) {
    let mut division = Division { board: Board::new(input), visits: 0 };
    let free = division.keep(input);
    division.fill(free);
    division.level();
    (division.board.target(), division.visits)
}

#[derive(Debug)]
struct Division {
    board: Board,
    visits: usize,
}

/// A step of a partition: from whom, of which kind, to whom.
type Step = (MemberId, Kind, MemberId);

/// Classes and kinds that were come by, in a search or in those of one round that found nothing.
#[derive(Debug, Default)]
struct Seen {
    classes: BTreeSet<Class>,
    kinds: BTreeSet<Kind>,
}

impl Division {
    /// Leaves everything where it is; gives back what nobody has.
    fn keep(&mut self, input: &Input<'_>) -> BTreeMap<TopicId, Vec<Piece>> {
        let mut free = BTreeMap::<_, Vec<_>>::new();
        for (topic, partitions) in &input.topics {
            for partition in (0..*partitions).map(PartitionId) {
                self.visits += 1;
                let (holder, destination) = (input.holder(&(*topic, partition)), input.destination(&(*topic, partition)));
                let piece = Piece { holder, destination, partition };
                match holder {
                    Some(holder) => self.board.put(holder, *topic, piece),
                    None => free.entry(*topic).or_default().push(piece),
                }
            }
        }
        free
    }

    /// Gives what is free to whoever has least, topics with the fewest subscribers first.
    fn fill(&mut self, free: BTreeMap<TopicId, Vec<Piece>>) {
        let free = free.into_iter().filter_map(|(topic, pieces)| Some((self.board.kind(topic)?, topic, pieces)));
        let mut free: Vec<_> = free.collect();
        free.sort_by_key(|(kind, ..)| self.board.subscribers(*kind));
        for (kind, topic, pieces) in free {
            let classes: Vec<_> = self.board.classes(kind).collect();
            let lightest = |board: &Board, class| Some(Reverse((board.lightest(class)?, class)));
            let mut by_count: BinaryHeap<_> = classes.into_iter().filter_map(|class| lightest(&self.board, class)).collect();
            for piece in pieces {
                let Some(((count, least), class)) = self.pop_least(&mut by_count) else { break };
                let destination = piece.destination.filter(|destination| self.board.count(*destination) == count);
                self.board.put(destination.unwrap_or(least), topic, piece);
                by_count.extend(lightest(&self.board, class));
            }
        }
    }

    /// Takes out the class of who has least. Entries of which that one has got more since are put back as they are now.
    fn pop_least(&mut self, by_count: &mut BinaryHeap<Reverse<((usize, MemberId), Class)>>) -> Option<((usize, MemberId), Class)> {
        loop {
            self.visits += 1;
            let Reverse((least, class)) = by_count.pop()?;
            let now = self.board.lightest(class)?;
            if now == least {
                return Some((least, class));
            }
            by_count.push(Reverse((now, class)));
        }
    }

    /// Moves until a round over all members, those with most first, finds nothing to move.
    fn level(&mut self) {
        loop {
            let mut moved = false;
            let mut settled = Seen::default();
            let mut heaviest: BinaryHeap<_> =
                self.board.members().map(|member| (self.board.count(member), Reverse(member))).collect();
            // Every change of a count puts a new entry in: one that is not as it was is not the newest.
            while let Some((count, Reverse(member))) = heaviest.pop() {
                self.visits += 1;
                let is_settled = self.board.class(member).is_none_or(|class| settled.classes.contains(&class));
                if is_settled || self.board.count(member) != count {
                    continue;
                }
                if self.board.least().is_none_or(|least| count < least + 2) {
                    break;
                }
                for (from, kind, to) in self.way_down(member, &mut settled) {
                    self.board.shift(from, kind, to);
                    moved = true;
                    heaviest.extend([from, to].map(|member| (self.board.count(member), Reverse(member))));
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// The shortest chain from a member to one that has at least two fewer, last step first. Where there is none all that was reached is settled: it
    /// has no way down either, for it reaches nobody else, and has no more than the one with most.
    fn way_down(&mut self, start: MemberId, settled: &mut Seen) -> Vec<Step> {
        let most = self.board.count(start);
        self.visits += self.board.kinds_held(start).count();
        let direct = self.board.kinds_held(start).filter_map(|kind| Some((self.board.lightest_asking(kind)?, kind))).min();
        if let Some(((_, end), kind)) = direct.filter(|((count, _), _)| count + 2 <= most) {
            return vec![(start, kind, end)];
        }
        let mut seen = Seen::default();
        // By whom a kind was come by, and as a subscriber to which kind that one was.
        let mut came_by = BTreeMap::<Kind, (MemberId, Option<Kind>)>::new();
        let mut front: Vec<_> = self.board.kinds_held(start).map(|kind| (kind, start, None)).collect();
        while !front.is_empty() {
            let mut classes = Vec::new();
            for (kind, via, before) in front {
                self.visits += 1;
                if settled.kinds.contains(&kind) || !seen.kinds.insert(kind) {
                    continue;
                }
                came_by.insert(kind, (via, before));
                for class in self.board.classes(kind) {
                    // None is left to be come by.
                    if seen.classes.len() + settled.classes.len() == self.board.class_count() {
                        break;
                    }
                    self.visits += 1;
                    if !settled.classes.contains(&class) && seen.classes.insert(class) {
                        classes.push((class, kind));
                    }
                }
            }
            let lightest = classes.iter().filter_map(|(class, kind)| Some((self.board.lightest(*class)?, *kind))).min();
            if let Some(((_, end), kind)) = lightest.filter(|((count, _), _)| count + 2 <= most) {
                return way_back(end, kind, &came_by);
            }
            let next = classes
                .iter()
                .flat_map(|(class, kind)| self.board.kinds_held_in(*class).map(move |(held, via)| (held, via, Some(*kind))));
            front = next.filter(|(kind, ..)| !seen.kinds.contains(kind)).collect();
        }
        settled.classes.append(&mut seen.classes);
        settled.kinds.append(&mut seen.kinds);
        Vec::new()
    }
}

fn way_back(end: MemberId, kind: Kind, came_by: &BTreeMap<Kind, (MemberId, Option<Kind>)>) -> Vec<Step> {
    let mut way = Vec::new();
    let (mut to, mut next) = (end, Some(kind));
    while let Some(kind) = next {
        let Some((via, before)) = came_by.get(&kind) else { break };
        way.push((*via, kind, to));
        (to, next) = (*via, *before);
    }
    way
}
