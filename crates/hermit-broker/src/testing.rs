//! A broker for the tests of other projects: feature `testing`.
//!
//! ```
//! use std::io::{Read as _, Write as _};
//! use hermit_broker::testing::TestBroker;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut broker = TestBroker::start()?;
//! let mut client = std::net::TcpStream::connect(broker.addr())?;
//!
//! // Whatever the project's own client does; here it is a version-1 producer of topic `t`, and one message.
//! client.write_all(b"\x01\x01t\0\0\0\0")?;
//! client.write_all(b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\x01hello")?;
//! let mut answer = [0; 9];
//! client.read_exact(&mut answer)?;
//! assert_eq!(answer, [0; 9]);
//!
//! // How does the project fare when the broker dies, and comes back at the same address?
//! broker.kill();
//! broker.restart()?;
//! assert_eq!(broker.broker().topics().len(), 2, "`t`, and the one for committed positions");
//! # Ok(())
//! # }
//! ```
//!
//! For tests without sockets, with disks that fail and time that stands still, see [`Broker::open_with`] and the simulated disk, which is here
//! too.

mod member;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use hermit_log::disk::sim::{Fault, Op, SimDisk, Survival};
pub use hermit_log::{Flusher, LogEnv, ManualClock};
pub use member::Member;

use crate::broker::Broker;
use crate::config::BrokerConfig;
use crate::error::BrokerError;

/// For tests: a fraction of a millisecond, and safe for nobody.
const CHEAP_HASHING: crate::PasswordHashing = crate::PasswordHashing { memory_kib: 8, passes: 1 };
/// Time that blocking requests have to end.
const BLOCKING_TIMEOUT: Duration = Duration::from_secs(5);

/// A broker on a port of its own, in a temporary directory, on a thread of its own. It is stopped, and its directory removed, when this is dropped.
///
/// Its functions block for some milliseconds, and may be called with or without an asynchronous runtime.
#[derive(Debug)]
pub struct TestBroker {
    // Before the directory: dropped first.
    running: Option<Running>,
    broker: Broker,
    addr: SocketAddr,
    dir: TempDir,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<Stop>,
    thread: JoinHandle<Result<(), BrokerError>>,
}

#[derive(Debug)]
enum Stop {
    Gracefully,
    Killed,
}

impl TestBroker {
    /// Starts a broker with the default settings, but without a reserve for a full disk.
    ///
    /// # Errors
    /// As [`Broker::open`]; no thread or port can be had.
    pub fn start() -> Result<Self, BrokerError> {
        Self::start_with(|_config| {})
    }

    /// Starts a broker with settings that `change` has changed. The data directory is given.
    ///
    /// # Errors
    /// As [`TestBroker::start`].
    pub fn start_with(change: impl FnOnce(&mut BrokerConfig)) -> Result<Self, BrokerError> {
        let dir = tempfile::tempdir().map_err(|error| BrokerError::io("create a directory in", std::env::temp_dir(), error))?;
        let mut config = BrokerConfig { reserve_bytes: 0, ..BrokerConfig::new(dir.path()) };
        change(&mut config);
        let broker = Broker::open(config)?;
        let (addr, running) = Running::start(&broker, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self { running: Some(running), broker, addr, dir })
    }

    /// Starts a broker where clients have to log in: as `user` with `password`, who may do everything, and who can be given company by
    /// [`Broker::put_user`] and [`Broker::add_rules`]. Passwords are hashed cheaply, so that tests are quick.
    ///
    /// # Errors
    /// As [`TestBroker::start`]; the name or the password is not allowed.
    pub fn start_with_logins(user: &str, password: &str) -> Result<Self, BrokerError> {
        let user = hermit_proto::UserName::new_public(user)?;
        Self::start_with(|config| {
            config.access.enabled = true;
            config.access.hashing = CHEAP_HASHING;
            let password = hermit_proto::Secret::new(password);
            config.access.first_administrator = crate::FirstAdministrator::Password { user, password };
        })
    }

    /// As [`TestBroker::start`], without blocking the caller's runtime.
    ///
    /// # Errors
    /// As [`TestBroker::start`].
    pub async fn start_async() -> Result<Self, BrokerError> {
        let started = tokio::task::spawn_blocking(Self::start).await;
        started.unwrap_or_else(|panicked| Err(BrokerError::io("start a broker in", std::env::temp_dir(), panicked.into())))
    }

    /// Where it listens: the same address for its whole life.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    /// The broker itself: to create topics, to look at logs. Once it was stopped or killed, it takes no more writes; after a restart, this is another one.
    #[must_use]
    pub const fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Stops it gracefully: clients are told, everything is flushed, and the next start is a clean one. It can be started again with
    /// [`TestBroker::restart`].
    ///
    /// # Errors
    /// As [`Broker::shutdown`].
    pub fn stop(&mut self) -> Result<(), BrokerError> {
        self.end(Stop::Gracefully)
    }

