//! The members' processes, and what befalls them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::member::MemberSetup;
use super::{Plan, journal};
use crate::check::Journal;

/// A member that is told to leave has its last records to handle and to commit, perhaps with a broker that is just away.
const LEAVES_WITHIN: Duration = Duration::from_secs(60);

/// Between two looks whether a process has come so far that it can be told to leave.
const STARTING: Duration = Duration::from_millis(5);

/// What was done to members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Processes that were started.
    pub started: usize,
    /// Processes that were told to leave, and did.
    pub left: usize,
    /// Processes that were killed.
    pub killed: usize,
    /// Times that one was frozen for less than its session.
    pub dozed: usize,
    /// Times that one was frozen for longer.
    pub frozen: usize,
}

impl fmt::Display for Deeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { started, left, killed, dozed, frozen } = self;
        write!(f, "{started} started, {left} left, {killed} killed, {dozed} frozen for a while, {frozen} beyond their session")
    }
}

/// A process.
#[derive(Debug)]
struct Process {
    child: Child,
    journal: PathBuf,
    /// Until when it is frozen.
    frozen_until: Option<Instant>,
}

/// All processes.
#[derive(Debug)]
pub(super) struct Members {
    command: Vec<OsString>,
    setup: MemberSetup,
    dir: PathBuf,
    journals: Vec<PathBuf>,
    running: Vec<Process>,
    /// When another one is to be started.
    due: VecDeque<Instant>,
    next_deed: Instant,
    random: fastrand::Rng,
    deeds: Deeds,
}

impl Members {
    pub(super) fn start(command: Vec<OsString>, server: SocketAddr, dir: &Path, plan: &Plan) -> Result<Self> {
        let setup = MemberSetup {
            server: server.to_string(),
            journal: PathBuf::new(),
            session_timeout: plan.session_timeout,
            workers: plan.workers,
            work: plan.work,
        };
        let now = Instant::now();
        let mut members = Self {
            command,
            setup,
            dir: dir.to_owned(),
            journals: Vec::new(),
            running: Vec::new(),
            due: (0..plan.members).map(|_| now).collect(),
            next_deed: now + plan.session_timeout,
            random: fastrand::Rng::with_seed(plan.seed),
            deeds: Deeds::default(),
        };
        members.start_due()?;
        Ok(members)
    }

