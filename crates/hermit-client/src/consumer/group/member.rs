//! The task that keeps the membership: joins, sends heartbeats, gives up, leaves.

use std::time::Duration;

use hermit_proto::session::{GroupHeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, Status};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::shared::{Shared, random_member};
use super::state::{Phase, State};
use crate::backoff::Backoff;
use crate::conn::Link;
use crate::error::{Error, Result};

/// Longest wait for the answer that a member has left because its application did not come back.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

enum Step {
    Wait,
    Join(JoinGroupRequest),
    Beat(GroupHeartbeatRequest),
    Leave(LeaveGroupRequest),
    End,
}

pub(super) async fn run(shared: &Shared, link: &Link) {
    let mut backoff = Backoff::new(link.config().backoff);
    tokio::select! {
        () = run_unhurried(shared, link, &mut backoff) => {}
        () = shared.over() => {}
    }
}

async fn run_unhurried(shared: &Shared, link: &Link, backoff: &mut Backoff) {
    loop {
        let result = match shared.with(next_step) {
            Step::End => return,
            Step::Wait => {
                shared.member.notified().await;
                continue;
            }
            Step::Join(request) => join(shared, link, &request).await,
            Step::Beat(request) => beat(shared, link, &request).await,
            Step::Leave(request) => {
                leave(link, &request).await;
                return;
            }
        };
        match result {
            Ok(()) => backoff.reset(),
            Err(error) if error.is_transport() || error.is_retryable() || error.status() == Some(Status::UnknownMember) => {
                tracing::debug!(%error, "keeping the membership");
                sleep(backoff.next()).await;
            }
            Err(error) => shared.tell(|state| state.refused(error)),
        }
    }
}

fn next_step(state: &mut State) -> Step {
    state.give_up();
    let phase = state.membership.as_ref().map(|membership| membership.phase.clone());
    let step = match phase {
        Some(Phase::Joining) if state.closing.is_none() => state.join_request().map(Step::Join),
        Some(Phase::Member) if state.commits_done => state.leave_request().map(Step::Leave),
        Some(Phase::Member) => state.heartbeat_request().map(Step::Beat),
        Some(Phase::Joining | Phase::Away | Phase::Refused(_)) | None => None,
    };
    match step {
        Some(step) => step,
        // One that was joining may be in the group for the broker.
        None if state.commits_done => match (phase, state.leave_request()) {
            (Some(Phase::Joining), Some(leave)) => Step::Leave(leave),
            _ => Step::End,
        },
        None => Step::Wait,
    }
}

async fn join(shared: &Shared, link: &Link, request: &JoinGroupRequest) -> Result<()> {
    let session = tokio::select! {
        session = link.session(link.deadline()) => session?,
        _until = shared.closing() => return Ok(()),
    };
    let sent = Instant::now();
    let patience = link.config().request_timeout;
    let answer = tokio::select! {
        answer = timeout(patience, session.request(request)) => answer,
        _until = shared.closing() => return Ok(()),
    };
    match answer {
        Err(_elapsed) => Err(Error::Timeout { awaited: "answer to JoinGroup", after: patience, source: None }),
        Ok(Err(error)) if error.status() == Some(Status::UnknownMember) => {
            shared.tell(|state| state.fence(request.member, random_member));
            Err(error)
        }
        Ok(Err(error)) => Err(error),
        Ok(Ok(answer)) => {
            tracing::debug!(group = %request.group, member = %request.member, version = answer.assignment.version, "joined");
            shared.tell(|state| state.joined(request, &answer, sent));
            Ok(())
        }
    }
}

/// Sends a heartbeat and waits for its answer, unless something comes up that the broker has to hear of.
async fn beat(shared: &Shared, link: &Link, request: &GroupHeartbeatRequest) -> Result<()> {
    let session = link.session(link.deadline()).await?;
    let sent = Instant::now();
    let answer = session.request(request);
    tokio::pin!(answer);
    // A broker that lets a heartbeat lie for so long is asked again.
    let stale = sent + 2 * Duration::from_millis(request.wait_ms.into());
    loop {
        let (deadline, patience) = shared.with(|state| {
            let patience = state.membership.as_ref().map_or(LEAVE_PATIENCE, |membership| membership.processing_timeout);
            (state.processing_deadline(), patience)
        });
        tokio::select! {
            answer = &mut answer => {
                return match answer {
                    Ok(answer) => {
                        shared.tell(|state| state.heard(request, &answer.assignment, sent));
                        Ok(())
                    }
                    Err(error) if error.status() == Some(Status::UnknownMember) => {
                        tracing::warn!(group = %request.group, member = %request.member, "not a member any more; joining again");
                        shared.tell(|state| state.fence(request.member, random_member));
                        Ok(())
                    }
                    Err(error) => Err(error),
                };
            }
            () = shared.member.notified() => {
                let again = shared.with(|state| {
                    let gave_up = state.give_up();
                    gave_up || state.commits_done || !state.is_current(request)
                });
                if again {
                    shared.wake();
                    return Ok(());
                }
            }
            () = sleep_until(stale) => return Ok(()),
            // Without a deadline now, there can be none before that.
            () = sleep_until(deadline.unwrap_or_else(|| Instant::now() + patience)) => {
                let now = Instant::now();
                let leave = shared.with(|state| {
                    state.processing_deadline().filter(|deadline| *deadline <= now).and_then(|_| state.go_away(random_member))
                });
                if let Some(request) = leave {
                    tracing::warn!(group = %request.group, "the application holds records for too long; leaving the group");
                    shared.wake();
                    leave_in_time(link, &request).await;
                    return Ok(());
                }
            }
        }
    }
}

async fn leave(link: &Link, request: &LeaveGroupRequest) {
    let left = match link.session(link.deadline()).await {
        Ok(session) => session.request(request).await.map(|_left| ()),
        Err(error) => Err(error),
    };
    if let Err(error) = left {
        tracing::debug!(%error, "leaving the group");
    }
}

async fn leave_in_time(link: &Link, request: &LeaveGroupRequest) {
    if timeout(LEAVE_PATIENCE, leave(link, request)).await.is_err() {
        tracing::debug!("leaving the group was not answered");
    }
}
