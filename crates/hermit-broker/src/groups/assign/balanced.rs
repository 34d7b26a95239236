//! Equal shares, moving as few partitions as possible.
//!
//! What somebody holds stays; what nobody holds goes to whoever has least; then partitions move from who has most to who has two fewer, or more,
//! directly where that is possible and else along a chain of members. When no such chain is left the shares are as equal as the subscriptions allow (Harvey, Ladner,
//! Lovász, Tamir: "Semi-matchings for bipartite graphs and load balancing", 2006). Among members with equal subscriptions a member
//! loses only what lies above its share, so that no division moves less.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use hermit_proto::{MemberId, PartitionId, TopicId};

use super::{Input, Target};

pub(super) fn divide(input: &Input<'_>) -> Target {
    let mut board = Board::new(input);
    let free = board.keep();
    board.fill(free);
    board.level();
    board.target()
}

/// A partition on the board: whose it is now, and where it was on its way to.
#[derive(Debug, Clone, Copy)]
struct Piece {
    partition: PartitionId,
    holder: Option<MemberId>,
    destination: Option<MemberId>,
}

#[derive(Debug, Default)]
struct Share {
    pieces: BTreeMap<TopicId, Vec<Piece>>,
    count: usize,
}

#[derive(Debug)]
struct Board<'a> {
    input: &'a Input<'a>,
    subscribers: BTreeMap<TopicId, Vec<MemberId>>,
    shares: BTreeMap<MemberId, Share>,
}

/// A step of a partition: from whom, of which topic, to whom.
type Step = (MemberId, TopicId, MemberId);

impl<'a> Board<'a> {
    fn new(input: &'a Input<'a>) -> Self {
        let subscribers = input.topics.keys().map(|topic| (*topic, input.subscribers(*topic))).collect();
        let shares = input.members.keys().map(|member| (*member, Share::default())).collect();
        Self { input, subscribers, shares }
    }

    /// Leaves everything where it is; gives back what nobody has.
    fn keep(&mut self) -> BTreeMap<TopicId, Vec<Piece>> {
        let mut free = BTreeMap::<_, Vec<_>>::new();
        for (topic, partitions) in &self.input.topics {
            for partition in (0..*partitions).map(PartitionId) {
                let (holder, destination) = (self.input.holder(&(*topic, partition)), self.input.destination(&(*topic, partition)));
                let piece = Piece { partition, holder, destination };
                match holder {
                    Some(holder) => self.put(holder, *topic, piece),
                    None => free.entry(*topic).or_default().push(piece),
                }
            }
        }
        free
    }

    fn put(&mut self, member: MemberId, topic: TopicId, piece: Piece) {
        if let Some(share) = self.shares.get_mut(&member) {
            share.pieces.entry(topic).or_default().push(piece);
            share.count += 1;
        }
    }

    fn count(&self, member: MemberId) -> usize {
        self.shares.get(&member).map_or(0, |share| share.count)
    }

    /// Gives what is free to whoever has least, topics with the fewest subscribers first.
    fn fill(&mut self, free: BTreeMap<TopicId, Vec<Piece>>) {
        let mut free: Vec<_> = free.into_iter().collect();
        free.sort_by_key(|(topic, _)| self.subscribers.get(topic).map_or(0, Vec::len));
        for (topic, pieces) in free {
            let subscribers = self.subscribers.get(&topic).cloned().unwrap_or_default();
            let mut by_count: BinaryHeap<_> = subscribers.into_iter().map(|member| Reverse((self.count(member), member))).collect();
            for piece in pieces {
                let Some(least) = self.pop_least(&mut by_count) else { break };
                let count = self.count(least);
                let destination = piece.destination.filter(|destination| self.count(*destination) == count);
                let member = destination.unwrap_or(least);
                self.put(member, topic, piece);
                by_count.push(Reverse((self.count(least), least)));
            }
        }
    }

    /// Takes out who has least. Entries whose member has got more since are put back as they are now.
    fn pop_least(&self, by_count: &mut BinaryHeap<Reverse<(usize, MemberId)>>) -> Option<MemberId> {
        loop {
            let Reverse((count, member)) = by_count.pop()?;
            let now = self.count(member);
            if now == count {
                return Some(member);
            }
            by_count.push(Reverse((now, member)));
        }
    }

