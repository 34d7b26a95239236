//! The view on a screen of any size.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::app::App;
use super::rates::{GroupRow, TopicRow, View};
use crate::quantity::approximate_bytes;
use crate::time::{show_seconds, show_span};

/// Rows beside those of topics and groups: three of the broker, two headings, and a blank before each.
pub(super) const FIXED_ROWS: u16 = 7;

/// Columns that a name gets before others are left out.
const MIN_NAME: usize = 12;

const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);
const TITLE: Style = Style::new().add_modifier(Modifier::REVERSED);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

const HELP: [&str; 13] = [
    "q           ends it",
    "space, p    pauses, and goes on",
    "s           orders topics by in, out, size, name in turn",
    "i o b n     orders by in, out, bytes, name",
    "r           turns the order round",
    "/, f        shows what has this in its name; Enter keeps it, Esc drops it",
    "up, down    scrolls topics; also page up and down, home, j, k",
    "?, h        this help; any key ends it",
    "",
    "in: records stored per second, and by how much the log grows",
    "out: records that groups commit per second; above, what all consumers are given",
    "lag: records between what a group has committed and the end; lag s: the age of the next one",
    "!: partitions that are read-only or could not be opened",
];

/// A column beside the name: its heading, its width, and how soon it is left out where there is no room (the largest first).
type Column<T> = (&'static str, usize, u8, fn(&T) -> String);

const TOPIC_COLUMNS: [Column<TopicRow>; 7] = [
    ("!", 3, 1, |topic| if topic.unhealthy == 0 { String::new() } else { topic.unhealthy.to_string() }),
    ("parts", 5, 6, |topic| topic.partitions.to_string()),
    ("in/s", 8, 0, |topic| count(topic.records_in)),
    ("in B/s", 10, 4, |topic| approximate_bytes(topic.bytes_in)),
    ("out/s", 8, 2, |topic| count(topic.records_out)),
    ("records", 8, 5, |topic| count(topic.records)),
    ("size", 10, 3, |topic| approximate_bytes(topic.log_bytes)),
];

const GROUP_COLUMNS: [Column<GroupRow>; 5] = [
    ("state", 11, 3, |group| group.state.to_owned()),
    ("members", 7, 4, |group| group.members.to_string()),
    ("lag", 8, 0, |group| count(group.lag)),
    ("lag s", 10, 1, |group| show_seconds(group.lag_ms)),
    ("out/s", 8, 2, |group| count(group.records_out)),
];

/// Draws all of it; what has no room is left out.
pub(super) fn render(app: &App, area: Rect, buffer: &mut Buffer) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    let mut page = Page { area, next: area.y, buffer };
    page.line(&title(app), TITLE);
    if app.help {
        HELP.iter().for_each(|line| page.line(line, Style::new()));
        return;
    }
    let footer = u16::from(!app.plain && area.height > 3);
    page.area.height -= footer;
    for line in [totals(&app.view), usage(&app.view)] {
        page.line(&line, Style::new());
    }
    tables(app, &mut page);
    if footer > 0 {
        page.area.height += footer;
        page.next = area.bottom() - 1;
        match &app.error {
            Some(error) => page.line(error, BAD),
            None => page.line(&keys(app), Style::new()),
        }
    }
}

/// The topics, and the groups in at most half of the room.
fn tables(app: &App, page: &mut Page<'_>) {
    let topics = app.topics();
    let groups: Vec<_> = app.view.groups.iter().filter(|group| app.is_meant(&group.name)).collect();
    let room = usize::from(page.room()).saturating_sub(usize::from(FIXED_ROWS - 3));
    let for_groups = groups.len().min(room.saturating_sub(topics.len()).max(room / 2));
    let for_topics = room - for_groups;
    let scrolled: Vec<_> = topics.into_iter().skip(app.scroll).take(for_topics).collect();
    page.blank();
    page.table("topic", &TOPIC_COLUMNS, &scrolled, |topic| (&topic.name, topic.unhealthy > 0));
    if groups.is_empty() {
        return;
    }
    page.blank();
    let shown: Vec<_> = groups.into_iter().take(for_groups).collect();
    page.table("group", &GROUP_COLUMNS, &shown, |group| (&group.name, false));
}

fn title(app: &App) -> String {
    let view = &app.view;
    let listen = view.listen.as_ref().map_or_else(String::new, |listen| format!(" at {listen}"));
    let up = view.uptime.map_or_else(String::new, |up| format!(", up {}", show_span(up)));
    let paused = if app.paused { "  PAUSED" } else { "" };
    format!("{}{listen}{up}{paused}", view.broker)
}

