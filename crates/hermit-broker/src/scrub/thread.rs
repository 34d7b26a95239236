//! The thread of the scrub.

use std::time::Duration;

use crate::broker::{Broker, Phase, WeakBroker};

/// A start has other things to do.
const FIRST_REST: Duration = Duration::from_secs(30);
/// The longest sleep, so that the thread ends soon after the broker.
const TICK: Duration = Duration::from_secs(1);

/// Starts the thread, where the settings ask for a scrub. It ends soon after the broker was closed, or nobody has it any more.
pub(crate) fn spawn(broker: &Broker) {
    if broker.config().scrub_bytes_per_second == 0 {
        return;
    }
    let weak = broker.downgrade();
    let spawned = std::thread::Builder::new().name("hermit-scrub".into()).spawn(move || run(&weak));
    if let Err(error) = spawned {
        tracing::error!(error = %crate::error::line(&error), "no thread for the scrub: closed segments are not verified");
    }
}

fn run(weak: &WeakBroker) {
    let mut rest = FIRST_REST;
    loop {
        let sleep = rest.min(TICK);
        std::thread::sleep(sleep);
        rest = rest.saturating_sub(sleep);
        let Some(broker) = weak.upgrade() else { return };
        if *broker.phase().borrow() >= Phase::Closed {
            return;
        }
        if rest.is_zero() {
            let Some(next) = broker.scrub() else { return };
            rest = next;
        }
    }
}