    fn level(&mut self) {
        loop {
            let mut moved = false;
            let mut settled = BTreeSet::new();
            while let Some(heaviest) = self.heaviest(&settled) {
                match self.way_down(heaviest) {
                    Ok(way) => {
                        way.iter().for_each(|step| self.shift(*step));
                        moved = true;
                    }
                    // Whoever was reached has no way down either: it reaches nobody else, and has no more than the heaviest.
                    Err(reached) => settled.extend(reached),
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Who has most, of those that are not settled; nobody where no other has two fewer.
    fn heaviest(&self, settled: &BTreeSet<MemberId>) -> Option<MemberId> {
        let least = self.shares.values().map(|share| share.count).min()?;
        let open = self.shares.iter().filter(|(member, _)| !settled.contains(member));
        let (member, share) = open.max_by_key(|(member, share)| (share.count, Reverse(**member)))?;
        (share.count >= least + 2).then_some(*member)
    }

    /// The shortest chain from a member to one that has at least two fewer, last step first; or everybody that can be reached.
    fn way_down(&self, start: MemberId) -> Result<Vec<Step>, BTreeSet<MemberId>> {
        let mut reached = BTreeSet::from([start]);
        let mut seen = BTreeSet::new();
        let mut came_by = BTreeMap::<MemberId, Step>::new();
        let mut front = vec![start];
        while !front.is_empty() {
            let mut next = Vec::new();
            for member in front {
                for topic in self.topics_held(member) {
                    // Nobody is left to be found: a thousand members times a hundred topics are not looked through for each move.
                    if reached.len() == self.shares.len() {
                        break;
                    }
                    if !seen.insert(topic) {
                        continue;
                    }
                    for other in self.subscribers.get(&topic).into_iter().flatten().filter(|other| reached.insert(**other)) {
                        came_by.insert(*other, (member, topic, *other));
                        next.push(*other);
                    }
                }
            }
            let lightest = next.iter().copied().min_by_key(|member| (self.count(*member), *member));
            if let Some(end) = lightest.filter(|end| self.count(*end) + 2 <= self.count(start)) {
                return Ok(way_back(end, &came_by));
            }
            front = next;
        }
        Err(reached)
    }

    /// The topics of which a member holds partitions, those of which it holds most first, so that no topic moves as a whole.
    fn topics_held(&self, member: MemberId) -> Vec<TopicId> {
        let Some(share) = self.shares.get(&member) else { return Vec::new() };
        let mut topics: Vec<_> = share.pieces.iter().filter(|(_, pieces)| !pieces.is_empty()).collect();
        topics.sort_by_key(|(_, pieces)| Reverse(pieces.len()));
        topics.into_iter().map(|(topic, _)| *topic).collect()
    }

    /// Moves the partition of a topic whose move costs least.
    fn shift(&mut self, (from, topic, to): Step) {
        let Some(share) = self.shares.get_mut(&from) else { return };
        let Some(pieces) = share.pieces.get_mut(&topic) else { return };
        let cost = |piece: &Piece| {
            if piece.holder == Some(to) {
                0
            } else if piece.holder != Some(from) {
                1
            } else if piece.destination == Some(to) {
                2
            } else if piece.destination != Some(from) {
                3
            } else {
                4
            }
        };
        let cheapest = pieces.iter().enumerate().min_by_key(|(_, piece)| (cost(piece), Reverse(piece.partition)));
        let Some(at) = cheapest.map(|(at, _)| at) else { return };
        let piece = pieces.remove(at);
        share.count -= 1;
        self.put(to, topic, piece);
    }

    fn target(self) -> Target {
        let shares = self.shares.into_iter();
        shares
            .flat_map(|(member, share)| {
                share
                    .pieces
                    .into_iter()
                    .flat_map(move |(topic, pieces)| pieces.into_iter().map(move |piece| ((topic, piece.partition), member)))
            })
            .collect()
    }
}

fn way_back(end: MemberId, came_by: &BTreeMap<MemberId, Step>) -> Vec<Step> {
    let mut way = Vec::new();
    let mut at = end;
    while let Some(step) = came_by.get(&at) {
        way.push(*step);
        at = step.0;
    }
    way
}
