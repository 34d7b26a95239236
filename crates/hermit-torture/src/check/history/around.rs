//! The neighbourhood of something that is wrong: what else happened to the message and around the place.

use std::fmt::Write;

use super::{Happened, History, Message, Part};

/// Offsets on either side that are of interest.
const NEAR: u64 = 2;
/// Lines at most.
const LINES: usize = 40;

impl History {
    /// What is known of a message and of a place, for people: with the deeds in between.
    pub(super) fn around(&self, message: Option<Message>, place: Option<(Part, u64)>) -> String {
        let near = |part: Part, offset: u64| place.is_some_and(|(at, middle)| at == part && middle.abs_diff(offset) <= NEAR);
        let mut text = String::new();
        let mut deed = None;
        let mut lines = 0;
        for event in &self.events {
            let concerns = match event.what {
                Happened::Befell(_) => {
                    deed = Some(event);
                    continue;
                }
                Happened::Sends { message: of, .. } | Happened::Refused { message: of } | Happened::Unanswered { message: of } => {
                    message == Some(of)
                }
                Happened::Stored { message: of, part, offset } => message == Some(of) || near(part, offset),
                Happened::Reads { message: of, part, offset, .. } => (of.is_some() && message == of) || near(part, offset),
                Happened::Begins { part, offset, .. }
                | Happened::Commits { part, offset, .. }
                | Happened::Committed { part, offset, .. }
                | Happened::Resumes { part, offset, .. }
                | Happened::Fetched { part, offset: Some(offset), .. } => near(part, offset),
                _ => false,
            };
            if concerns && lines < LINES {
                lines += 1;
                for event in deed.take().into_iter().chain([event]) {
                    // Writing to a string does not fail.
                    let _written = write!(text, "\n        {:>12.6} s  {:?}", event.at as f64 / 1e9, event.what);
                }
            }
        }
        if let Some((part, middle)) = place
            && let Some(held) = self.held.get(&part)
        {
            let near = held.records.iter().filter(|(offset, ..)| offset.abs_diff(middle) <= NEAR);
            let _written = write!(text, "\n        in the end: {}..{}, {:?}", held.start, held.end, near.collect::<Vec<_>>());
        }
        text
    }
}
