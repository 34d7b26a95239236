//! The settings for who may do what.

use hermit_broker::AccessConfig;
use hermit_broker::proto::UserName;

use super::table::{Given, SwitchName};

impl Given {
    pub(super) fn settle_access(&self, access: &mut AccessConfig) -> anyhow::Result<()> {
        access.enabled = self.authentication == Some(SwitchName::On);
        access.insecure_transport_ok = self.insecure == Some(true);
        if let Some(user) = &self.v1_principal {
            let name = UserName::new(user).map_err(|error| anyhow::anyhow!("`v1_principal` is {user:?}: {error}"))?;
            access.v1_principal = Some(name);
        }
        Ok(())
    }
}
