//! Protocol version 1, as its clients speak it (`docs/protocol.md`, "Version 1").

mod answer;
mod frame;
mod handshake;

pub use answer::{ANSWER_SIZE, Answer, AnswerError, COMMIT_STORED};
pub use frame::{V1FrameError, accept_header, consumer_header, opaque_frame, record_header};
pub use handshake::{Handshake, HandshakeError, HandshakeProgress, Role};
