//! The names of a partition's files: built and parsed side by side.

use std::ffi::OsStr;

use hermit_proto::Offset;

pub(crate) const CHECKPOINT: &str = "checkpoint";
pub(crate) const START: &str = "start";
pub(crate) const COMPACTED: &str = "compacted";
pub(crate) const FENCED: &str = "fenced";
pub(crate) const CLEAN: &str = "clean";
pub(crate) const LOCK: &str = "lock";

const DIGITS: usize = 20;

/// A file of a partition that belongs to an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileName {
    /// Frames, back to back.
    Wal(Offset),
    /// The sparse index of the segment of that base offset.
    Index(Offset),
    /// Producer state up to that offset.
    Producers(Offset),
}

impl FileName {
    pub(crate) fn build(self) -> String {
        let (offset, extension) = match self {
            Self::Wal(base) => (base, "wal"),
            Self::Index(base) => (base, "idx"),
            Self::Producers(end) => (end, "producers"),
        };
        format!("{:0width$}.{extension}", offset.0, width = DIGITS)
    }

    pub(crate) fn parse(name: &OsStr) -> Option<Self> {
        let (digits, extension) = name.to_str()?.split_once('.')?;
        if digits.len() != DIGITS || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let offset = Offset(digits.parse().ok()?);
        match extension {
            "wal" => Some(Self::Wal(offset)),
            "idx" => Some(Self::Index(offset)),
            "producers" => Some(Self::Producers(offset)),
            _ => None,
        }
    }
}

/// The file that keeps the bytes cut at `position` from the segment of `base`; `attempt` counts from 1, for another cut at the same place.
pub(crate) fn cut_name(base: Offset, position: u64, attempt: u32) -> String {
    let again = if attempt > 1 { format!("-{attempt}") } else { String::new() };
    format!("{:0width$}-{position}{again}.cut", base.0, width = DIGITS)
}

/// What a repair calls the file that it has taken the place of; `attempt` counts from 1.
pub(crate) fn replaced_name(name: &str, attempt: u32) -> String {
    let again = if attempt > 1 { format!("-{attempt}") } else { String::new() };
    format!("{name}{again}.replaced")
}

/// Whether a file keeps what was cut or replaced, for the operator.
pub(crate) fn is_kept(name: &str) -> bool {
    [".cut", ".replaced"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_others_do_not() {
        for name in [FileName::Wal(Offset(0)), FileName::Index(Offset(u64::MAX)), FileName::Producers(Offset(17))] {
            assert_eq!(FileName::parse(OsStr::new(&name.build())), Some(name));
        }
        for other in [
            "",
            ".wal",
            "0.wal",
            "00000000000000000000.wal.tmp",
            "+0000000000000000001.wal",
            "99999999999999999999.wal",
            "checkpoint",
        ] {
            assert_eq!(FileName::parse(OsStr::new(other)), None, "{other}");
        }
        assert_eq!(cut_name(Offset(7), 300, 1), "00000000000000000007-300.cut");
        assert_eq!(cut_name(Offset(7), 300, 2), "00000000000000000007-300-2.cut");
    }
}
