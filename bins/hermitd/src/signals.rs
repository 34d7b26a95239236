//! The signals that end the process, from the first moment of a start on.

use std::io;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Within this time the same signal is the same wish: `timeout` sends it to the process and to its group.
const SAME_WISH: Duration = Duration::from_millis(500);
/// A start that is asked to stop may come to its end in this time, and is stopped gracefully then. One that takes longer is cut off: it can be begun anew at any point.
const START_GRACE: Duration = Duration::from_secs(5);

/// A signal, and when it came.
pub(crate) type Came = (SignalKind, Instant);

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// Hears them while the start is under way.
#[derive(Debug)]
pub(crate) struct WhileStarting {
    over: oneshot::Sender<()>,
    heard: JoinHandle<(Signals, Option<Came>)>,
}

impl Signals {
    /// Hears them from now on.
    pub(crate) fn hear(runtime: &Runtime) -> io::Result<WhileStarting> {
        let _within = runtime.enter();
        let signals = Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
        let (over, is_over) = oneshot::channel();
        Ok(WhileStarting { over, heard: runtime.spawn(signals.while_starting(is_over)) })
    }

    async fn while_starting(mut self, mut is_over: oneshot::Receiver<()>) -> (Self, Option<Came>) {
        let first = tokio::select! {
            _ = &mut is_over => return (self, None),
            first = self.next() => first,
        };
        tracing::info!("stopping as soon as the start is done; a second signal forces");
        tokio::select! {
            _ = &mut is_over => (self, Some(first)),
            () = tokio::time::sleep(START_GRACE) => cut(),
            () = self.forcing(first) => cut(),
        }
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Came {
        let kind = tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        };
        (kind, Instant::now())
    }

    /// Waits for a signal that is another wish than the first.
    pub(crate) async fn forcing(&mut self, (first, came): Came) {
        loop {
            let (kind, at) = self.next().await;
            if kind != first || at.duration_since(came) > SAME_WISH {
                return;
            }
        }
    }
}

impl WhileStarting {
    /// The start is done: the signals, and the one that came meanwhile.
    pub(crate) async fn done(self) -> anyhow::Result<(Signals, Option<Came>)> {
        // Nobody hears it where the task has ended, which the next line tells.
        let _heard = self.over.send(());
        Ok(self.heard.await?)
    }
}

fn cut() -> ! {
    tracing::warn!("stopped while starting: nothing that was answered is lost, and the next start begins anew");
    #[expect(clippy::exit, reason = "the operator said so")]
    std::process::exit(1);
}
