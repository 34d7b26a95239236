//! The task that commits, one request after the other.

use hermit_proto::session::{CommitRequest, CommitResponse, Operation};
use tokio::time::{Instant, sleep_until};

use super::shared::{Shared, random_member};
use crate::conn::{Link, Retry};
use crate::error::{Error, ProtocolFault, Result};

pub(super) async fn run(shared: &Shared, link: &Link) {
    tokio::select! {
        () = run_unhurried(shared, link) => {}
        () = shared.over() => {}
    }
    // Nobody waits in vain.
    shared.tell(|state| {
        state.queue.fail_all(&Error::Closed { what: "consumer" });
        state.commits_done = true;
    });
}

async fn run_unhurried(shared: &Shared, link: &Link) {
    let interval = shared.with(|state| state.config.auto_commit_interval);
    let mut next_tick = Instant::now() + interval;
    loop {
        let now = Instant::now();
        if next_tick <= now {
            next_tick = now + interval;
            shared.with(|state| state.enqueue_owed(now + state.config.request_timeout));
        }
        let request = shared.with(|state| {
            state.enqueue_revoked(now + state.config.request_timeout);
            state.next_commit(now)
        });
        if let Some(request) = request {
            let answer = link.call(&request, Retry::Always).await.and_then(|answer| check(link, &request, answer));
            if let Err(error) = &answer {
                tracing::debug!(%error, "committing");
            }
            shared.tell(|state| state.answered(&request, answer, random_member));
            continue;
        }
        let (closing, done, wake) = shared.with(|state| (state.closing.is_some(), state.all_committed(), state.commit_wake()));
        if closing && done {
            return;
        }
        tokio::select! {
            () = shared.committer.notified() => {}
            () = sleep_until(wake.unwrap_or(next_tick).min(next_tick)) => {}
        }
    }
}

fn check(link: &Link, request: &CommitRequest, answer: CommitResponse) -> Result<CommitResponse> {
    let matches = answer.results.len() == request.entries.len()
        && answer
            .results
            .iter()
            .zip(&request.entries)
            .all(|(result, entry)| result.topic == entry.topic && result.partition == entry.partition);
    if matches {
        return Ok(answer);
    }
    let source = ProtocolFault::Answer { operation: Operation::Commit, problem: "it is not about the partitions committed" };
    Err(Error::Protocol { server: link.server(), source })
}
