//! Tokens: 256 random bits, shown once, kept as a hash.

use std::fmt::Write as _;

use hermit_proto::Secret;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::error::BrokerError;
use crate::ids::Ids;

/// What tokens begin with, so that whoever finds one knows what it is.
const PREFIX: &str = "hmt_";

/// A new token, and its hash.
pub(crate) fn make(ids: &Ids) -> Result<(Secret, [u8; 32]), BrokerError> {
    // Each is 128 bits, but for the one value 0 that it never has.
    let (high, low) = (Zeroizing::new(ids.next()?), Zeroizing::new(ids.next()?));
    let mut text = String::with_capacity(PREFIX.len() + 64);
    text.push_str(PREFIX);
    // A string takes all that is written to it.
    let _written = write!(text, "{:032x}{:032x}", *high, *low);
    let token = Secret::new(text);
    let hash = hash(token.expose().as_bytes());
    Ok((token, hash))
}

/// What is kept of a token. It has no salt and takes no time: nobody guesses 256 bits.
pub(crate) fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_known_by_their_hash() {
        let ids = Ids::new(None);
        let ((a, a_hash), (b, b_hash)) = (make(&ids).unwrap(), make(&ids).unwrap());
        assert_eq!(a.expose().len(), 4 + 64);
        assert!(a.expose().starts_with("hmt_") && a != b && a_hash != b_hash);
        assert_eq!(hash(a.expose().as_bytes()), a_hash);
    }
}
