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

/// All signals that mean something to the process, heard from its first moment on, by a thread that nothing else keeps busy. Until there is somebody who does what
/// they ask for, SIGHUP is kept, and the others stop the start.
#[derive(Debug)]
pub(crate) struct Hearing {
    runtime: Runtime,
    starting: WhileStarting,
    hangup: Signal,
}

/// Hears those that end the process while the start is under way.
#[derive(Debug)]
pub(crate) struct WhileStarting {
    over: oneshot::Sender<()>,
    heard: JoinHandle<(Signals, Option<Came>)>,
}

impl Hearing {
    /// Hears them from now on.
    pub(crate) fn begin() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("signals").enable_all().build()?;
        let (signals, hangup) = {
            let _within = runtime.enter();
            (Signals::hear()?, signal(SignalKind::hangup())?)
        };
        let (over, is_over) = oneshot::channel();
        let heard = runtime.spawn(signals.while_starting(is_over));
        Ok(Self { runtime, starting: WhileStarting { over, heard }, hangup })
    }

    /// Those that come while the process ends by an error: the first asks for what is being done, and a second forces.
    pub(crate) fn while_ending(runtime: &Runtime) {
        let hearing = {
            let _within = runtime.enter();
            Signals::hear()
        };
        match hearing {
            Ok(mut signals) => drop(runtime.spawn(async move {
                let first = signals.next().await;
                tracing::info!("stopping already; a second signal forces");
                signals.forcing(first).await;
                forced();
            })),
            Err(error) => tracing::warn!(%error, "signals are not heard any more"),
        }
    }

    /// The parts: who goes on hearing the signals, and the runtime that they come by, which is to be kept.
    pub(crate) fn into_parts(self) -> (Runtime, WhileStarting, Signal) {
        (self.runtime, self.starting, self.hangup)
    }
}

/// Ends the process at once.
pub(crate) fn forced() -> ! {
    tracing::warn!("forced: the next start will have to check what was not flushed");
    #[expect(clippy::exit, reason = "the operator said so")]
    std::process::exit(1);
}

impl Signals {
    /// Within a runtime.
    fn hear() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn while_starting(mut self, mut is_over: oneshot::Receiver<()>) -> (Self, Option<Came>) {
        let first = tokio::select! {
            _ = &mut is_over => return (self, None),
            first = self.next() => first,
        };
        tracing::info!("stopping as soon as the start is done; a second signal forces");
        tokio::select! {
            _ = &mut is_over => (self, Some(first)),
            // One wish, which is done.
            () = tokio::time::sleep(START_GRACE) => cut(0),
            () = self.forcing(first) => cut(1),
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

fn cut(status: i32) -> ! {
    tracing::warn!("stopped while starting: nothing that was answered is lost, and the next start begins anew");
    #[expect(clippy::exit, reason = "the operator said so")]
    std::process::exit(status);
}
