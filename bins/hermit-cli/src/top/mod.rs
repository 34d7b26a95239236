//! `hermit-cli top`: a live view of topics, groups and what the broker uses.

mod app;
mod rates;
mod render;
mod terminal;

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hermit_client::{Admin, Client};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use self::app::App;
use self::rates::{View, view};
use crate::args::{Output, TopArgs};
use crate::failure::Interrupted;
use crate::observe::{Sample, sample};
use crate::signals::Signals;
use crate::text;

/// Columns of `--once`, if the environment does not say.
const PLAIN_COLUMNS: u16 = 100;
/// Rows of `--once`, at most.
const PLAIN_ROWS: usize = 2000;

/// Shows the view until `q`, or prints what it would show.
pub(crate) async fn run(client: &Client, args: &TopArgs, output: Output) -> Result<()> {
    let every = Duration::from_millis(args.interval.0);
    let admin = client.admin();
    match output {
        Output::Json => return print(&admin, every, args.once, |view| Ok(format!("{}\n", view.json()))).await,
        Output::Text if args.once => return print(&admin, every, true, plain).await,
        Output::Text => {}
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        bail!("`top` needs a terminal: `--once` prints one view, `--output json` one a line");
    }
    let mut signals = Signals::new()?;
    // What cannot be had at all is told before the screen changes.
    let first = sample_unless_ended(&admin, &mut signals).await?;
    live(admin, every, first, signals).await
}

/// A broker that does not answer must not keep anybody from ending this.
async fn sample_unless_ended(admin: &Admin, signals: &mut Signals) -> Result<Sample> {
    tokio::select! {
        taken = sample(admin) => Ok(taken?),
        signal = signals.recv() => Err(Interrupted { signal }.into()),
    }
}

/// The first comes after one interval; after a late one there is a whole interval again.
fn ticks(every: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Prints views: the first after one interval, as rates need two samples.
async fn print(admin: &Admin, every: Duration, once: bool, form: impl Fn(&View) -> Result<String>) -> Result<()> {
    let mut signals = Signals::new()?;
    let mut before = (Instant::now(), sample_unless_ended(admin, &mut signals).await?);
    let mut ticks = ticks(every);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            signal = signals.recv() => return Err(Interrupted { signal }.into()),
        }
        let now = (Instant::now(), sample_unless_ended(admin, &mut signals).await?);
        let text = form(&view(Some(&before.1), &now.1, now.0 - before.0))?;
        let mut out = io::stdout();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")?;
        if once {
            return Ok(());
        }
        before = now;
    }
}

/// One view as text, all of it.
fn plain(view: &View) -> Result<String> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(PLAIN_COLUMNS);
    let all = (view.topics.len() + view.groups.len()).saturating_add(usize::from(render::FIXED_ROWS));
    let rows = all.min(PLAIN_ROWS);
    let area = Rect::new(0, 0, columns.clamp(20, 500), u16::try_from(rows)?);
    let mut buffer = Buffer::empty(area);
    let mut app = App::new(view.clone());
    app.plain = true;
    render::render(&app, area, &mut buffer);
    let mut text: String = lines(&buffer).map(|line| format!("{}\n", line.trim_end())).collect();
    let unknown = view.groups_unknown.as_ref().map(|unknown| format!("the broker could not tell of {}\n", text::clean(unknown)));
    text.push_str(unknown.as_deref().unwrap_or_default());
    if all > rows {
        text.push_str(&format!("and {} more rows: `--output json` has them all\n", all - rows));
    }
    Ok(text)
}

/// What stands in a buffer, line by line.
fn lines(buffer: &Buffer) -> impl Iterator<Item = String> {
    let area = buffer.area;
    (area.top()..area.bottom())
        .map(move |y| (area.left()..area.right()).filter_map(|x| buffer.cell((x, y))).map(ratatui::buffer::Cell::symbol).collect())
}

/// Takes samples as long as somebody takes them.
async fn sampling(admin: Admin, every: Duration, sender: mpsc::Sender<hermit_client::Result<(Instant, Sample)>>) {
    let mut ticks = ticks(every);
    loop {
        ticks.tick().await;
        let taken = sample(&admin).await.map(|sample| (Instant::now(), sample));
        if sender.send(taken).await.is_err() {
            return;
        }
    }
}

async fn live(admin: Admin, every: Duration, first: Sample, mut signals: Signals) -> Result<()> {
    let (sender, mut samples) = mpsc::channel(1);
    let mut before = (Instant::now(), first);
    let mut app = App::new(view(None, &before.1, every));
    let sampler = tokio::spawn(sampling(admin, every, sender));
    let mut terminal = terminal::Screen::open()?;
    let done = loop {
        if let Err(error) = terminal.draw(|frame| render::render(&app, frame.area(), frame.buffer_mut())) {
            break Err(error);
        }
        tokio::select! {
            key = terminal.next_key() => match key {
                Some(key) => if let Some(end) = app.press(key) { break end },
                None => break Err(anyhow::anyhow!("the terminal went away")),
            },
            signal = signals.recv() => break Err(Interrupted { signal }.into()),
            taken = samples.recv() => match taken {
                // It ends before this does by a panic alone, which was told.
                None => break Err(anyhow::anyhow!("nothing more is asked of the broker")),
                Some(Ok(_)) if app.paused => {}
                Some(Ok(now)) => {
                    app.show(view(Some(&before.1), &now.1, now.0 - before.0));
                    before = now;
                }
                // It may come back: what was last seen stays.
                Some(Err(error)) => app.fail(error.to_string()),
            },
        }
    };
    sampler.abort();
    terminal.close();
    done
}

#[cfg(test)]
mod tests;
