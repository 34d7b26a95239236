//! Rules of access. All of it is for who may administer the broker.

use hermit_broker::proto::session::{AccessOperations, AccessResource, AccessRule, ListRulesRequest, NamePattern};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::answer::Answer;
use crate::auth::Client;
use crate::blocking::blocking;
use crate::body::Unread;
use crate::params::Query;
use crate::problem::Problem;

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Resource {
    /// Topics.
    Topic,
    /// Consumer groups.
    Group,
    /// The broker itself.
    Broker,
}

/// How the name is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Match {
    /// As it stands.
    #[default]
    Exact,
    /// Names that begin so.
    Prefix,
    /// A regular expression for whole names.
    Regex,
}

/// What may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OperationName {
    /// Creating topics.
    Create,
    /// Writing records.
    Produce,
    /// Reading records, and being a member of a group.
    Consume,
    /// Everything else.
    Administer,
}

/// A rule: it allows a user operations on resources.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    /// The user's name; `*`: every user.
    principal: String,
    /// What it is about.
    resource: Resource,
    /// How the name is compared.
    #[serde(default, rename = "match")]
    matching: Match,
    /// The name; empty for the broker.
    #[serde(default)]
    name: String,
    /// What it allows; at least one.
    operations: Vec<OperationName>,
}

impl Rule {
    fn to_rule(&self) -> Result<AccessRule, Problem> {
        let name = self.name.clone();
        let pattern = match self.matching {
            Match::Exact => NamePattern::Exact(name),
            Match::Prefix => NamePattern::Prefix(name),
            Match::Regex => NamePattern::Regex(name),
        };
        let resource = match self.resource {
            Resource::Topic => AccessResource::Topic(pattern),
            Resource::Group => AccessResource::Group(pattern),
            Resource::Broker if pattern == NamePattern::Exact(String::new()) => AccessResource::Broker,
            Resource::Broker => return Err(Problem::bad("name", "there is one broker: leave name and match out")),
        };
        let operations = self.operations.iter().map(|name| match name {
            OperationName::Create => AccessOperations::CREATE,
            OperationName::Produce => AccessOperations::PRODUCE,
            OperationName::Consume => AccessOperations::CONSUME,
            OperationName::Administer => AccessOperations::ADMINISTER,
        });
        let operations = operations.fold(AccessOperations::NONE, AccessOperations::union);
        Ok(AccessRule { principal: self.principal.clone(), resource, operations })
    }

    fn of(rule: AccessRule) -> Self {
        let (resource, pattern) = match rule.resource {
            AccessResource::Topic(pattern) => (Resource::Topic, pattern),
            AccessResource::Group(pattern) => (Resource::Group, pattern),
            AccessResource::Broker => (Resource::Broker, NamePattern::Exact(String::new())),
        };
        let (matching, name) = match pattern {
            NamePattern::Exact(name) => (Match::Exact, name),
            NamePattern::Prefix(name) => (Match::Prefix, name),
            NamePattern::Regex(name) => (Match::Regex, name),
        };
        let all = [
            (AccessOperations::CREATE, OperationName::Create),
            (AccessOperations::PRODUCE, OperationName::Produce),
            (AccessOperations::CONSUME, OperationName::Consume),
            (AccessOperations::ADMINISTER, OperationName::Administer),
        ];
        let operations = all.into_iter().filter(|(operation, _)| rule.operations.contains(*operation)).map(|(_, name)| name);
        Self { principal: rule.principal, resource, matching, name, operations: operations.collect() }
    }
}

/// Rules to be added or taken back, all of them or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    /// The rules.
    rules: Vec<Rule>,
}

impl Rules {
    fn to_rules(&self) -> Result<Vec<AccessRule>, Problem> {
        self.rules.iter().map(Rule::to_rule).collect()
    }
}

/// All rules, or those of one user.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RuleList {
    /// In the order of principal, resource and name.
    rules: Vec<Rule>,
}

/// What became of rules.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RulesChanged {
    /// How many of them changed something.
    changed: u32,
}

/// Whose rules are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Whose {
    /// Only those that name this user.
    #[serde(default)]
    principal: String,
}

/// Lists rules.
#[utoipa::path(get, path = "/api/v1/rules", tag = "users", params(Whose), responses((status = 200, body = RuleList), (status = "default", body = Problem)))]
pub(super) async fn list(client: Client, Query(whose): Query<Whose>) -> Result<Answer<RuleList>, Problem> {
    client.caller.check_broker()?;
    let (mut rules, mut after) = (Vec::new(), None);
    // Their number is limited by the broker.
    loop {
        let page = client.broker.list_rules(&ListRulesRequest { principal: whose.principal.clone(), after, limit: 0 });
        after = page.rules.last().cloned();
        rules.extend(page.rules.into_iter().map(Rule::of));
        if !page.more || after.is_none() {
            return Ok(Answer(RuleList { rules }));
        }
    }
}

/// Allows more.
#[utoipa::path(post, path = "/api/v1/rules", tag = "users", request_body = Rules, responses((status = 200, body = RulesChanged), (status = "default", body = Problem)))]
pub(super) async fn add(client: Client, body: Unread) -> Result<Answer<RulesChanged>, Problem> {
    client.caller.check_broker()?;
    let rules: Rules = body.json(&client.broker).await?;
    let (rules, caller) = (rules.to_rules()?, client.caller.clone());
    blocking(move || Ok(Answer(RulesChanged { changed: caller.add_rules(&rules)? }))).await
}

/// Takes back what rules allow.
#[utoipa::path(post, path = "/api/v1/rules/delete", tag = "users", request_body = Rules, responses((status = 200, body = RulesChanged), (status = "default", body = Problem)))]
pub(super) async fn delete(client: Client, body: Unread) -> Result<Answer<RulesChanged>, Problem> {
    client.caller.check_broker()?;
    let rules: Rules = body.json(&client.broker).await?;
    let (rules, caller) = (rules.to_rules()?, client.caller.clone());
    blocking(move || Ok(Answer(RulesChanged { changed: caller.delete_rules(&rules)? }))).await
}
