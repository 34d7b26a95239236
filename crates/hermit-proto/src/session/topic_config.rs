//! A topic's settings: a list of tagged values, so that settings can be added.

use super::body::{BodyError, BodyReader, BodyWriter};

/// What an answered message survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// A power cut: answered, and shown to consumers, after the sync.
    Sync,
    /// A crash of the broker, not a power cut: answered when the operating system has it.
    Os,
}

/// A topic's settings. `None` in a request: the broker's default for a new topic, no change for one that is there. The broker's answers have
/// them all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicConfig {
    /// What an answered message survives. Tag 1, u8: 0 sync, 1 os.
    pub durability: Option<Durability>,
    /// Whether only the newest record of each key is kept. Tag 2, u8: 0 no, 1 yes.
    pub compaction: Option<bool>,
    /// Records are deleted when this many ms have passed since their append; `u64::MAX`: never; in a request `u64::MAX - 1`: as the
    /// broker's default, also when that changes, which is what a new topic does without this. Tag 3, u64.
    pub retention_age_ms: Option<u64>,
    /// The oldest segments are deleted when a partition has more bytes; `u64::MAX` and `u64::MAX - 1` as above. Tag 4, u64.
    pub retention_bytes: Option<u64>,
    /// Bytes at which a segment is rolled. Tag 5, u64.
    pub segment_bytes: Option<u64>,
}

mod tag {
    pub(super) const DURABILITY: u16 = 1;
    pub(super) const COMPACTION: u16 = 2;
    pub(super) const RETENTION_AGE_MS: u16 = 3;
    pub(super) const RETENTION_BYTES: u16 = 4;
    pub(super) const SEGMENT_BYTES: u16 = 5;
}

/// What to do with a tag that this release does not know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownTags {
    /// In requests: a setting that cannot be kept must not be accepted.
    Refuse,
    /// In responses: a newer broker tells more than an older client asks.
    PassOver,
}

impl TopicConfig {
    /// A list of items, each a tag (u16) and its value.
    pub(crate) fn write(&self, body: &mut BodyWriter<'_>) {
        let settings = [
            (tag::DURABILITY, self.durability.map(|d| Value::Byte(u8::from(d == Durability::Os)))),
            (tag::COMPACTION, self.compaction.map(|on| Value::Byte(on.into()))),
            (tag::RETENTION_AGE_MS, self.retention_age_ms.map(Value::Long)),
            (tag::RETENTION_BYTES, self.retention_bytes.map(Value::Long)),
            (tag::SEGMENT_BYTES, self.segment_bytes.map(Value::Long)),
        ];
        let mut present = Vec::with_capacity(settings.len());
        present.extend(settings.into_iter().filter_map(|(tag, value)| value.map(|value| (tag, value))));
        body.list("config", &present, |body, (tag, value)| {
            body.u16(*tag);
            match value {
                Value::Byte(value) => body.u8(*value),
                Value::Long(value) => body.u64(*value),
            }
        });
    }

    pub(crate) fn read(body: &mut BodyReader<'_>, unknown: UnknownTags) -> Result<Self, BodyError> {
        let mut config = Self::default();
        body.list("config", |item| match item.u16("config")? {
            tag::DURABILITY => {
                let os = item.flag("durability")?;
                config.durability = Some(if os { Durability::Os } else { Durability::Sync });
                Ok(())
            }
            tag::COMPACTION => {
                config.compaction = Some(item.flag("compaction")?);
                Ok(())
            }
            tag::RETENTION_AGE_MS => {
                config.retention_age_ms = Some(item.u64("retention_age_ms")?);
                Ok(())
            }
            tag::RETENTION_BYTES => {
                config.retention_bytes = Some(item.u64("retention_bytes")?);
                Ok(())
            }
            tag::SEGMENT_BYTES => {
                config.segment_bytes = Some(item.u64("segment_bytes")?);
                Ok(())
            }
            tag if unknown == UnknownTags::Refuse => Err(BodyError::UnknownSetting { tag }),
            _newer => Ok(()),
        })?;
        Ok(config)
    }
}

enum Value {
    Byte(u8),
    Long(u64),
}
