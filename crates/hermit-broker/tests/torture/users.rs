//! Users, their tokens, and rules.

use std::collections::{BTreeMap, BTreeSet};

use hermit_broker::{Broker, BrokerError};
use hermit_log::disk::sim::Rng;
use hermit_proto::UserName;
use hermit_proto::session::{
    AccessOperations, AccessResource, AccessRule, ListRulesRequest, ListUsersRequest, NamePattern, PasswordChange, PutUserMode,
    PutUserRequest,
};

use crate::actions::pick;
use crate::model::{Model, Possible};
use crate::world::World;

const USERS: [&str; 3] = ["ann", "bob", "ü"];
const LABELS: [&str; 2] = ["ci", "laptop"];

/// All that is asked for, without what nobody is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether each may log in, and its tokens.
    users: BTreeMap<String, (bool, BTreeSet<String>)>,
    rules: BTreeSet<AccessRule>,
}

/// What the broker has now.
fn found(broker: &Broker) -> Access {
    let users = broker.list_users(&ListUsersRequest::default()).users.into_iter();
    let rules = broker.list_rules(&ListRulesRequest { principal: String::new(), after: None, limit: 0 }).rules;
    Access {
        users: users.map(|user| (user.name, (user.enabled, user.tokens.into_iter().map(|token| token.label).collect()))).collect(),
        rules: rules.into_iter().collect(),
    }
}

/// One change. Each rule has an operation of its own.
pub fn act(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let (user, label) = (*pick(rng, &USERS).unwrap(), *pick(rng, &LABELS).unwrap());
    let name: UserName = user.parse().unwrap();
    let rule = AccessRule {
        principal: user.to_owned(),
        resource: AccessResource::Topic(NamePattern::Prefix(label.to_owned())),
        operations: AccessOperations::PRODUCE,
    };
    let before = found(broker);
    let mut next = before.clone();
    let there = next.users.contains_key(user);
    let change = rng.below(7);
    world.tell(format!("users: change {change} of {user}, {label}"));
    // What makes no sense is refused, and changes nothing.
    let makes_sense = match change {
        0 | 1 => {
            next.users.entry(user.to_owned()).or_default().0 = change == 0;
            true
        }
        2 => {
            next.users.remove(user);
            next.rules.retain(|rule| rule.principal != user);
            there
        }
        3 => next.users.get_mut(user).is_some_and(|(_, tokens)| tokens.insert(label.to_owned())),
        4 => next.users.get_mut(user).is_some_and(|(_, tokens)| tokens.remove(label)),
        5 => {
            next.rules.insert(rule.clone());
            there
        }
        _ => {
            next.rules.remove(&rule);
            true
        }
    };
    if !makes_sense {
        return Ok(());
    }
    model.access.ask(next.clone());
    let put = PutUserRequest {
        user: user.to_owned(),
        mode: PutUserMode::CreateOrChange,
        password: PasswordChange::Keep,
        enabled: Some(change == 0),
    };
    match change {
        0 | 1 => broker.put_user(&put).map(drop),
        2 => broker.delete_user(&name),
        3 => broker.create_token(&name, label).map(drop),
        4 => broker.delete_token(&name, label),
        5 => broker.add_rules(&[rule]).map(drop),
        _ => broker.delete_rules(&[rule]).map(drop),
    }
    .inspect_err(|_error| assert_eq!(found(broker), before, "a change that was refused is in force"))?;
    model.access.answer();
    assert_eq!(found(broker), next, "a change that was answered is not in force");
    Ok(())
}

/// After a start: what was answered last is there, or what was asked for since. It lasts.
pub fn check(broker: &Broker, access: &mut Possible<Access>) {
    let found = found(broker);
    assert!(access.allows(&found), "users and rules are {found:?}, not one of {access:?}");
    access.settle(found);
}
