//! What is shown of the view, and what keys do to it.

use std::cmp::Reverse;

use anyhow::Result;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::rates::{TopicRow, View};
use crate::failure::Interrupted;

/// Characters of a filter.
const MAX_FILTER: usize = 100;

/// By what the topics are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    In,
    Out,
    Size,
    Name,
}

impl Order {
    const fn next(self) -> Self {
        match self {
            Self::In => Self::Out,
            Self::Out => Self::Size,
            Self::Size => Self::Name,
            Self::Name => Self::In,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Size => "size",
            Self::Name => "name",
        }
    }
}

/// The view, and how it is looked at.
#[derive(Debug)]
pub(super) struct App {
    pub(super) view: View,
    pub(super) order: Order,
    /// The other way round.
    pub(super) reversed: bool,
    /// Only topics and groups whose names hold this.
    pub(super) filter: String,
    /// Whether keys go into the filter.
    pub(super) typing: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Topics that are passed over at the top.
    pub(super) scroll: usize,
    /// Why there is nothing newer, or not all.
    pub(super) error: Option<String>,
    /// For a file rather than a screen: nothing about keys.
    pub(super) plain: bool,
}

impl App {
    pub(super) fn new(view: View) -> Self {
        Self {
            error: view.groups_unknown.clone(),
            view,
            order: Order::In,
            reversed: false,
            filter: String::new(),
            typing: false,
            paused: false,
            help: false,
            scroll: 0,
            plain: false,
        }
    }

    /// A newer view.
    pub(super) fn show(&mut self, view: View) {
        self.error.clone_from(&view.groups_unknown);
        self.view = view;
    }

    /// There is none.
    pub(super) fn fail(&mut self, error: String) {
        self.error = Some(error);
    }

    /// Topics that are looked at, in order.
    pub(super) fn topics(&self) -> Vec<&TopicRow> {
        let mut topics: Vec<_> = self.view.topics.iter().filter(|topic| self.is_meant(&topic.name)).collect();
        // By name first: those that are equal stay in that order.
        topics.sort_by(|one, other| one.name.cmp(&other.name));
        match self.order {
            Order::In => topics.sort_by_key(|topic| Reverse((topic.records_in, topic.bytes_in))),
            Order::Out => topics.sort_by_key(|topic| Reverse(topic.records_out)),
            Order::Size => topics.sort_by_key(|topic| Reverse(topic.log_bytes)),
            Order::Name => {}
        }
        if self.reversed {
            topics.reverse();
        }
        topics
    }

    pub(super) fn is_meant(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// What a key does; `Some` if that is the end. No key: the screen has another size.
    pub(super) fn press(&mut self, key: Option<KeyEvent>) -> Option<Result<()>> {
        let key = key?;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            // The terminal makes no signal of it now.
            return (key.code == KeyCode::Char('c')).then(|| Err(Interrupted { signal: 2 }.into()));
        }
        if self.typing {
            self.type_into_filter(key.code);
            return None;
        }
        if self.help {
            self.help = false;
            return None;
        }
        match key.code {
            KeyCode::Char('q') => return Some(Ok(())),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('i') => self.order = Order::In,
            KeyCode::Char('o') => self.order = Order::Out,
            KeyCode::Char('b') => self.order = Order::Size,
            KeyCode::Char('n') => self.order = Order::Name,
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/' | 'f') => self.typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_by(1),
            KeyCode::PageDown => self.scroll_by(10),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        None
    }

    fn scroll_by(&mut self, rows: usize) {
        self.scroll = (self.scroll + rows).min(self.topics().len().saturating_sub(1));
    }

    fn type_into_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(character) if self.filter.chars().count() < MAX_FILTER => self.filter.push(character),
            _ => {}
        }
        self.scroll = 0;
    }
}
