//! One figure for a set of lines, whatever their order.

use std::fmt;

use sha2::{Digest, Sha256};

/// A SHA-256, printed as hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum([u8; 32]);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The checksum of the lines, sorted by their bytes and each followed by a line break: what
/// `LC_ALL=C sort | sha256sum` prints. A line that comes twice counts twice.
pub fn sorted_checksum<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Checksum {
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    let mut hash = Sha256::new();
    for line in lines {
        hash.update(line);
        hash.update(b"\n");
    }
    Checksum(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(lines: &[&str]) -> String {
        sorted_checksum(lines.iter().map(|line| line.as_bytes())).to_string()
    }

    #[test]
    fn it_is_that_of_sort_and_sha256sum() {
        // printf 'b\na\n' | LC_ALL=C sort | sha256sum
        assert_eq!(checksum(&["b", "a"]), "911169ddaaf146aff539f58c26c489af3b892dff0fe283c1c264c65ae5aa59a2");
        assert_eq!(checksum(&["a", "b"]), checksum(&["b", "a"]));
    }

    #[test]
    fn a_line_more_or_less_changes_it() {
        assert_ne!(checksum(&["a", "b"]), checksum(&["a", "b", "b"]));
        assert_ne!(checksum(&["a", "b"]), checksum(&["a"]));
    }
}
