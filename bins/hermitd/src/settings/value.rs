//! Values as they are written: read from text and from TOML, and shown so that they can be read again.

use std::path::PathBuf;

use toml::de::DeValue;

/// A value as somebody has given it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Raw<'a> {
    /// By a flag or the environment.
    Text(&'a str),
    /// In the settings file.
    Toml(&'a DeValue<'a>),
}

/// A kind of value.
pub(super) trait Value: Sized {
    /// What stands for the value in `--help`.
    const PLACEHOLDER: &'static str;

    /// # Errors
    /// What to write instead.
    fn from_text(text: &str) -> Result<Self, String>;

    /// # Errors
    /// What to write instead.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String>;

    /// As it could stand in the settings file.
    fn shown(&self) -> String;

    /// As a number, where there is one that a range can be put to.
    fn magnitude(&self) -> Option<u64> {
        None
    }

    /// A bound of a range, as it could be written.
    fn bound(magnitude: u64) -> String {
        magnitude.to_string()
    }
}

/// Reads a value, and holds it against the range that is allowed.
///
/// # Errors
/// What to write instead.
pub(super) fn read<T: Value>(raw: Raw<'_>, range: Option<(u64, u64)>) -> Result<T, String> {
    let value = match raw {
        Raw::Text(text) => T::from_text(text)?,
        Raw::Toml(value) => T::from_toml(value)?,
    };
    match (value.magnitude(), range) {
        (Some(found), Some((least, most))) if found < least || found > most => {
            let most = if most == u64::MAX { String::new() } else { format!(" and at most {}", T::bound(most)) };
            Err(format!("it must be at least {}{most}", T::bound(least)))
        }
        _ => Ok(value),
    }
}

/// With its quotes.
pub(super) fn quoted(text: impl Into<String>) -> String {
    toml::Value::String(text.into()).to_string()
}

/// A whole number of TOML, if it is one that is not negative.
pub(super) fn whole(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

const WHOLE_NUMBER: &str = "give a whole number, such as 2";

macro_rules! counts {
    ($($type:ty),+) => { $(
        impl Value for $type {
            const PLACEHOLDER: &'static str = "NUMBER";

            fn from_text(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_no_number| WHOLE_NUMBER.to_owned())
            }

            fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
                if value.is_str() {
                    return Err(format!("{WHOLE_NUMBER}, without quotes"));
                }
                whole(value).and_then(|number| Self::try_from(number).ok()).ok_or_else(|| WHOLE_NUMBER.to_owned())
            }

            fn shown(&self) -> String {
                self.to_string()
            }

            fn magnitude(&self) -> Option<u64> {
                u64::try_from(*self).ok()
            }
        }
    )+ };
}

counts!(u32, usize);

impl Value for bool {
    const PLACEHOLDER: &'static str = "true|false";

    fn from_text(text: &str) -> Result<Self, String> {
        text.trim().parse().map_err(|_other| "give true or false".to_owned())
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let hint = if value.is_str() { ", without quotes" } else { "" };
        value.as_bool().ok_or_else(|| format!("give true or false{hint}"))
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    const PLACEHOLDER: &'static str = "TEXT";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().map(str::to_owned).ok_or_else(|| "give a text, in quotes".to_owned())
    }

    fn shown(&self) -> String {
        quoted(self)
    }
}

impl Value for PathBuf {
    const PLACEHOLDER: &'static str = "PATH";

    fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains('\0') {
            return Err("name a file or a directory".to_owned());
        }
        Ok(Self::from(text))
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().ok_or_else(|| "name a file or a directory, in quotes".to_owned()).and_then(Self::from_text)
    }

    fn shown(&self) -> String {
        quoted(self.display().to_string())
    }
}

/// Values that are one of a few words.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $visible:vis $name:ident, $placeholder:literal { $($(#[doc = $of:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visible enum $name { $($(#[doc = $of])+ $variant,)+ }

        impl $crate::settings::value::Value for $name {
            const PLACEHOLDER: &'static str = $placeholder;

            fn from_text(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    other => Err($crate::settings::value::choices(other, &[$($word),+])),
                }
            }

            fn from_toml(value: &toml::de::DeValue<'_>) -> Result<Self, String> {
                match value.as_str() {
                    Some(text) => Self::from_text(text),
                    None => Err(format!("{}, in quotes", $crate::settings::value::choices("", &[$($word),+]))),
                }
            }

            fn shown(&self) -> String {
                $crate::settings::value::quoted(match self { $(Self::$variant => $word,)+ })
            }
        }
    };
}
pub(super) use words;

/// What can be chosen, and what was probably meant.
pub(super) fn choices(found: &str, words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| quoted(*word)).collect();
    let known: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
    let hint = match super::names::nearest(&found.to_lowercase(), &known) {
        Some(meant) => format!("; did you mean {}?", self::quoted(meant)),
        None => String::new(),
    };
    format!("give {}{hint}", super::names::one_of(&quoted))
}