    /// Ends it as SIGKILL ends a process: connections break, nothing more is written, and the next start is not a clean one. It can be started
    /// again with [`TestBroker::restart`].
    pub fn kill(&mut self) {
        // There is nothing that could fail.
        let _killed = self.end(Stop::Killed);
    }

    /// Starts it at the same address, with the same settings, on what is there; gracefully stopped before, if it runs.
    ///
    /// # Errors
    /// As [`TestBroker::stop`] and [`TestBroker::start`]; the port was taken meanwhile.
    pub fn restart(&mut self) -> Result<(), BrokerError> {
        self.stop()?;
        self.broker = Broker::open(self.broker.config().clone())?;
        let (_addr, running) = Running::start(&self.broker, self.addr)?;
        self.running = Some(running);
        Ok(())
    }

    fn end(&mut self, how: Stop) -> Result<(), BrokerError> {
        let Some(running) = self.running.take() else { return Ok(()) };
        // A thread that has gone does not hear it.
        let _heard = running.stop.send(how);
        let ended = running.thread.join();
        ended.unwrap_or(Err(BrokerError::ShuttingDown))
    }
}

impl Drop for TestBroker {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    /// Serves `broker` on a thread.
    fn start(broker: &Broker, listen: SocketAddr) -> Result<(SocketAddr, Self), BrokerError> {
        let (stop, stopped) = oneshot::channel();
        let (ready, when_ready) = mpsc::channel();
        let serving = broker.clone();
        let failed = |error| BrokerError::io("serve a broker from", &broker.config().data_dir, error);
        let spawned =
            std::thread::Builder::new().name("test-broker".into()).spawn(move || serve(&serving, listen, &ready, stopped));
        let thread = spawned.map_err(failed)?;
        match when_ready.recv() {
            Ok(addr) => Ok((addr, Self { stop, thread })),
            // It has ended before.
            Err(_ended) => match thread.join() {
                Ok(Err(error)) => Err(error),
                _ => Err(BrokerError::ShuttingDown),
            },
        }
    }
}

fn serve(
    broker: &Broker,
    listen: SocketAddr,
    ready: &mpsc::Sender<SocketAddr>,
    stopped: oneshot::Receiver<Stop>,
) -> Result<(), BrokerError> {
    let failed = |error| BrokerError::io("serve a broker from", &broker.config().data_dir, error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let ended = runtime.block_on(async {
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let serving = broker.clone();
        let served = tokio::spawn(async move { serving.serve(listener).await });
        // Who started this waits for it.
        let _heard = ready.send(addr);
        match stopped.await {
            Ok(Stop::Gracefully) => {
                let closed = broker.shutdown().await;
                // Its end is that of all connections.
                let _ended = served.await;
                closed
            }
            Ok(Stop::Killed) | Err(_) => {
                broker.abandon();
                Ok(())
            }
        }
    });
    runtime.shutdown_timeout(BLOCKING_TIMEOUT);
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TopicConfig;
    use bytes::BytesMut;
    use hermit_proto::{PartitionId, ProducedFrame};
    use std::sync::Arc;

    fn append(broker: &Broker, wait: bool) -> Result<(), BrokerError> {
        let topic = broker.topic(&"t".parse()?)?;
        let frame = ProducedFrame::message(1, None, b"x").to_vec().unwrap();
        let mut batch = broker.parse(BytesMut::from(&frame[..]))?;
        let ticket = broker.append(&Arc::clone(topic.partition(PartitionId(0))?), &mut batch)?;
        if wait { ticket.wait() } else { Ok(()) }
    }

    fn log_end(broker: &Broker) -> u64 {
        let topic = broker.topic(&"t".parse().unwrap()).unwrap();
        topic.partition(PartitionId(0)).unwrap().bounds().unwrap().log_end.0
    }

    #[test]
    fn it_restarts_cleanly_dies_uncleanly_and_leaves_nothing_behind() {
        let mut test = TestBroker::start().unwrap();
        let (addr, dir) = (test.addr(), test.data_dir().to_owned());
        test.broker().create_topic("t", 1, &TopicConfig::default()).unwrap();
        append(test.broker(), true).unwrap();
        test.restart().unwrap();
        assert!(test.broker().report().clean);
        append(test.broker(), true).unwrap();
        test.kill();
        assert!(append(test.broker(), false).is_err());
        assert!(std::net::TcpStream::connect(addr).is_err());
        test.restart().unwrap();
        assert!(!test.broker().report().clean);
        assert_eq!((test.addr(), log_end(test.broker())), (addr, 2));
        std::net::TcpStream::connect(addr).unwrap();
        drop(test);
        assert!(!dir.exists() && std::net::TcpStream::connect(addr).is_err());
    }

    #[tokio::test]
    async fn it_lives_and_dies_within_a_runtime() {
        let mut test = TestBroker::start_async().await.unwrap();
        let _client = tokio::net::TcpStream::connect(test.addr()).await.unwrap();
        test.restart().unwrap();
        tokio::net::TcpStream::connect(test.addr()).await.unwrap();
        let other = TestBroker::start_with(|config| config.limits.max_connections = 1).unwrap();
        assert_ne!(test.addr(), other.addr());
    }
}
