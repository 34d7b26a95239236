//! systemd's watchdog (`WatchdogSec=`): it hears from the broker for as long as that gets on, and begins it anew otherwise.

use std::sync::mpsc;
use std::time::Duration;

use hermit_broker::Broker;
use tokio::runtime::Handle;

use crate::notify;

/// Begins to tell, where that is asked for; until the process ends.
pub(crate) fn begin(broker: &Broker) {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(patience) = asked(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id()) else { return };
    let (broker, runtime) = (broker.clone(), Handle::current());
    let watch = move || {
        let mut was_told = false;
        loop {
            // Three times, so that one that comes late is not the last.
            std::thread::sleep(patience / 3);
            let seen = broker.writes().seen();
            let looked = gets_on(&runtime, &broker, patience, || broker.writes().hang_since(seen), &mut was_told);
            if looked {
                notify::alive();
            }
        }
    };
    // A thread of its own: what keeps the runtime busy does not keep it from looking.
    if let Err(error) = std::thread::Builder::new().name("hermitd-watchdog".into()).spawn(watch) {
        tracing::error!(%error, "no thread for the watchdog: systemd will take the broker for stuck");
    }
}

/// Within what time it wants to hear, if this process is meant.
fn asked(usec: Option<String>, pid: Option<String>, own_pid: u32) -> Option<Duration> {
    let is_meant = pid.is_none_or(|pid| pid.parse() == Ok(own_pid));
    let usec = usec?.parse().ok().filter(|usec| *usec > 0)?;
    is_meant.then(|| Duration::from_micros(usec))
}

/// Whether connections are being served, as far as that can be seen without the disk: one that hangs is no reason to begin anew. The runtime has to run a task, and what
/// every connection asks for has to be given, which waits for the locks of topics and connections. Where that takes long, and a write has been under way all the while, it
/// is the disk that they wait for. What is wrong is said once, before the service manager ends the process; `was_told` keeps whether it was.
fn gets_on(runtime: &Handle, broker: &Broker, patience: Duration, disk_hangs: impl Fn() -> bool, was_told: &mut bool) -> bool {
    let (done, wait) = mpsc::channel();
    let broker = broker.clone();
    runtime.spawn(async move {
        let _looked = (broker.topics().len(), broker.connection_counts());
        // Nobody waits any more where it took too long.
        let _late = done.send(());
    });
    if wait.recv_timeout(patience / 3).is_ok() {
        *was_told = false;
        return true;
    }
    let hangs = disk_hangs();
    if !std::mem::replace(was_told, true) {
        if hangs {
            tracing::error!("the disk does not end a write, and connections wait for it");
        } else {
            tracing::error!("connections are not served: systemd will begin the broker anew if that does not change");
        }
    }
    hangs || wait.recv_timeout(patience - patience / 3).is_ok()
}

#[cfg(test)]
mod tests {
    use hermit_broker::testing::TestBroker;

    use super::*;

    #[test]
    fn only_this_process_is_meant() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(asked(some("30000000"), None, 7), Some(Duration::from_secs(30)));
        assert_eq!(asked(some("30000000"), some("7"), 7), Some(Duration::from_secs(30)));
        for (usec, pid) in [(None, None), (some("0"), None), (some("x"), None), (some("1"), some("8")), (some("1"), some("x"))] {
            assert_eq!(asked(usec, pid, 7), None);
        }
    }

    #[test]
    fn a_runtime_that_runs_nothing_does_not_get_on() {
        let test = TestBroker::start().unwrap();
        let stuck = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let look = |runtime: &Handle, patience: u64, hangs: bool| {
            let mut was_told = false;
            (gets_on(runtime, test.broker(), Duration::from_millis(patience), || hangs, &mut was_told), was_told)
        };
        assert_eq!(look(stuck.handle(), 60, false), (false, true));
        // It is the disk, which another start would not mend.
        assert_eq!(look(stuck.handle(), 60, true), (true, true));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert_eq!(look(runtime.handle(), 60_000, true), (true, false));
    }
}
