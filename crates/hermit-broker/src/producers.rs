//! Ids of idempotent producers: never the same one twice, whatever happens.

use hermit_proto::{ProducerEpoch, ProducerId};

use crate::error::{BrokerError, Counted};
use crate::manifest::{Manifest, Record};

/// Ids that one record in the manifest reserves. A restart burns what is left of a block; there are 2⁶³ ids.
const BLOCK: i64 = 1000;
/// As many as there are numbers.
const MOST: u64 = i64::MAX.cast_unsigned();

/// Gives out producer ids. All below `next` may have been given out.
#[derive(Debug)]
pub(crate) struct ProducerIds {
    next: i64,
    reserved: i64,
}

impl ProducerIds {
    /// Goes on where the manifest says.
    pub(crate) const fn new(next: ProducerId) -> Self {
        Self { next: next.0, reserved: next.0 }
    }

    /// The first id that was not given out.
    pub(crate) const fn end(&self) -> ProducerId {
        ProducerId(self.next)
    }

    /// A new id, or the next epoch of one that was given out.
    pub(crate) fn init(
        &mut self,
        manifest: &mut Manifest,
        id: ProducerId,
        epoch: ProducerEpoch,
    ) -> Result<(ProducerId, ProducerEpoch), BrokerError> {
        if id.is_some() {
            if id.0 >= self.next || epoch.0 < 0 {
                return Err(BrokerError::UnknownProducer { id });
            }
            if let Some(epoch) = epoch.0.checked_add(1) {
                return Ok((id, ProducerEpoch(epoch)));
            }
            // The epochs of this id are used up: it gets a new one.
        }
        if self.next >= self.reserved {
            let reserved = self.reserved.saturating_add(BLOCK);
            manifest.append(&[Record::Producers { next: ProducerId(reserved) }])?;
            self.reserved = reserved;
        }
        let id = self.next;
        self.next = id.checked_add(1).ok_or(BrokerError::TooMany { what: Counted::Producers, limit: MOST })?;
        Ok((ProducerId(id), ProducerEpoch(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_log::disk::Disk;
    use hermit_log::disk::sim::SimDisk;
    use hermit_proto::LeaderEpoch;
    use std::path::Path;
    use std::sync::Arc;

    use crate::manifest::State;

    #[test]
    fn when_the_ids_are_used_up_that_is_an_error_and_none_is_given_out_twice() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        disk.create_dir_all(Path::new("/data")).unwrap();
        let mut manifest = Manifest::create(disk, Path::new("/data"), State::begin(1, LeaderEpoch(0))).unwrap();
        let mut ids = ProducerIds::new(ProducerId(i64::MAX - 1));
        let mut init = || ids.init(&mut manifest, ProducerId::NONE, ProducerEpoch(-1));
        assert_eq!(init().unwrap().0, ProducerId(i64::MAX - 1));
        for _ in 0..2 {
            assert!(matches!(init(), Err(BrokerError::TooMany { what: Counted::Producers, .. })));
        }
    }
}
