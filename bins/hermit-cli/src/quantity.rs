//! Sizes and ages, in the words of the settings file.

use hermit_settings::{NEVER, bytes as read_bytes, or_never, show_time_ms, time_ms};

/// As the protocol has it: no limit.
const NO_LIMIT: u64 = u64::MAX;
/// As the protocol has it in what is asked for: as the broker's default, also when that changes.
const AS_BROKER: u64 = u64::MAX - 1;

/// A limit as the protocol has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) u64);

impl Limit {
    /// `u64::MAX` is none; of what is close to it nobody can tell how it is meant.
    fn of(value: Option<u64>) -> Result<Self, String> {
        match value {
            None => Ok(Self(NO_LIMIT)),
            Some(AS_BROKER..) => Err("that is more than there can be".to_owned()),
            Some(value) => Ok(Self(value)),
        }
    }
}

/// `500 MiB`, `10 GB`, `4096`.
pub(crate) fn bytes(text: &str) -> Result<Limit, String> {
    read_bytes(text).and_then(|bytes| Limit::of(Some(bytes)))
}

/// The same, or `never`, or `default`.
pub(crate) fn retained_bytes(text: &str) -> Result<Limit, String> {
    inherited(text, read_bytes)
}

/// `90s`, `1h 30min`, `7d` in milliseconds, or `never`, or `default`.
pub(crate) fn retained_ms(text: &str) -> Result<Limit, String> {
    inherited(text, time_ms)
}

fn inherited(text: &str, read: fn(&str) -> Result<u64, String>) -> Result<Limit, String> {
    if text == "default" {
        return Ok(Limit(AS_BROKER));
    }
    or_never(text, read).and_then(Limit::of).map_err(|error| format!("{error}, or \"default\""))
}

/// `90s`, `12h`, `7d`, in milliseconds; a number alone is none.
pub(crate) fn finite_age_ms(text: &str) -> Option<u64> {
    time_ms(text).ok().filter(|_ms| text.ends_with(|last: char| last.is_ascii_alphabetic()))
}

/// A limit for people.
pub(crate) fn show_bytes(limit: u64) -> String {
    match limit {
        NO_LIMIT => NEVER.to_owned(),
        _ => hermit_settings::show_bytes(limit).unwrap_or_else(|| format!("{limit} B")),
    }
}

/// A size for people, to a tenth of its unit.
pub(crate) fn approximate_bytes(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(factor, _)| bytes >= *factor) {
        Some((factor, unit)) => format!("{}.{} {unit}", bytes / factor, bytes % factor * 10 / factor),
        None => format!("{bytes} B"),
    }
}

/// A limit in milliseconds for people.
pub(crate) fn show_age_ms(limit: u64) -> String {
    if limit == NO_LIMIT { NEVER.to_owned() } else { show_time_ms(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_shown() {
        for (text, value) in [
            ("4096", 4096),
            ("500MiB", 500 << 20),
            ("10 GB", 10_000_000_000),
            ("never", NO_LIMIT),
            ("unlimited", NO_LIMIT),
            ("default", AS_BROKER),
        ] {
            assert_eq!(retained_bytes(text), Ok(Limit(value)), "{text}");
        }
        for (text, value) in [("90s", 90_000), ("1h 30min", 5_400_000), ("unlimited", NO_LIMIT), ("default", AS_BROKER)] {
            assert_eq!(retained_ms(text), Ok(Limit(value)), "{text}");
        }
        assert_eq!(show_bytes(500 << 20), "500 MiB");
        assert_eq!(show_bytes(1001), "1001 B");
        assert_eq!([0, 1023, 1024, 1536, (5 << 40) - 1].map(approximate_bytes), ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "4.9 TiB"]);
        assert_eq!([604_800_000, 90_000, NO_LIMIT].map(show_age_ms), ["7d", "90s", "never"]);
    }

    #[test]
    fn what_is_no_limit_is_refused_with_all_that_could_be_said() {
        for text in ["", "MiB", "-1", "1.5GB", "10 moons", "99999999999TiB", "18446744073709551615", "18446744073709551614"] {
            let refused = retained_bytes(text).unwrap_err();
            assert!(refused.ends_with("or \"default\""), "{text}: {refused}");
            bytes(text).unwrap_err();
        }
        // What no topic inherits has no default to go back to.
        for text in ["default", "never"] {
            bytes(text).unwrap_err();
        }
        for text in ["", "7", "7 moons", "h", "18446744073709551614ms"] {
            retained_ms(text).unwrap_err();
        }
        assert_eq!(finite_age_ms("1h 30min"), Some(5_400_000));
        assert_eq!(["0", "never", "7", "1h 0"].map(finite_age_ms), [None; 4]);
    }
}
