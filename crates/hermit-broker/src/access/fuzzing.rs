//! The file of users, tokens and rules.

use hermit_proto::crc32c;

use super::file::{FORMAT, MAGIC, decode, encode};

/// Bytes as they come, and a body under a right checksum: what is believed says the same when it is written again, and nothing once it is cut or has a flipped bit.
///
/// # Panics
/// Where that does not hold.
pub fn access(data: &[u8]) {
    let _refused = decode(data).is_err();
    let mut bytes = [&MAGIC[..], &FORMAT.to_be_bytes(), data].concat();
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_be_bytes());
    let Ok(state) = decode(&bytes) else { return };
    let mut again = encode(&state).expect("what was read fits");
    assert_eq!(decode(&again).as_ref(), Ok(&state));
    assert!(again.len() <= bytes.len(), "an entry is told once");
    let at = usize::from(data.last().copied().unwrap_or(0)) % again.len();
    assert!(again.get(..at).is_some_and(|cut| decode(cut).is_err()));
    if let Some(byte) = again.get_mut(at) {
        *byte ^= 1;
    }
    assert!(decode(&again).is_err());
}
