//! What may be committed, and when nobody can come in between.

use std::sync::Arc;

use hermit_proto::{Generation, GroupName, MemberId};

use super::assign::TopicPartition;
use super::coordinator::{Groups, refused};
use crate::error::BrokerError;

impl Groups {
    /// Does `append` for a member, which is told what the member may commit. Nothing changes hands meanwhile.
    pub(crate) fn commit_as<T>(
        &self,
        name: &GroupName,
        member: MemberId,
        append: impl FnOnce(&dyn Fn(TopicPartition, Generation) -> bool) -> T,
    ) -> Result<T, BrokerError> {
        self.with_member(name, member, |state, now| {
            state.group.seen(now, member).map_err(|refusal| refused(name, member, refusal))?;
            let group = &state.group;
            Ok(append(&|of, generation| group.may_commit(member, of, generation)))
        })
    }

    /// Does `work`, which is short, while nobody is in the group, and nobody can join it.
    pub(crate) fn while_inactive<T>(&self, name: &GroupName, work: impl FnOnce() -> T) -> Result<T, BrokerError> {
        // Whose time is over is in nobody's way.
        self.with(name, |_state, _now| ());
        loop {
            let cells = self.cells.read();
            let Some(cell) = cells.get(name).cloned() else {
                let done = work();
                drop(cells);
                return Ok(done);
            };
            // Somebody may have it for longer: not to be waited for with the map.
            drop(cells);
            if !cell.lock().dead {
                return Err(BrokerError::GroupActive { group: name.clone() });
            }
            std::thread::yield_now();
        }
    }

    /// The same for work that takes its time: a group that is empty stands for this one meanwhile, and only who comes to this one waits.
    pub(crate) fn while_reserved<T>(&self, name: &GroupName, work: impl FnOnce() -> T) -> Result<T, BrokerError> {
        self.with(name, |_state, _now| ());
        loop {
            let mut cells = self.cells.write();
            let Some(cell) = cells.get(name).cloned() else {
                let cell = Arc::new(self.new_cell(name));
                let state = cell.lock();
                cells.insert(name.clone(), Arc::clone(&cell));
                drop(cells);
                let done = work();
                self.leave_cell(&cell, state);
                return Ok(done);
            };
            drop(cells);
            if !cell.lock().dead {
                return Err(BrokerError::GroupActive { group: name.clone() });
            }
            std::thread::yield_now();
        }
    }
}
