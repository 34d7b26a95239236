//! What messages hold: who sent them, and bytes that follow from that, so that a reader knows every single byte.

use crate::check::history::Message;

/// Topic, producer and number.
const HEAD_BYTES: usize = 2 + 4 + 4;

/// A payload of so many bytes, a little more if that is too few.
pub(super) fn make(topic: u16, message: Message, bytes: usize) -> Vec<u8> {
    let mut payload = Vec::with_capacity(bytes.max(HEAD_BYTES));
    payload.extend(topic.to_be_bytes());
    payload.extend(message.producer.to_be_bytes());
    payload.extend(message.number.to_be_bytes());
    payload.extend(filling(message).take(bytes.saturating_sub(HEAD_BYTES)));
    payload
}

/// The topic and message that a payload was made for; `None` if it is not, byte for byte, what was made.
pub(super) fn read(payload: &[u8]) -> Option<(u16, Message)> {
    let (topic, rest) = payload.split_first_chunk()?;
    let (producer, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let message = Message { producer: u32::from_be_bytes(*producer), number: u32::from_be_bytes(*number) };
    rest.iter().copied().eq(filling(message).take(rest.len())).then_some((u16::from_be_bytes(*topic), message))
}

/// Bytes that differ from message to message.
fn filling(message: Message) -> impl Iterator<Item = u8> {
    let mut state = (u64::from(message.producer) << 32 | u64::from(message.number)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
}

/// A size: mostly small, now and then so large that a kill may well hit it half-written.
pub(super) fn size(random: &mut fastrand::Rng, max_bytes: usize) -> usize {
    let bytes = match random.u16(0..1000) {
        0..900 => random.usize(HEAD_BYTES..400),
        900..990 => random.usize(400..8 << 10),
        990..999 => random.usize(8 << 10..128 << 10),
        _ => random.usize(128 << 10..1 << 20),
    };
    bytes.min(max_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_known() {
        let message = Message { producer: 7, number: 9 };
        for bytes in [0, HEAD_BYTES, 11, 300] {
            let payload = make(3, message, bytes);
            assert_eq!(payload.len(), bytes.max(HEAD_BYTES));
            assert_eq!(read(&payload), Some((3, message)));
        }
        let payload = make(3, message, 300);
        for at in [2, 9, 10, 299] {
            let mut wrong = payload.clone();
            wrong[at] ^= 1;
            assert_ne!(read(&wrong), Some((3, message)), "byte {at}");
        }
        assert_eq!(read(&payload[..9]), None);
    }
}
