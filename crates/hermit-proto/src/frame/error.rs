//! What can be wrong with a frame, and the limits that it is held to.

/// What is wrong with a frame. All but `Truncated` are the sender's fault, or the disk's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes end within the frame.
    #[error("the frame needs {needed_bytes} bytes, {have_bytes} are there")]
    Truncated {
        /// Bytes that are needed to go on; the whole frame's once its prefix is there.
        needed_bytes: u64,
        /// Bytes that are there.
        have_bytes: u64,
    },
    /// Not a version-2 data frame.
    #[error("magic {0:#04x} is not a version-2 data frame (0x02)")]
    Magic(u8),
    /// Key and payload together are over the limit.
    #[error("key and payload have {body_bytes} bytes, the limit is {limit_bytes}")]
    TooLarge {
        /// Key and payload together.
        body_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The frame would take more offsets than the limit.
    #[error("record count {count} is over the limit of {limit}")]
    TooManyRecords {
        /// The frame's record count.
        count: u32,
        /// The limit.
        limit: u32,
    },
    /// Attribute bits that have no meaning yet.
    #[error("reserved attribute bits {0:#06x} are set")]
    ReservedAttributes(u16),
    /// A codec number that is not spoken.
    #[error("compression codec {0} is not supported; use none (0), lz4 (3) or zstd (4)")]
    UnknownCodec(u16),
    /// Fields that contradict each other.
    #[error("contradictory frame: {0}")]
    Contradiction(&'static str),
    /// The producer's checksum does not match.
    #[error("the body CRC is {expected:#010x}, the bytes give {actual:#010x}")]
    BodyCrc {
        /// As the frame says.
        expected: u32,
        /// As computed.
        actual: u32,
    },
    /// The broker's checksum does not match.
    #[error("the frame CRC is {expected:#010x}, the bytes give {actual:#010x}")]
    FrameCrc {
        /// As the frame says.
        expected: u32,
        /// As computed.
        actual: u32,
    },
}

/// Limits on what a frame may declare, checked before anything is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Key and payload together, in bytes.
    pub max_body_bytes: u64,
    /// Offsets that one frame may take.
    pub max_record_count: u32,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self { max_body_bytes: 50 << 20, max_record_count: 1_000_000 }
    }
}
