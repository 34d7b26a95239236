//! What was sent, against what the log holds in the end.

use std::collections::HashMap;

use super::index::{Index, Outcome};
use super::{Held, History, Keeps, Message, Part};
use crate::check::{Kind, Violations};

pub(super) fn check(history: &History, index: &Index, violations: &mut Violations) {
    for (part, held) in &history.held {
        check_part(history, index, *part, held, violations);
    }
    let newest = NewestOfKeys::of(history);
    for (message, known) in &index.messages {
        if known.held > 1 {
            violations.add(Kind::Doubled, || format!("{message}, {} times{}", known.held, history.around(Some(*message), None)));
        }
        match known.outcome {
            Outcome::Refused if known.held > 0 => {
                violations.add(Kind::RefusedStored, || format!("{message}{}", history.around(Some(*message), None)));
            }
            Outcome::Stored { part, offset } if known.held == 0 && is_lost(history, index, &newest, *message, part, offset) => {
                violations.add(Kind::Lost, || {
                    format!(
                        "{message}, {} offset {offset}{}",
                        history.name(part),
                        history.around(Some(*message), Some((part, offset)))
                    )
                });
            }
            _ => {}
        }
    }
    for (part, offset, before, after) in &index.changed {
        violations.add(Kind::OffsetChanged, || {
            let around = history.around(Some(*after), Some((*part, *offset)));
            format!("{} offset {offset}: {before}, then {after}{around}", history.name(*part))
        });
    }
}

/// Order, gaps and strangers within a partition.
fn check_part(history: &History, index: &Index, part: Part, held: &Held, violations: &mut Violations) {
    let mut last: HashMap<u32, u32> = HashMap::new();
    let mut next = held.start;
    for (offset, span, message) in &held.records {
        let show = |message: Option<Message>| {
            format!("{} offset {offset}{}", history.name(part), history.around(message, Some((part, *offset))))
        };
        if *offset < next || (*offset > next && history.keeps(part) == Keeps::All) {
            violations.add(Kind::Gap, || format!("{next} was to follow: {}", show(None)));
        }
        next = offset + u64::from(*span);
        let Some(message) = message else {
            violations.add(Kind::Phantom, || show(None));
            continue;
        };
        if index.messages.get(message).is_none_or(|known| known.topic != part.topic) {
            violations.add(Kind::Phantom, || show(Some(*message)));
        }
        if let Some(before) = last.insert(message.producer, message.number)
            && before > message.number
        {
            violations.add(Kind::Reordered, || format!("{message} behind {before}: {}", show(Some(*message))));
        }
    }
    if next > held.end {
        violations.add(Kind::Gap, || format!("{}: records up to {next}, and the end is {}", history.name(part), held.end));
    }
}

/// Whether a stored message that the log does not hold should be there.
fn is_lost(history: &History, index: &Index, newest: &NewestOfKeys, message: Message, part: Part, offset: u64) -> bool {
    if index.deleted.contains(&part.topic) {
        return false;
    }
    match history.keeps(part) {
        Keeps::All => true,
        Keeps::Newest => history.held.get(&part).is_none_or(|held| offset >= held.start),
        Keeps::Keys(keys) => !newest.supersedes(message, keys, part, offset),
    }
}

/// The newest held record of each key of compacted topics.
#[derive(Debug, Default)]
pub(super) struct NewestOfKeys(HashMap<(u32, u32), (Part, u64, u32)>);

impl NewestOfKeys {
    pub(super) fn of(history: &History) -> Self {
        let mut newest = Self::default();
        for (part, held) in &history.held {
            let Keeps::Keys(keys) = history.keeps(*part) else { continue };
            for (offset, _, message) in &held.records {
                if let Some(message) = message {
                    newest.0.insert((message.producer, message.number % keys), (*part, *offset, message.number));
                }
            }
        }
        newest
    }

    /// Whether a later record of the message's key is there.
    pub(super) fn supersedes(&self, message: Message, keys: u32, part: Part, offset: u64) -> bool {
        let newest = self.0.get(&(message.producer, message.number % keys));
        newest.is_some_and(|(at, later, number)| *at == part && *later > offset && *number > message.number)
    }
}
