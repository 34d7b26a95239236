//! Turns to search in logs, for who serves clients by a protocol of its own.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::Broker;

/// Leave to search in a log, until this is dropped; see [`Broker::search_turn`].
#[derive(Debug)]
pub struct SearchTurn {
    /// Given back first: with the other, somebody else is to find both.
    _shared: Option<OwnedSemaphorePermit>,
    _foreign: Option<OwnedSemaphorePermit>,
}

impl Broker {
    /// Waits for a turn to search in a log, or to read one, on a thread that may block: as many have one at a time as there are processors, those of the native port among them, first come, first
    /// served, so that other requests find threads, too. Of those who ask here, only half as many as there are processors have one or stand in that line: however many others wait, the native port's
    /// searches do not wait for them.
    pub async fn search_turn(&self) -> SearchTurn {
        // Neither is ever closed.
        let foreign = Arc::clone(self.foreign_searches()).acquire_owned().await.ok();
        SearchTurn { _shared: Arc::clone(self.searches()).acquire_owned().await.ok(), _foreign: foreign }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::TestBroker;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn searches_of_the_native_port_do_not_stand_in_line_behind_all_others() {
        let test = TestBroker::start_async().await.unwrap();
        let broker = test.broker();
        let all = u32::try_from(broker.searches().available_permits()).unwrap();
        let busy = Arc::clone(broker.searches()).acquire_many_owned(all).await.unwrap();
        // Each keeps its turn until it is told to end.
        let (served, mut turns) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..50 {
            let (broker, served) = (broker.clone(), served.clone());
            tokio::spawn(async move { drop(served.send(Some(broker.search_turn().await))) });
        }
        // Until all of them wait, for whichever.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        let searches = Arc::clone(broker.searches());
        tokio::spawn(async move {
            drop(searches.acquire_owned().await);
            drop(served.send(None));
        });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        drop(busy);
        let mut before = 0;
        while let Some(turn) = tokio::time::timeout(PATIENCE, turns.recv()).await.unwrap().unwrap() {
            before += 1;
            drop(turn);
        }
        assert!(before <= all, "{before} others were served before");
    }
}
