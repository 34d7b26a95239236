//! Moments as people write and read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::quantity;

/// What is understood as a moment; for messages.
pub(crate) const FORMS: &str = "a time such as 2026-01-31T12:00:00Z, or an age such as 90s, 1h or 7d";

const NS_PER_MS: u64 = 1_000_000;

/// A moment, in ns since the Unix epoch: RFC 3339 — UTC if it does not say so itself —, a date, or how long ago.
pub(crate) fn moment_ns(text: &str) -> Option<u64> {
    if let Some(age_ms) = quantity::finite_age_ms(text) {
        return Some(now_ns().saturating_sub(age_ms.saturating_mul(NS_PER_MS)));
    }
    rfc3339_ns(text)
}

/// RFC 3339, in ns since the Unix epoch. `None` for what is none, or before that.
pub(crate) fn rfc3339_ns(text: &str) -> Option<u64> {
    let date_alone = text.len() == 10 && !text.contains(':');
    let (local, offset_ns) = if date_alone { (text, 0) } else { split_offset(text)? };
    let utc = if date_alone { format!("{local}T00:00:00Z") } else { local.to_owned() };
    let since = humantime::parse_rfc3339_weak(&utc).ok()?.duration_since(UNIX_EPOCH).ok()?;
    // East of Greenwich clocks are ahead.
    u64::try_from(i128::try_from(since.as_nanos()).ok()? - offset_ns).ok()
}

/// The time without its `+HH:MM`, and that in ns. `humantime` reads UTC only.
fn split_offset(text: &str) -> Option<(&str, i128)> {
    let at = text.len().checked_sub(6).filter(|at| *at >= 10)?;
    let Some((local, offset)) = text.split_at_checked(at) else { return Some((text, 0)) };
    let sign = match offset.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Some((text, 0)),
    };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let number = |digits: &str, below: i128| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse::<i128>().ok().filter(|value| *value < below),
        false => None,
    };
    let minutes = number(hours, 24)? * 60 + number(minutes, 60)?;
    Some((local, sign * minutes * 60_000_000_000))
}

/// Now, in ns since the Unix epoch.
pub(crate) fn now_ns() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the command line's one clock, for ages")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// A moment for people, to the second; nothing for 0, which stands for "never".
pub(crate) fn show_moment(ns: u64) -> String {
    if ns == 0 {
        return "-".to_owned();
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(ns)).to_string()
}

/// Milliseconds as seconds for people: to the millisecond, without zeros behind.
pub(crate) fn show_seconds(ms: u64) -> String {
    let fraction = format!("{}.{:03}", ms / 1000, ms % 1000);
    fraction.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Milliseconds as seconds, for programs.
#[expect(clippy::cast_precision_loss, reason = "exact for 285,000 years")]
pub(crate) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// A long time for people, in its two largest units.
pub(crate) fn show_span(span: Duration) -> String {
    let seconds = span.as_secs();
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let shown: Vec<_> = parts.iter().skip_while(|(count, _)| *count == 0).take(2).filter(|(count, _)| *count > 0).collect();
    if shown.is_empty() {
        return "0s".to_owned();
    }
    shown.iter().map(|(count, unit)| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_an_offset() {
        let noon = 1_769_860_800_000_000_000;
        for text in [
            "2026-01-31T12:00:00Z",
            "2026-01-31 12:00:00",
            "2026-01-31T12:00:00.000Z",
            "2026-01-31T12:00:00+00:00",
            "2026-01-31T14:30:00+02:30",
            "2026-01-31T07:00:00-05:00",
        ] {
            assert_eq!(rfc3339_ns(text), Some(noon), "{text}");
        }
        assert_eq!(rfc3339_ns("2026-01-31T12:00:00.25Z"), Some(noon + 250_000_000));
        assert_eq!(rfc3339_ns("2026-01-31"), Some(noon - 43_200_000_000_000));
        assert_eq!(rfc3339_ns("1970-01-01T00:00:00+01:00"), None, "before the epoch");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-31T12:00:00+2:00", "2026-01-31T12:00:00+25:00", "12:00", "é", "-1h"]
        {
            assert_eq!(moment_ns(text), None, "{text}");
        }
        assert_eq!(moment_ns("never"), None);
    }

    #[test]
    fn ages_count_from_now() {
        let ago = now_ns().saturating_sub(moment_ns("1h").unwrap());
        assert!((3_599_000_000_000..3_601_000_000_000).contains(&ago), "{ago}");
        // Older than time itself.
        assert_eq!(moment_ns("99999999w"), Some(0));
    }

    #[test]
    fn moments_and_spans_are_shown() {
        assert_eq!(show_moment(1_769_860_800_999_000_000), "2026-01-31T12:00:00Z");
        assert_eq!(show_moment(0), "-");
        assert_eq!([0, 1, 1500, 60_000].map(show_seconds), ["0", "0.001", "1.5", "60"]);
        let spans = [0, 59, 60, 3601, 90_061, 864_000].map(|seconds| show_span(Duration::from_secs(seconds)));
        assert_eq!(spans, ["0s", "59s", "1min", "1h", "1d 1h", "10d"]);
    }
}
