//! A member comes, or asks for something else.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermit_proto::GroupName;
use hermit_proto::session::{Assignment, JoinGroupRequest, JoinGroupResponse};

use super::asked::{Asked, Seen};
use super::cell::{Seat, State};
use super::coordinator::{Groups, Peer, nanos, refused};
use super::group::Joining;
use super::member::Timeouts;
use super::subscription::Subscription;
use crate::client_name::printable;
use crate::error::{BrokerError, Counted};
use crate::server::Line;

impl Groups {
    /// A member comes, or changes what it asks for.
    pub(crate) fn join(&self, request: &JoinGroupRequest, peer: Peer<'_>) -> Result<JoinGroupResponse, BrokerError> {
        let name = GroupName::new_public(&request.group)?;
        let timeouts = self.timeouts(request)?;
        let subscription = Subscription::new(&request.topics, &request.patterns, &self.limits(), &self.patterns)?;
        // Matching may take its time: the others are not to wait for it.
        let mut asked = Asked::new(Arc::new(subscription), Seen::now(self, peer.principal));
        asked.look(self, peer.principal);
        loop {
            let cell = self.cell_for_joining(&name)?;
            let mut state = cell.lock();
            if state.dead {
                continue;
            }
            let joined = self.join_locked(&mut state, &name, request, asked, timeouts, peer);
            self.leave_cell(&cell, state);
            let session_ms = millis(timeouts.session);
            return Ok(JoinGroupResponse {
                session_timeout_ms: session_ms,
                processing_timeout_ms: millis(timeouts.processing),
                heartbeat_interval_ms: (session_ms / 3).max(1),
                assignment: joined?,
            });
        }
    }

    fn join_locked(
        &self,
        state: &mut State,
        name: &GroupName,
        request: &JoinGroupRequest,
        mut asked: Asked,
        timeouts: Timeouts,
        peer: Peer<'_>,
    ) -> Result<Assignment, BrokerError> {
        let (now, id) = (self.now(), request.member);
        state.tick(name, now);
        let limit = self.limits().max_group_members;
        if !state.seats.contains_key(&id) && state.seats.len() as u64 >= u64::from(limit) {
            return Err(BrokerError::TooMany { what: Counted::GroupMembers, limit: limit.into() });
        }
        if asked.seen != Seen::now(self, peer.principal) {
            asked.look(self, peer.principal);
        }
        let limit = self.limits().max_membership_bytes;
        let bytes = asked.subscription.bytes().saturating_add(state.new_topic_bytes(&asked.topics));
        if self.membership_bytes.load(Ordering::Relaxed).saturating_add(bytes) > limit {
            return Err(BrokerError::TooMany { what: Counted::MembershipBytes, limit });
        }
        let Asked { subscription, topics, .. } = asked;
        let joining = Joining { timeouts, strategy: request.strategy, topics, claims: request.claims.clone() };
        state.group.join(now, id, joining).map_err(|refusal| refused(name, id, refusal))?;
        let (client, address) = (printable(peer.client), peer.address.to_owned());
        match state.seats.get_mut(&id) {
            Some(seat) => {
                (seat.subscription, seat.client, seat.address) = (subscription, client, address);
                seat.principal = peer.principal.clone();
            }
            None => {
                if let Line::Write { left_out } = self.joined.line() {
                    tracing::info!(group = %name, member = %id, ?client, %address, left_out, "a member joined");
                }
                state
                    .seats
                    .insert(id, Seat { subscription, client, address, principal: peer.principal.clone(), beat: 0, waiter: None });
            }
        }
        state.changed = true;
        state.settle(name);
        state.tell(name, now, id)
    }

    fn timeouts(&self, request: &JoinGroupRequest) -> Result<Timeouts, BrokerError> {
        let limits = &*self.limits();
        let session = limits.min_session_timeout..=limits.max_session_timeout;
        let session = choose("session_timeout_ms", request.session_timeout_ms, limits.default_session_timeout, session)?;
        let processing = limits.min_processing_timeout..=limits.max_processing_timeout;
        let default = limits.default_processing_timeout;
        let processing = choose("processing_timeout_ms", request.processing_timeout_ms, default, processing)?;
        Ok(Timeouts { session, processing })
    }
}

fn choose(field: &'static str, asked_ms: u32, default: Duration, allowed: RangeInclusive<Duration>) -> Result<u64, BrokerError> {
    if asked_ms == 0 {
        return Ok(nanos(default));
    }
    let asked = Duration::from_millis(asked_ms.into());
    if !allowed.contains(&asked) {
        let rule = format!("{asked_ms} is outside {} to {}", allowed.start().as_millis(), allowed.end().as_millis());
        return Err(BrokerError::InvalidConfig { field, rule });
    }
    Ok(nanos(asked))
}

fn millis(nanos: u64) -> u32 {
    u32::try_from(nanos / 1_000_000).unwrap_or(u32::MAX)
}
