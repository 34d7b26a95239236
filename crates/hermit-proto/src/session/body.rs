//! Fields of requests and responses: big-endian integers, strings, lists (`docs/protocol.md`, "Bodies").

use bytes::{BufMut, BytesMut};

/// Bytes that do not have the form of their operation: the sender's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body ends within a field.
    #[error("the body ends within `{field}`: {needed} bytes are needed, {remaining} are there")]
    Short {
        /// The field that is cut.
        field: &'static str,
        /// Bytes that the field has at least.
        needed: u64,
        /// Bytes that the body still has.
        remaining: u64,
    },
    /// A string is not UTF-8.
    #[error("`{field}` is not UTF-8")]
    NotUtf8 {
        /// The field.
        field: &'static str,
    },
    /// A value that the field cannot have.
    #[error("`{field}` is {value}, allowed is {allowed}")]
    BadValue {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// What it may hold.
        allowed: &'static str,
    },
    /// The key's size is not that of the operation.
    #[error("the key has {found} bytes, this operation has {expected}")]
    KeySize {
        /// The operation's key size.
        expected: usize,
        /// The size that came.
        found: usize,
    },
    /// A topic setting that this release does not know.
    #[error("topic setting number {tag} is unknown to this release")]
    UnknownSetting {
        /// The setting's tag.
        tag: u16,
    },
}

impl BodyError {
    /// The field at fault.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Short { field, .. } | Self::NotUtf8 { field } | Self::BadValue { field, .. } => field,
            Self::KeySize { .. } => "key",
            Self::UnknownSetting { .. } => "config",
        }
    }
}

/// A message that does not fit its encoding: the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` has {size}, at most {limit} can be encoded")]
pub struct EncodeError {
    /// The field that is too long.
    pub field: &'static str,
    /// Its bytes, or items.
    pub size: u64,
    /// The most that can be encoded.
    pub limit: u64,
}

/// Reads the fields of a body one after another.
#[derive(Clone, Debug)]
pub struct BodyReader<'a> {
    rest: &'a [u8],
}

impl<'a> BodyReader<'a> {
    /// Begins at the first byte.
    #[must_use]
    pub const fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// The bytes not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn short(&self, field: &'static str, needed: u64) -> BodyError {
        BodyError::Short { field, needed, remaining: self.rest.len() as u64 }
    }

    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], BodyError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short(field, N as u64))?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`BodyError::Short`].
    pub fn raw(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], BodyError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.short(field, count as u64))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A u8.
    ///
    /// # Errors
    /// [`BodyError::Short`].
    pub fn u8(&mut self, field: &'static str) -> Result<u8, BodyError> {
        self.fixed(field).map(u8::from_be_bytes)
    }

    /// A u16.
    ///
    /// # Errors
    /// [`BodyError::Short`].
    pub fn u16(&mut self, field: &'static str) -> Result<u16, BodyError> {
        self.fixed(field).map(u16::from_be_bytes)
    }

    /// An i16.
    ///
    /// # Errors
    /// [`BodyError::Short`].
    pub fn i16(&mut self, field: &'static str) -> Result<i16, BodyError> {
        self.fixed(field).map(i16::from_be_bytes)
    }

    /// A u32.
    ///
    /// # Errors
    /// [`BodyError::Short`].
    pub fn u32(&mut self, field: &'static str) -> Result<u32, BodyError> {
        self.fixed(field).map(u32::from_be_bytes)
    }

    /// A u64.
    ///
    /// # Errors
    /// [`BodyError::Short`].
    pub fn u64(&mut self, field: &'static str) -> Result<u64, BodyError> {
        self.fixed(field).map(u64::from_be_bytes)
    }

    /// An i64.
    ///
    /// # Errors
    /// [`BodyError::Short`].
    pub fn i64(&mut self, field: &'static str) -> Result<i64, BodyError> {
        self.fixed(field).map(i64::from_be_bytes)
    }

    /// A u128.
    ///
    /// # Errors
    /// [`BodyError::Short`].
    pub fn u128(&mut self, field: &'static str) -> Result<u128, BodyError> {
        self.fixed(field).map(u128::from_be_bytes)
    }

    /// A u8 that is 0 or 1.
    ///
    /// # Errors
    /// [`BodyError::Short`], [`BodyError::BadValue`].
    pub fn flag(&mut self, field: &'static str) -> Result<bool, BodyError> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(BodyError::BadValue { field, value: other.into(), allowed: "0 or 1" }),
        }
    }

    /// A flag, and a u64 behind it where the flag is 1.
    ///
    /// # Errors
    /// [`BodyError::Short`], [`BodyError::BadValue`].
    pub fn optional_u64(&mut self, field: &'static str) -> Result<Option<u64>, BodyError> {
        if self.flag(field)? { self.u64(field).map(Some) } else { Ok(None) }
    }

    /// A string: length u16, then UTF-8.
    ///
    /// # Errors
    /// [`BodyError::Short`], [`BodyError::NotUtf8`].
    pub fn string(&mut self, field: &'static str) -> Result<&'a str, BodyError> {
        let length = self.u16(field)?;
        let bytes = self.raw(field, length.into())?;
        std::str::from_utf8(bytes).map_err(|_position| BodyError::NotUtf8 { field })
    }

    /// Bytes: length u32, then that many.
    ///
    /// # Errors
    /// [`BodyError::Short`].
    pub fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], BodyError> {
        let length = self.u32(field)?;
        let length = usize::try_from(length).map_err(|_too_large| self.short(field, length.into()))?;
        self.raw(field, length)
    }

    /// A list: count u32, then each item as [`BodyReader::bytes`] of which the reader of the item takes what it
    /// knows, so that items can grow. The count is believed only as far as the bytes that are there.
    ///
    /// # Errors
    /// [`BodyError::Short`], and those of `item`.
    pub fn list<T>(
        &mut self,
        field: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T, BodyError>,
    ) -> Result<Vec<T>, BodyError> {
        let count = self.u32(field)?;
        // Each item has its four bytes of length at least.
        let needed = u64::from(count) * 4;
        if needed > self.rest.len() as u64 {
            return Err(self.short(field, needed));
        }
        // Grows with what is decoded: an item may be larger in memory than its four bytes here.
        let mut items = Vec::new();
        for _ in 0..count {
            let mut body = Self::new(self.bytes(field)?);
            items.push(item(&mut body)?);
        }
        Ok(items)
    }
}

