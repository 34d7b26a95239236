//! The long runs, started by `cargo xtask real`, `groups`, `sendfile-proof` and `limits`. They print what they measured, on what, and end with
//! success only if every promise was kept.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks through its standard streams")]

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use hermit_torture::check::history::Deed;
use hermit_torture::crowd;
use hermit_torture::full_disk::{self, Mount, Unable};
use hermit_torture::group::{self, MemberSetup};
use hermit_torture::kill::{self, Recovery};
use hermit_torture::limits::{self, Load, PROMISE_BYTES, Protocol};
use hermit_torture::memory::mib;
use hermit_torture::real::{self, Plan};
use hermit_torture::sendfile;
use hermit_torture::server::Setup;
use hermit_torture::soak;
use hermit_torture::stream::{Line, read_csv};
use tempfile::TempDir;
use tracing_subscriber::EnvFilter;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Long runs against a real hermitd")]
struct Cli {
    #[command(subcommand)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Run {
    /// Carries a real event stream through SIGKILLs of the broker, and checks every line, answer, read and commit.
    Real {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        stream: Stream,
        /// How often the broker is killed.
        #[arg(long, default_value_t = 3)]
        kills: usize,
    },
    /// Carries a real event stream through a consumer group whose members join, leave, freeze and die while the broker is killed, and checks their
    /// journals.
    Groups {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        stream: Stream,
        /// How often the broker is killed.
        #[arg(long, default_value_t = 3)]
        kills: usize,
        /// Over how many seconds the lines are sent.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// What befalls whom when is drawn from this number; by chance if not given.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Kills, pauses and stops a broker under load at random, and checks the complete history of what all clients saw.
    Torture {
        #[command(flatten)]
        place: Place,
        /// How often something is done to the broker; every tenth time its disk is full, where this machine can mount a small one.
        #[arg(long, default_value_t = 100)]
        kill: usize,
        /// Only those with a full disk.
        #[arg(long)]
        full_disk: bool,
        /// Only those where everybody has to log in, and users, tokens and rules are made, changed and removed.
        #[arg(long, conflicts_with = "full_disk")]
        logins: bool,
        /// To fail, rather than to leave out what this machine cannot do.
        #[arg(long)]
        require: bool,
        /// What befalls it when is drawn from this number; by chance if not given.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Runs a broker under a moderate load for a long time, and checks that its memory, descriptors, threads and disk do not grow.
    Soak {
        #[command(flatten)]
        place: Place,
        /// For so long.
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// What is sent when is drawn from this number; by chance if not given.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// A member of the group, for `groups`.
    #[command(hide = true)]
    Member,
    /// Traces the broker's system calls while a consumer reads, and accounts for every byte that moved.
    SendfileProof {
        #[command(flatten)]
        place: Place,
        /// MiB to read.
        #[arg(long, default_value_t = 1024)]
        mib: u64,
        /// Bytes of each message.
        #[arg(long, default_value_t = 1024)]
        message_bytes: usize,
    },
    /// Measures the broker's memory with idle, lagging and stalling clients.
    Limits {
        #[command(flatten)]
        place: Place,
        /// Idle consumers, of each protocol version.
        #[arg(long, default_value_t = 1000)]
        idle: usize,
        /// MiB that the lagging consumer is behind.
        #[arg(long, default_value_t = 4096)]
        behind_mib: u64,
        /// Stalling connections, of each protocol version.
        #[arg(long, default_value_t = 200)]
        stalled: usize,
        /// Clients that really send a frame of 50 MiB each: slowly first, then as fast as they can; half of them of each protocol version.
        #[arg(long, default_value_t = 200)]
        sent: usize,
        /// Seconds for which they send slowly.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// Measures what good clients notice of slow, hostile and idle ones.
    Crowd {
        #[command(flatten)]
        place: Place,
        /// Connections, half of them good.
        #[arg(long, default_value_t = 2000)]
        connections: usize,
        /// Seconds.
        #[arg(long, default_value_t = 300)]
        seconds: u64,
    },
}

/// What is sent.
#[derive(Debug, Args)]
struct Stream {
    /// A CSV file with a header line, packed with gzip if its name ends in `.gz`.
    #[arg(long, default_value = "../shared/data/flights.csv.gz")]
    file: PathBuf,
    /// The column of the key, from 1.
    #[arg(long, default_value_t = 7)]
    key_column: usize,
    /// Lines to take; all if not given.
    #[arg(long)]
    rows: Option<usize>,
}

impl Stream {
    fn read(&self) -> Result<Vec<Line>> {
        read_csv(&self.file, self.key_column, self.rows).context("the stream cannot be read; name another with --file")
    }
}

/// What to run, and where.
#[derive(Debug, Args)]
struct Place {
    /// The hermitd to run; the one built beside this program if not given.
    #[arg(long)]
    hermitd: Option<PathBuf>,
    /// Where to make a folder for the run, on a real disk: on a memory file system a sync costs nothing, and proves nothing.
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Place {
    /// A folder that goes when it is dropped, and a broker in it.
    fn prepare(&self) -> Result<(TempDir, Setup)> {
        let program = std::env::current_exe().context("this program's own path is not known")?;
        let beside = program.parent().context("this program is in no folder")?;
        let hermitd = self.hermitd.clone().unwrap_or_else(|| beside.join("hermitd"));
        let dir = tempfile::tempdir_in(self.dir.as_deref().unwrap_or(beside)).context("no folder for the run can be made")?;
        let setup = Setup::new(&hermitd, dir.path());
        Ok((dir, setup))
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // What the SDK has to say: `RUST_LOG=warn` shows every connection that it lost, `debug` how it found back.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(stderr().is_terminal()).with_writer(stderr).init();
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")
        .and_then(|runtime| runtime.block_on(run(cli.run)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(run: Run) -> Result<()> {
    match run {
        Run::Real { place, stream, kills } => carry(&place, &stream.file, stream.read()?, kills).await,
        Run::Groups { place, stream, kills, seconds, seed } => {
            share(&place, &stream, kills, Duration::from_secs(seconds), seed.unwrap_or_else(|| fastrand::u64(..))).await
        }
        Run::Torture { place, kill, full_disk, logins, require, seed } => {
            let seed = seed.unwrap_or_else(|| fastrand::u64(..));
            torture(&place, Deeds { kills: kill, full_disk, logins, require }, seed).await
        }
        Run::Soak { place, minutes, seed } => {
            soak(&place, Duration::from_secs(60 * minutes), seed.unwrap_or_else(|| fastrand::u64(..))).await
        }
        Run::Member => group::run_member(MemberSetup::from_env()?.context("only `groups` starts members")?).await,
        Run::SendfileProof { place, mib, message_bytes } => {
            prove_sendfile(&place, sendfile::Load { total_bytes: mib << 20, payload_bytes: message_bytes }).await
        }
        Run::Limits { place, idle, behind_mib, stalled, sent, seconds } => {
            measure_limits(&place, idle, behind_mib << 20, stalled).await?;
            measure_sent(&place, sent, Duration::from_secs(seconds)).await
        }
        Run::Crowd { place, connections, seconds } => watch_crowd(&place, connections, Duration::from_secs(seconds)).await,
    }
}

async fn carry(place: &Place, file: &Path, lines: Vec<Line>, kills: usize) -> Result<()> {
    let (_dir, setup) = place.prepare()?;
    println!("{} lines of {} through {kills} crashes", lines.len(), file.display());
    let report = real::run(setup, &Plan::new(lines, kills)).await?;
    println!("{report}");
    if !report.is_good() {
        bail!("a promise was broken: see above");
    }
    println!("nothing lost, nothing doubled, nothing out of order, nothing committed read again");
    Ok(())
}

async fn share(place: &Place, stream: &Stream, kills: usize, over: Duration, seed: u64) -> Result<()> {
    let (_dir, setup) = place.prepare()?;
    let lines = stream.read()?;
    println!("{} lines of {} through a group of three and {kills} crashes, seed {seed}", lines.len(), stream.file.display());
    let this = std::env::current_exe().context("this program's own path is not known")?;
    let report = group::run(setup, vec![this.into(), "member".into()], &group::Plan::new(lines, over, kills, seed)).await?;
    println!("{report}");
    if !report.is_good() {
        bail!("a promise was broken: see above");
    }
    println!("all handled, each key in order, nothing committed handled again by an owner, never two owners");
    Ok(())
}

/// What `torture` is to do.
#[derive(Debug, Clone, Copy)]
struct Deeds {
    kills: usize,
    full_disk: bool,
    logins: bool,
    require: bool,
}

/// A tenth of the deeds falls on a full disk.
const FULL_DISK_SHARE: usize = 10;

impl Deeds {
    fn on_full_disk(self) -> usize {
        match self {
            Self { full_disk: true, kills, .. } => kills,
            Self { logins: true, .. } => 0,
            Self { kills, .. } => kills / FULL_DISK_SHARE,
        }
    }

    /// Of so many, those where everybody has to log in: a quarter to a half.
    fn with_logins(self, deeds: usize, seed: u64) -> usize {
        if self.logins { deeds } else { fastrand::Rng::with_seed(seed).usize(deeds / 4..=deeds / 2) }
    }
}

async fn torture(place: &Place, deeds: Deeds, seed: u64) -> Result<()> {
    let (dir, setup) = place.prepare()?;
    // Kept, unless all is well.
    let dir = dir.keep();
    let full = deeds.on_full_disk();
    let mount = Mount::create(&dir, full_disk::DISK_BYTES);
    let full = match &mount {
        Err(Unable(why)) if deeds.require => bail!("no full disk here: {why}"),
        Err(Unable(why)) => {
            println!("full disk skipped, because {why}");
            0
        }
        Ok(_) => full,
    };
    let kept = || format!("seed {seed}; the data are kept in {}", dir.display());
    let say = |number: usize, deed: Deed, recovery: &Recovery| {
        println!("{number:>4} {deed:<24} ready in {} ms", recovery.ready_after.as_millis());
    };
    let others = if deeds.full_disk { 0 } else { deeds.kills - full };
    let logins = deeds.with_logins(others, seed);
    println!("{} deeds, {logins} of them with logins, {full} on a full disk, seed {seed}, in {}", deeds.kills, dir.display());
    for (count, with_logins) in [(others - logins, false), (logins, true)] {
        if count > 0 {
            let plan = kill::Plan { logins: with_logins, ..kill::Plan::new(count, seed) };
            let place = if with_logins { "logins" } else { "open" };
            let setup = Setup::new(&setup.binary, &dir.join(place));
            conclude(&kill::run(setup, &plan, say).await.with_context(kept)?).with_context(kept)?;
        }
    }
    if let Ok(mount) = &mount
        && full > 0
    {
        let plan = full_disk::Plan::new(full, seed);
        conclude(&full_disk::run(setup, mount, &plan, say).await.with_context(kept)?).with_context(kept)?;
    }
    drop(mount);
    std::fs::remove_dir_all(&dir).context("the data cannot be removed")?;
    println!("nothing lost, doubled, reordered, invented, skipped or taken back");
    Ok(())
}

fn conclude(report: &kill::Report) -> Result<()> {
    println!("{report}");
    if !report.is_good() {
        bail!("a promise was broken: see above");
    }
    Ok(())
}

async fn soak(place: &Place, time: Duration, seed: u64) -> Result<()> {
    let (dir, setup) = place.prepare()?;
    let dir = dir.keep();
    println!("{} minutes, seed {seed}, in {}", time.as_secs() / 60, dir.display());
    let report = soak::run(setup, &soak::Plan::new(time, seed), |incarnation| println!("{incarnation}")).await;
    let report = report.with_context(|| format!("the data are kept in {}", dir.display()))?;
    println!("{report}");
    if !report.is_good() {
        bail!("something grows, or a promise was broken: see above, and the data in {}", dir.display());
    }
    std::fs::remove_dir_all(&dir).context("the data cannot be removed")?;
    println!("nothing grows, and every promise was kept");
    Ok(())
}

async fn prove_sendfile(place: &Place, load: sendfile::Load) -> Result<()> {
    let (_dir, setup) = place.prepare()?;
    println!("a version-2 consumer reads {} in messages of {} bytes from a warm cache", mib(load.total_bytes), load.payload_bytes);
    let proof = sendfile::prove(setup, load).await?;
    println!("{proof}");
    let contradictions = proof.contradictions();
    if !contradictions.is_empty() {
        bail!("the log does not leave by sendfile alone: {}", contradictions.join("; "));
    }
    println!("the log's bytes left by sendfile alone");
    Ok(())
}

async fn measure_limits(place: &Place, idle: usize, behind_bytes: u64, stalled: usize) -> Result<()> {
    let mut failed = Vec::new();
    for protocol in [Protocol::V1, Protocol::V2] {
        let loads = [
            Load::Idle(protocol, idle),
            Load::Behind(protocol, behind_bytes),
            Load::Announced(protocol, stalled, 0),
            Load::Announced(protocol, stalled, 64 << 10),
        ];
        for load in loads {
            let (_dir, setup) = place.prepare()?;
            let measured = limits::measure(setup, load).await?;
            println!("{load}: {measured}");
            if !measured.is_within_promise() {
                failed.push(load.to_string());
            }
        }
    }
    if !failed.is_empty() {
        bail!("over {}: {}", mib(PROMISE_BYTES), failed.join("; "));
    }
    println!("always under {}", mib(PROMISE_BYTES));
    Ok(())
}

async fn measure_sent(place: &Place, count: usize, over: Duration) -> Result<()> {
    let (_dir, setup) = place.prepare()?;
    let sent = limits::sent::measure(setup, count, over, count).await?;
    println!("{sent}");
    let broken = sent.broken();
    if !broken.is_empty() {
        bail!("{}", broken.join("; "));
    }
    println!("under {} always, and others were served", mib(limits::sent::BUDGET_BYTES + limits::sent::BESIDES_BYTES));
    Ok(())
}

async fn watch_crowd(place: &Place, connections: usize, over: Duration) -> Result<()> {
    let (_dir, setup) = place.prepare()?;
    println!("{connections} connections for {} s, half of them good", over.as_secs());
    let report = crowd::run(setup, connections, over).await?;
    println!("{report}");
    let broken = report.broken();
    if !broken.is_empty() {
        bail!("{}", broken.join("; "));
    }
    println!("no error on the good half, no growth");
    Ok(())
}
