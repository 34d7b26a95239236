//! A `hermitd` of one's own: started, killed, restarted on its port, stopped, and ended with its owner.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Recovery of what these runs leave behind takes well below a second; a loaded machine gets far more.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// A graceful stop drains and flushes.
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
/// What is quoted of the broker's log when something is wrong.
const LOG_TAIL_LINES: usize = 20;

/// How to start a broker.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The `hermitd` to run.
    pub binary: PathBuf,
    /// A folder of its own: what the broker writes to standard error goes to `hermitd.log` in it.
    pub dir: PathBuf,
    /// Where the broker keeps its data: `data` in that folder, if nobody says otherwise.
    pub data: PathBuf,
    /// More arguments.
    pub args: Vec<OsString>,
    /// A program and its arguments that `hermitd` is started under, such as `strace`; it must replace itself by `hermitd`.
    pub under: Vec<OsString>,
    /// Whether it answers over HTTP, on a free port of the loopback interface.
    pub http: bool,
}

impl Setup {
    /// The broker at `binary`, with its data and log in `dir`.
    #[must_use]
    pub fn new(binary: &Path, dir: &Path) -> Self {
        Self {
            binary: binary.to_owned(),
            dir: dir.to_owned(),
            data: dir.join("data"),
            args: Vec::new(),
            under: Vec::new(),
            http: false,
        }
    }

    /// Where the broker keeps its data.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.data.clone()
    }

    fn log(&self) -> PathBuf {
        self.dir.join("hermitd.log")
    }

    /// The end of the broker's log, for an error message.
    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

/// A running `hermitd`. It is killed when this is dropped.
#[derive(Debug)]
pub struct Hermitd {
    setup: Setup,
    child: Child,
    address: SocketAddr,
    http: Option<SocketAddr>,
}

impl Hermitd {
    /// Starts a broker on a free port of the loopback interface, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it cannot be started, ends, or is not ready in time.
    pub async fn start(setup: Setup) -> Result<Self> {
        let (child, address, http) = spawn(&setup, "127.0.0.1:0").await?;
        Ok(Self { setup, child, address, http })
    }

    /// Starts a broker at an address, which nobody else may have by chance while it is away.
    ///
    /// # Errors
    ///
    /// As those of [`start`](Self::start).
    pub async fn start_at(setup: Setup, address: SocketAddr) -> Result<Self> {
        let (child, address, http) = spawn(&setup, &address.to_string()).await?;
        Ok(Self { setup, child, address, http })
    }

    /// Where clients connect to. It stays the same over restarts.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it answers over HTTP, if it does. Another port after each start.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// How it was started.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Its process id.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn pid(&self) -> Result<u32> {
        self.child.id().with_context(|| format!("hermitd has ended by itself; its log ends in:\n{}", self.setup.log_tail()))
    }

    /// Kills it as a power switch would, as far as a process can tell: no handler runs, nothing is flushed.
    ///
    /// # Errors
    ///
    /// When it had ended before, or cannot be killed.
    pub async fn kill(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("hermitd ended by itself ({status}); its log ends in:\n{}", self.setup.log_tail());
        }
        self.child.kill().await.context("hermitd cannot be killed")
    }

    /// Starts it again, after [`kill`](Self::kill), on the same port and data.
    ///
    /// # Errors
    ///
    /// As those of [`start`](Self::start).
    pub async fn restart(&mut self) -> Result<()> {
        let (child, address, http) = spawn(&self.setup, &self.address.to_string()).await?;
        ensure!(address == self.address, "hermitd listens on {address}, not on {}", self.address);
        (self.child, self.http) = (child, http);
        Ok(())
    }

    /// Begins to start it, after [`kill`](Self::kill), and kills it so long after that, ready or not.
    ///
    /// # Errors
    ///
    /// When it cannot be started or killed, or ends by itself.
    pub async fn kill_in_start(&mut self, after: Duration) -> Result<()> {
        self.child = begin(&self.setup, &self.address.to_string())?;
        tokio::time::sleep(after).await;
        self.kill().await
    }

    /// Tells it to stop, and kills it if it has not ended so long after that. Whether it was killed.
    ///
    /// # Errors
    ///
    /// When it ends without success, or takes no signal.
    pub async fn kill_in_stop(&mut self, after: Duration) -> Result<bool> {
        self.signal(Signal::TERM)?;
        if let Ok(ended) = timeout(after, self.child.wait()).await {
            let status = ended?;
            ensure!(status.success(), "hermitd stopped with {status}; its log ends in:\n{}", self.setup.log_tail());
            return Ok(false);
        }
        self.child.kill().await.context("hermitd cannot be killed")?;
        Ok(true)
    }

    /// Stops the process where it stands (SIGSTOP), for a time.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub async fn pause(&self, time: Duration) -> Result<()> {
        self.signal(Signal::STOP)?;
        tokio::time::sleep(time).await;
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()?).ok().and_then(Pid::from_raw).context("hermitd has no process id")?;
        kill_process(pid, signal).context("hermitd takes no signal")
    }

    /// Other arguments, from the next start on.
    pub fn set_args(&mut self, args: Vec<OsString>) {
        self.setup.args = args;
    }

    /// Stops it gracefully.
    ///
    /// # Errors
    ///
    /// When it does not end in time, or not with success.
    pub async fn stop(mut self) -> Result<()> {
        self.halt().await
    }

    /// Stops it gracefully, for a [`restart`](Self::restart).
    ///
    /// # Errors
    ///
    /// As those of [`stop`](Self::stop).
    pub async fn halt(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let status = timeout(STOPPED_WITHIN, self.child.wait()).await.context("hermitd does not stop")??;
        ensure!(status.success(), "hermitd stopped with {status}; its log ends in:\n{}", self.setup.log_tail());
        Ok(())
    }
}

