//! Record sets: many records in one frame's payload (`docs/protocol.md`, "Record sets").
//!
//! The layout is the records section of Kafka's message format v2, compressed as a whole.
//!
//! ```
//! use hermit_proto::record_set::{NewRecord, RecordSetBuilder, RecordSet, unpack};
//! use hermit_proto::{Attributes, Codec};
//!
//! let mut builder = RecordSetBuilder::new(1_700_000_000_000_000_000);
//! builder.append(&NewRecord { timestamp_ms: 1_700_000_000_000, key: Some(b"k"), value: Some(b"v"), headers: &[] })?;
//! let payload = builder.finish(Codec::Zstd)?;
//!
//! let attributes = Attributes(Attributes::RECORD_SET).with_codec(Codec::Zstd);
//! let bytes = unpack(attributes, &payload, 1 << 20)?;
//! for record in RecordSet::new(&bytes).records() {
//!     assert_eq!(record?.value, Some(&b"v"[..]));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod compress;
mod lz4;
mod records;
mod varint;

pub use builder::{NewRecord, RecordSetBuilder};
pub use compress::{ZSTD_LEVEL, compress, compress_at, unpack, unpack_into};
pub use records::{Headers, Record, RecordSet, Records};

/// A record set that cannot be read, or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordSetError {
    /// The set ends within a record.
    #[error("record {index} of the set: it is cut within its {field}")]
    Cut {
        /// Which record, from 0.
        index: u32,
        /// The field that is cut.
        field: &'static str,
    },
    /// A number with more bits than its field has.
    #[error("record {index} of the set: its {field} does not end, or is too large")]
    Number {
        /// Which record, from 0.
        index: u32,
        /// The field.
        field: &'static str,
    },
    /// A length or count that is negative where it must not be.
    #[error("record {index} of the set: its {field} is {value}")]
    Negative {
        /// Which record, from 0.
        index: u32,
        /// The field.
        field: &'static str,
        /// What it holds.
        value: i64,
    },
    /// The name of a header is not UTF-8.
    #[error("record {index} of the set: the name of a header is not UTF-8")]
    HeaderName {
        /// Which record, from 0.
        index: u32,
    },
    /// A record is longer than what it holds.
    #[error("record {index} of the set: {bytes} bytes are left over behind its headers")]
    LeftOver {
        /// Which record, from 0.
        index: u32,
        /// Bytes left over.
        bytes: usize,
    },
    /// Offsets within a set count up from 0 without a gap.
    #[error("record {index} of the set: its offset delta is {delta}")]
    OffsetDelta {
        /// Which record, from 0.
        index: u32,
        /// Its offset delta.
        delta: u32,
    },
    /// The set has another number of records than its frame says.
    #[error("the frame says {expected} records, the set has {found}")]
    Count {
        /// The frame's record count.
        expected: u32,
        /// Records that are there; one more than expected stands for "or more".
        found: u32,
    },
    /// A codec that is not spoken.
    #[error("compression codec {number} ({name}) is not supported; use none (0), lz4 (3) or zstd (4)")]
    UnsupportedCodec {
        /// Its number.
        number: u16,
        /// Its name in Kafka.
        name: &'static str,
    },
    /// Unpacked, the set is larger than the limit. The rest was not unpacked.
    #[error("the set unpacks to more than {limit_bytes} bytes")]
    UnpackedTooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The compressed bytes are damaged.
    #[error("the {codec} data are damaged: {reason}")]
    Compressed {
        /// "lz4" or "zstd".
        codec: &'static str,
        /// What the decoder says.
        reason: String,
    },
    /// A field does not fit its 31-bit length: the caller's fault.
    #[error("the {field} is too large for a record: {size}")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// Its bytes, or items.
        size: usize,
    },
}
