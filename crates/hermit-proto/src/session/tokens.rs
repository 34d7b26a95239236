//! CreateToken, DeleteToken: what programs log in with.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response, empty_message};
use super::operation::Operation;
use crate::secret::Secret;

/// Makes a token, with which a user logs in without its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTokenRequest {
    /// Whose it is.
    pub user: String,
    /// What the user's tokens are told apart by: the rule for names applies.
    pub label: String,
}

impl Message for CreateTokenRequest {
    const OPERATION: Operation = Operation::CreateToken;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("user", &self.user);
        body.string("label", &self.label);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { user: body.string("user")?.to_owned(), label: body.string("label")?.to_owned() })
    }
}

impl Request for CreateTokenRequest {
    type Response = CreateTokenResponse;
}

/// The token. Nobody can tell it again: the broker keeps a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTokenResponse {
    /// What the mechanism `TOKEN` takes.
    pub token: Secret,
}

impl Message for CreateTokenResponse {
    const OPERATION: Operation = Operation::CreateToken;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("token", self.token.expose());
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { token: Secret::new(body.string("token")?) })
    }
}

impl Response for CreateTokenResponse {}

/// Deletes a token. Sessions that were opened with it end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTokenRequest {
    /// Whose it is.
    pub user: String,
    /// Which.
    pub label: String,
}

impl Message for DeleteTokenRequest {
    const OPERATION: Operation = Operation::DeleteToken;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("user", &self.user);
        body.string("label", &self.label);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { user: body.string("user")?.to_owned(), label: body.string("label")?.to_owned() })
    }
}

impl Request for DeleteTokenRequest {
    type Response = DeleteTokenResponse;
}

empty_message! {
    /// The token is gone, also after a power cut.
    DeleteTokenResponse, DeleteToken
}

impl Response for DeleteTokenResponse {}
