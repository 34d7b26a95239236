//! Who is woken when users or rules change.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::signal::Signal;

/// The signals of sessions that have logged in.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    signals: HashMap<u64, (Weak<Signal>, u64)>,
}

/// A session that is woken at each change, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    watchers: Arc<Watchers>,
    number: u64,
}

impl Watchers {
    pub(super) fn add(watchers: &Arc<Self>, signal: &Arc<Signal>, token: u64) -> Watch {
        let mut inner = watchers.0.lock();
        let number = inner.next;
        inner.next += 1;
        inner.signals.insert(number, (Arc::downgrade(signal), token));
        Watch { watchers: Arc::clone(watchers), number }
    }

    pub(super) fn wake(&self) {
        for (signal, token) in self.0.lock().signals.values() {
            if let Some(signal) = signal.upgrade() {
                signal.wake(*token);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watchers.0.lock().signals.remove(&self.number);
    }
}
