//! Records of committed positions.

use super::record::{Committed, PositionKey};

/// Keys and values: what can be read is written again as it was.
///
/// # Panics
/// Where that does not hold.
pub fn positions(data: &[u8]) {
    if let Some(key) = PositionKey::decode(data) {
        assert_eq!(key.encode(), data);
    }
    if let Some(committed) = Committed::decode(data) {
        assert_eq!(committed.encode(), data);
    }
}
