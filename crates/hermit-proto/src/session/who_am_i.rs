//! WhoAmI: whom the broker takes the client for.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response, empty_message};
use super::operation::Operation;

empty_message! {
    /// Asks whom the broker takes the client for.
    WhoAmIRequest, WhoAmI
}

impl Request for WhoAmIRequest {
    type Response = WhoAmIResponse;
}

/// How a session came to its principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoginKind {
    /// The broker authenticates nobody, and everybody may do everything. Tag 0.
    Anonymous,
    /// By a password. Tag 1.
    Password,
    /// By a token. Tag 2.
    Token,
    /// By the one-time token of a broker that nobody may administer yet. Tag 3.
    FirstAdministrator,
}

/// Whom the broker takes the client for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhoAmIResponse {
    /// The user's name; empty where there is none.
    pub principal: String,
    /// How it logged in.
    pub login: LoginKind,
}

impl Message for WhoAmIResponse {
    const OPERATION: Operation = Operation::WhoAmI;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("principal", &self.principal);
        body.u8(match self.login {
            LoginKind::Anonymous => 0,
            LoginKind::Password => 1,
            LoginKind::Token => 2,
            LoginKind::FirstAdministrator => 3,
        });
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            principal: body.string("principal")?.to_owned(),
            login: match body.u8("login")? {
                0 => LoginKind::Anonymous,
                1 => LoginKind::Password,
                2 => LoginKind::Token,
                3 => LoginKind::FirstAdministrator,
                other => return Err(BodyError::BadValue { field: "login", value: other.into(), allowed: "0, 1, 2 or 3" }),
            },
        })
    }
}

impl Response for WhoAmIResponse {}
