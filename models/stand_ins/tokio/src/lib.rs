//! `tokio::sync::{Notify, Semaphore}` as far as they are used, over loom. Of a `Notify` there is one waiter, and a permit where nobody waits yet.

/// As in tokio.
pub mod sync {
    use loom::sync::{Condvar, Mutex, MutexGuard};

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

    /// Counts permits. Unlike tokio's it is not fair: whoever finds enough of them has them.
    #[derive(Debug)]
    pub struct Semaphore {
        left: Mutex<Left>,
        changed: Condvar,
    }

    #[derive(Debug)]
    struct Left {
        permits: usize,
        is_closed: bool,
    }

    /// Why there is no permit now.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TryAcquireError {
        /// There never will be.
        Closed,
        /// There are too few.
        NoPermits,
    }

    /// There will be no more permits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AcquireError;

    /// Permits, which are given back when it is dropped.
    #[derive(Debug)]
    pub struct SemaphorePermit<'a> {
        semaphore: &'a Semaphore,
        permits: usize,
    }

    impl Semaphore {
        /// With so many.
        pub fn new(permits: usize) -> Self {
            Self { left: Mutex::new(Left { permits, is_closed: false }), changed: Condvar::new() }
        }

        fn left(&self) -> MutexGuard<'_, Left> {
            self.left.lock().expect("a model that panics has failed")
        }

        /// Takes so many where they are there.
        pub fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
            self.take(&mut self.left(), permits as usize)
        }

        /// Takes so many, and waits until they are there, with its whole thread.
        #[expect(clippy::unused_async, reason = "as in tokio")]
        pub async fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
            let mut left = self.left();
            loop {
                match self.take(&mut left, permits as usize) {
                    Ok(permit) => return Ok(permit),
                    Err(TryAcquireError::Closed) => return Err(AcquireError),
                    Err(TryAcquireError::NoPermits) => left = self.changed.wait(left).expect("a model that panics has failed"),
                }
            }
        }

        fn take(&self, left: &mut Left, permits: usize) -> Result<SemaphorePermit<'_>, TryAcquireError> {
            if left.is_closed {
                return Err(TryAcquireError::Closed);
            }
            left.permits = left.permits.checked_sub(permits).ok_or(TryAcquireError::NoPermits)?;
            Ok(SemaphorePermit { semaphore: self, permits })
        }

        /// Adds so many.
        pub fn add_permits(&self, permits: usize) {
            self.left().permits += permits;
            self.changed.notify_all();
        }

        /// Nobody gets any more.
        pub fn close(&self) {
            self.left().is_closed = true;
            self.changed.notify_all();
        }

        /// So many are left.
        pub fn available_permits(&self) -> usize {
            self.left().permits
        }
    }

    impl SemaphorePermit<'_> {
        /// They are not given back.
        pub fn forget(mut self) {
            self.permits = 0;
        }
    }

    impl Drop for SemaphorePermit<'_> {
        fn drop(&mut self) {
            if self.permits > 0 {
                self.semaphore.add_permits(self.permits);
            }
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
