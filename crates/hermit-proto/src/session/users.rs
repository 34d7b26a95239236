//! PutUser, DeleteUser, ListUsers: who may log in.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response, empty_message};
use super::operation::Operation;
use crate::secret::Secret;

/// Whether a user has to be there before it is put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PutUserMode {
    /// It may be there or not. Tag 0.
    #[default]
    CreateOrChange,
    /// It must not be there. Tag 1.
    Create,
    /// It must be there. Tag 2.
    Change,
}

/// What becomes of a user's password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PasswordChange {
    /// It stays as it is; a new user gets none. Tag 0.
    #[default]
    Keep,
    /// It becomes this one. Tag 1.
    Set(Secret),
    /// The user has none any more, and logs in with tokens only. Tag 2.
    Remove,
}

/// Creates a user, or changes what is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutUserRequest {
    /// Its name.
    pub user: String,
    /// Whether it has to be there.
    pub mode: PutUserMode,
    /// What becomes of its password.
    pub password: PasswordChange,
    /// Whether it may log in; `None`: as before, and a new user may.
    pub enabled: Option<bool>,
}

impl Message for PutUserRequest {
    const OPERATION: Operation = Operation::PutUser;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("user", &self.user);
        body.u8(match self.mode {
            PutUserMode::CreateOrChange => 0,
            PutUserMode::Create => 1,
            PutUserMode::Change => 2,
        });
        match &self.password {
            PasswordChange::Keep => body.u8(0),
            PasswordChange::Set(password) => {
                body.u8(1);
                body.string("password", password.expose());
            }
            PasswordChange::Remove => body.u8(2),
        }
        body.u8(match self.enabled {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        });
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let bad = |field, value: u8| BodyError::BadValue { field, value: value.into(), allowed: "0, 1 or 2" };
        Ok(Self {
            user: body.string("user")?.to_owned(),
            mode: match body.u8("mode")? {
                0 => PutUserMode::CreateOrChange,
                1 => PutUserMode::Create,
                2 => PutUserMode::Change,
                other => return Err(bad("mode", other)),
            },
            password: match body.u8("password")? {
                0 => PasswordChange::Keep,
                1 => PasswordChange::Set(Secret::new(body.string("password")?)),
                2 => PasswordChange::Remove,
                other => return Err(bad("password", other)),
            },
            enabled: match body.u8("enabled")? {
                0 => None,
                1 => Some(true),
                2 => Some(false),
                other => return Err(bad("enabled", other)),
            },
        })
    }
}

impl Request for PutUserRequest {
    type Response = PutUserResponse;
}

/// The user is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutUserResponse {
    /// Whether it was not there before.
    pub created: bool,
}

impl Message for PutUserResponse {
    const OPERATION: Operation = Operation::PutUser;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.flag(self.created);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { created: body.flag("created")? })
    }
}

impl Response for PutUserResponse {}

/// Deletes a user, its tokens, and the rules that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteUserRequest {
    /// Its name.
    pub user: String,
}

impl Message for DeleteUserRequest {
    const OPERATION: Operation = Operation::DeleteUser;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("user", &self.user);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { user: body.string("user")?.to_owned() })
    }
}

impl Request for DeleteUserRequest {
    type Response = DeleteUserResponse;
}

empty_message! {
    /// The user is gone, also after a power cut, and its sessions end.
    DeleteUserResponse, DeleteUser
}

impl Response for DeleteUserResponse {}

/// Asks for users, in the order of the bytes of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListUsersRequest {
    /// Begin behind this name; empty: at the first.
    pub after: String,
    /// At most so many; 0: as many as the broker likes.
    pub limit: u32,
}

impl Message for ListUsersRequest {
    const OPERATION: Operation = Operation::ListUsers;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("after", &self.after);
        body.u32(self.limit);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { after: body.string("after")?.to_owned(), limit: body.u32("limit")? })
    }
}

impl Request for ListUsersRequest {
    type Response = ListUsersResponse;
}

/// A token of a user, without what makes it one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedToken {
    /// What the user's tokens are told apart by.
    pub label: String,
    /// When it was made, in ns since the Unix epoch by the broker's clock.
    pub created_at: u64,
}

/// A user, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUser {
    /// Its name.
    pub name: String,
    /// Whether it may log in.
    pub enabled: bool,
    /// Whether it has a password.
    pub has_password: bool,
    /// When it was created, in ns since the Unix epoch by the broker's clock.
    pub created_at: u64,
    /// Its tokens, in the order of their labels.
    pub tokens: Vec<ListedToken>,
}

/// A page of the list of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListUsersResponse {
    /// The page.
    pub users: Vec<ListedUser>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

impl Message for ListUsersResponse {
    const OPERATION: Operation = Operation::ListUsers;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.list("users", &self.users, |body, user| {
            body.string("name", &user.name);
            body.flag(user.enabled);
            body.flag(user.has_password);
            body.u64(user.created_at);
            body.list("tokens", &user.tokens, |body, token| {
                body.string("label", &token.label);
                body.u64(token.created_at);
            });
        });
        body.flag(self.more);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let token = |item: &mut BodyReader<'_>| {
            Ok(ListedToken { label: item.string("label")?.to_owned(), created_at: item.u64("created_at")? })
        };
        Ok(Self {
            users: body.list("users", |item| {
                Ok(ListedUser {
                    name: item.string("name")?.to_owned(),
                    enabled: item.flag("enabled")?,
                    has_password: item.flag("has_password")?,
                    created_at: item.u64("created_at")?,
                    tokens: item.list("tokens", token)?,
                })
            })?,
            more: body.flag("more")?,
        })
    }
}

impl Response for ListUsersResponse {}