/// Starts the process and waits for the line that it prints when it is ready.
async fn spawn(setup: &Setup, listen: &str) -> Result<(Child, SocketAddr, Option<SocketAddr>)> {
    let mut child = begin(setup, listen)?;
    let mut line = String::new();
    let stdout = child.stdout.take().context("no standard output")?;
    let read = timeout(READY_WITHIN, BufReader::new(stdout).read_line(&mut line)).await;
    let tail = || format!("its log ends in:\n{}", setup.log_tail());
    read.with_context(|| format!("hermitd is not ready after {} s; {}", READY_WITHIN.as_secs(), tail()))??;
    let address = ready_address(&line).with_context(|| format!("hermitd said {line:?}, not that it is ready; {}", tail()))?;
    Ok((child, address, http_address(&line)))
}

fn begin(setup: &Setup, listen: &str) -> Result<Child> {
    std::fs::create_dir_all(&setup.dir).with_context(|| format!("{} cannot be created", setup.dir.display()))?;
    let log = OpenOptions::new().create(true).append(true).open(setup.log()).context("the log file cannot be opened")?;

    let mut words = setup.under.iter().cloned().chain([setup.binary.clone().into_os_string()]);
    let mut command = Command::new(words.next().context("no program")?);
    // Many run at the same time, and there is one default port.
    let http = if setup.http { "127.0.0.1:0" } else { "off" };
    command.args(words).arg("--data-dir").arg(setup.data_dir()).args(["--listen", listen, "--http", http]).args(&setup.args);
    // Settings of whoever started the run are not those of the run.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMITD_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
    command.spawn().with_context(|| format!("{} cannot be started", setup.binary.display()))
}

/// The address in `ready hermit=ADDRESS`, where other words may follow.
fn ready_address(line: &str) -> Option<SocketAddr> {
    let mut words = line.strip_suffix('\n')?.split(' ');
    let (ready, address) = (words.next()?, words.next()?);
    (ready == "ready").then_some(address)?.strip_prefix("hermit=")?.parse().ok()
}

/// The address behind `http=` in that line.
fn http_address(line: &str) -> Option<SocketAddr> {
    line.split_whitespace().find_map(|word| word.strip_prefix("http="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_holds_the_address() {
        assert_eq!(ready_address("ready hermit=127.0.0.1:4711\n"), Some(([127, 0, 0, 1], 4711).into()));
        assert_eq!(ready_address("ready hermit=127.0.0.1:4711 http=127.0.0.1:80\n"), Some(([127, 0, 0, 1], 4711).into()));
        for line in ["", "\n", "ready\n", "ready hermit=here\n", "hermit=127.0.0.1:4711 ready\n", "ready hermit=127.0.0.1:47"] {
            assert_eq!(ready_address(line), None, "{line:?}");
        }
    }

    /// A stand-in for the broker: what its process does is all that matters here. It is read by a shell, not executed: a child
    /// that another test forks meanwhile may still have it open for writing.
    fn script(body: &str) -> (tempfile::TempDir, Setup) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("broker");
        std::fs::write(&path, body).unwrap();
        let setup = Setup { under: vec!["sh".into()], ..Setup::new(&path, dir.path()) };
        (dir, setup)
    }

    #[tokio::test]
    async fn a_broker_that_does_not_come_up_is_reported_with_its_log() {
        let (_dir, setup) = script("echo out of coffee >&2");
        let error = Hermitd::start(setup).await.unwrap_err().to_string();
        assert!(error.contains("out of coffee"), "{error}");
    }

    #[tokio::test]
    async fn kill_restart_and_stop() {
        let (_dir, setup) = script("trap 'exit 0' TERM; echo ready hermit=127.0.0.1:4711; while :; do sleep 0.01; done");
        let mut broker = Hermitd::start(setup).await.unwrap();
        let first = broker.pid().unwrap();
        broker.kill().await.unwrap();
        broker.pid().unwrap_err();
        broker.restart().await.unwrap();
        assert_ne!(broker.pid().unwrap(), first);
        broker.stop().await.unwrap();
    }

    #[tokio::test]
    async fn a_broker_that_fails_at_its_end_is_an_error() {
        let (_dir, setup) = script("trap 'exit 3' TERM; echo ready hermit=127.0.0.1:4711; while :; do sleep 0.01; done");
        let error = Hermitd::start(setup).await.unwrap().stop().await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }
}
