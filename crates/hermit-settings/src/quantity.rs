//! Sizes and times, with their units.

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

/// The word for no limit, and for a time that does not come; `unlimited` is understood, too.
pub const NEVER: &str = "never";
const UNLIMITED: &str = "unlimited";

const HOW_TO_WRITE_BYTES: &str = "give a number of bytes, or one with a unit, such as \"64 MiB\" or \"10 GB\"";
const HOW_TO_WRITE_TIMES: &str = "give a time with its unit (ms, s, min, h, d), such as \"100ms\" or \"72h\"";
const TOO_MUCH: &str = "that is more than there can be";

/// Bytes: a number, with a unit if it is another one.
///
/// # Errors
/// What to write instead.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_number(text.trim()).ok_or(HOW_TO_WRITE_BYTES)?;
    let unit = unit.trim();
    let factor = match BYTE_UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1,
        None => return Err(no_such_size(number, unit)),
    };
    number.checked_mul(factor).ok_or_else(|| TOO_MUCH.to_owned())
}

/// Milliseconds: one number and unit, or several, such as `1h 30min`. Only 0 needs no unit.
///
/// # Errors
/// What to write instead.
pub fn time_ms(text: &str) -> Result<u64, String> {
    let (mut rest, mut total) = (text.trim(), None::<u64>);
    while !rest.is_empty() {
        let (number, behind) = split_number(rest).ok_or(HOW_TO_WRITE_TIMES)?;
        let behind = behind.trim_start();
        let letters = behind.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at_checked(letters).ok_or(HOW_TO_WRITE_TIMES)?;
        let factor = match TIME_UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() && number == 0 && next.is_empty() => 1,
            None if unit.is_empty() && next.is_empty() => {
                return Err(format!("say in which unit, such as \"{number}s\" or \"{number}ms\""));
            }
            None => return Err(HOW_TO_WRITE_TIMES.to_owned()),
        };
        let part = number.checked_mul(factor);
        let sum = part.and_then(|part| total.unwrap_or_default().checked_add(part));
        total = Some(sum.ok_or(TOO_MUCH)?);
        rest = next.trim_start();
    }
    total.ok_or_else(|| HOW_TO_WRITE_TIMES.to_owned())
}

/// What `read` makes of it, or `None` for `never` and `unlimited`.
///
/// # Errors
/// What to write instead.
pub fn or_never<T>(text: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if [NEVER, UNLIMITED].contains(&text.trim()) {
        return Ok(None);
    }
    read(text).map(Some).map_err(|error| format!("{error}; or \"{NEVER}\""))
}

/// Bytes in the unit that makes the smallest whole number of them; `None` where that is bytes.
#[must_use]
pub fn show_bytes(bytes: u64) -> Option<String> {
    let exact = BYTE_UNITS.iter().filter(|(_, factor)| *factor > 1 && bytes >= *factor && bytes.is_multiple_of(*factor));
    exact.max_by_key(|(_, factor)| *factor).map(|(unit, factor)| format!("{} {unit}", bytes / factor))
}

/// Milliseconds in the largest unit, up to days, that makes a whole number of them.
#[must_use]
pub fn show_time_ms(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    match units.iter().find(|(factor, _)| ms >= *factor && ms.is_multiple_of(*factor)) {
        Some((factor, unit)) => format!("{}{unit}", ms / factor),
        None => format!("{ms}ms"),
    }
}

/// The digits at the front, and what follows them.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_and_shown() {
        for (text, expected, shown) in [
            ("0", 0, None),
            ("4097", 4097, None),
            ("256 MiB", 256 << 20, Some("256 MiB")),
            ("256MiB", 256 << 20, Some("256 MiB")),
            ("10 GB", 10_000_000_000, Some("10 GB")),
            ("1kB", 1000, Some("1 kB")),
            ("1 TiB", 1 << 40, Some("1 TiB")),
            ("18446744073709551615", u64::MAX, None),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
            assert_eq!(show_bytes(expected).as_deref(), shown);
        }
        for (text, ms, shown) in [
            ("0", 0, "0ms"),
            ("100ms", 100, "100ms"),
            ("72h", 259_200_000, "3d"),
            ("1h 30min", 5_400_000, "90min"),
            ("1h30m", 5_400_000, "90min"),
            ("2 w", 1_209_600_000, "14d"),
        ] {
            assert_eq!(time_ms(text), Ok(ms), "{text}");
            assert_eq!(show_time_ms(ms), shown);
        }
        assert_eq!(or_never("never", time_ms), Ok(None));
        assert_eq!(or_never("unlimited", bytes), Ok(None));
        assert_eq!(or_never("5", bytes), Ok(Some(5)));
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
            ("9999999999999999999w", TOO_MUCH),
        ] {
            assert_eq!(time_ms(text), Err(said.to_owned()), "{text}");
        }
        for (text, said) in [
            ("5M", "give the unit as MiB (1024) or MB (1000), such as \"5 MiB\""),
            ("5k", "give the unit as KiB (1024) or kB (1000), such as \"5 KiB\""),
            ("5mb", "give the unit as MiB (1024) or MB (1000), such as \"5 MiB\""),
            ("big", HOW_TO_WRITE_BYTES),
            ("-1", HOW_TO_WRITE_BYTES),
            ("1.5 GB", HOW_TO_WRITE_BYTES),
            ("99999999999 TiB", TOO_MUCH),
        ] {
            assert_eq!(bytes(text), Err(said.to_owned()), "{text}");
        }
        assert_eq!(or_never("x", time_ms), Err(format!("{HOW_TO_WRITE_TIMES}; or \"never\"")));
    }
}
