//! A proxy that holds back answers and cuts connections when told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy)]
struct State {
    target: SocketAddr,
    generation: u64,
    hold_answers: bool,
    refuse: bool,
}

pub struct Proxy {
    pub address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    state: watch::Sender<State>,
}

impl Proxy {
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, watched) = watch::channel(State { target, generation: 0, hold_answers: false, refuse: false });
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = accepted.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let now = *watched.borrow();
                if now.refuse {
                    continue;
                }
                tokio::spawn(relay(client, now, watched.clone()));
            }
        });
        Self { address, accepted, state }
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// From now on what the broker says stays here.
    pub fn hold_answers(&self) {
        self.state.send_modify(|state| state.hold_answers = true);
    }

    /// Cuts all connections, with what is held back; new ones work.
    pub fn cut(&self) {
        self.state.send_modify(|state| {
            state.generation += 1;
            state.hold_answers = false;
        });
    }

    /// Whether new connections are closed at once; also cuts the present ones.
    pub fn refuse(&self, refuse: bool) {
        self.state.send_modify(|state| {
            state.generation += 1;
            state.refuse = refuse;
        });
    }

    pub fn retarget(&self, target: SocketAddr) {
        self.state.send_modify(|state| {
            state.generation += 1;
            state.hold_answers = false;
            state.target = target;
        });
    }
}

async fn relay(client: TcpStream, born: State, mut state: watch::Receiver<State>) {
    let Ok(broker) = TcpStream::connect(born.target).await else { return };
    let (client_read, client_write) = client.into_split();
    let (broker_read, broker_write) = broker.into_split();
    let answers = state.clone();
    tokio::select! {
        () = pump(client_read, broker_write, None) => {}
        () = pump(broker_read, client_write, Some(answers)) => {}
        _ = state.wait_for(|state| state.generation != born.generation) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut hold: Option<watch::Receiver<State>>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer).await {
        if let Some(hold) = &mut hold
            && hold.wait_for(|state| !state.hold_answers).await.is_err()
        {
            return;
        }
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
