//! Where the broker stands, as the server sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hermit_broker::{Broker, StartProgress};
use tokio::sync::watch;

use crate::config::HttpConfig;
use crate::door::Door;
use crate::metrics::Responses;

/// Where the broker stands.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    /// It is being opened.
    Starting,
    /// It answers.
    Serving(Broker),
    /// It stops: what was asked is being answered.
    Stopping,
}

/// Follows the broker.
#[derive(Debug)]
pub(crate) struct Standing {
    config: HttpConfig,
    stage: watch::Sender<Stage>,
    /// Whether `/metrics` shows each partition: it can be changed.
    shows_partitions: AtomicBool,
    responses: Responses,
    progress: Arc<StartProgress>,
    door: Arc<Door>,
    #[cfg(feature = "tls")]
    tls: hermit_broker::TlsPort,
}

impl Standing {
    pub(crate) fn starting(config: HttpConfig) -> Self {
        Self {
            #[cfg(feature = "tls")]
            tls: hermit_broker::TlsPort::new(),
            door: Door::new(&config),
            shows_partitions: AtomicBool::new(config.metrics_per_partition),
            responses: Responses::default(),
            config,
            stage: watch::Sender::new(Stage::Starting),
            progress: Arc::default(),
        }
    }

    /// Who is in.
    pub(crate) const fn door(&self) -> &Arc<Door> {
        &self.door
    }

    #[cfg(feature = "tls")]
    pub(crate) const fn tls(&self) -> &hermit_broker::TlsPort {
        &self.tls
    }

    /// How requests were answered.
    pub(crate) const fn responses(&self) -> &Responses {
        &self.responses
    }

    pub(crate) fn shows_partitions(&self) -> bool {
        self.shows_partitions.load(Ordering::Relaxed)
    }

    pub(crate) fn show_partitions(&self, shown: bool) {
        self.shows_partitions.store(shown, Ordering::Relaxed);
    }

    pub(crate) const fn config(&self) -> &HttpConfig {
        &self.config
    }

    pub(crate) fn progress(&self) -> &Arc<StartProgress> {
        &self.progress
    }

    pub(crate) fn now(&self) -> Stage {
        self.stage.borrow().clone()
    }

    pub(crate) fn serves(&self, broker: &Broker) {
        self.stage.send_replace(Stage::Serving(broker.clone()));
    }

    /// Follows the broker from its start to its end, which is when this returns.
    pub(crate) async fn follow(&self) {
        let mut stage = self.stage.subscribe();
        let broker = loop {
            if let Stage::Serving(broker) = &*stage.borrow_and_update() {
                break broker.clone();
            }
            if stage.changed().await.is_err() {
                return;
            }
        };
        broker.stopping().await;
        self.stage.send_replace(Stage::Stopping);
        broker.closing().await;
    }
}
