//! Sizes and times, with their units: the words are those of `hermit-settings`.

use std::time::Duration;

use toml::de::DeValue;

use super::value::{Value, quoted, whole};

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
        match hermit_settings::show_bytes(bytes) {
            Some(shown) => quoted(shown),
            // What TOML cannot have as a number, it can as a text.
            None if i64::try_from(bytes).is_err() => quoted(bytes.to_string()),
            None => bytes.to_string(),
        }
    }
}

fn show_time(ms: u64) -> String {
    quoted(hermit_settings::show_time_ms(ms))
}

impl Value for Bytes {
    const PLACEHOLDER: &'static str = "SIZE";

    fn from_text(text: &str) -> Result<Self, String> {
        hermit_settings::bytes(text).map(Self)
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::from_text(text),
            // What is said of a text that is none.
            None => whole(value).map_or_else(|| Self::from_text(""), |number| Ok(Self(number))),
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

impl Value for Time {
    const PLACEHOLDER: &'static str = "TIME";

    fn from_text(text: &str) -> Result<Self, String> {
        hermit_settings::time_ms(text).map(Self)
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match (value.as_str(), whole(value)) {
            (Some(text), _) => Self::from_text(text),
            (None, Some(number)) => Self::from_text(&number.to_string()),
            (None, None) => Self::from_text(""),
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
        hermit_settings::or_never(text, T::from_text).map(Self)
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::from_text(text),
            // No text says `never`; what to say of it all the same is the same.
            None => hermit_settings::or_never("", |_no_text| T::from_toml(value)).map(Self),
        }
    }

    fn shown(&self) -> String {
        self.0.as_ref().map_or_else(|| quoted(hermit_settings::NEVER), T::shown)
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
    fn what_is_shown_can_be_read_again() {
        for (text, bytes, shown) in [("0", 0, "0"), ("4097", 4097, "4097"), ("256MiB", 256 << 20, "\"256 MiB\"")] {
            assert_eq!(Bytes::from_text(text), Ok(Bytes(bytes)), "{text}");
            assert_eq!(Bytes(bytes).shown(), shown);
        }
        assert_eq!(Bytes(u64::MAX).shown(), format!("\"{}\"", u64::MAX));
        assert_eq!((Time::from_text("1h 30min"), Time(5_400_000).shown()), (Ok(Time(5_400_000)), "\"90min\"".to_owned()));
        assert_eq!(Rate::from_text("4 MiB/s"), Ok(Rate(4 << 20)));
        assert_eq!(OrNever::<Time>::from_text("never"), Ok(OrNever(None)));
        assert_eq!(OrNever::<Bytes>::from_text("5"), Ok(OrNever(Some(Bytes(5)))));
        assert_eq!(OrNever::<Time>(None).shown(), "\"never\"");
    }

    #[test]
    fn numbers_of_toml_are_sizes_and_no_times_but_for_0() {
        let number = |text: &str| {
            toml::de::DeTable::parse(&format!("v = {text}")).map(|table| {
                let (_, value) = table.get_ref().iter().next().unwrap();
                let value = value.get_ref();
                (Bytes::from_toml(value), Time::from_toml(value), OrNever::<Time>::from_toml(value))
            })
        };
        let (bytes, time, or_never) = number("7").unwrap();
        assert_eq!(bytes, Ok(Bytes(7)));
        assert_eq!(time, Err("say in which unit, such as \"7s\" or \"7ms\"".to_owned()));
        assert!(or_never.unwrap_err().ends_with("; or \"never\""));
        assert_eq!(number("0").unwrap().1, Ok(Time(0)));
        let (bytes, time, _) = number("true").unwrap();
        assert!(bytes.unwrap_err().starts_with("give a number of bytes") && time.unwrap_err().starts_with("give a time"));
    }
}
