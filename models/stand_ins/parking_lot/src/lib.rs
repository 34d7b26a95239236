//! `parking_lot::{Mutex, Condvar}` over loom's.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A lock whose every order of holders loom tries.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

/// As in `parking_lot`: a wait borrows it.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Away while it waits.
    locked: Option<loom::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// An open lock.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Takes the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, locked: Some(self.0.lock().expect("a model that panics has failed")) }
    }

    /// Takes the lock where nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|locked| MutexGuard { mutex: self, locked: Some(locked) })
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.locked.as_ref().expect("it waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.locked.as_mut().expect("it waits")
    }
}

/// Wakes those who wait with a lock.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// Nobody waits.
    #[must_use]
    pub fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    /// Waits for as long as it takes: where nobody wakes, the model has a deadlock.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let locked = guard.locked.take().expect("it waits");
        guard.locked = Some(self.0.wait(locked).expect("a model that panics has failed"));
    }

    /// Lets the others in, as many as come, and the time pass: who waits so is never stuck.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) {
        drop(guard.locked.take());
        time::pass(time);
        guard.locked = guard.mutex.lock().locked;
    }

    /// Wakes one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Time, which passes where somebody waits for it.
pub mod time {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    // Not one of loom's: when it is read is no choice worth trying, and one thread runs at a time.
    static PASSED_NS: AtomicU64 = AtomicU64::new(0);

    /// Sets it to zero: each order that is tried begins so.
    pub fn begin() {
        PASSED_NS.store(0, Ordering::Relaxed);
    }

    /// Since then.
    #[must_use]
    pub fn passed() -> Duration {
        Duration::from_nanos(PASSED_NS.load(Ordering::Relaxed))
    }

    /// Lets time pass.
    pub fn pass(time: Duration) {
        PASSED_NS.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
