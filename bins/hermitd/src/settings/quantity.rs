//! Sizes and times, with their units.

use std::time::Duration;

use toml::de::DeValue;

use super::value::{Value, quoted, whole};

const BYTE_UNITS: [(&str, u64); 10] = [
    ("B", 1),
    ("KB", 1000),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const TIME_UNITS: [(&str, u64); 7] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 7 * 86_400_000)];

/// Words for no limit and for a time that does not come.
const ENDLESS: [&str; 2] = ["never", "unlimited"];

/// Bytes. A number without a unit is one of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) u64);

/// Bytes in a second, as [`Bytes`], with or without `/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate(pub(super) u64);

/// Milliseconds. Only 0 needs no unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) u64);

/// A quantity, or `"never"` (`"unlimited"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OrNever<T>(pub(super) Option<T>);

impl Time {
    pub(super) const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    pub(super) fn of(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Bytes {
    /// In the unit that makes the smallest whole number of it.
    fn show(bytes: u64) -> String {
        let exact = BYTE_UNITS.iter().filter(|(_, factor)| *factor > 1 && bytes >= *factor && bytes.is_multiple_of(*factor));
        match exact.max_by_key(|(_, factor)| *factor) {
            Some((unit, factor)) => quoted(format!("{} {unit}", bytes / factor)),
            // What TOML cannot have as a number, it can as a text.
            None if i64::try_from(bytes).is_err() => quoted(bytes.to_string()),
            None => bytes.to_string(),
        }
    }
}

fn show_time(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    match units.iter().find(|(factor, _)| ms >= *factor && ms.is_multiple_of(*factor)) {
        Some((factor, unit)) => quoted(format!("{}{unit}", ms / factor)),
        None => quoted(format!("{ms}ms")),
    }
}

/// The digits at the front, and what follows them.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

const HOW_TO_WRITE_BYTES: &str = "give a number of bytes, or one with a unit, such as \"64 MiB\" or \"10 GB\"";

impl Value for Bytes {
    const PLACEHOLDER: &'static str = "SIZE";

    fn from_text(text: &str) -> Result<Self, String> {
        let (number, unit) = split_number(text.trim()).ok_or(HOW_TO_WRITE_BYTES)?;
        let unit = unit.trim();
        let factor = match BYTE_UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() => 1,
            None => return Err(no_such_size(number, unit)),
        };
        number.checked_mul(factor).map(Self).ok_or_else(|| "that is more than there can be".to_owned())
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::from_text(text),
            None => whole(value).map(Self).ok_or_else(|| HOW_TO_WRITE_BYTES.to_owned()),
        }
    }

    fn shown(&self) -> String {
        Self::show(self.0)
    }

    fn magnitude(&self) -> Option<u64> {
        Some(self.0)
    }

    fn bound(magnitude: u64) -> String {
        Self::show(magnitude)
    }
}

/// `5M` may be meant to be one or the other: it is not guessed which.
fn no_such_size(number: u64, unit: &str) -> String {
    let letter = unit.chars().next().map(|letter| letter.to_ascii_uppercase());
    match letter.filter(|letter| "KMGT".contains(*letter)) {
        Some(letter) if unit.len() <= 3 => {
            let decimal = if letter == 'K' { 'k' } else { letter };
            format!("give the unit as {letter}iB (1024) or {decimal}B (1000), such as \"{number} {letter}iB\"")
        }
        _ => HOW_TO_WRITE_BYTES.to_owned(),
    }
}

impl Value for Rate {
    const PLACEHOLDER: &'static str = "SIZE";

    fn from_text(text: &str) -> Result<Self, String> {
        let bytes = text.trim().strip_suffix("/s").unwrap_or(text);
        Bytes::from_text(bytes).map(|bytes| Self(bytes.0))
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::from_text(text),
            None => Bytes::from_toml(value).map(|bytes| Self(bytes.0)),
        }
    }

    fn shown(&self) -> String {
        Bytes::show(self.0)
    }

    fn magnitude(&self) -> Option<u64> {
        Some(self.0)
    }

    fn bound(magnitude: u64) -> String {
        Bytes::show(magnitude)
    }
}

const HOW_TO_WRITE_TIMES: &str = "give a time with its unit (ms, s, min, h, d), such as \"100ms\" or \"72h\"";

fn without_unit(number: u64) -> String {
    format!("say in which unit, such as \"{number}s\" or \"{number}ms\"")
}

impl Value for Time {
    const PLACEHOLDER: &'static str = "TIME";

