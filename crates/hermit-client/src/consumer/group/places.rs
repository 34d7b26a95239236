//! The task that finds where to begin in partitions that were granted.

use std::sync::Arc;

use hermit_proto::session::{FetchCommittedRequest, ListOffsetsRequest, Operation, WireError};
use hermit_proto::{LeaderEpoch, Offset};
use tokio::time::{Instant, sleep};

use super::Place;
use super::assigned::Wanted;
use super::shared::Shared;
use crate::admin::Committed;
use crate::backoff::Backoff;
use crate::conn::{Link, Retry};
use crate::consumer::config::Otherwise;
use crate::error::{Error, ProtocolFault, Result};

/// Partitions asked for at a time.
const MAX_ASKED: usize = 1024;

pub(super) async fn run(shared: &Shared, link: &Link) {
    tokio::select! {
        () = run_until_closed(shared, link) => {}
        _until = shared.closing() => {}
    }
}

async fn run_until_closed(shared: &Shared, link: &Link) {
    let mut backoff = Backoff::new(link.config().backoff);
    loop {
        let (group, otherwise, wanted) = shared.with(|state| (state.group.clone(), state.config.uncommitted, state.wanted()));
        if wanted.is_empty() {
            shared.places.notified().await;
            continue;
        }
        let mut failed = None;
        for wanted in wanted.chunks(MAX_ASKED) {
            match find_all(shared, link, &group, otherwise, wanted).await {
                Ok(()) => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None => backoff.reset(),
            Some(error) => {
                tracing::warn!(%error, "finding where to begin");
                if !error.is_transport() && !error.is_retryable() {
                    shared.tell(|state| state.report(error));
                }
                sleep(backoff.next()).await;
            }
        }
    }
}

/// Finds what can be found; the last error, if something could not.
async fn find_all(shared: &Shared, link: &Link, group: &Arc<str>, otherwise: Otherwise, wanted: &[Wanted]) -> Result<()> {
    let request = FetchCommittedRequest { group: group.to_string(), partitions: wanted.iter().map(|wanted| wanted.key).collect() };
    let answer = link.call(&request, Retry::Always).await?;
    let matches = answer.positions.len() == wanted.len()
        && answer.positions.iter().zip(wanted).all(|(found, wanted)| (found.topic, found.partition) == wanted.key);
    if !matches {
        let source =
            ProtocolFault::Answer { operation: Operation::FetchCommitted, problem: "it is not about the partitions asked for" };
        return Err(Error::Protocol { server: link.server(), source });
    }
    let mut failed = None;
    for (found, wanted) in answer.positions.iter().zip(wanted) {
        if !found.status.is_ok() {
            let refusal = WireError::new(found.status, "the committed position cannot be told");
            failed = Some(Error::refused(Operation::FetchCommitted, refusal));
            continue;
        }
        let committed = found.offset.map(|offset| Committed { offset, leader_epoch: found.leader_epoch });
        let start = match committed {
            Some(Committed { offset, leader_epoch }) => Ok(Place { offset, epoch: leader_epoch }),
            None => beginning(link, wanted, otherwise).await.map(|offset| Place { offset, epoch: LeaderEpoch::UNKNOWN }),
        };
        match start {
            Ok(start) => shared.tell(|state| state.found(*wanted, committed, start, Instant::now())),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn beginning(link: &Link, wanted: &Wanted, otherwise: Otherwise) -> Result<Offset> {
    let (topic, partition) = wanted.key;
    let query = otherwise.query();
    Ok(link.call(&ListOffsetsRequest { topic, partition, query }, Retry::Always).await?.offset)
}
