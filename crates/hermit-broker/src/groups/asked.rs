//! What members ask for, matched with the topics that there are and with the rules, and again when either changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hermit_proto::session::AccessOperations;
use hermit_proto::{TopicId, TopicName};

use super::coordinator::Groups;
use super::group::GroupTopic;
use super::subscription::{Patterns, Subscription};
use crate::access::{Authority, Principal};
use crate::registry::TopicListener;
use crate::topic::Topic;

/// A subscription, and the topics that it asks for.
pub(super) struct Asked {
    pub(super) subscription: Arc<Subscription>,
    /// Which topics its patterns match, of those that were looked at.
    known: HashMap<TopicId, bool>,
    pub(super) seen: Seen,
    pub(super) topics: BTreeMap<TopicId, GroupTopic>,
}

/// Upon what was looked: the registry's changes, and those of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    changes: u64,
    epoch: u64,
}

impl Seen {
    pub(super) fn now(groups: &Groups, principal: &Principal) -> Self {
        let epoch = if *principal == Principal::Anyone { 0 } else { groups.access.epoch() };
        Self { changes: groups.registry.changes(), epoch }
    }
}

impl Asked {
    pub(super) fn new(subscription: Arc<Subscription>, seen: Seen) -> Self {
        Self { subscription, known: HashMap::new(), seen, topics: BTreeMap::new() }
    }

    /// Looks which topics there are that the member may consume. A second time only what has changed is matched.
    pub(super) fn look(&mut self, groups: &Groups, principal: &Principal) {
        self.seen = Seen::now(groups, principal);
        let (registry, authority) = (&groups.registry, Authority::of(principal.clone(), &groups.access));
        let may = |topic: &Arc<Topic>| may_consume(&authority, &topic.meta.name);
        let by_name = self.subscription.names.iter().filter_map(|name| registry.by_name(name)).filter(may);
        self.topics = by_name.map(|topic| (topic.meta.id, about(&topic))).collect();
        let Some(patterns) = &self.subscription.patterns else { return };
        for topic in registry.all() {
            if *self.known.entry(topic.meta.id).or_insert_with(|| patterns.matches(&topic.meta.name)) && may(&topic) {
                self.topics.insert(topic.meta.id, about(&topic));
            }
        }
    }
}

impl Groups {
    /// Rules have changed: members get the topics of their subscriptions that they may consume now, and no others.
    pub(crate) fn access_changed(&self) {
        if !self.access.is_enabled() {
            return;
        }
        for cell in self.all_cells() {
            let subscriptions = cell.lock().subscriptions();
            // The group goes on while patterns are matched.
            let looked: Vec<_> = subscriptions
                .into_iter()
                .filter(|(_, _, principal)| *principal != Principal::Anyone)
                .map(|(member, subscription, principal)| {
                    let mut asked = Asked::new(Arc::clone(&subscription), Seen::now(self, &principal));
                    asked.look(self, &principal);
                    (member, subscription, principal, asked)
                })
                .collect();
            self.with(&cell.name, |state, _now| {
                state.changed = true;
                for (member, subscription, principal, mut asked) in looked {
                    if state.unchanged(&[(member, subscription, principal.clone())]).is_empty() {
                        continue;
                    }
                    if asked.seen != Seen::now(self, &principal) {
                        asked.look(self, &principal);
                    }
                    state.group.asks(member, asked.topics);
                }
            });
        }
    }
}

impl TopicListener for Groups {
    fn topic_changed(&self, topic: &Topic) {
        let id = topic.meta.id;
        // What was matched already: many members ask for the same patterns.
        let mut matched = Vec::<(Arc<Patterns>, bool)>::new();
        let mut matches = |patterns: &Arc<Patterns>, name: &TopicName| {
            if let Some((_, found)) = matched.iter().find(|(other, _)| Arc::ptr_eq(other, patterns)) {
                return *found;
            }
            let found = patterns.matches(name);
            matched.push((Arc::clone(patterns), found));
            found
        };
        for cell in self.all_cells() {
            let mut asked = Vec::new();
            if let Some(topic) = self.registry.by_id(id) {
                let name = &topic.meta.name;
                // The group goes on while its patterns are matched.
                asked = cell.lock().subscriptions();
                asked.retain(|(_, asked, principal)| {
                    let asks =
                        asked.names.contains(name) || asked.patterns.as_ref().is_some_and(|patterns| matches(patterns, name));
                    asks && may_consume(&Authority::of(principal.clone(), &self.access), name)
                });
            }
            self.with(&cell.name, |state, _now| {
                state.changed = true;
                match self.registry.by_id(id) {
                    // What the registry says now: it may have gone on since.
                    Some(topic) => {
                        let subscribers = state.unchanged(&asked);
                        state.group.topic(id, about(&topic), &subscribers);
                    }
                    None => state.group.topic_gone(id),
                }
            });
        }
    }
}

fn may_consume(authority: &Authority, topic: &TopicName) -> bool {
    authority.is_open() || authority.on_topic(topic.as_str()).contains(AccessOperations::CONSUME)
}

fn about(topic: &Topic) -> GroupTopic {
    GroupTopic { name: topic.meta.name.clone(), partitions: topic.meta.partitions }
}