/// Writes the fields of a body one after another. The first field that does not fit is remembered, and told at the end.
#[derive(Debug)]
pub struct BodyWriter<'a> {
    out: &'a mut BytesMut,
    error: Option<EncodeError>,
}

impl<'a> BodyWriter<'a> {
    /// Appends to `out`.
    #[must_use]
    pub const fn new(out: &'a mut BytesMut) -> Self {
        Self { out, error: None }
    }

    /// The first field that did not fit, if any; what was written is useless then.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn finish(self) -> Result<(), EncodeError> {
        self.error.map_or(Ok(()), Err)
    }

    fn fail(&mut self, field: &'static str, size: usize, limit: u64) {
        self.error.get_or_insert(EncodeError { field, size: size as u64, limit });
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.put_slice(bytes);
    }

    /// A u8.
    pub fn u8(&mut self, value: u8) {
        self.out.put_u8(value);
    }

    /// A u16.
    pub fn u16(&mut self, value: u16) {
        self.out.put_u16(value);
    }

    /// An i16.
    pub fn i16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    /// A u32.
    pub fn u32(&mut self, value: u32) {
        self.out.put_u32(value);
    }

    /// A u64.
    pub fn u64(&mut self, value: u64) {
        self.out.put_u64(value);
    }

    /// An i64.
    pub fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    /// A u128.
    pub fn u128(&mut self, value: u128) {
        self.out.put_u128(value);
    }

    /// A u8 that is 0 or 1.
    pub fn flag(&mut self, value: bool) {
        self.out.put_u8(value.into());
    }

    /// A flag, and the value behind it if there is one.
    pub fn optional_u64(&mut self, value: Option<u64>) {
        self.flag(value.is_some());
        if let Some(value) = value {
            self.u64(value);
        }
    }

    /// A string: length u16, then UTF-8.
    pub fn string(&mut self, field: &'static str, value: &str) {
        match u16::try_from(value.len()) {
            Ok(length) => {
                self.u16(length);
                self.raw(value.as_bytes());
            }
            Err(_too_long) => self.fail(field, value.len(), u16::MAX.into()),
        }
    }

    /// Bytes: length u32, then that many.
    pub fn bytes(&mut self, field: &'static str, value: &[u8]) {
        match u32::try_from(value.len()) {
            Ok(length) => {
                self.u32(length);
                self.raw(value);
            }
            Err(_too_long) => self.fail(field, value.len(), u32::MAX.into()),
        }
    }

    /// A list: count u32, then each item with its length (u32) before it.
    pub fn list<T>(&mut self, field: &'static str, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        let Ok(count) = u32::try_from(items.len()) else {
            return self.fail(field, items.len(), u32::MAX.into());
        };
        self.u32(count);
        for one in items {
            let length_at = self.out.len();
            self.u32(0);
            let begin = self.out.len();
            item(self, one);
            let length = self.out.len().saturating_sub(begin);
            match (u32::try_from(length), self.out.get_mut(length_at..begin)) {
                (Ok(length), Some(place)) => place.copy_from_slice(&length.to_be_bytes()),
                _ => self.fail(field, length, u32::MAX.into()),
            }
        }
    }
}
