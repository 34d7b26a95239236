//! Requests about users, tokens and rules. That the session may administer the broker was checked before.

use hermit_proto::session::{
    AddRulesRequest, AddRulesResponse, CreateTokenRequest, CreateTokenResponse, DeleteRulesRequest, DeleteRulesResponse,
    DeleteTokenRequest, DeleteTokenResponse, DeleteUserRequest, DeleteUserResponse, ListRulesRequest, ListUsersRequest,
    PutUserRequest, PutUserResponse, Request, WhoAmIRequest,
};
use hermit_proto::{Unit, UserName};

use super::state::Session;
use super::topics::answer;
use crate::access::Change;
use crate::error::BrokerError;

impl Session {
    /// Changes users or rules in the background. Whether the session may is looked at again when its turn has come.
    fn change<Q>(&mut self, unit: &Unit, change: impl Fn(&Change<'_>, &Q) -> Result<Q::Response, BrokerError> + Send + 'static)
    where
        Q: Request + Send + 'static,
    {
        let asker = self.rights.asker();
        self.in_background(unit, Self::checked, move |broker, request: Q| broker.change_access(&asker, |by| change(by, &request)));
    }

    pub(super) fn put_user(&mut self, unit: &Unit) {
        self.change(unit, |by, request: &PutUserRequest| Ok(PutUserResponse { created: by.put_user(request)? }));
    }

    pub(super) fn delete_user(&mut self, unit: &Unit) {
        self.change(unit, |by, request: &DeleteUserRequest| {
            by.delete_user(&UserName::new(&request.user)?)?;
            Ok(DeleteUserResponse)
        });
    }

    pub(super) fn list_users(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: ListUsersRequest| Ok(broker.list_users(&request)));
    }

    pub(super) fn create_token(&mut self, unit: &Unit) {
        self.change(unit, |by, request: &CreateTokenRequest| {
            Ok(CreateTokenResponse { token: by.create_token(&UserName::new(&request.user)?, &request.label)? })
        });
    }

    pub(super) fn delete_token(&mut self, unit: &Unit) {
        self.change(unit, |by, request: &DeleteTokenRequest| {
            by.delete_token(&UserName::new(&request.user)?, &request.label)?;
            Ok(DeleteTokenResponse)
        });
    }

    pub(super) fn add_rules(&mut self, unit: &Unit) {
        self.change(unit, |by, request: &AddRulesRequest| Ok(AddRulesResponse { changed: by.add_rules(&request.rules)? }));
    }

    pub(super) fn delete_rules(&mut self, unit: &Unit) {
        self.change(unit, |by, request: &DeleteRulesRequest| Ok(DeleteRulesResponse { changed: by.delete_rules(&request.rules)? }));
    }

    pub(super) fn list_rules(&mut self, unit: &Unit) {
        self.in_background(unit, Self::checked, |broker, request: ListRulesRequest| Ok(broker.list_rules(&request)));
    }

    pub(super) fn who_am_i(&mut self, unit: &Unit) {
        let told = self.rights.told();
        answer(unit, self.broker.counters(), &mut self.out, |_request: WhoAmIRequest| Ok(told));
    }
}
