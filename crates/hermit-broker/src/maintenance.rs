//! What has to be done from time to time, on one thread: free space and the groups' deadlines every second, retention and compaction in rounds.

use std::time::Duration;

use crate::broker::{Broker, Phase, WeakBroker};

const TICK: Duration = Duration::from_secs(1);

/// Starts the thread. It ends soon after the broker was closed, or nobody has it any more.
pub(crate) fn spawn(broker: &Broker) {
    let weak = broker.downgrade();
    let spawned = std::thread::Builder::new().name("hermit-maintain".into()).spawn(move || run(&weak));
    if spawned.is_ok() {
        broker.groups().is_ticked();
    }
    if let Err(error) = spawned {
        tracing::error!(error = %crate::error::line(&error), "no thread for maintenance: neither retention nor compaction will happen");
    }
}

fn run(weak: &WeakBroker) {
    let mut waited = Duration::ZERO;
    let mut was_low = false;
    loop {
        std::thread::sleep(TICK);
        waited += TICK;
        let Some(broker) = weak.upgrade() else { return };
        if *broker.phase().borrow() >= Phase::Closed {
            return;
        }
        let interval = broker.live().maintenance_interval.max(TICK);
        // First: what follows may wait for the same disk.
        broker.check_flushes();
        broker.check_space();
        // What may go by its settings is not kept for the rest of the interval when space runs out, whoever has noticed it.
        let is_low = broker.is_low_on_space();
        if waited >= interval || (is_low && !was_low) {
            waited = Duration::ZERO;
            broker.maintain();
        } else {
            broker.tick_groups();
            broker.tell_waiting();
        }
        was_low = is_low;
    }
}
