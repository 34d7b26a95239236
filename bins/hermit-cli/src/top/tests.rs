use hermit_client::{
    BrokerFigures, BrokerSetting, DescribeBrokerResponse, DescribeGroupResponse, Generation, GroupPartition, LeaderEpoch, MemberId,
    Offset, PartitionId, PartitionMetadata, Status, TopicConfig, TopicId, TopicMetadata,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::Order;
use super::rates::Totals;
use super::*;

fn partition(number: u32, end: u64, status: Status) -> PartitionMetadata {
    PartitionMetadata {
        partition: PartitionId(number),
        status,
        leader_epoch: LeaderEpoch(1),
        log_start: Offset(0),
        high_watermark: Offset(end),
        log_bytes: end * 100,
    }
}

fn topic(id: u128, name: &str, partitions: Vec<PartitionMetadata>) -> TopicMetadata {
    TopicMetadata { name: name.into(), topic: TopicId(id), config: TopicConfig::default(), partitions }
}

fn group(name: &str, committed: u64, end: u64) -> (String, DescribeGroupResponse) {
    let partition = GroupPartition {
        topic: TopicId(1),
        name: "orders".into(),
        partition: PartitionId(0),
        status: Status::Ok,
        owner: MemberId(0),
        generation: Generation(0),
        committed: Some(Offset(committed)),
        committed_at: 1,
        log_start: Offset(0),
        high_watermark: Offset(end),
        lag: end - committed,
        lag_ms: 1500,
    };
    (name.into(), DescribeGroupResponse { partitions: vec![partition], ..crate::observe::empty_group() })
}

/// A broker that has stored `stored` records of `orders`, of which `billing` has read half.
fn at(stored: u64) -> Sample {
    let figures = BrokerFigures {
        taken_at: 3_600_000_000_000,
        disk_bytes: 100 << 30,
        appended_records: stored,
        appended_bytes: stored * 100,
        delivered_records: stored / 2,
        delivered_bytes: stored * 50,
        ..BrokerFigures::default()
    };
    let broker = DescribeBrokerResponse {
        broker: "hermitmq 0.1.0".into(),
        connections: 3,
        max_connections: 10_000,
        inflight_bytes: 64 << 20,
        max_inflight_bytes: 256 << 20,
        free_bytes: 75 << 30,
        log_bytes: stored * 100,
        settings: vec![BrokerSetting { name: "listen".into(), value: "\"127.0.0.1:9092\"".into() }],
        figures: Some(figures),
        ..DescribeBrokerResponse::default()
    };
    let topics = vec![
        topic(1, "orders", vec![partition(0, stored, Status::Ok)]),
        topic(2, "paid", vec![partition(0, 7, Status::Ok), partition(1, 0, Status::ReadOnly)]),
    ];
    Sample { broker, topics, groups: vec![group("billing", stored / 2, stored)], ..Sample::default() }
}

fn app() -> App {
    App::new(view(Some(&at(1000)), &at(3000), Duration::from_secs(2)))
}

fn screen(app: &App, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| render::render(app, frame.area(), frame.buffer_mut())).unwrap();
    lines(terminal.backend().buffer()).map(|line| line.trim_end().to_owned()).collect()
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            other => KeyCode::Char(other),
        };
        assert!(app.press(Some(code.into())).is_none(), "{key}");
    }
}

#[test]
fn rates_are_those_between_two_samples() {
    let app = app();
    let orders = &app.view.topics[0];
    assert_eq!((orders.records_in, orders.bytes_in, orders.records_out), (1000, 100_000, 500));
    let totals = Totals { records_in: 1000, bytes_in: 100_000, records_out: 500, bytes_out: 50_000 };
    assert_eq!(app.view.totals, Some(totals));
    assert_eq!(app.view.groups[0].records_out, 500);
    // The first one has none, and neither has the first after a restart of the broker, or after a topic was made anew.
    let first = view(None, &at(3000), Duration::from_secs(2));
    assert_eq!((first.totals, first.topics[0].records_in, first.groups[0].records_out), (Some(Totals::default()), 0, 0));
    let mut restarted = at(3000);
    restarted.broker.instance = 9;
    assert_eq!(view(Some(&at(1000)), &restarted, Duration::from_secs(2)).totals, Some(Totals::default()));
    let mut anew = at(3000);
    anew.topics[0].topic = TopicId(9);
    assert_eq!(view(Some(&at(1000)), &anew, Duration::from_secs(2)).topics[0].records_in, 0);
    // What became less did not come.
    assert_eq!(view(Some(&at(3000)), &at(1000), Duration::ZERO).topics[0].records_in, 0);
}

#[test]
fn a_screen_of_usual_size_has_it_all() {
    let shown = screen(&app(), 80, 24);
    assert_eq!(shown[0], "hermitmq 0.1.0 at 127.0.0.1:9092, up 1h");
    assert_eq!(shown[1], "in 1000/s 97.6 KiB/s  out 500/s 48.8 KiB/s  logs 292.9 KiB");
    assert_eq!(shown[2], "memory [##........] 25 %  disk [##........] 25 % 75.0 GiB free  conns 3/10000");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&shown[4]), ["topic", "!", "parts", "in/s", "in", "B/s", "out/s", "records", "size"]);
    assert_eq!(words(&shown[5]), ["orders", "1", "1000", "97.6", "KiB", "500", "3000", "292.9", "KiB"]);
    assert_eq!(words(&shown[6]), ["paid", "1", "2", "0", "0", "B", "0", "7", "700", "B"]);
    assert!(shown.iter().all(|line| line.chars().count() <= 80));
    let column = |line: &str, word: &str| line.find(word).unwrap() + word.len();
    assert_eq!(column(&shown[4], "records"), column(&shown[5], "3000"), "numbers stand below their headings");
    let group = shown.iter().find(|line| line.starts_with("billing")).unwrap();
    assert_eq!(group.split_whitespace().collect::<Vec<_>>(), ["billing", "empty", "0", "1500", "1.5", "500"]);
    assert!(shown[23].starts_with("q quit  ? help"), "{}", shown[23]);
}