    fn start_due(&mut self) -> Result<()> {
        while self.due.pop_front_if(|at| *at <= Instant::now()).is_some() {
            let number = self.journals.len();
            let journal = self.dir.join(format!("member-{number}.journal"));
            let log = std::fs::File::create(self.dir.join(format!("member-{number}.log"))).context("no log for a member")?;
            let setup = MemberSetup { journal: journal.clone(), ..self.setup.clone() };
            let mut words = self.command.iter();
            let mut command = Command::new(words.next().context("no program for members")?);
            command.args(words).envs(setup.to_env()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
            let child = command.spawn().context("a member cannot be started")?;
            self.running.push(Process { child, journal: journal.clone(), frozen_until: None });
            self.journals.push(journal);
            self.deeds.started += 1;
        }
        Ok(())
    }

    /// Lets things befall members until `over`, which says whether all is well.
    pub(super) async fn torment_until(&mut self, over: impl Future<Output = bool>) -> Result<()> {
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                _told_elsewhere = &mut over => return Ok(()),
                () = sleep_until(self.next_event()) => self.step().await?,
            }
        }
    }

    pub(super) async fn torment_for(&mut self, time: Duration) -> Result<()> {
        self.torment_until(async {
            sleep(time).await;
            true
        })
        .await
    }

    fn next_event(&self) -> Instant {
        let thaws = self.running.iter().filter_map(|process| process.frozen_until);
        thaws.chain(self.due.front().copied()).fold(self.next_deed, Instant::min)
    }

    /// Does what is due.
    async fn step(&mut self) -> Result<()> {
        self.start_due()?;
        self.thaw(|until| until <= Instant::now())?;
        if self.next_deed > Instant::now() {
            return Ok(());
        }
        self.next_deed = Instant::now() + self.setup.session_timeout.mul_f64(0.2 + self.random.f64());
        let Some(victim) = self.pick() else { return Ok(()) };
        let (deed, sessions) = (self.random.u8(0..5), self.random.f64());
        match deed {
            0 => self.kill(victim).await,
            1 => self.leave(victim).await,
            2 => self.freeze(victim, 2.0 + sessions).map(|()| self.deeds.frozen += 1),
            _ => self.freeze(victim, 0.6 * sessions).map(|()| self.deeds.dozed += 1),
        }
    }

    /// One that is not frozen.
    fn pick(&mut self) -> Option<usize> {
        let awake: Vec<_> = (0..self.running.len()).filter(|at| self.running[*at].frozen_until.is_none()).collect();
        self.random.choice(awake)
    }

    async fn kill(&mut self, victim: usize) -> Result<()> {
        let mut process = self.running.swap_remove(victim);
        ended_by_itself(&mut process.child)?;
        process.child.kill().await.context("a member cannot be killed")?;
        self.deeds.killed += 1;
        self.replace();
        Ok(())
    }

    async fn leave(&mut self, victim: usize) -> Result<()> {
        let process = self.running.swap_remove(victim);
        self.replace();
        self.finish(process).await
    }

    /// Another one comes, soon or some time later.
    fn replace(&mut self) {
        let pause = self.setup.session_timeout.mul_f64(1.5 * self.random.f64());
        self.due.push_back(Instant::now() + pause);
        self.due.make_contiguous().sort_unstable();
    }

    async fn finish(&mut self, mut process: Process) -> Result<()> {
        while !process.journal.exists() {
            ended_by_itself(&mut process.child)?;
            sleep(STARTING).await;
        }
        ended_by_itself(&mut process.child)?;
        signal(&process.child, Signal::TERM)?;
        let status = timeout(LEAVES_WITHIN, process.child.wait()).await.context("a member does not leave")??;
        ensure!(status.success(), "a member that was told to leave ended with {status}: see {}", self.dir.display());
        self.deeds.left += 1;
        Ok(())
    }

    fn freeze(&mut self, victim: usize, sessions: f64) -> Result<()> {
        let process = &mut self.running[victim];
        ended_by_itself(&mut process.child)?;
        signal(&process.child, Signal::STOP)?;
        process.frozen_until = Some(Instant::now() + self.setup.session_timeout.mul_f64(sessions));
        Ok(())
    }

    fn thaw(&mut self, is_due: impl Fn(Instant) -> bool) -> Result<()> {
        for process in self.running.iter_mut().filter(|process| process.frozen_until.is_some_and(&is_due)) {
            process.frozen_until = None;
            signal(&process.child, Signal::CONT)?;
        }
        Ok(())
    }

    /// Wakes all, and waits for those that are still to come.
    pub(super) async fn calm(&mut self) -> Result<()> {
        self.thaw(|_| true)?;
        while let Some(at) = self.due.front() {
            sleep_until(*at).await;
            self.start_due()?;
        }
        Ok(())
    }

    /// Lets all leave.
    pub(super) async fn end(&mut self) -> Result<()> {
        while let Some(process) = self.running.pop() {
            self.finish(process).await?;
        }
        Ok(())
    }

    /// What was done, and what the processes noted.
    pub(super) fn into_journals(self) -> Result<(Deeds, Vec<Journal>)> {
        // A process that was killed at once has none.
        let written = self.journals.iter().filter(|path| path.exists());
        Ok((self.deeds, written.map(|path| journal::read(path)).collect::<Result<_>>()?))
    }
}

fn ended_by_itself(child: &mut Child) -> Result<()> {
    if let Some(status) = child.try_wait()? {
        bail!("a member ended by itself: {status}");
    }
    Ok(())
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).context("a member has ended")?;
    kill_process(pid, signal).context("a member takes no signal")
}
