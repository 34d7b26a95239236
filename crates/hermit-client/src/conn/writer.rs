//! Writes requests to the socket, as many at a time as are waiting.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::session::{Outgoing, Receipt, Session};

/// Pieces handed to one `writev`; Linux takes up to 1024.
const MAX_SLICES: usize = 64;

/// Runs until the session fails, or nobody can send any more.
pub(super) async fn run(mut socket: impl AsyncWrite + Unpin, mut outgoing: mpsc::UnboundedReceiver<Outgoing>, session: Session) {
    let written = tokio::select! {
        written = write_all(&mut socket, &mut outgoing, &session) => written,
        _ended = session.ended() => Ok(()),
    };
    if let Err(error) = written {
        session.lost(error);
    }
    if let Err(error) = socket.shutdown().await {
        tracing::debug!(%error, "closing the socket");
    }
}

async fn write_all(
    socket: &mut (impl AsyncWrite + Unpin),
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
    session: &Session,
) -> io::Result<()> {
    let mut received = Vec::new();
    let mut pieces = VecDeque::<Bytes>::new();
    let mut receipts = Vec::new();
    while outgoing.recv_many(&mut received, MAX_SLICES / 2).await > 0 {
        for Outgoing { head, body, receipt } in received.drain(..) {
            pieces.extend([head, body].into_iter().filter(|piece| !piece.is_empty()));
            receipts.extend(receipt);
        }
        while !pieces.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = pieces.len().min(MAX_SLICES);
            for (slice, piece) in slices.iter_mut().zip(&pieces) {
                *slice = IoSlice::new(piece);
            }
            let written = socket.write_vectored(slices.get(..count).unwrap_or_default()).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            session.note_written();
            advance(&mut pieces, written);
        }
        socket.flush().await?;
        receipts.drain(..).for_each(Receipt::written);
    }
    Ok(())
}

fn advance(pieces: &mut VecDeque<Bytes>, mut written: usize) {
    while let Some(first) = pieces.front_mut() {
        if first.len() > written {
            first.advance(written);
            return;
        }
        written -= first.len();
        pieces.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_writes_go_on_where_they_stopped() {
        let mut pieces = VecDeque::from([Bytes::from("ab"), Bytes::from("cde"), Bytes::from("f")]);
        advance(&mut pieces, 3);
        assert_eq!(pieces, [Bytes::from("de"), Bytes::from("f")]);
        advance(&mut pieces, 2);
        assert_eq!(pieces, [Bytes::from("f")]);
        advance(&mut pieces, 1);
        assert!(pieces.is_empty());
    }
}
