//! What to do about damage: a pure function of the facts.
//!
//! *Log positions* here are bytes counted from the first byte of the first scanned segment, across segments.

use hermit_proto::Offset;

use crate::scan::Damage;

/// Damage with its place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Which of the log's segments, from 0.
    pub(crate) segment: usize,
    /// Log position of the damage's first byte.
    pub(crate) log_position: i64,
    pub(crate) damage: Damage,
}

impl Placed {
    /// Log position of the first byte behind the damage.
    pub(crate) fn log_end(&self) -> i64 {
        self.log_position.saturating_add_unsigned(self.damage.next_position.saturating_sub(self.damage.position))
    }
}

/// What is known to have been flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlushedFacts {
    /// The last stop was clean: all was.
    pub(crate) clean: bool,
    /// Every offset below, by the checkpoint or by a snapshot of producer state.
    pub(crate) offset: Offset,
    /// The largest flushed end, as a log position, that a good frame proves. No frame proves more than lies before itself, so whatever
    /// damage lies below this has a good frame behind it.
    pub(crate) proven: i64,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Rot, to be fenced, in order.
    pub(crate) fenced: Vec<Placed>,
    /// A torn tail begins here: the log ends where this damage begins.
    pub(crate) cut: Option<Placed>,
}

/// Tells rot from a torn tail. `damages` are in log order.
pub(crate) fn decide(damages: &[Placed], flushed: FlushedFacts) -> Decision {
    let is_rot = |placed: &&Placed| flushed.clean || placed.damage.from < flushed.offset || placed.log_position < flushed.proven;
    let rot = damages.iter().take_while(is_rot).count();
    Decision { fenced: damages.iter().take(rot).copied().collect(), cut: damages.get(rot).copied() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(log_position: i64) -> Placed {
        let position = log_position.cast_unsigned();
        let damage = Damage { position, next_position: position + 10, from: Offset(position), next: Some(Offset(position + 1)) };
        Placed { segment: 0, log_position, damage }
    }

    /// Every combination of: clean or not, checkpoint before or behind, proof before or behind.
    #[test]
    fn damage_is_rot_if_and_only_if_something_shows_that_it_was_flushed() {
        for clean in [false, true] {
            for offset in [0, 100, 101, 1000] {
                for proven in [-5, 0, 100, 101, 1000] {
                    let rot = clean || offset > 100 || proven > 100;
                    let decision = decide(&[at(100)], FlushedFacts { clean, offset: Offset(offset), proven });
                    let expected = if rot {
                        Decision { fenced: vec![at(100)], cut: None }
                    } else {
                        Decision { fenced: vec![], cut: Some(at(100)) }
                    };
                    assert_eq!(decision, expected, "clean {clean}, checkpoint {offset}, proven {proven}");
                }
            }
        }
    }

    #[test]
    fn the_cut_is_at_the_first_damage_that_nothing_shows_to_be_rot() {
        let flushed = FlushedFacts { clean: false, offset: Offset(0), proven: 150 };
        let decision = decide(&[at(10), at(149), at(150), at(400)], flushed);
        assert_eq!(decision, Decision { fenced: vec![at(10), at(149)], cut: Some(at(150)) });
        assert_eq!(decide(&[], flushed), Decision { fenced: vec![], cut: None });
    }
}
