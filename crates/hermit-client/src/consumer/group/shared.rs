//! The lock around the state, the wake-ups, and the tasks' beginning and end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hermit_proto::MemberId;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::state::State;
use super::{committer, member, places};
use crate::conn::{Inbox, Link};

#[derive(Debug)]
pub(in crate::consumer) struct Shared {
    state: Mutex<State>,
    /// [`State::changes`], to be looked at without the lock.
    changes: AtomicU64,
    pub(super) member: Notify,
    pub(super) committer: Notify,
    pub(super) places: Notify,
    inbox: Arc<Inbox>,
    started: AtomicBool,
    /// When everything has to be over.
    closing: watch::Sender<Option<Instant>>,
    ended: watch::Sender<bool>,
}

impl Shared {
    pub(in crate::consumer) fn new(state: State, inbox: Arc<Inbox>) -> Self {
        Self {
            state: Mutex::new(state),
            changes: AtomicU64::new(0),
            member: Notify::new(),
            committer: Notify::new(),
            places: Notify::new(),
            inbox,
            started: AtomicBool::new(false),
            closing: watch::Sender::new(None),
            ended: watch::Sender::new(false),
        }
    }

    /// Looks at the state, or changes it.
    pub(in crate::consumer) fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        self.changes.store(state.changes, Ordering::Release);
        result
    }

    /// Changes the state in a way that concerns the tasks and the consumer.
    pub(in crate::consumer) fn tell<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = self.with(change);
        self.wake();
        result
    }

    pub(in crate::consumer) fn wake(&self) {
        self.member.notify_one();
        self.committer.notify_one();
        self.places.notify_one();
        self.inbox.wake();
    }

    pub(in crate::consumer) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Starts the tasks, the first time. Must be called within a tokio runtime.
    pub(in crate::consumer) fn start(self: &Arc<Self>, link: &Link) {
        if self.started.swap(true, Ordering::Relaxed) {
            return;
        }
        let (shared, link) = (self.clone(), link.clone());
        tokio::spawn(async move {
            tokio::join!(member::run(&shared, &link), committer::run(&shared, &link), places::run(&shared, &link));
            shared.ended.send_replace(true);
        });
    }

    /// Commits what is owed, leaves the group, and ends the tasks, at `until` at the latest. Does not wait for it.
    pub(in crate::consumer) fn close(&self, until: Instant) {
        self.tell(|state| state.close(until));
        self.closing.send_replace(Some(until));
        self.wake();
    }

    /// Waits for the end of the tasks.
    pub(in crate::consumer) async fn ended(&self) {
        if self.started.load(Ordering::Relaxed) {
            let mut ended = self.ended.subscribe();
            if ended.wait_for(|ended| *ended).await.is_err() {
                tracing::debug!("a group without its flag");
            }
        }
    }

    /// Returns once the consumer is being closed.
    pub(super) async fn closing(&self) -> Instant {
        let mut closing = self.closing.subscribe();
        loop {
            if let Some(until) = *closing.borrow_and_update() {
                return until;
            }
            if closing.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns when everything has to be over.
    pub(super) async fn over(&self) {
        tokio::time::sleep_until(self.closing().await).await;
    }
}

/// Random, and not [`MemberId::NONE`].
pub(in crate::consumer) fn random_member() -> MemberId {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        use std::hash::{BuildHasher, RandomState};
        // Keyed by the system's randomness when the process began.
        let halves = [RandomState::new().hash_one(1u8).to_be_bytes(), RandomState::new().hash_one(2u8).to_be_bytes()];
        for (byte, random) in bytes.iter_mut().zip(halves.as_flattened()) {
            *byte = *random;
        }
    }
    MemberId(u128::from_be_bytes(bytes).max(1))
}
