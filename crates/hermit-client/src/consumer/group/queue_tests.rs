use std::time::Duration;

use hermit_proto::{LeaderEpoch, Offset, PartitionId, TopicId};

use super::*;

const fn key(partition: u32) -> Key {
    (TopicId(1), PartitionId(partition))
}

const fn place(offset: u64) -> Place {
    Place { offset: Offset(offset), epoch: LeaderEpoch(0) }
}

fn push(queue: &mut CommitQueue, partition: u32, offset: u64, tenure: u64) -> oneshot::Receiver<Result<()>> {
    let (ticket, told) = queue.ticket(1);
    let deadline = Instant::now() + Duration::from_secs(1);
    queue.push(key(partition), &"t".into(), place(offset), Tenure(tenure), deadline, Some(ticket));
    told
}

#[test]
fn the_newest_position_is_sent_and_all_who_waited_hear_of_it() {
    let mut queue = CommitQueue::default();
    let mut told = [push(&mut queue, 0, 5, 1), push(&mut queue, 0, 3, 1), push(&mut queue, 1, 9, 1)];
    queue.sort(|_, _| Verdict::Send);
    let sent: Vec<_> = queue.sent().values().map(|pending| pending.place.offset.0).collect();
    assert_eq!(sent, [3, 9], "the newest call, not the highest offset");
    let mut later = push(&mut queue, 0, 7, 1);
    for (key, pending) in queue.take_sent() {
        let outcome = if key.1.0 == 0 { Ok(()) } else { Err(Error::NoGroup) };
        queue.settle(pending, &outcome);
    }
    assert!(told[0].try_recv().unwrap().is_ok() && told[1].try_recv().unwrap().is_ok());
    assert!(matches!(told[2].try_recv(), Ok(Err(Error::NoGroup))));
    assert!(later.try_recv().is_err(), "it is not sent yet");
    assert_eq!(queue.newest(key(0)), Some(place(7)));
}

#[test]
fn what_has_to_be_sent_again_does_not_overtake_what_is_newer() {
    let mut queue = CommitQueue::default();
    let mut first = push(&mut queue, 0, 5, 1);
    queue.sort(|_, _| Verdict::Send);
    let mut second = push(&mut queue, 0, 6, 1);
    for (key, pending) in queue.take_sent() {
        queue.put_back(key, pending);
    }
    assert_eq!(queue.newest(key(0)), Some(place(6)));
    queue.sort(|_, _| Verdict::Send);
    for pending in queue.take_sent().into_values() {
        queue.settle(pending, &Ok(()));
    }
    assert!(first.try_recv().unwrap().is_ok() && second.try_recv().unwrap().is_ok());
    assert!(queue.is_empty());
}

#[test]
fn positions_of_another_tenure_do_not_stand_for_each_other() {
    let mut queue = CommitQueue::default();
    let mut old = push(&mut queue, 0, 5, 1);
    let mut new = push(&mut queue, 0, 2, 2);
    assert!(matches!(old.try_recv(), Ok(Err(Error::Fenced { .. }))));
    queue.fail_all(&Error::Closed { what: "consumer" });
    assert!(matches!(new.try_recv(), Ok(Err(Error::Closed { .. }))));
}