fn totals(view: &View) -> String {
    let ill = match view.unhealthy_partitions {
        0 => String::new(),
        ill => format!("  {ill} PARTITIONS NOT IN ORDER"),
    };
    let rates = view.totals.map_or_else(String::new, |totals| {
        format!(
            "in {}/s {}/s  out {}/s {}/s  ",
            count(totals.records_in),
            approximate_bytes(totals.bytes_in),
            count(totals.records_out),
            approximate_bytes(totals.bytes_out),
        )
    });
    format!("{rates}logs {}{ill}", approximate_bytes(view.log_bytes))
}

fn usage(view: &View) -> String {
    let disk = match view.disk {
        (_, 0) => format!("{} free", approximate_bytes(view.free_bytes)),
        (used, all) => format!("{} {} free", gauge(used, all), approximate_bytes(view.free_bytes)),
    };
    let (connections, most) = view.connections;
    format!("memory {}  disk {disk}  conns {connections}/{most}", gauge(view.memory.0, view.memory.1))
}

/// `[###.......] 31 %`
fn gauge(used: u64, all: u64) -> String {
    let percent = u64::try_from(u128::from(used) * 100 / u128::from(all.max(1))).unwrap_or(u64::MAX).min(100);
    let filled = usize::try_from(percent / 10).unwrap_or(10);
    format!("[{}{}] {percent} %", "#".repeat(filled), ".".repeat(10 - filled.min(10)))
}

fn keys(app: &App) -> String {
    if app.typing {
        return format!("filter: {}_  (Enter keeps it, Esc drops it)", app.filter);
    }
    let filter = if app.filter.is_empty() { String::new() } else { format!("  filter: {}", app.filter) };
    let order = if app.reversed { "order, reversed" } else { "order" };
    format!("q quit  ? help  space pause  s {order}: {}  / filter{filter}", app.order.name())
}

/// A number for people, in at most six characters.
fn count(number: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")];
    match UNITS.iter().find(|(unit, _)| number >= *unit) {
        // Up to here all digits have room.
        Some((1000, _)) if number < 100_000 => number.to_string(),
        Some((unit, name)) if number >= unit * 100 => format!("{}{name}", number / unit),
        Some((unit, name)) => format!("{}.{}{name}", number / unit, number % unit * 10 / unit),
        None => number.to_string(),
    }
}

/// Lines, one below the other, as far as there is room.
struct Page<'a> {
    area: Rect,
    next: u16,
    buffer: &'a mut Buffer,
}

impl Page<'_> {
    fn room(&self) -> u16 {
        self.area.bottom().saturating_sub(self.next)
    }

    fn blank(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    fn line(&mut self, text: &str, style: Style) {
        if self.room() == 0 {
            return;
        }
        self.buffer.set_stringn(self.area.x, self.next, text, self.area.width.into(), style);
        if style == TITLE {
            self.buffer.set_style(Rect { y: self.next, height: 1, ..self.area }, style);
        }
        self.next += 1;
    }

    fn table<T>(&mut self, what: &str, columns: &[Column<T>], rows: &[&T], name: impl Fn(&T) -> (&String, bool)) {
        let width = usize::from(self.area.width);
        let needed = |columns: &[&Column<T>]| columns.iter().map(|(_, width, ..)| width + 2).sum::<usize>() + MIN_NAME;
        let mut kept: Vec<_> = columns.iter().collect();
        while needed(&kept) > width
            && let Some(least) = (0..kept.len()).max_by_key(|at| kept.get(*at).map(|column| column.2))
        {
            kept.remove(least);
        }
        let for_name = width.saturating_sub(needed(&kept) - MIN_NAME);
        self.row(what, for_name, kept.iter().map(|(heading, width, ..)| ((*heading).to_owned(), *width)), HEADING);
        for row in rows {
            let (name, is_bad) = name(row);
            let style = if is_bad { BAD } else { Style::new() };
            self.row(name, for_name, kept.iter().map(|(_, width, _, show)| (show(row), *width)), style);
        }
    }

    fn row(&mut self, name: &str, for_name: usize, cells: impl Iterator<Item = (String, usize)>, style: Style) {
        if self.room() == 0 {
            return;
        }
        self.buffer.set_stringn(self.area.x, self.next, name, for_name, style);
        let mut x = usize::from(self.area.x) + for_name;
        for (cell, width) in cells {
            let text = format!("  {cell:>width$}");
            if let Ok(x) = u16::try_from(x) {
                self.buffer.set_stringn(x, self.next, &text, width + 2, style);
            }
            x += width + 2;
        }
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short() {
        let shown = [0, 999, 99_999, 100_000, 1_250_000, 250_000_000, u64::MAX].map(count);
        assert_eq!(shown, ["0", "999", "99999", "100k", "1.2M", "250M", "18446744T"]);
        assert_eq!(
            [(0, 0), (31, 100), (5, 5), (9, 5)].map(|(used, all)| gauge(used, all)),
            ["[..........] 0 %", "[###.......] 31 %", "[##########] 100 %", "[##########] 100 %",]
        );
    }
}
