//! Topics: what was created is there, and what was deleted does not come back.

use std::collections::{HashMap, HashSet};

use super::{Happened, History};
use crate::check::{Kind, Violations};

pub(super) fn check(history: &History, violations: &mut Violations) {
    let mut created: HashMap<u16, u64> = HashMap::new();
    let mut deleted: HashMap<u16, u64> = HashMap::new();
    let mut deleting = HashSet::new();
    let name = |topic: u16| history.topic(topic).map_or("?", |topic| &topic.name);
    for event in &history.events {
        match event.what {
            Happened::Created { topic } => {
                created.insert(topic, event.at);
            }
            Happened::Deletes { topic } => {
                deleting.insert(topic);
            }
            Happened::Deleted { topic } => {
                deleted.insert(topic, event.at);
            }
            Happened::Listed { topic, there, begun } => {
                if there && deleted.get(&topic).is_some_and(|at| *at < begun) {
                    violations.add(Kind::TopicBack, || format!("{} (topic {topic}), at {begun} ns", name(topic)));
                }
                if !there && !deleting.contains(&topic) && created.get(&topic).is_some_and(|at| *at < begun) {
                    violations.add(Kind::TopicLost, || format!("{} (topic {topic}), at {begun} ns", name(topic)));
                }
            }
            _ => {}
        }
    }
    let held: HashSet<u16> = history.held.keys().map(|part| part.topic).collect();
    for topic in created.keys().filter(|topic| !deleting.contains(*topic) && !held.contains(*topic)) {
        violations.add(Kind::TopicLost, || format!("{} (topic {topic}), in the end", name(*topic)));
    }
    for topic in deleted.keys().filter(|topic| held.contains(*topic)) {
        violations.add(Kind::TopicBack, || format!("{} (topic {topic}), in the end", name(*topic)));
    }
}
