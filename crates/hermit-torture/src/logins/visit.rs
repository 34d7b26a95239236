//! Whether somebody is let in, and what he may do then, over bare sockets: each visitor comes from an address of his own, as logins that are refused make their
//! address wait.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Result;
use hermit_client::{AccessResource, NamePattern};
use hermit_proto::session::{
    CreateTopicRequest, ListTopicsRequest, ListUsersRequest, MetadataRequest, ResponseError, Status, TopicConfig, TopicSelection,
};
use hermit_proto::{PartitionId, ProducedFrame, TopicId};

use super::ledger::Known;
use crate::wire::Session;
use crate::workload::Login;

/// What nobody but the load may see.
pub(super) const HIDDEN: &str = "orders";

/// An address of this machine for each visitor.
fn home(number: u32) -> IpAddr {
    let [_, high, middle, low] = (number + 1).to_be_bytes();
    Ipv4Addr::new(127, 1 + high, middle, low).into()
}

/// The status that the broker has answered, if this is its answer.
fn status(error: &anyhow::Error) -> Option<Status> {
    match error.downcast_ref::<ResponseError>()? {
        ResponseError::Refused(error) if !error.status.is_retryable() => Some(error.status),
        _ => None,
    }
}

/// Whether somebody is let in. An error: the broker is away, or asks to come later.
pub(super) async fn enter(broker: SocketAddr, number: u32, login: &Login) -> Result<Option<Session>> {
    match Session::open_as(home(number), broker, &login.hello()).await {
        Ok(session) => Ok(Some(session)),
        Err(error) if status(&error) == Some(Status::NotAuthenticated) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Names of topics that a user's rules let him see.
pub(super) fn visible(known: &Known) -> Vec<String> {
    let topics = known.rules.iter().filter_map(|rule| match &rule.resource {
        AccessResource::Topic(NamePattern::Exact(name)) => Some(name.clone()),
        _ => None,
    });
    topics.collect()
}

/// Looks at all that somebody may and may not do who may see these topics only; answers what is wrong, and how much was refused as it had to be.
///
/// # Errors
/// The broker is away.
pub(super) async fn look_around(session: &mut Session, hidden: TopicId, may_see: &[String]) -> Result<(Vec<String>, u64)> {
    let mut wrong = Vec::new();
    let listed = session.ask(&ListTopicsRequest { after: String::new(), limit: 0 }).await?;
    let listed: Vec<_> = listed.topics.into_iter().map(|topic| topic.name).collect();
    if listed != may_see {
        wrong.push(format!("is shown the topics {listed:?}, and may see {may_see:?}"));
    }
    let all = session.ask(&MetadataRequest { topics: TopicSelection::All, create_missing: false }).await?;
    if !all.topics.iter().map(|topic| &topic.name).eq(may_see) {
        wrong.push(format!("is told of topics {:?}", all.topics));
    }
    let named = TopicSelection::Names(vec![HIDDEN.into()]);
    let told = session.ask(&MetadataRequest { topics: named, create_missing: false }).await?;
    let is_refused = told.missing.iter().all(|missing| missing.status == Status::NotAuthorized);
    if !told.topics.is_empty() || told.missing.len() != 1 || !is_refused {
        wrong.push(format!("is told of {HIDDEN}: {told:?}"));
    }
    let frame = ProducedFrame::message(0, None, b"nobody may send this").to_vec()?;
    let create = CreateTopicRequest { name: "guest-made".into(), partitions: 1, config: TopicConfig::default() };
    let refusals = [
        ("producing", refused(session.produce(hidden, PartitionId(0), &frame).await)?),
        ("subscribing", refused(session.subscribe(hidden, PartitionId(0), 1 << 20).await)?),
        ("creating a topic", refused(session.ask(&create).await)?),
        ("listing users", refused(session.ask(&ListUsersRequest { after: String::new(), limit: 0 }).await)?),
    ];
    let count = refusals.len() as u64;
    wrong.extend(refusals.into_iter().filter_map(|(what, found)| Some(format!("{what}: {}", found?))));
    Ok((wrong, count))
}

/// `None`, if the broker has refused it for want of a right; else what it has answered.
fn refused<T>(answer: Result<T>) -> Result<Option<String>> {
    match answer {
        Ok(_) => Ok(Some("was done".into())),
        Err(error) => match status(&error) {
            Some(Status::NotAuthorized) => Ok(None),
            Some(_) => Ok(Some(format!("{error:#}"))),
            None => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_visitor_has_a_home_on_this_machine() {
        let homes = [0, 1, 255, 256, 1 << 20].map(home);
        assert_eq!(homes.map(|home| home.is_loopback()), [true; 5]);
        assert!(homes.is_sorted() && homes[0] != homes[1]);
    }
}
