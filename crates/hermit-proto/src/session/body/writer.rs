//! Writing fields.

use bytes::{BufMut, BytesMut};

use super::EncodeError;

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

    /// A list of strings.
    pub fn strings(&mut self, field: &'static str, values: &[String]) {
        self.list(field, values, |body, value| body.string(field, value));
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
