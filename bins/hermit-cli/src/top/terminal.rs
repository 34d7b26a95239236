//! The terminal: taken over, and given back whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

/// How soon the reading of keys ends when it is told to.
const POLL: Duration = Duration::from_millis(50);

/// The whole screen, with the cursor hidden and keys read one by one. Dropping it gives the terminal back; so does a panic.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    keys: mpsc::Receiver<Option<KeyEvent>>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    pub(super) fn open() -> Result<Self> {
        // Also sets a hook that gives the terminal back before a panic is told.
        // What it had done before it failed is undone.
        let terminal = ratatui::try_init().inspect_err(|_error| ratatui::restore()).context("the terminal")?;
        let (sender, keys) = mpsc::channel(64);
        let stop = Arc::new(AtomicBool::new(false));
        let mut screen = Self { terminal, keys, stop: Arc::clone(&stop), reader: None };
        let reader = std::thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&sender, &stop));
        screen.reader = Some(reader.context("cannot start reading keys")?);
        Ok(screen)
    }

    pub(super) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        self.terminal.draw(render).context("the terminal")?;
        Ok(())
    }

    /// The next key; `None` when there will be no more. A change of size is `Some` of a key that means nothing: all is drawn anew.
    pub(super) async fn next_key(&mut self) -> Option<Option<KeyEvent>> {
        self.keys.recv().await
    }

    pub(super) fn close(self) {
        drop(self);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // It cannot fail but by a panic, which was told.
            drop(reader.join());
        }
        ratatui::restore();
    }
}

/// Sends keys, and `None` for a screen of another size.
fn read_keys(sender: &mpsc::Sender<Option<KeyEvent>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let read = match event::poll(POLL) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        let sent = match read {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Some(key),
            Ok(Event::Resize(..)) => None,
            Ok(_) => continue,
            Err(_gone) => return,
        };
        // Nobody waits for what is pressed faster than it can be drawn.
        if let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send(sent) {
            return;
        }
    }
}
