//! Where ids come from: the system's randomness, or a seed where a simulation must replay.

use parking_lot::Mutex;

use crate::error::BrokerError;

/// Makes ids that nobody else makes.
#[derive(Debug)]
pub(crate) enum Ids {
    System,
    /// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
    Seeded(Mutex<u64>),
}

impl Ids {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        seed.map_or(Self::System, |seed| Self::Seeded(Mutex::new(seed)))
    }

    /// 128 random bits, never 0.
    pub(crate) fn next(&self) -> Result<u128, BrokerError> {
        let id = match self {
            Self::System => {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).map_err(|error| BrokerError::Random(error.to_string()))?;
                u128::from_be_bytes(bytes)
            }
            Self::Seeded(state) => {
                let mut state = state.lock();
                u128::from(step(&mut state)) << 64 | u128::from(step(&mut state))
            }
        };
        Ok(id.max(1))
    }
}

const fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
