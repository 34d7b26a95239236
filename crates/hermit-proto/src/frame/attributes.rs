//! The attribute bits of a frame, and the codec among them.

/// How a record set is compressed; Kafka's codec numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not compressed.
    #[default]
    None,
    /// LZ4, frame format.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Codec {
    /// The number in the attributes.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec of a number, or `None` for one that is not spoken.
    #[must_use]
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The attribute bits of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(pub u16);

impl Attributes {
    pub(super) const CODEC_MASK: u16 = 0b111;
    /// The payload is a record set.
    pub const RECORD_SET: u16 = 1 << 3;
    /// The frame has a key, if perhaps an empty one.
    pub const HAS_KEY: u16 = 1 << 4;
    /// The key's earlier values are void.
    pub const TOMBSTONE: u16 = 1 << 5;
    /// Not data: takes no offset.
    pub const CONTROL: u16 = 1 << 6;
    /// The broker made the body CRC, for a producer that could not.
    pub const CHECKSUM_BY_BROKER: u16 = 1 << 7;
    pub(super) const KNOWN: u16 =
        Self::CODEC_MASK | Self::RECORD_SET | Self::HAS_KEY | Self::TOMBSTONE | Self::CONTROL | Self::CHECKSUM_BY_BROKER;

    /// Whether all bits of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: u16) -> bool {
        self.0 & flags == flags
    }

    /// These attributes with the bits of `flags` set as well.
    #[must_use]
    pub const fn with(self, flags: u16) -> Self {
        Self(self.0 | flags)
    }

    /// These attributes with the codec's number.
    #[must_use]
    pub const fn with_codec(self, codec: Codec) -> Self {
        Self(self.0 & !Self::CODEC_MASK | codec.number())
    }

    /// The codec, or `None` for a number that is not spoken.
    #[must_use]
    pub const fn codec(self) -> Option<Codec> {
        Codec::from_number(self.0 & Self::CODEC_MASK)
    }
}
