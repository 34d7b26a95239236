use proptest::prelude::*;

use super::*;

fn place(offset: u64) -> Place {
    Place { offset: Offset(offset), epoch: LeaderEpoch(7) }
}

#[test]
fn the_prefix_waits_for_the_first_and_then_leaps() {
    let mut tracker = OffsetTracker::default();
    // A gap in the offsets, and a record that takes several.
    for (offset, next) in [(3, 4), (7, 12), (12, 13)] {
        tracker.hand_out(Offset(offset), place(next));
    }
    tracker.done(Offset(7));
    assert_eq!((tracker.prefix(), tracker.running()), (None, 2));
    tracker.done(Offset(3));
    assert_eq!((tracker.prefix(), tracker.running()), (Some(place(12)), 1));
    for foreign in [3, 5, 7, 13] {
        tracker.done(Offset(foreign));
    }
    assert_eq!((tracker.prefix(), tracker.running()), (Some(place(12)), 1));
    tracker.abandon(Offset(12));
    tracker.hand_out(Offset(13), place(14));
    tracker.done(Offset(13));
    tracker.done(Offset(12));
    assert_eq!((tracker.prefix(), tracker.running()), (Some(place(12)), 0), "an abandoned record stays a gap");
    tracker.reset();
    assert_eq!((tracker.prefix(), tracker.running()), (None, 0));
}

#[derive(Clone, Debug)]
enum Step {
    HandOut { gap: u64, span: u64 },
    Done(prop::sample::Index),
    Abandon(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3u64, 1..3u64).prop_map(|(gap, span)| Step::HandOut { gap, span }),
        3 => any::<prop::sample::Index>().prop_map(Step::Done),
        1 => any::<prop::sample::Index>().prop_map(Step::Abandon),
    ]
}

proptest! {
    /// Against the plainest model: a list of all that was handed out, and whether it is done.
    #[test]
    fn the_prefix_is_that_of_the_model(steps in prop::collection::vec(step(), 0..200)) {
        let mut tracker = OffsetTracker::default();
        let mut model: Vec<(u64, u64, Option<bool>)> = Vec::new();
        let mut end = 0;
        for step in steps {
            match step {
                Step::HandOut { gap, span } => {
                    let offset = end + gap;
                    end = offset + span;
                    tracker.hand_out(Offset(offset), place(end));
                    model.push((offset, end, None));
                }
                Step::Done(index) if !model.is_empty() => {
                    let record = index.get_mut(&mut model);
                    record.2.get_or_insert(true);
                    tracker.done(Offset(record.0));
                }
                Step::Abandon(index) if !model.is_empty() => {
                    let record = index.get_mut(&mut model);
                    record.2.get_or_insert(false);
                    tracker.abandon(Offset(record.0));
                }
                Step::Done(_) | Step::Abandon(_) => {}
            }
            let prefix = model.iter().take_while(|record| record.2 == Some(true)).last().map(|record| place(record.1));
            prop_assert_eq!(tracker.prefix(), prefix);
            prop_assert_eq!(tracker.running(), model.iter().filter(|record| record.2.is_none()).count());
        }
    }
}
