//! AddRules, DeleteRules, ListRules: who may do what.

use super::access::AccessRule;
use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response};
use super::operation::Operation;

/// Allows more. All of the rules take effect, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddRulesRequest {
    /// The rules. One for a principal and resource that has one already adds its operations to that.
    pub rules: Vec<AccessRule>,
}

impl Message for AddRulesRequest {
    const OPERATION: Operation = Operation::AddRules;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.list("rules", &self.rules, |body, rule| rule.write(body));
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { rules: body.list("rules", AccessRule::read)? })
    }
}

impl Request for AddRulesRequest {
    type Response = AddRulesResponse;
}

/// The rules are on disk, and hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRulesResponse {
    /// How many of them were not there before, or not with all their operations.
    pub changed: u32,
}

impl Message for AddRulesResponse {
    const OPERATION: Operation = Operation::AddRules;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u32(self.changed);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { changed: body.u32("changed")? })
    }
}

impl Response for AddRulesResponse {}

/// Takes back what rules allow. All of it, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteRulesRequest {
    /// The rules. The operations are taken out of the rule with the same principal and resource; without any left it is gone.
    pub rules: Vec<AccessRule>,
}

impl Message for DeleteRulesRequest {
    const OPERATION: Operation = Operation::DeleteRules;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.list("rules", &self.rules, |body, rule| rule.write(body));
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { rules: body.list("rules", AccessRule::read)? })
    }
}

impl Request for DeleteRulesRequest {
    type Response = DeleteRulesResponse;
}

/// What the rules allowed is not allowed by them any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteRulesResponse {
    /// How many of them were there, with one of their operations at least.
    pub changed: u32,
}

impl Message for DeleteRulesResponse {
    const OPERATION: Operation = Operation::DeleteRules;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u32(self.changed);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { changed: body.u32("changed")? })
    }
}

impl Response for DeleteRulesResponse {}

/// Asks for rules, in the order of principal, kind of resource, kind of pattern, and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRulesRequest {
    /// Only rules that name this principal; empty: all rules.
    pub principal: String,
    /// Begin behind this one, whose operations do not matter; `None`: at the first.
    pub after: Option<AccessRule>,
    /// At most so many; 0: as many as the broker likes.
    pub limit: u32,
}

impl Message for ListRulesRequest {
    const OPERATION: Operation = Operation::ListRules;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("principal", &self.principal);
        body.flag(self.after.is_some());
        if let Some(after) = &self.after {
            after.write(body);
        }
        body.u32(self.limit);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            principal: body.string("principal")?.to_owned(),
            after: if body.flag("after")? { Some(AccessRule::read(body)?) } else { None },
            limit: body.u32("limit")?,
        })
    }
}

impl Request for ListRulesRequest {
    type Response = ListRulesResponse;
}

/// A page of the list of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRulesResponse {
    /// The page.
    pub rules: Vec<AccessRule>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

impl Message for ListRulesResponse {
    const OPERATION: Operation = Operation::ListRules;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.list("rules", &self.rules, |body, rule| rule.write(body));
        body.flag(self.more);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { rules: body.list("rules", AccessRule::read)?, more: body.flag("more")? })
    }
}

impl Response for ListRulesResponse {}
