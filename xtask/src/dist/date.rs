//! The one time that packages know: that of their sources.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Seconds since 1970: what `SOURCE_DATE_EPOCH` says, else when the last commit was made.
pub(super) fn of_the_sources(root: &Path) -> Result<u64> {
    if let Ok(said) = std::env::var("SOURCE_DATE_EPOCH") {
        return said.parse().with_context(|| format!("SOURCE_DATE_EPOCH is {said:?}: seconds since 1970 are wanted"));
    }
    let output = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output();
    let said = output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    said.trim().parse().context("git does not tell when the last commit was made: set SOURCE_DATE_EPOCH, in seconds since 1970")
}

/// A time as the changelogs of Debian have it, such as `Mon, 30 Nov 2026 10:42:04 +0000`.
pub(super) fn for_debian(seconds: u64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that leap days come last; 719,468 days lie between 1 March of year 0 and 1970.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    let name = |names: &[&'static str], at: u64| usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or_default();
    let (weekday, month) = (name(&WEEKDAYS, days % 7), name(&MONTHS, month));
    format!("{weekday}, {day:02} {month} {year} {:02}:{:02}:{:02} +0000", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_debian_wants_them() {
        for (seconds, told) in [
            (0, "Thu, 01 Jan 1970 00:00:00 +0000"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 +0000"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 +0000"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 +0000"),
            (1_796_035_324, "Mon, 30 Nov 2026 10:42:04 +0000"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 +0000"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 +0000"),
        ] {
            assert_eq!(for_debian(seconds), told);
        }
    }
}
