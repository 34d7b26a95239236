//! Histories in each of which one thing is wrong, and those like them in which nothing is.

use super::*;

const PART: Part = Part { topic: 0, partition: 0 };
/// The topic of `PART` under retention, and compacted.
const NEWEST: Part = Part { topic: 1, partition: 0 };
const KEYED: Part = Part { topic: 2, partition: 0 };

fn m(number: u32) -> Message {
    Message { producer: 1, number }
}

fn sends(number: u32, part: Part) -> Happened {
    Happened::Sends { message: m(number), topic: part.topic }
}

fn stored(number: u32, part: Part, offset: u64) -> Happened {
    Happened::Stored { message: m(number), part, offset }
}

fn reads(part: Part, offset: u64, number: u32) -> Happened {
    Happened::Reads { reader: 0, part, offset, span: 1, message: Some(m(number)) }
}

fn begins(part: Part, offset: u64) -> Happened {
    Happened::Begins { reader: 0, part, offset }
}

/// A partition, its start, and the numbers of the messages that it holds, by offset.
type Holds<'a> = (Part, u64, &'a [(u64, u32)]);

/// Events at the times 10, 20, 30, …, and what is there in the end.
fn history(events: &[Happened], held: &[Holds<'_>]) -> History {
    let topic = |name: &str, keeps| Topic { name: name.to_owned(), keeps };
    let stamped = events.iter().zip(1..).map(|(what, number)| Event { at: number * 10, what: *what });
    let held = held.iter().map(|(part, start, records)| {
        let records: Vec<_> = records.iter().map(|(offset, number)| (*offset, 1, Some(m(*number)))).collect();
        let end = records.last().map_or(*start, |(offset, ..)| offset + 1);
        (*part, Held { start: *start, end, records })
    });
    History {
        topics: vec![topic("all", Keeps::All), topic("newest", Keeps::Newest), topic("keyed", Keeps::Keys(2))],
        events: stamped.collect(),
        held: held.collect(),
        groups: vec![Group { name: "group".to_owned(), readers: vec![0], parts: Vec::new() }],
        readers: vec!["reader".to_owned()],
        problems: Vec::new(),
    }
}

fn assert_good(history: &History) {
    let (_, violations) = history.check();
    assert!(violations.is_empty(), "{violations}");
}

/// Just so many violations, all of one kind.
fn assert_only(history: &History, kind: Kind, count: u64) {
    let (_, violations) = history.check();
    assert_eq!(violations.count(kind), count, "{violations}");
    let kinds = violations.to_string().lines().filter(|line| !line.starts_with(' ')).count();
    assert_eq!(kinds, 1, "{violations}");
}

#[test]
fn a_history_in_which_all_is_well_passes_and_adds_up() {
    let events = [
        sends(0, PART),
        stored(0, PART, 0),
        sends(1, PART),
        Happened::Befell(Deed::Killed),
        Happened::Unanswered { message: m(1) },
        sends(2, PART),
        Happened::Refused { message: m(2) },
        begins(PART, 0),
        reads(PART, 0, 0),
        reads(PART, 1, 1),
    ];
    let history = history(&events, &[(PART, 0, &[(0, 0), (1, 1)])]);
    assert_good(&history);
    let totals = history.check().0;
    assert_eq!((totals.sent, totals.stored, totals.refused, totals.unanswered, totals.unanswered_held), (3, 1, 1, 1, 1));
    assert_eq!((totals.reads, totals.held, totals.deeds[&Deed::Killed]), (2, 2, 1));
}

#[test]
fn a_stored_message_that_is_gone_is_lost_and_one_without_an_answer_may_be() {
    let events = [sends(0, PART), stored(0, PART, 0), sends(1, PART), stored(1, PART, 1), sends(2, PART)];
    assert_good(&history(&events, &[(PART, 0, &[(0, 0), (1, 1)])]));
    // Where the end is below what was answered, that is said too.
    let gone = history(&events, &[(PART, 0, &[(0, 0)])]);
    let (_, violations) = gone.check();
    assert_eq!((violations.count(Kind::Lost), violations.count(Kind::EndFell)), (1, 1), "{violations}");
    assert!(violations.to_string().contains("message 1.1, all/0 (topic 0) offset 1"), "{violations}");
}

#[test]
fn retention_takes_what_lies_below_the_start_and_nothing_else() {
    let events =
        [sends(0, NEWEST), stored(0, NEWEST, 0), sends(1, NEWEST), stored(1, NEWEST, 1), sends(2, NEWEST), stored(2, NEWEST, 2)];
    assert_good(&history(&events, &[(NEWEST, 1, &[(1, 1), (2, 2)])]));
    assert_only(&history(&events, &[(NEWEST, 1, &[(2, 2)])]), Kind::Lost, 1);
}

#[test]
fn compaction_takes_what_a_later_record_of_the_key_supersedes_and_nothing_else() {
    // Two keys: 0 and 2 are of one, 1 and 3 of the other.
    let events: Vec<_> = (0..4).flat_map(|n| [sends(n, KEYED), stored(n, KEYED, u64::from(n))]).collect();
    assert_good(&history(&events, &[(KEYED, 0, &[(2, 2), (3, 3)])]));
    assert_only(&history(&events, &[(KEYED, 0, &[(1, 1), (3, 3)])]), Kind::Lost, 2);
}

#[test]
fn what_a_deleted_topic_held_is_not_missed() {
    let events = [sends(0, PART), stored(0, PART, 0), Happened::Deletes { topic: 0 }];
    assert_good(&history(&events, &[]));
    assert_only(&history(&events[..2], &[]), Kind::Lost, 1);
}

#[test]
fn a_message_at_two_offsets_is_doubled() {
    let events = [sends(0, PART), stored(0, PART, 0)];
    assert_only(&history(&events, &[(PART, 0, &[(0, 0), (1, 0)])]), Kind::Doubled, 1);
}

#[test]
fn a_message_behind_a_later_one_of_its_producer_is_out_of_order() {
    let events = [sends(0, PART), sends(1, PART)];
    assert_only(&history(&events, &[(PART, 0, &[(0, 1), (1, 0)])]), Kind::Reordered, 1);
}

#[test]
fn what_nobody_sent_there_is_a_phantom_in_the_log_and_for_a_reader() {
    let stranger = history(&[sends(0, PART), sends(1, NEWEST)], &[(PART, 0, &[(0, 0), (1, 1), (2, 9)])]);
    assert_only(&stranger, Kind::Phantom, 2);
    let mut torn = history(&[sends(0, PART)], &[(PART, 0, &[(0, 0)])]);
    torn.held.get_mut(&PART).unwrap().records[0].2 = None;
    assert_only(&torn, Kind::Phantom, 1);
    let unknown = Happened::Reads { reader: 0, part: PART, offset: 0, span: 1, message: None };
    assert_only(&history(&[unknown], &[(PART, 0, &[(0, 0)])]), Kind::Phantom, 2);
}

#[test]
fn a_refused_message_that_is_there_is_found() {
    let events = [sends(0, PART), Happened::Refused { message: m(0) }];
    assert_only(&history(&events, &[(PART, 0, &[(0, 0)])]), Kind::RefusedStored, 1);
    assert_good(&history(&events, &[(PART, 0, &[])]));
    let read = [sends(0, NEWEST), Happened::Refused { message: m(0) }, reads(NEWEST, 0, 0)];
    assert_only(&history(&read, &[(NEWEST, 1, &[])]), Kind::RefusedStored, 1);
}

#[test]
fn an_offset_that_holds_one_message_and_then_another_is_found() {
    let events = [sends(0, NEWEST), sends(1, NEWEST), reads(NEWEST, 0, 0), reads(NEWEST, 1, 1), begins(NEWEST, 0)];
    let held: &[Holds<'_>] = &[(NEWEST, 2, &[])];
    assert_good(&history(&[&events[..], &[reads(NEWEST, 0, 0)]].concat(), held));
    assert_only(&history(&[&events[..], &[reads(NEWEST, 0, 1)]].concat(), held), Kind::OffsetChanged, 1);
    // An answer and the log count as well.
    assert_only(&history(&[&events[..], &[stored(1, NEWEST, 0)]].concat(), held), Kind::OffsetChanged, 1);
}

#[test]
fn a_reader_that_is_shown_an_offset_again_goes_backwards_unless_it_began_anew() {
    let held: &[Holds<'_>] = &[(PART, 0, &[(0, 0), (1, 1)])];
    let events = [sends(0, PART), sends(1, PART), begins(PART, 0), reads(PART, 0, 0), reads(PART, 1, 1)];
    assert_good(&history(&[&events[..], &[begins(PART, 1), reads(PART, 1, 1)]].concat(), held));
    assert_only(&history(&[&events[..], &[reads(PART, 1, 1)]].concat(), held), Kind::Backwards, 1);
}

#[test]
fn a_reader_that_leaves_out_what_is_there_skips() {
    let events = [sends(0, PART), sends(1, PART), begins(PART, 0), reads(PART, 1, 1)];
    assert_only(&history(&events, &[(PART, 0, &[(0, 0), (1, 1)])]), Kind::Skipped, 1);
}

#[test]
fn retention_overtakes_a_reader_only_where_the_log_began_behind_it() {
    let read = [sends(3, NEWEST), begins(NEWEST, 0), reads(NEWEST, 3, 3)];
    let ends = |start| Happened::Ends { part: NEWEST, start, end: 4, begun: 35 };
    let held: &[Holds<'_>] = &[(NEWEST, 3, &[(3, 3)])];
    assert_good(&history(&[&read[..], &[ends(3)]].concat(), held));
    assert_only(&history(&[&read[..], &[ends(2)]].concat(), held), Kind::Skipped, 1);
}

#[test]
fn what_a_reader_was_shown_is_there_in_the_end() {
    let events = [sends(0, PART), sends(1, PART), sends(2, PART), begins(PART, 0), reads(PART, 0, 0), reads(PART, 1, 1)];
    let held: &[Holds<'_>] = &[(PART, 0, &[(0, 0), (1, 1)])];
    assert_good(&history(&events, held));
    let (_, violations) = history(&events, &[(PART, 0, &[(0, 0)])]).check();
    assert_eq!((violations.count(Kind::TakenBack), violations.count(Kind::EndFell)), (1, 1), "{violations}");
}

#[test]
fn offsets_follow_each_other_where_everything_is_kept() {
    let events = [sends(0, PART), sends(1, PART)];
    assert_only(&history(&events, &[(PART, 0, &[(0, 0), (2, 1)])]), Kind::Gap, 1);
    let events = [sends(0, KEYED), sends(1, KEYED)];
    assert_good(&history(&events, &[(KEYED, 0, &[(0, 0), (2, 1)])]));
}

#[test]
fn ends_do_not_go_back() {
    let ends = |start, end, begun| Happened::Ends { part: NEWEST, start, end, begun };
    let held: &[Holds<'_>] = &[(NEWEST, 5, &[])];
    assert_good(&history(&[ends(1, 4, 5), ends(2, 5, 15)], held));
    assert_only(&history(&[ends(1, 4, 5), ends(2, 3, 15)], held), Kind::EndFell, 1);
    assert_only(&history(&[ends(2, 4, 5), ends(1, 5, 15)], held), Kind::EndFell, 1);
    // Asked before the other answer came: the two may have crossed.
    assert_good(&history(&[ends(2, 4, 5), ends(1, 3, 9)], held));
    assert_only(&history(&[ends(1, 9, 5)], held), Kind::EndFell, 1);
    // An answer says as much.
    assert_only(&history(&[sends(0, NEWEST), stored(0, NEWEST, 4), ends(1, 4, 25)], held), Kind::EndFell, 1);
}

fn commits(offset: u64) -> Happened {
    Happened::Commits { group: 0, part: PART, offset }
}

fn committed(offset: u64, begun: u64) -> Happened {
    Happened::Committed { group: 0, part: PART, offset, begun }
}

fn fetched(offset: Option<u64>, begun: u64) -> Happened {
    Happened::Fetched { group: 0, part: PART, offset, begun }
}

/// The partition holds the messages 0 to 9, and this happened.
fn of_ten(events: &[Happened]) -> History {
    let sent: Vec<_> = (0..10).map(|number| sends(number, PART)).collect();
    let records: Vec<_> = (0..10).map(|number| (u64::from(number), number)).collect();
    let mut history = history(&sent, &[(PART, 0, &records)]);
    history.events.extend(events.iter().zip(1..).map(|(what, number)| Event { at: number * 10 + 1000, what: *what }));
    history
}

#[test]
fn a_committed_position_does_not_go_back() {
    let first = [commits(5), committed(5, 1010)];
    assert_good(&of_ten(&[&first[..], &[fetched(Some(5), 1025)]].concat()));
    assert_only(&of_ten(&[&first[..], &[commits(4), fetched(Some(4), 1035)]].concat()), Kind::CommitLost, 1);
    assert_only(&of_ten(&[&first[..], &[fetched(None, 1025)]].concat()), Kind::CommitLost, 1);
    // Asked before the answer.
    assert_good(&of_ten(&[&first[..], &[fetched(None, 1015)]].concat()));
    // A commit of somebody who was fenced must be refused.
    assert_only(&of_ten(&[&first[..], &[commits(4), committed(4, 1030)]].concat()), Kind::CommitLost, 1);
}

#[test]
fn a_committed_position_that_nobody_committed_is_found() {
    assert_good(&of_ten(&[commits(5), fetched(Some(5), 1015)]));
    assert_only(&of_ten(&[commits(5), fetched(Some(6), 1015)]), Kind::CommitInvented, 1);
}

#[test]
fn a_group_goes_on_where_it_committed() {
    let resumes = |offset, begun| Happened::Resumes { group: 0, part: PART, offset, begun };
    let first = [commits(5), committed(5, 1010), commits(7)];
    for good in [5, 7] {
        assert_good(&of_ten(&[&first[..], &[resumes(good, 1035)]].concat()));
    }
    assert_only(&of_ten(&[&first[..], &[resumes(4, 1035)]].concat()), Kind::CommittedReadAgain, 1);
    assert_only(&of_ten(&[&first[..], &[resumes(8, 1035)]].concat()), Kind::Skipped, 1);
}

#[test]
fn a_group_that_came_to_the_end_has_read_everything() {
    let mut history = of_ten(&(0..10).map(|number| reads(PART, u64::from(number), number)).collect::<Vec<_>>());
    history.groups[0].parts.push(PART);
    assert_good(&history);
    history.events.pop();
    assert_only(&history, Kind::NeverRead, 1);
}

#[test]
fn topics_stay_until_they_are_deleted_and_then_they_are_gone() {
    let (created, deletes, deleted) =
        (Happened::Created { topic: 0 }, Happened::Deletes { topic: 0 }, Happened::Deleted { topic: 0 });
    let listed = |there, begun| Happened::Listed { topic: 0, there, begun };
    let held: &[Holds<'_>] = &[(PART, 0, &[])];
    assert_good(&history(&[created, listed(true, 15)], held));
    assert_good(&history(&[created, deletes, listed(true, 25), listed(false, 25)], &[]));
    assert_good(&history(&[created, deletes, deleted, listed(false, 35)], &[]));
    assert_only(&history(&[created, listed(false, 15)], held), Kind::TopicLost, 1);
    assert_only(&history(&[created], &[]), Kind::TopicLost, 1);
    assert_only(&history(&[created, deletes, deleted, listed(true, 35)], &[]), Kind::TopicBack, 1);
    assert_only(&history(&[created, deletes, deleted], held), Kind::TopicBack, 1);
}

#[test]
fn what_a_client_should_not_meet_counts() {
    let mut met = history(&[], &[]);
    met.problems.push("an answer too many".to_owned());
    assert_only(&met, Kind::Problem, 1);
}
