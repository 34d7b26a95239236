//! How many connections there are at a time.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Takes a connection in once there is room for it: until then it waits with the system.
pub(crate) async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, std::net::SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}
