use super::*;

#[test]
fn a_lane_gives_out_one_after_the_other_and_others_go_on() {
    let mut schedule = Schedule::new();
    for (lane, item) in [(Some('a'), 1), (Some('a'), 2), (Some('b'), 3), (None, 4), (None, 5)] {
        schedule.push(lane, item);
    }
    let begun: Vec<_> = std::iter::from_fn(|| schedule.next()).collect();
    assert_eq!(begun, [(Some('a'), 1), (Some('b'), 3), (None, 4), (None, 5)]);
    assert_eq!(schedule.len(), 1);
    schedule.done(Some('b'));
    assert_eq!(schedule.next(), None, "the lane of 2 stands still");
    schedule.done(Some('a'));
    assert_eq!(schedule.next(), Some((Some('a'), 2)));
    schedule.done(Some('a'));
    schedule.push(Some('a'), 6);
    assert_eq!(schedule.next(), Some((Some('a'), 6)), "a lane that ran empty begins again");
}

#[test]
fn what_is_withdrawn_is_not_given_out_and_holds_up_nobody() {
    let mut schedule = Schedule::new();
    for (lane, item) in [(Some('a'), 1), (Some('a'), 2), (Some('a'), 13), (Some('b'), 4), (Some('b'), 15), (None, 6), (None, 17)] {
        schedule.push(lane, item);
    }
    assert_eq!(schedule.next(), Some((Some('a'), 1)));
    let mut taken = schedule.withdraw(|item| *item < 10);
    taken.sort_unstable();
    assert_eq!(taken, [2, 4, 6]);
    assert_eq!(schedule.len(), 3);
    let mut begun: Vec<_> = std::iter::from_fn(|| schedule.next()).collect();
    begun.sort_unstable();
    assert_eq!(begun, [(None, 17), (Some('b'), 15)], "13 waits for 1, which is being processed");
    schedule.done(Some('a'));
    assert_eq!(schedule.next(), Some((Some('a'), 13)));
}