    /// One number and unit, or several, such as `1h 30min`.
    fn from_text(text: &str) -> Result<Self, String> {
        let (mut rest, mut total) = (text.trim(), None::<u64>);
        while !rest.is_empty() {
            let (number, behind) = split_number(rest).ok_or(HOW_TO_WRITE_TIMES)?;
            let behind = behind.trim_start();
            let letters = behind.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(behind.len());
            let (unit, next) = behind.split_at_checked(letters).ok_or(HOW_TO_WRITE_TIMES)?;
            let factor = match TIME_UNITS.iter().find(|(name, _)| *name == unit) {
                Some((_, factor)) => *factor,
                None if unit.is_empty() && number == 0 && next.is_empty() => 1,
                None if unit.is_empty() && next.is_empty() => return Err(without_unit(number)),
                None => return Err(HOW_TO_WRITE_TIMES.to_owned()),
            };
            let part = number.checked_mul(factor);
            let sum = part.and_then(|part| total.unwrap_or_default().checked_add(part));
            total = Some(sum.ok_or("that is more than there can be")?);
            rest = next.trim_start();
        }
        total.map(Self).ok_or_else(|| HOW_TO_WRITE_TIMES.to_owned())
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match (value.as_str(), whole(value)) {
            (Some(text), _) => Self::from_text(text),
            (None, Some(0)) => Ok(Self(0)),
            (None, Some(number)) => Err(without_unit(number)),
            (None, None) => Err(HOW_TO_WRITE_TIMES.to_owned()),
        }
    }

    fn shown(&self) -> String {
        show_time(self.0)
    }

    fn magnitude(&self) -> Option<u64> {
        Some(self.0)
    }

    fn bound(magnitude: u64) -> String {
        show_time(magnitude)
    }
}

impl<T: Value> Value for OrNever<T> {
    const PLACEHOLDER: &'static str = T::PLACEHOLDER;

    fn from_text(text: &str) -> Result<Self, String> {
        if ENDLESS.contains(&text.trim()) {
            return Ok(Self(None));
        }
        T::from_text(text).map(|value| Self(Some(value))).map_err(|error| format!("{error}; or \"never\""))
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::from_text(text),
            None => T::from_toml(value).map(|value| Self(Some(value))).map_err(|error| format!("{error}; or \"never\"")),
        }
    }

    fn shown(&self) -> String {
        self.0.as_ref().map_or_else(|| quoted("never"), T::shown)
    }

    fn magnitude(&self) -> Option<u64> {
        self.0.as_ref().and_then(T::magnitude)
    }

    fn bound(magnitude: u64) -> String {
        T::bound(magnitude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("0", 0, "0"),
            ("4097", 4097, "4097"),
            ("256 MiB", 256 << 20, "\"256 MiB\""),
            ("256MiB", 256 << 20, "\"256 MiB\""),
            ("10 GB", 10_000_000_000, "\"10 GB\""),
            ("1kB", 1000, "\"1 kB\""),
            ("1 TiB", 1 << 40, "\"1 TiB\""),
        ] {
            assert_eq!(Bytes::from_text(text), Ok(Bytes(bytes)), "{text}");
            assert_eq!(Bytes(bytes).shown(), shown);
        }
        for (text, ms, shown) in [
            ("0", 0, "\"0ms\""),
            ("100ms", 100, "\"100ms\""),
            ("72h", 259_200_000, "\"3d\""),
            ("1h 30min", 5_400_000, "\"90min\""),
            ("1h30m", 5_400_000, "\"90min\""),
            ("2 w", 1_209_600_000, "\"14d\""),
        ] {
            assert_eq!(Time::from_text(text), Ok(Time(ms)), "{text}");
            assert_eq!(Time(ms).shown(), shown);
        }
        assert_eq!(Rate::from_text("4 MiB/s"), Ok(Rate(4 << 20)));
        assert_eq!(OrNever::<Time>::from_text("never"), Ok(OrNever(None)));
        assert_eq!(OrNever::<Bytes>::from_text("unlimited"), Ok(OrNever(None)));
        assert_eq!(OrNever::<Bytes>::from_text("5"), Ok(OrNever(Some(Bytes(5)))));
    }

    #[test]
    fn what_has_no_clear_unit_is_refused_with_what_to_write() {
        for (text, said) in [
            ("72", "say in which unit, such as \"72s\" or \"72ms\""),
            ("1h 5", "say in which unit, such as \"5s\" or \"5ms\""),
            ("", HOW_TO_WRITE_TIMES),
            ("h", HOW_TO_WRITE_TIMES),
            ("1.5h", HOW_TO_WRITE_TIMES),
            ("-1s", HOW_TO_WRITE_TIMES),
            ("7 moons", HOW_TO_WRITE_TIMES),
            ("99999999999999999999s", HOW_TO_WRITE_TIMES),
            ("9999999999999999999w", "that is more than there can be"),
        ] {
            assert_eq!(Time::from_text(text), Err(said.to_owned()), "{text}");
        }
        for (text, said) in [
            ("5M", "give the unit as MiB (1024) or MB (1000), such as \"5 MiB\""),
            ("5k", "give the unit as KiB (1024) or kB (1000), such as \"5 KiB\""),
            ("5mb", "give the unit as MiB (1024) or MB (1000), such as \"5 MiB\""),
            ("big", HOW_TO_WRITE_BYTES),
            ("-1", HOW_TO_WRITE_BYTES),
            ("1.5 GB", HOW_TO_WRITE_BYTES),
            ("99999999999 TiB", "that is more than there can be"),
        ] {
            assert_eq!(Bytes::from_text(text), Err(said.to_owned()), "{text}");
        }
        assert_eq!(OrNever::<Time>::from_text("x"), Err(format!("{HOW_TO_WRITE_TIMES}; or \"never\"")));
    }
}
