//! The body of every response and delivery whose status is not 0.

use bytes::BytesMut;

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{finish_unit, start_unit};
use super::status::Status;
use crate::frame::FrameError;
use crate::header::{Header, magic};
use crate::ids::CorrelationId;

/// A refusal as it travels: what, which field, why, and the numbers that belong to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {message}{}", if field.is_empty() { String::new() } else { format!(" (field `{field}`)") })]
pub struct WireError {
    /// What went wrong.
    pub status: Status,
    /// The field of the request at fault; empty if none is.
    pub field: String,
    /// For people: what is wrong and what to do.
    pub message: String,
    /// Numbers in the order that [`Status`] names for each code.
    pub details: Vec<u64>,
}

impl WireError {
    /// An error without a field and numbers.
    #[must_use]
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, field: String::new(), message: message.into(), details: Vec::new() }
    }

    /// Names the field at fault.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn detail(mut self, value: u64) -> Self {
        self.details.push(value);
        self
    }

    /// Whether the same request may succeed later, unchanged.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.status.is_retryable()
    }

    /// Appends the response that carries this error. Never fails: what does not fit is cut.
    pub fn encode(&self, correlation: CorrelationId, out: &mut BytesMut) {
        let start = start_unit(out);
        self.write(&mut BodyWriter::new(out));
        // The body is bounded by its two cut strings and 255 numbers, far below what a u32 can say.
        let _fits = finish_unit(out, start, magic::RESPONSE, correlation, 0, self.status.code());
    }

    /// Appends the fields: field, message, details.
    pub(crate) fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("field", cut(&self.field));
        body.string("message", cut(&self.message));
        let details = self.details.get(..usize::from(u8::MAX)).unwrap_or(&self.details);
        body.u8(u8::try_from(details.len()).unwrap_or(u8::MAX));
        for value in details {
            body.u64(*value);
        }
    }

    /// Reads the body of a response whose header says `status`.
    ///
    /// # Errors
    /// [`BodyError`] if the bytes are no error body.
    pub fn decode(header: &Header, payload: &[u8]) -> Result<Self, BodyError> {
        Self::read(Status::from_code(header.record_count), &mut BodyReader::new(payload))
    }

    pub(crate) fn read(status: Status, body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let field = body.string("field")?.to_owned();
        let message = body.string("message")?.to_owned();
        let count = body.u8("details")?;
        let details = (0..count).map(|_| body.u64("details")).collect::<Result<_, _>>()?;
        Ok(Self { status, field, message, details })
    }
}

/// At most 4 KiB of text, cut between characters.
fn cut(text: &str) -> &str {
    const MOST: usize = 4096;
    text.get(..text.floor_char_boundary(MOST)).unwrap_or(text)
}

impl From<BodyError> for WireError {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::UnknownSetting { .. } => Status::InvalidConfig,
            _ => Status::Malformed,
        };
        Self::new(status, error.to_string()).field(error.field())
    }
}

impl From<FrameError> for WireError {
    fn from(error: FrameError) -> Self {
        let wire = |status| Self::new(status, error.to_string()).field("frame");
        match error {
            FrameError::TooLarge { body_bytes, limit_bytes } => wire(Status::TooLarge).detail(limit_bytes).detail(body_bytes),
            FrameError::TooManyRecords { count, limit } => wire(Status::TooManyRecords).detail(limit.into()).detail(count.into()),
            FrameError::BodyCrc { .. } | FrameError::FrameCrc { .. } => wire(Status::CorruptFrame),
            FrameError::ReservedAttributes(_) | FrameError::UnknownCodec(_) => wire(Status::UnsupportedFrame),
            FrameError::Truncated { .. } | FrameError::Magic(_) | FrameError::Contradiction(_) => wire(Status::Malformed),
        }
    }
}
