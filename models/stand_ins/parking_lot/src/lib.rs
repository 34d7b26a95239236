//! `parking_lot::Mutex` over loom's.

use loom::sync::MutexGuard;

/// A lock whose every order of holders loom tries.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Takes the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("a model that panics has failed")
    }
}
