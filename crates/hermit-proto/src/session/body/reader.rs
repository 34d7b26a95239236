//! Reading fields. Nothing is believed that the bytes do not bear out.

use super::BodyError;

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

    /// A list of strings.
    ///
    /// # Errors
    /// [`BodyError::Short`], [`BodyError::NotUtf8`].
    pub fn strings(&mut self, field: &'static str) -> Result<Vec<String>, BodyError> {
        self.list(field, |item| item.string(field).map(str::to_owned))
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

    /// A field that was appended to its message: `absent` where an older sender ended before it.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn appended<T>(&mut self, absent: T, read: impl FnOnce(&mut Self) -> Result<T, BodyError>) -> Result<T, BodyError> {
        if self.rest.is_empty() { Ok(absent) } else { read(self) }
    }
}
