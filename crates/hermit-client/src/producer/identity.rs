//! Who an idempotent producer is to the broker.

use hermit_proto::{ProducerEpoch, ProducerId};

/// Epochs of one incarnation: the next one begins at the next multiple. So whatever an incarnation renews its identity to stays below
/// what its successor has, and is fenced by it. 2¹⁵ epochs make 512 incarnations of 63 renewals each.
const INCARNATION: i16 = 64;

/// The id and epoch of an idempotent producer: what a second incarnation needs to fence the first.
///
/// See [`ProducerBuilder::resume`](crate::ProducerBuilder::resume).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProducerIdentity {
    /// The id.
    pub id: ProducerId,
    /// The epoch. A higher one fences the lower.
    pub epoch: ProducerEpoch,
}

impl ProducerIdentity {
    /// What to name to the broker, which answers with the epoch behind it, to become the next incarnation.
    pub(super) const fn last_of_incarnation(self) -> Self {
        Self { id: self.id, epoch: ProducerEpoch(self.epoch.0 | (INCARNATION - 1)) }
    }

    /// Whether the next epoch still belongs to this incarnation.
    pub(super) const fn can_renew(self) -> bool {
        self.epoch.0 & (INCARNATION - 1) != INCARNATION - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_above_every_renewal_of_its_predecessor() {
        let mut first = ProducerIdentity { id: ProducerId(1), epoch: ProducerEpoch(0) };
        let successor = first.last_of_incarnation().epoch.0 + 1;
        for _ in 0..63 {
            assert!(first.can_renew());
            first.epoch.0 += 1;
            assert!(first.epoch.0 < successor);
            assert_eq!(first.last_of_incarnation().epoch.0 + 1, successor, "the same one from whichever of its identities");
        }
        assert!(!first.can_renew());
        let last = ProducerIdentity { epoch: ProducerEpoch(i16::MAX - 1), ..first };
        assert_eq!(last.last_of_incarnation().epoch.0, i16::MAX);
    }
}
