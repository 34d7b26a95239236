//! Places in a partition as people name them.

use anyhow::Result;
use hermit_client::{Admin, ListOffsetsResponse, Offset, OffsetQuery, PartitionId};

use crate::time;

/// A place in each partition that it is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Earliest,
    Latest,
    Offset(Offset),
    /// So many offsets before the end.
    Last(u64),
    /// At the first record that the broker appended then or later, in ns since the Unix epoch.
    Time(u64),
}

/// `earliest`, `latest`, an offset, `-N`, or a moment.
pub(crate) fn place(text: &str) -> Result<Place, String> {
    match text {
        "earliest" => return Ok(Place::Earliest),
        "latest" => return Ok(Place::Latest),
        _ => {}
    }
    let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    if let Some(offset) = number(text) {
        return Ok(Place::Offset(Offset(offset)));
    }
    if let Some(count) = text.strip_prefix('-').and_then(number) {
        return Ok(Place::Last(count));
    }
    let problem = || format!("it is `earliest`, `latest`, an offset such as 0, -N for the last N records, {}", time::FORMS);
    time::moment_ns(text).map(Place::Time).ok_or_else(problem)
}

impl Place {
    /// Where that is now in a partition, and what the partition holds. An offset that was named is not looked for.
    pub(crate) async fn resolve(self, admin: &Admin, topic: &str, partition: PartitionId) -> Result<(Offset, ListOffsetsResponse)> {
        let query = match self {
            Self::Earliest => OffsetQuery::Earliest,
            Self::Latest | Self::Offset(_) => OffsetQuery::Latest,
            Self::Last(count) => OffsetQuery::Last(count),
            Self::Time(time) => OffsetQuery::AtOrAfter(time),
        };
        let found = admin.list_offsets(topic, partition, query).await?;
        let offset = if let Self::Offset(offset) = self { offset } else { found.offset };
        Ok((offset, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_understood() {
        assert_eq!(place("earliest"), Ok(Place::Earliest));
        assert_eq!(place("latest"), Ok(Place::Latest));
        assert_eq!(place("17"), Ok(Place::Offset(Offset(17))));
        assert_eq!(place("-17"), Ok(Place::Last(17)));
        assert_eq!(place("1970-01-01T00:00:01Z"), Ok(Place::Time(1_000_000_000)));
        assert!(matches!(place("1h"), Ok(Place::Time(_))));
        for bad in ["", "-", "--1", "+1", "1.5", "yesterday", "-1h", "99999999999999999999"] {
            assert!(place(bad).unwrap_err().contains("-N for the last N"), "{bad}");
        }
    }
}
