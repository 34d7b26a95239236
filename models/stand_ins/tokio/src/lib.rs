//! `tokio::sync::Notify` as far as the broker uses it, over loom: one waiter, and a permit where nobody waits yet.

/// As in tokio.
pub mod sync {
    use loom::sync::{Condvar, Mutex};

    /// Wakes one waiter, now or when it comes.
    #[derive(Debug)]
    pub struct Notify {
        permit: Mutex<bool>,
        given: Condvar,
    }

    impl Notify {
        /// Without a permit.
        #[expect(clippy::new_without_default, reason = "nobody needs one")]
        pub fn new() -> Self {
            Self { permit: Mutex::new(false), given: Condvar::new() }
        }

        /// Wakes the waiter, or leaves it a permit.
        pub fn notify_one(&self) {
            *self.permit.lock().expect("a model that panics has failed") = true;
            self.given.notify_one();
        }

        /// Takes the permit, and waits for it where there is none: with its whole thread, which has nothing else to do in a model.
        #[expect(clippy::unused_async, reason = "as in tokio")]
        pub async fn notified(&self) {
            let mut permit = self.permit.lock().expect("a model that panics has failed");
            while !*permit {
                permit = self.given.wait(permit).expect("a model that panics has failed");
            }
            *permit = false;
        }
    }
}

/// Time stands still in the models.
pub mod time {
    use std::ops::Add;
    use std::time::Duration;

    /// A moment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Instant(Duration);

    impl Instant {
        /// The only one.
        #[must_use]
        pub fn now() -> Self {
            Self(Duration::ZERO)
        }

        /// Nothing passes.
        #[must_use]
        pub fn elapsed(&self) -> Duration {
            Duration::ZERO
        }
    }

    impl Add<Duration> for Instant {
        type Output = Self;

        fn add(self, time: Duration) -> Self {
            Self(self.0 + time)
        }
    }
}
