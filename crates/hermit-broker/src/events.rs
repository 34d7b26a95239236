//! News for an embedder: queued wherever something happens, also under locks, and told in order where no lock is held.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermit_log::LogError;
use hermit_proto::{Generation, GroupName, MemberId, Offset, PartitionId, TopicId, TopicName};
use parking_lot::Mutex;

use crate::error::BrokerError;
use crate::hooks::{self, Hooks};
use crate::server::{Line, LineGate};
use crate::topic::{TopicMeta, TopicSettings};

/// Events that may wait to be told.
const MAX_WAITING: usize = 10_000;

/// Something that has happened. Internal topics have no events of their own but those of damage.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The broker has opened its data directory. The first event.
    Started {
        /// Whether the last broker had stopped cleanly.
        clean: bool,
        /// Topics that are there.
        topics: usize,
    },
    /// The broker takes no new requests.
    Stopping,
    /// The data directory is closed. The last event.
    Stopped {
        /// Whether everything was flushed and marked so.
        clean: bool,
    },
    /// A topic was created.
    TopicCreated {
        /// What is stored about it.
        topic: TopicMeta,
    },
    /// A topic has other settings.
    TopicAltered {
        /// What is stored about it now.
        topic: TopicMeta,
        /// Its settings before.
        before: TopicSettings,
    },
    /// A topic has more partitions.
    TopicGrown {
        /// What is stored about it now.
        topic: TopicMeta,
        /// Its partitions before.
        before: u32,
    },
    /// A topic was deleted.
    TopicDeleted {
        /// Its name.
        name: TopicName,
        /// Its id.
        id: TopicId,
    },
    /// A partition could not be opened at start.
    PartitionDown {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
        /// Why.
        reason: BrokerError,
    },
    /// A partition takes no more writes until a restart.
    PartitionReadOnly {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
        /// The failure.
        reason: LogError,
    },
    /// A range of a partition was found damaged, at start or by a reader. What follows it can be read.
    PartitionDamaged {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
        /// The first damaged offset.
        from: Offset,
        /// The next readable one.
        next: Offset,
    },
    /// The disk is nearly full: produce requests are refused.
    LowSpace {
        /// What is free.
        free_bytes: u64,
    },
    /// There is space again: produce requests are taken.
    SpaceAgain {
        /// What is free.
        free_bytes: u64,
    },
    /// A client has connected.
    ConnectionOpened {
        /// From where.
        peer: SocketAddr,
    },
    /// A connection has ended.
    ConnectionClosed {
        /// From where it came.
        peer: SocketAddr,
        /// Why it ended, in words.
        reason: String,
    },
    /// The partitions of a group are divided anew.
    GroupRebalanced {
        /// The group.
        group: GroupName,
        /// The generation that begins.
        generation: Generation,
        /// Members among whom they are divided.
        members: usize,
    },
    /// A member of a group was removed: it was silent for too long, or did not give up what it was asked to.
    MemberFenced {
        /// The group.
        group: GroupName,
        /// The member.
        member: MemberId,
        /// Why, in words.
        reason: &'static str,
    },
}

/// The hooks, and what they are still to be told.
#[derive(Debug)]
pub(crate) struct Events {
    hooks: Arc<dyn Hooks>,
    waiting: Mutex<VecDeque<Event>>,
    /// Held by whoever tells.
    telling: Mutex<()>,
    dropped: AtomicU64,
    /// Lines about hooks that panic, or are too slow.
    lines: LineGate,
}

impl Events {
    pub(crate) fn new(hooks: Arc<dyn Hooks>) -> Self {
        Self { hooks, waiting: Mutex::default(), telling: Mutex::new(()), dropped: AtomicU64::new(0), lines: LineGate::default() }
    }

    pub(crate) fn hooks(&self) -> &dyn Hooks {
        &*self.hooks
    }

    /// Queues an event; [`Events::tell`] tells it. Under any lock.
    pub(crate) fn push(&self, event: Event) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < MAX_WAITING {
            waiting.push_back(event);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As [`Events::push`], before all that waits.
    pub(crate) fn push_first(&self, event: Event) {
        self.waiting.lock().push_front(event);
    }

    /// Tells what waits. Where somebody is telling already — perhaps this very thread, in a hook that has called the broker — it is left to them. Under no lock.
    pub(crate) fn tell(&self) {
        while !self.waiting.lock().is_empty() {
            let Some(_telling) = self.telling.try_lock() else { return };
            loop {
                let next = self.waiting.lock().pop_front();
                let Some(event) = next else { break };
                hooks::on_event(self.hooks(), &self.lines, &event);
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0
                && let Line::Write { left_out } = self.lines.line()
            {
                tracing::warn!(dropped, left_out, "the hook for events is too slow: some were dropped");
            }
            // One that was queued since the last look found the lock taken: look again without it.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    #[derive(Debug, Default)]
    struct Notes {
        told: Mutex<Vec<u64>>,
        events: OnceLock<Arc<Events>>,
    }

    fn event(free_bytes: u64) -> Event {
        Event::LowSpace { free_bytes }
    }

    impl Hooks for Notes {
        fn on_event(&self, event: &Event) {
            let Event::LowSpace { free_bytes } = event else { return };
            if *free_bytes == 1 {
                // What happens because of a hook comes later, and not within it.
                let events = self.events.get().unwrap();
                events.push(Event::LowSpace { free_bytes: 10 });
                events.tell();
            }
            self.told.lock().push(*free_bytes);
            assert!(*free_bytes != 2, "this hook fails");
        }
    }

    #[test]
    fn events_are_told_in_order_and_a_hook_may_fail_or_cause_more() {
        let notes = Arc::new(Notes::default());
        let events = Arc::new(Events::new(notes.clone()));
        notes.events.set(Arc::clone(&events)).unwrap();
        (0..4).for_each(|number| events.push(event(number)));
        events.tell();
        assert_eq!(*notes.told.lock(), [0, 1, 2, 3, 10]);
    }

    #[test]
    fn what_nobody_takes_is_bounded() {
        let events = Events::new(Arc::new(Notes::default()));
        (100..MAX_WAITING as u64 + 200).for_each(|number| events.push(event(number)));
        assert_eq!((events.waiting.lock().len(), events.dropped.load(Ordering::Relaxed)), (MAX_WAITING, 100));
    }
}
