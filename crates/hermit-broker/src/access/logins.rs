//! Passwords that wait to be checked: a few threads, and turns for addresses, so that one that sends many does not hold up the others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};
use zeroize::Zeroizing;

use super::throttle::Origin;
use super::{Access, Attempt, Login, LoginError};
use crate::signal::Signal;

/// Checks at a time. Each takes a core and [`super::PasswordHashing::memory_kib`].
const THREADS: usize = 2;
/// Passwords that may wait: some 200 bytes each, as long as passwords are usual.
const MOST_WAITING: usize = 4096;

/// Where the outcome of a login is told.
#[derive(Debug)]
pub(crate) struct Slot {
    outcome: Mutex<Option<Result<Login, LoginError>>>,
    signal: Arc<Signal>,
    token: u64,
}

impl Slot {
    pub(crate) fn new(signal: Arc<Signal>, token: u64) -> Arc<Self> {
        Arc::new(Self { outcome: Mutex::new(None), signal, token })
    }

    pub(crate) fn take(&self) -> Option<Result<Login, LoginError>> {
        self.outcome.lock().take()
    }

    fn tell(&self, outcome: Result<Login, LoginError>) {
        *self.outcome.lock() = Some(outcome);
        self.signal.wake(self.token);
    }
}

/// A password that waits.
struct Job {
    user: String,
    password: Zeroizing<Vec<u8>>,
    /// Gone when the session has ended: then nobody asks any more.
    slot: Weak<Slot>,
}

/// The passwords that wait, and the threads that check them.
#[derive(Debug)]
pub(crate) struct Logins {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: HashMap<Origin, VecDeque<Job>>,
    /// Whose turn is next; every address with a job is in it once.
    turns: VecDeque<Origin>,
    count: usize,
    closed: bool,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Waiting {
    fn push(&mut self, origin: Origin, job: Job) -> bool {
        if self.count >= MOST_WAITING {
            return false;
        }
        let jobs = self.jobs.entry(origin).or_default();
        if jobs.is_empty() {
            self.turns.push_back(origin);
        }
        jobs.push_back(job);
        self.count += 1;
        true
    }

    fn pop(&mut self) -> Option<(Origin, Job)> {
        let origin = self.turns.pop_front()?;
        let jobs = self.jobs.get_mut(&origin)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.jobs.remove(&origin);
        } else {
            self.turns.push_back(origin);
        }
        self.count -= 1;
        Some((origin, job))
    }
}

impl Logins {
    /// Starts the threads. They end when this is dropped.
    pub(crate) fn start(access: &Arc<Access>) -> Self {
        let shared = Arc::<Shared>::default();
        for _ in 0..THREADS {
            let (theirs, access) = (Arc::clone(&shared), Arc::downgrade(access));
            let spawned = std::thread::Builder::new().name("hermit-login".into()).spawn(move || work(&theirs, &access));
            if let Err(error) = spawned {
                tracing::error!(error = %crate::error::line(&error), "no thread to check passwords: logins may fail");
            }
        }
        Self { shared }
    }

    /// Has a password checked; `false` where too many wait.
    pub(crate) fn push(&self, attempt: Attempt<'_>, slot: &Arc<Slot>) -> bool {
        let Attempt { user, password, origin } = attempt;
        let job = Job { user: user.to_owned(), password: Zeroizing::new(password.to_vec()), slot: Arc::downgrade(slot) };
        let pushed = self.shared.waiting.lock().push(origin, job);
        self.shared.more.notify_one();
        pushed
    }
}

impl Drop for Logins {
    fn drop(&mut self) {
        self.shared.waiting.lock().closed = true;
        self.shared.more.notify_all();
    }
}

fn work(shared: &Shared, access: &Weak<Access>) {
    loop {
        let mut waiting = shared.waiting.lock();
        let (origin, job) = loop {
            if waiting.closed {
                return;
            }
            match waiting.pop() {
                Some(next) => break next,
                None => shared.more.wait(&mut waiting),
            }
        };
        drop(waiting);
        let Some(access) = access.upgrade() else { return };
        if let Some(slot) = job.slot.upgrade() {
            slot.tell(access.check_password(Attempt { user: &job.user, password: &job.password, origin }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_take_turns_and_what_waits_is_bounded() {
        let mut waiting = Waiting::default();
        let slot = Slot::new(Arc::new(Signal::new()), 0);
        let mut push = |origin: Origin, user: &str| {
            let job = Job { user: user.to_owned(), password: Zeroizing::default(), slot: Arc::downgrade(&slot) };
            waiting.push(origin, job)
        };
        let origin = |text: &str| Origin::of(text.parse().unwrap());
        let (many, one) = (origin("10.0.0.1"), origin("10.0.0.2"));
        let fitting = (0..).take_while(|_| push(many, "many")).count();
        assert_eq!(fitting, MOST_WAITING);
        waiting.pop().unwrap();
        let job = Job { user: "one".into(), password: Zeroizing::default(), slot: Weak::new() };
        assert!(waiting.push(one, job));
        let next: Vec<_> = (0..3).map(|_| waiting.pop().unwrap().1.user).collect();
        assert_eq!(next, ["many", "one", "many"]);
        while waiting.pop().is_some() {}
        assert!(waiting.count == 0 && waiting.jobs.is_empty() && waiting.turns.is_empty());
    }
}
