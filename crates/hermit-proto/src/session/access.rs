//! Rules of access, as messages and the broker's file carry them.

use std::fmt;
use std::ops::BitOr;

use super::body::{BodyError, BodyReader, BodyWriter};

/// The principal of a rule that holds for every user that has logged in.
pub const EVERY_USER: &str = "*";

/// What a rule allows: a set.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessOperations(u32);

impl AccessOperations {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Creating topics. Bit 0.
    pub const CREATE: Self = Self(1);
    /// Writing records. Bit 1.
    pub const PRODUCE: Self = Self(2);
    /// Reading records; of a group: being a member, committing; of the broker: reading its metrics. Bit 2.
    pub const CONSUME: Self = Self(4);
    /// Everything else, and all of the above. Bit 3.
    pub const ADMINISTER: Self = Self(8);
    /// All operations.
    pub const ALL: Self = Self(15);

    const NAMES: [(Self, &'static str); 4] =
        [(Self::CREATE, "create"), (Self::PRODUCE, "produce"), (Self::CONSUME, "consume"), (Self::ADMINISTER, "administer")];

    /// The bits on the wire.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set with these bits; `None` with one that this release does not know.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` is in it.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is in it and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The operation of a name: `create`, `produce`, `consume`, `administer`, or `all`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "all" {
            return Some(Self::ALL);
        }
        Self::NAMES.into_iter().find(|(_, known)| *known == name).map(|(operation, _)| operation)
    }

    /// The names of what is in it, in the order of the bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(operation, _)| self.contains(*operation)).map(|(_, name)| name)
    }
}

impl BitOr for AccessOperations {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl fmt::Display for AccessOperations {
    /// The names, with commas between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.names().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for AccessOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessOperations({self})")
    }
}

/// Which names a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamePattern {
    /// This name. Tag 0.
    Exact(String),
    /// Names that begin so; empty: all names. Tag 1.
    Prefix(String),
    /// Names that this regular expression matches as a whole, in the syntax of the patterns of groups. Tag 2.
    Regex(String),
}

impl NamePattern {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Prefix(text) | Self::Regex(text) => text,
        }
    }
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessResource {
    /// Topics. Tag 0.
    Topic(NamePattern),
    /// Consumer groups. Tag 1.
    Group(NamePattern),
    /// The broker itself: users, rules, its description, its metrics. Tag 2, with an empty exact name.
    Broker,
}

impl AccessResource {
    /// The operations that there are on it.
    #[must_use]
    pub const fn operations(&self) -> AccessOperations {
        match self {
            Self::Topic(_) => AccessOperations::ALL,
            Self::Group(_) | Self::Broker => AccessOperations::CONSUME.union(AccessOperations::ADMINISTER),
        }
    }
}

/// Allows a principal operations on resources. There are no rules that forbid: what none allows is refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessRule {
    /// The name of a user, or [`EVERY_USER`].
    pub principal: String,
    /// What it is about.
    pub resource: AccessResource,
    /// What it allows; at least one.
    pub operations: AccessOperations,
}

impl AccessRule {
    /// Appends the fields.
    pub fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("principal", &self.principal);
        let (kind, name) = match &self.resource {
            AccessResource::Topic(name) => (0, Some(name)),
            AccessResource::Group(name) => (1, Some(name)),
            AccessResource::Broker => (2, None),
        };
        body.u8(kind);
        body.u8(match name {
            None | Some(NamePattern::Exact(_)) => 0,
            Some(NamePattern::Prefix(_)) => 1,
            Some(NamePattern::Regex(_)) => 2,
        });
        body.string("name", name.map_or("", NamePattern::text));
        body.u32(self.operations.bits());
    }

    /// Reads the fields.
    ///
    /// # Errors
    /// [`BodyError`] names the field at fault.
    pub fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let bad = |field, value: u64, allowed| BodyError::BadValue { field, value, allowed };
        let principal = body.string("principal")?.to_owned();
        let (kind, matching) = (body.u8("resource")?, body.u8("match")?);
        let name = body.string("name")?.to_owned();
        let pattern = match matching {
            0 => NamePattern::Exact(name),
            1 => NamePattern::Prefix(name),
            2 => NamePattern::Regex(name),
            other => return Err(bad("match", other.into(), "0, 1 or 2")),
        };
        let resource = match kind {
            0 => AccessResource::Topic(pattern),
            1 => AccessResource::Group(pattern),
            2 if pattern == NamePattern::Exact(String::new()) => AccessResource::Broker,
            2 => {
                return Err(bad("name", pattern.text().len() as u64, "nothing, matched exactly, where the resource is the broker"));
            }
            other => return Err(bad("resource", other.into(), "0, 1 or 2")),
        };
        let bits = body.u32("operations")?;
        let operations =
            AccessOperations::from_bits(bits).ok_or_else(|| bad("operations", bits.into(), "a sum of 1, 2, 4 and 8"))?;
        Ok(Self { principal, resource, operations })
    }
}
