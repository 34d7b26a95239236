//! The fuzzer's bytes, taken as small numbers and pieces.

/// What is left of them. All zeros behind the end.
#[derive(Debug)]
pub(crate) struct Steps<'a>(pub(crate) &'a [u8]);

impl<'a> Steps<'a> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// Less than `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.u16()) % end.max(1)
    }

    /// A piece whose length comes first.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.u8()).min(self.0.len());
        let (piece, rest) = self.0.split_at(len);
        self.0 = rest;
        piece
    }
}
