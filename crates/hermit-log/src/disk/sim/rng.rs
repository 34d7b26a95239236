//! The simulation's only source of chance: the same seed gives the same run on every machine.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). Not for secrets.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that gives the same numbers for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..limit`; 0 where `limit` is 0.
    pub const fn below(&mut self, limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        // The bias is under limit / 2⁶⁴, and the value fits: it is below a `usize`.
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is below a usize")]
        let value = (self.next_u64() % limit as u64) as usize;
        value
    }

    /// True once in `n` times on average; always for 0 and 1.
    pub const fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
