//! The values of what belongs to users and rules.

use super::*;

pub(super) fn all() -> Vec<Sample> {
    let mut samples = users();
    samples.extend(rules());
    samples
}

fn users() -> Vec<Sample> {
    let listed = ListedUser {
        name: "anna".into(),
        enabled: true,
        has_password: true,
        created_at: TIME,
        tokens: vec![ListedToken { label: "ci".into(), created_at: TIME + 1_000_000 }],
    };
    vec![
        request("hello-with-password-request", 25, HelloRequest::new("example").with_password("anna", &Secret::new("s3cret"))),
        request(
            "put-user-request",
            26,
            PutUserRequest {
                user: "anna".into(),
                mode: PutUserMode::Create,
                password: PasswordChange::Set(Secret::new("s3cret")),
                enabled: Some(true),
            },
        ),
        response("put-user-response", 26, PutUserResponse { created: true }),
        request("delete-user-request", 27, DeleteUserRequest { user: "anna".into() }),
        response("delete-user-response", 27, DeleteUserResponse),
        request("list-users-request", 28, ListUsersRequest { after: String::new(), limit: 100 }),
        response("list-users-response", 28, ListUsersResponse { users: vec![listed], more: false }),
        request("create-token-request", 29, CreateTokenRequest { user: "anna".into(), label: "ci".into() }),
        response(
            "create-token-response",
            29,
            CreateTokenResponse { token: Secret::new(format!("hmt_{}", "0123456789abcdef".repeat(4))) },
        ),
        request("delete-token-request", 30, DeleteTokenRequest { user: "anna".into(), label: "ci".into() }),
        response("delete-token-response", 30, DeleteTokenResponse),
    ]
}

fn rules() -> Vec<Sample> {
    let rule = |resource, operations| AccessRule { principal: "anna".into(), resource, operations };
    let topics = AccessResource::Topic(NamePattern::Prefix("eu-".into()));
    let orders = rule(topics.clone(), AccessOperations::PRODUCE | AccessOperations::CONSUME);
    let group = rule(AccessResource::Group(NamePattern::Exact("billing".into())), AccessOperations::CONSUME);
    let every = AccessRule { principal: EVERY_USER.into(), ..group.clone() };
    vec![
        request("add-rules-request", 31, AddRulesRequest { rules: vec![orders.clone(), group.clone()] }),
        response("add-rules-response", 31, AddRulesResponse { changed: 2 }),
        request("delete-rules-request", 32, DeleteRulesRequest { rules: vec![rule(topics, AccessOperations::PRODUCE)] }),
        response("delete-rules-response", 32, DeleteRulesResponse { changed: 1 }),
        request("list-rules-request", 33, ListRulesRequest { principal: "anna".into(), after: Some(group), limit: 100 }),
        response(
            "list-rules-response",
            33,
            ListRulesResponse { rules: vec![every, rule(AccessResource::Broker, AccessOperations::ADMINISTER)], more: false },
        ),
        request("who-am-i-request", 34, WhoAmIRequest),
        response("who-am-i-response", 34, WhoAmIResponse { principal: "anna".into(), login: LoginKind::Password }),
    ]
}
