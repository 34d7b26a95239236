//! Users and their tokens. All of it is for who may administer the broker.

use axum::http::StatusCode;
use hermit_broker::proto::session::{ListUsersRequest, PasswordChange, PutUserMode, PutUserRequest};
use hermit_broker::proto::{Secret, UserName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::answer::Answer;
use crate::auth::Client;
use crate::blocking::blocking;
use crate::body::Unread;
use crate::params::{Path, Query};
use crate::problem::Problem;
use crate::schema::Page;

/// A token of a user, without what makes it one.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TokenInfo {
    /// What the user's tokens are told apart by.
    label: String,
    /// When it was made, in ns since the Unix epoch.
    created_at_ns: u64,
}

/// A user, without its secrets.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UserInfo {
    /// Its name.
    name: String,
    /// Whether it may log in.
    enabled: bool,
    /// Whether it has a password.
    has_password: bool,
    /// When it was created, in ns since the Unix epoch.
    created_at_ns: u64,
    /// Its tokens.
    tokens: Vec<TokenInfo>,
}

/// A page of users.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UserPage {
    /// In the order of their names.
    users: Vec<UserInfo>,
    /// Whether there are more behind the last one.
    more: bool,
}

/// Lists users.
#[utoipa::path(get, path = "/api/v1/users", tag = "users", params(Page), responses((status = 200, body = UserPage), (status = "default", body = Problem)))]
pub(super) async fn list(client: Client, Query(page): Query<Page>) -> Result<Answer<UserPage>, Problem> {
    client.caller.check_broker()?;
    let limit = u32::try_from(page.most()).unwrap_or(u32::MAX);
    let listed = client.broker.list_users(&ListUsersRequest { after: page.after, limit });
    let users = listed.users.into_iter().map(|user| UserInfo {
        name: user.name,
        enabled: user.enabled,
        has_password: user.has_password,
        created_at_ns: user.created_at,
        tokens: user.tokens.into_iter().map(|token| TokenInfo { label: token.label, created_at_ns: token.created_at }).collect(),
    });
    Ok(Answer(UserPage { users: users.collect(), more: listed.more }))
}

/// A text that is overwritten when it is dropped.
struct Hidden(Secret);

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: serde::Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        String::deserialize(text).map(|text| Self(Secret::new(text)))
    }
}

/// What a user becomes. What is left out stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UserChange {
    /// Its password.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    password: Option<Hidden>,
    /// Whether its password is taken away, so that it logs in with tokens only.
    #[serde(default)]
    remove_password: bool,
    /// Whether it may log in.
    #[serde(default)]
    enabled: Option<bool>,
}

/// What became of a user.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UserPut {
    /// Whether it is new.
    created: bool,
}

/// Creates or changes a user.
#[utoipa::path(put, path = "/api/v1/users/{user}", tag = "users", params(("user" = String, Path, description = "Its name")), request_body = UserChange, responses((status = 200, body = UserPut), (status = "default", body = Problem)))]
pub(super) async fn put(client: Client, Path(user): Path<String>, body: Unread) -> Result<Answer<UserPut>, Problem> {
    client.caller.check_broker()?;
    let change: UserChange = body.json(&client.broker).await?;
    let password = match (change.password, change.remove_password) {
        (Some(_), true) => return Err(Problem::bad("remove_password", "give password or remove_password, not both")),
        (Some(password), false) => PasswordChange::Set(password.0),
        (None, true) => PasswordChange::Remove,
        (None, false) => PasswordChange::Keep,
    };
    let (request, caller) =
        (PutUserRequest { user, mode: PutUserMode::CreateOrChange, password, enabled: change.enabled }, client.caller.clone());
    blocking(move || Ok(Answer(UserPut { created: caller.put_user(&request)? }))).await
}

/// Deletes a user, its tokens, and the rules that name it. Its sessions end.
#[utoipa::path(delete, path = "/api/v1/users/{user}", tag = "users", params(("user" = String, Path, description = "Its name")), responses((status = 204), (status = "default", body = Problem)))]
pub(super) async fn delete(client: Client, Path(user): Path<String>) -> Result<StatusCode, Problem> {
    client.caller.check_broker()?;
    let (user, caller) = (UserName::new(&user)?, client.caller.clone());
    blocking(move || {
        caller.delete_user(&user)?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// A token to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    /// What the user's tokens are told apart by.
    label: String,
}

/// A new token.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenMade {
    /// The token. Nobody can tell it again.
    token: String,
}

/// Makes a token for a user.
#[utoipa::path(post, path = "/api/v1/users/{user}/tokens", tag = "users", params(("user" = String, Path, description = "The user")), request_body = NewToken, responses((status = 201, body = TokenMade), (status = "default", body = Problem)))]
pub(super) async fn create_token(
    client: Client,
    Path(user): Path<String>,
    body: Unread,
) -> Result<(StatusCode, [(axum::http::HeaderName, &'static str); 1], Answer<TokenMade>), Problem> {
    client.caller.check_broker()?;
    let new: NewToken = body.json(&client.broker).await?;
    let (user, caller) = (UserName::new(&user)?, client.caller.clone());
    blocking(move || {
        let token = caller.create_token(&user, &new.label)?.expose().to_owned();
        Ok((StatusCode::CREATED, [(axum::http::header::CACHE_CONTROL, "no-store")], Answer(TokenMade { token })))
    })
    .await
}

/// Deletes a token. Sessions that it opened end.
#[utoipa::path(delete, path = "/api/v1/users/{user}/tokens/{label}", tag = "users", params(("user" = String, Path, description = "The user"), ("label" = String, Path, description = "The token's label")), responses((status = 204), (status = "default", body = Problem)))]
pub(super) async fn delete_token(client: Client, Path((user, label)): Path<(String, String)>) -> Result<StatusCode, Problem> {
    client.caller.check_broker()?;
    let (user, caller) = (UserName::new(&user)?, client.caller.clone());
    blocking(move || {
        caller.delete_token(&user, &label)?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
