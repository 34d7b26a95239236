//! Requests about users, tokens and rules. That the session may administer the broker was checked before.

use hermit_proto::session::{
    AddRulesRequest, AddRulesResponse, CreateTokenRequest, CreateTokenResponse, DeleteRulesRequest, DeleteRulesResponse,
    DeleteTokenRequest, DeleteTokenResponse, DeleteUserRequest, DeleteUserResponse, ListRulesRequest, ListUsersRequest,
    PutUserRequest, PutUserResponse, WhoAmIRequest,
};
use hermit_proto::{Unit, UserName};

use super::state::Session;
use super::topics::answer;

impl Session {
    pub(super) fn put_user(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: PutUserRequest| {
            Ok(PutUserResponse { created: broker.put_user(&request)? })
        });
    }

    pub(super) fn delete_user(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: DeleteUserRequest| {
            broker.delete_user(&UserName::new(&request.user)?)?;
            Ok(DeleteUserResponse)
        });
    }

    pub(super) fn list_users(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: ListUsersRequest| Ok(broker.list_users(&request)));
    }

    pub(super) fn create_token(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: CreateTokenRequest| {
            Ok(CreateTokenResponse { token: broker.create_token(&UserName::new(&request.user)?, &request.label)? })
        });
    }

    pub(super) fn delete_token(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: DeleteTokenRequest| {
            broker.delete_token(&UserName::new(&request.user)?, &request.label)?;
            Ok(DeleteTokenResponse)
        });
    }

    pub(super) fn add_rules(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: AddRulesRequest| {
            Ok(AddRulesResponse { changed: broker.add_rules(&request.rules)? })
        });
    }

    pub(super) fn delete_rules(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: DeleteRulesRequest| {
            Ok(DeleteRulesResponse { changed: broker.delete_rules(&request.rules)? })
        });
    }

    pub(super) fn list_rules(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: ListRulesRequest| Ok(broker.list_rules(&request)));
    }

    pub(super) fn who_am_i(&mut self, unit: &Unit) {
        let told = self.rights.told();
        answer(unit, &mut self.out, |_request: WhoAmIRequest| Ok(told));
    }
}
