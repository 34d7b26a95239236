//! What all requests and responses have in common.

use bytes::BytesMut;

use super::body::{BodyError, BodyReader, BodyWriter, EncodeError};
use super::error::WireError;
use super::operation::Operation;
use super::status::Status;
use crate::header::{HEADER_SIZE, Header, magic};
use crate::ids::CorrelationId;

/// A message whose fields all lie in the payload; its key is empty.
pub trait Message: Sized {
    /// The operation it belongs to.
    const OPERATION: Operation;

    /// Appends the fields.
    fn write(&self, body: &mut BodyWriter<'_>);

    /// Reads the fields. What lies behind the last one known is for a newer release, and is passed over.
    ///
    /// # Errors
    /// [`BodyError`] names the field at fault.
    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError>;

    /// Reads the message out of a unit's key and payload.
    ///
    /// # Errors
    /// [`BodyError`] names the field at fault.
    fn decode(key: &[u8], payload: &[u8]) -> Result<Self, BodyError> {
        if !key.is_empty() {
            return Err(BodyError::KeySize { expected: 0, found: key.len() });
        }
        Self::read(&mut BodyReader::new(payload))
    }
}

/// A message from the client.
pub trait Request: Message {
    /// What answers it.
    type Response: Response;

    /// Appends the whole unit.
    ///
    /// # Errors
    /// [`EncodeError`] if a field does not fit; `out` is then as it was.
    fn encode(&self, correlation: CorrelationId, out: &mut BytesMut) -> Result<(), EncodeError> {
        encode_unit(out, magic::REQUEST, correlation, Self::OPERATION.number(), |body| self.write(body))
    }
}

/// A message from the broker that says "done".
pub trait Response: Message {
    /// Appends the whole unit, with status 0.
    ///
    /// # Errors
    /// [`EncodeError`] if a field does not fit; `out` is then as it was.
    fn encode(&self, correlation: CorrelationId, out: &mut BytesMut) -> Result<(), EncodeError> {
        encode_unit(out, magic::RESPONSE, correlation, Status::Ok.code(), |body| self.write(body))
    }

    /// Reads a response unit, whichever way the request went.
    ///
    /// # Errors
    /// [`ResponseError::Refused`] is the broker's answer; [`ResponseError::Malformed`] is a broken one.
    fn decode_response(header: &Header, key: &[u8], payload: &[u8]) -> Result<Self, ResponseError> {
        if header.record_count == Status::Ok.code() {
            Ok(Self::decode(key, payload)?)
        } else {
            Err(ResponseError::Refused(WireError::decode(header, payload)?))
        }
    }
}

/// Why there is no response to work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The broker refused the request.
    #[error(transparent)]
    Refused(#[from] WireError),
    /// The broker's answer cannot be read: the broker's fault.
    #[error("the broker's answer cannot be read: {0}")]
    Malformed(#[from] BodyError),
}

/// A message without fields (yet).
macro_rules! empty_message {
    ($(#[$doc:meta])* $name:ident, $operation:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl $crate::session::Message for $name {
            const OPERATION: $crate::session::Operation = $crate::session::Operation::$operation;

            fn write(&self, _body: &mut $crate::session::BodyWriter<'_>) {}

            fn read(_body: &mut $crate::session::BodyReader<'_>) -> Result<Self, $crate::session::BodyError> {
                Ok(Self)
            }
        }
    };
}
pub(crate) use empty_message;

pub(crate) fn encode_unit(
    out: &mut BytesMut,
    magic: u8,
    correlation: CorrelationId,
    number: u32,
    write: impl FnOnce(&mut BodyWriter<'_>),
) -> Result<(), EncodeError> {
    let start = start_unit(out);
    let mut body = BodyWriter::new(out);
    write(&mut body);
    let written = body.finish();
    let finished = written.and_then(|()| finish_unit(out, start, magic, correlation, 0, number));
    if finished.is_err() {
        out.truncate(start);
    }
    finished
}

/// Leaves room for a header; gives the place for [`finish_unit`].
pub(crate) fn start_unit(out: &mut BytesMut) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_SIZE]);
    start
}

/// Writes the header at `start` for the `key_size` bytes of key and the payload that follow it up to the end.
pub(crate) fn finish_unit(
    out: &mut BytesMut,
    start: usize,
    magic: u8,
    correlation: CorrelationId,
    key_size: u32,
    number: u32,
) -> Result<(), EncodeError> {
    let body_bytes = out.len().saturating_sub(start).saturating_sub(HEADER_SIZE) as u64;
    let payload_bytes = body_bytes.saturating_sub(key_size.into());
    let header = session_header(magic, correlation, key_size, payload_bytes, number)?;
    if let Some(place) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        *place = header.encode();
    }
    Ok(())
}

/// A session's header. The timestamp is 0: sessions do not use it.
pub(crate) fn session_header(
    magic: u8,
    correlation: CorrelationId,
    key_size: u32,
    payload_bytes: u64,
    number: u32,
) -> Result<Header, EncodeError> {
    let payload_size = u32::try_from(payload_bytes).map_err(|_too_large| EncodeError {
        field: "payload",
        size: payload_bytes,
        limit: u32::MAX.into(),
    })?;
    Ok(Header { magic, timestamp: 0, offset: correlation.0, key_size, payload_size, record_count: number })
}
