use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const ROOM: u64 = 192;
const LARGEST: u64 = 50;
/// Bytes in a second.
const FAST: u64 = 100;

fn address(last: u8) -> PeerAddress {
    PeerAddress::of(Ipv4Addr::new(10, 0, 0, last).into())
}

/// A sender as the model's world has it.
#[derive(Debug, Clone, Copy)]
struct Sender {
    address: u8,
    size: u64,
    /// Bytes that it brings in a turn; zero: it stalls.
    pace: u64,
    comes_at: u32,
}

#[derive(Debug)]
struct Sending {
    sender: Sender,
    id: UnitId,
    received: u64,
    /// Steps that it took, or that it was cut.
    ended: Option<(u32, bool)>,
}

/// Lets time pass in turns until all are done; answers how each ended, and in which step.
fn run(senders: &[Sender]) -> Vec<(u32, bool)> {
    let mut turns = Turns::new(ROOM, LARGEST, FAST);
    let mut all: Vec<Sending> = Vec::new();
    let mut step = 0u32;
    let mut waiting: Vec<Sender> = senders.to_vec();
    let mut admitted = Vec::new();
    while !waiting.is_empty() || all.iter().any(|one| one.ended.is_none()) {
        let now = TURN * step;
        waiting.retain(|sender| {
            if sender.comes_at <= step {
                let id = turns.ask(address(sender.address), sender.size, now, &mut admitted);
                all.push(Sending { sender: *sender, id, received: 0, ended: None });
            }
            sender.comes_at > step
        });
        for one in all.iter_mut().filter(|one| one.ended.is_none()) {
            if turns.is_admitted(one.id) {
                one.received = one.received.saturating_add(one.sender.pace).min(one.sender.size);
                turns.received(one.id, one.received, now + TURN / 2);
                if one.received == one.sender.size {
                    turns.finish(one.id, now + TURN / 2, &mut admitted);
                    one.ended = Some((step, true));
                }
            }
        }
        assert!(turns.received_bytes() <= ROOM, "{} bytes are held", turns.received_bytes());
        assert!(turns.used <= ROOM && turns.parked <= ROOM - LARGEST);
        step += 1;
        for one in all.iter_mut().filter(|one| one.ended.is_none()) {
            if turns.is_admitted(one.id) && turns.turn_ends(one.id, false, TURN * step, &mut admitted) == Verdict::Cut {
                turns.finish(one.id, TURN * step, &mut admitted);
                one.ended = Some((step, false));
            }
        }
        // Who stalls is cut only while others wait; the last ones would stay until their own deadline.
        if waiting.is_empty() && all.iter().all(|one| one.ended.is_some() || one.sender.pace == 0) {
            for one in all.iter_mut().filter(|one| one.ended.is_none()) {
                turns.finish(one.id, TURN * step, &mut admitted);
                one.ended = Some((step, false));
            }
        }
        assert!(step < 20_000, "nothing moves: {turns:?}");
    }
    assert_eq!((turns.used, turns.parked, turns.units.len()), (0, 0, 0));
    assert!(turns.fresh.is_empty() && turns.tried.is_empty());
    all.iter().map(|one| one.ended.unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// In no mix does everything stand still, the room is never exceeded, and who comes fast gets through.
    #[test]
    fn everybody_comes_to_an_end(
        senders in prop::collection::vec((0u8..4, 1u64..=LARGEST, 0u64..40, 0u32..50), 1..80)
    ) {
        let senders: Vec<_> = senders.into_iter().map(|(address, size, pace, comes_at)| Sender { address, size, pace, comes_at }).collect();
        let mut order = senders.clone();
        order.sort_by_key(|sender| sender.comes_at);
        let ended = run(&order);
        for (sender, (_, done)) in order.iter().zip(&ended) {
            // Ten turns are a second; where a turn begins within a step, it is longer than what comes in it.
            prop_assert!(*done || sender.pace * 10 < 2 * FAST, "{sender:?} came fast, and was cut");
        }
    }
}

fn slow(address: u8) -> Sender {
    Sender { address, size: LARGEST, pace: 0, comes_at: 0 }
}

#[test]
fn a_fast_unit_among_many_slow_ones_waits_for_a_few_turns() {
    // From an address of its own.
    let mut senders = vec![slow(1); 200];
    senders.push(Sender { address: 2, size: LARGEST, pace: LARGEST, comes_at: 1 });
    let (at, done) = *run(&senders).last().unwrap();
    assert!(done && at <= 4, "it was through in step {at}");
    // From the same one, while the others had not all had their first turn: three at a time of 200 have one.
    *senders.last_mut().unwrap() = Sender { address: 1, size: LARGEST, pace: LARGEST, comes_at: 1 };
    let (at, done) = *run(&senders).last().unwrap();
    assert!(done && at <= 120, "it was through in step {at}");
    // And later.
    *senders.last_mut().unwrap() = Sender { address: 1, size: LARGEST, pace: LARGEST, comes_at: 150 };
    let (at, done) = *run(&senders).last().unwrap();
    assert!(done && at <= 155, "it was through in step {at}");
}

#[test]
fn who_is_slow_gets_through_where_nobody_needs_the_room() {
    let senders: Vec<_> = (0..3).map(|address| Sender { address, size: 40, pace: 1, comes_at: 0 }).collect();
    assert!(run(&senders).iter().all(|(_, done)| *done));
}

#[test]
fn a_unit_that_is_larger_than_the_room_has_it_alone() {
    let mut turns = Turns::new(100, 100, FAST);
    let mut admitted = Vec::new();
    let first = turns.ask(address(1), 300, Duration::ZERO, &mut admitted);
    let second = turns.ask(address(2), 1, Duration::ZERO, &mut admitted);
    assert_eq!(admitted, [first]);
    turns.finish(first, Duration::ZERO, &mut admitted);
    assert_eq!(admitted, [first, second]);
}