#[test]
fn every_size_has_room_for_something() {
    let mut app = app();
    for help in [false, true] {
        app.help = help;
        for columns in 1..100 {
            for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 40] {
                let shown = screen(&app, columns, rows);
                assert!(!shown[0].is_empty(), "{columns} × {rows}");
            }
        }
    }
    app.help = false;
    // What counts most is there on a narrow one, too.
    let narrow = screen(&app, 30, 12);
    assert!(narrow.iter().any(|line| line.starts_with("orders") && line.ends_with("1000")), "{narrow:?}");
}

#[test]
fn keys_order_filter_pause_and_help() {
    let mut app = app();
    let names = |app: &App| app.topics().iter().map(|topic| topic.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&app), ["orders", "paid"]);
    press(&mut app, "r");
    assert_eq!(names(&app), ["paid", "orders"]);
    press(&mut app, "rsss");
    assert_eq!(app.order, Order::Name);
    press(&mut app, "b");
    assert_eq!(app.order, Order::Size);
    // `q` is a letter there.
    press(&mut app, "/q\u{8}pai");
    assert!(screen(&app, 80, 24)[23].starts_with("filter: pai_"));
    assert_eq!(names(&app), ["paid"]);
    press(&mut app, "\n");
    assert!(screen(&app, 80, 24)[23].ends_with("filter: pai"));
    press(&mut app, "\u{1b}");
    assert_eq!(names(&app).len(), 2);
    press(&mut app, " ");
    assert!(app.paused && screen(&app, 80, 24)[0].ends_with("PAUSED"));
    press(&mut app, "p?");
    assert!(!app.paused && screen(&app, 80, 24)[1].starts_with("q  "));
    press(&mut app, "x");
    assert!(!app.help);
    assert!(app.press(None).is_none());
    assert!(app.press(Some(KeyCode::Char('q').into())).unwrap().is_ok());
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let ended = app.press(Some(control_c)).unwrap().unwrap_err();
    assert_eq!(ended.downcast_ref::<Interrupted>().unwrap().signal, 2);
}

#[test]
fn scrolling_ends_with_the_topics() {
    let mut app = app();
    app.press(Some(KeyCode::PageDown.into()));
    assert_eq!(app.scroll, 1);
    assert!(screen(&app, 80, 24)[5].starts_with("paid"));
    app.press(Some(KeyCode::Home.into()));
    app.press(Some(KeyCode::Up.into()));
    assert_eq!(app.scroll, 0);
}

#[test]
fn a_broker_that_went_away_leaves_what_was_seen_and_is_told() {
    let mut app = app();
    app.fail("cannot reach 127.0.0.1:9092: connection refused".into());
    let shown = screen(&app, 80, 24);
    assert!(shown[5].starts_with("orders") && shown[23].starts_with("cannot reach"), "{shown:?}");
    app.show(view(None, &at(1), Duration::from_secs(1)));
    assert!(app.error.is_none());
}

#[test]
fn one_view_as_text_has_every_topic() {
    let text = plain(&app().view).unwrap();
    assert!(text.lines().any(|line| line.starts_with("paid")) && text.contains("billing") && !text.contains("q quit"), "{text}");
}

#[test]
fn what_an_older_broker_does_not_tell_is_not_nothing() {
    let mut older = at(3000);
    older.broker.figures = None;
    let view = view(Some(&at(1000)), &older, Duration::from_secs(2));
    let told = view.json();
    for rate in ["records_in_per_second", "bytes_in_per_second", "records_out_per_second", "bytes_out_per_second", "uptime_seconds"]
    {
        assert_eq!(told[rate], serde_json::Value::Null, "{rate}");
    }
    assert_eq!(told["unhealthy_partitions"], 1, "counted by what the topics say");
    assert!(screen(&App::new(view), 80, 24)[1].starts_with("logs 292.9 KiB  1 PARTITIONS"));
}

#[test]
fn no_broker_makes_it_count_beyond_its_numbers() {
    let far = |committed| {
        let mut sample = at(0);
        let (name, group) = group("billing", committed, u64::MAX);
        let partitions = group.partitions.iter().flat_map(|at| {
            let mut other = at.clone();
            other.partition = PartitionId(1);
            [at.clone(), other]
        });
        sample.groups = vec![(name, DescribeGroupResponse { partitions: partitions.collect(), ..group.clone() })];
        sample
    };
    assert_eq!(view(Some(&far(0)), &far(u64::MAX), Duration::from_secs(1)).groups[0].records_out, u64::MAX);
}

#[test]
fn groups_that_cannot_be_told_of_are_missed() {
    let mut partly = at(1);
    partly.groups_unknown.push("the groups: no".into());
    let mut app = App::new(view(None, &partly, Duration::from_secs(1)));
    assert!(screen(&app, 80, 24)[23].contains("the groups: no"));
    assert!(plain(&app.view).unwrap().contains("the groups: no"));
    app.show(view(None, &at(1), Duration::from_secs(1)));
    assert!(app.error.is_none());
}

#[test]
fn one_view_as_text_tells_what_it_has_no_room_for() {
    let mut many = app().view;
    many.topics = vec![many.topics[0].clone(); PLAIN_ROWS];
    let text = plain(&many).unwrap();
    assert!(text.ends_with("and 8 more rows: `--output json` has them all\n"), "{}", text.lines().next_back().unwrap());
}
