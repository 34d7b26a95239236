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
