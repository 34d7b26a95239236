//! Sizes and ages as people write them.

/// A limit as the protocol has it: `u64::MAX` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) u64);

const BYTE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const AGE_UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 7 * 86_400_000)];

/// `500MiB`, `10 GB`, `4096`, or `never`.
pub(crate) fn bytes(text: &str) -> Result<Limit, String> {
    parse(text, BYTE_UNITS).ok_or_else(|| "write it as `500MiB`, `10GB`, a number of bytes, or `never`".to_owned())
}

/// `90s`, `12h`, `7d`, or `never`, in milliseconds.
pub(crate) fn age_ms(text: &str) -> Result<Limit, String> {
    parse(text, AGE_UNITS).ok_or_else(|| "write it as `90s`, `12h`, `7d`, or `never`".to_owned())
}

/// `90s`, `12h`, `7d`, in milliseconds, of which there is an end.
pub(crate) fn finite_age_ms(text: &str) -> Option<u64> {
    age_ms(text).ok().map(|limit| limit.0).filter(|limit| *limit != u64::MAX)
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<Limit> {
    if text == "never" {
        return Some(Limit(u64::MAX));
    }
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    // The largest number stands for "never", which is another word.
    number.parse::<u64>().ok()?.checked_mul(*factor).filter(|value| *value != u64::MAX).map(Limit)
}

/// A limit for people.
pub(crate) fn show_bytes(limit: u64) -> String {
    show(limit, &[(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")], "B")
}

/// A size for people, to a tenth of its unit.
pub(crate) fn approximate_bytes(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(factor, _)| bytes >= *factor) {
        Some((factor, unit)) => format!("{}.{}{unit}", bytes / factor, bytes % factor * 10 / factor),
        None => format!("{bytes}B"),
    }
}

/// A limit in milliseconds for people.
pub(crate) fn show_age_ms(limit: u64) -> String {
    show(limit, &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")], "ms")
}

fn show(limit: u64, units: &[(u64, &str)], smallest: &str) -> String {
    if limit == u64::MAX {
        return "never".to_owned();
    }
    // Only what comes out even, so that nothing is rounded.
    match units.iter().find(|(factor, _)| limit >= *factor && limit.is_multiple_of(*factor)) {
        Some((factor, unit)) => format!("{}{unit}", limit / factor),
        None => format!("{limit}{smallest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_read_and_shown() {
        for (text, value) in [("4096", 4096), ("500MiB", 500 << 20), ("10 GB", 10_000_000_000), ("0B", 0), ("never", u64::MAX)] {
            assert_eq!(bytes(text), Ok(Limit(value)), "{text}");
        }
        for (text, value) in [("90s", 90_000), ("12h", 43_200_000), ("7d", 604_800_000), ("250ms", 250), ("never", u64::MAX)] {
            assert_eq!(age_ms(text), Ok(Limit(value)), "{text}");
        }
        assert_eq!(show_bytes(500 << 20), "500MiB");
        assert_eq!(show_bytes(1000), "1000B");
        assert_eq!([0, 1023, 1024, 1536, (5 << 40) - 1].map(approximate_bytes), ["0B", "1023B", "1.0KiB", "1.5KiB", "4.9TiB"]);
        assert_eq!(show_age_ms(604_800_000), "7d");
        assert_eq!(show_age_ms(90_000), "90s");
        assert_eq!(show_age_ms(u64::MAX), "never");
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "MiB", "-1", "1.5GB", "10 moons", "99999999999TiB", "18446744073709551615"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        for text in ["", "7", "7 moons", "h"] {
            assert!(age_ms(text).is_err(), "{text}");
        }
    }
}
