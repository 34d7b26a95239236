//! Kafka's variable-length numbers: zigzag, then seven bits a byte, the lowest first.

/// Why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VarintFault {
    Cut,
    TooLong,
}

/// Reads a number of at most three bytes; `None` where it is longer, or cut.
#[inline(always)]
pub(super) fn read_short(bytes: &mut &[u8]) -> Option<i32> {
    let (raw, rest) = match *bytes {
        [first @ 0..0x80, rest @ ..] => (i32::from(*first), rest),
        [first, second @ 0..0x80, rest @ ..] => (i32::from(*first & 0x7f) | i32::from(*second) << 7, rest),
        [first, second, third @ 0..0x80, rest @ ..] => {
            (i32::from(*first & 0x7f) | i32::from(*second & 0x7f) << 7 | i32::from(*third) << 14, rest)
        }
        _ => return None,
    };
    *bytes = rest;
    Some(raw >> 1 ^ -(raw & 1))
}

/// Reads a 32-bit number of at most five bytes.
pub(super) fn read_i32(bytes: &mut &[u8]) -> Result<i32, VarintFault> {
    let raw = u32::try_from(read_raw(bytes, 32)?).map_err(|_over_32_bits| VarintFault::TooLong)?;
    Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

/// Reads a 64-bit number of at most ten bytes.
pub(super) fn read_i64(bytes: &mut &[u8]) -> Result<i64, VarintFault> {
    let raw = read_raw(bytes, 64)?;
    Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

fn read_raw(bytes: &mut &[u8], bits: u32) -> Result<u64, VarintFault> {
    let mut raw = 0u64;
    let mut shift = 0;
    let mut rest = *bytes;
    while shift < bits {
        let (byte, behind) = rest.split_first().ok_or(VarintFault::Cut)?;
        rest = behind;
        let seven = u64::from(byte & 0x7f);
        // Bits that the last byte would push out of the number must be 0.
        if shift + 7 > bits && seven >> (bits - shift) != 0 {
            return Err(VarintFault::TooLong);
        }
        raw |= seven << shift;
        if byte & 0x80 == 0 {
            *bytes = rest;
            return Ok(raw);
        }
        shift += 7;
    }
    Err(VarintFault::TooLong)
}

#[inline]
const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

/// Appends a number. 32- and 64-bit numbers of the same value have the same bytes.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, value: i64) {
    each_byte(value, |byte| out.push(byte));
}

/// The bytes of a number.
#[inline]
pub(super) fn each_byte(value: i64, mut write: impl FnMut(u8)) {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        write(low_seven_bits(raw) | 0x80);
        raw >>= 7;
    }
    write(low_seven_bits(raw));
}

#[inline]
const fn low_seven_bits(raw: u64) -> u8 {
    (raw & 0x7f) as u8
}

/// Bytes of a number.
#[inline]
pub(super) const fn size(value: i64) -> usize {
    // A group of seven for each seven bits begun, and one for 0.
    let bits = u64::BITS - (zigzag(value) | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_bytes() {
        for (value, bytes) in [
            (0i64, &[0x00u8][..]),
            (-1, &[0x01]),
            (1, &[0x02]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (300, &[0xd8, 0x04]),
            (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(read_i32(&mut &out[..]).map(i64::from), Ok(value));
            assert_eq!(read_i64(&mut &out[..]), Ok(value));
        }
    }

    #[test]
    fn numbers_with_too_many_bits_are_refused() {
        assert_eq!(read_i32(&mut &[0xff, 0xff, 0xff, 0xff, 0x1f][..]), Err(VarintFault::TooLong));
        assert_eq!(read_i32(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0x00][..]), Err(VarintFault::TooLong));
        assert_eq!(read_i64(&mut &[0xff; 10][..]), Err(VarintFault::TooLong));
        assert_eq!(read_i64(&mut &[0x80; 9][..]), Err(VarintFault::Cut));
        assert_eq!(read_i64(&mut &[][..]), Err(VarintFault::Cut));
    }

    proptest! {
        #[test]
        fn every_number_survives(value in prop_oneof![any::<i64>(), -3_000_000i64..3_000_000, -9000i64..9000, -70i64..70]) {
            let mut out = Vec::new();
            write(&mut out, value);
            prop_assert_eq!(out.len(), size(value));
            let mut rest = &out[..];
            prop_assert_eq!(read_i64(&mut rest), Ok(value));
            prop_assert!(rest.is_empty());
            let short = read_short(&mut &out[..]);
            prop_assert_eq!(short.map(i64::from), (out.len() <= 3).then_some(value));
            for cut in 0..out.len() {
                prop_assert_eq!(read_i64(&mut &out[..cut]), Err(VarintFault::Cut));
                prop_assert_eq!(read_short(&mut &out[..cut]), None);
            }
        }
    }
}
