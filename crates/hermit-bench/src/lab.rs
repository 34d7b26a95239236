//! Where a run takes place: the programs, and a folder on a real disk.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hermit_torture::server::Setup;
use tempfile::TempDir;

use crate::broker::Broker;
use crate::drive::Job;
use crate::site::Site;
use crate::worker::{Outcome, Program, Worker};

/// Magic numbers of file systems that keep files in memory: tmpfs and ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// The place of a run. What it has written goes when it is dropped.
#[derive(Debug)]
pub struct Lab {
    worker: Program,
    hermitd: PathBuf,
    dir: TempDir,
    against: Option<SocketAddr>,
}

impl Lab {
    /// A new folder in `dir`. Cases run `against` another server, if one is given.
    ///
    /// # Errors
    ///
    /// When none can be made, or it would lie in memory, where a sync costs nothing and a read is no read.
    pub fn new(worker: Program, hermitd: &Path, dir: &Path, against: Option<SocketAddr>) -> Result<Self> {
        let system = rustix::fs::statfs(dir).with_context(|| format!("{} cannot be looked at", dir.display()))?;
        // The field's type differs between architectures.
        #[allow(clippy::unnecessary_cast, clippy::allow_attributes, reason = "i64 on most architectures, not on all")]
        let magic = system.f_type as i64;
        ensure!(!IN_MEMORY.contains(&magic), "{} lies in memory; name a folder on a real disk with --dir", dir.display());
        let dir = tempfile::Builder::new().prefix("hermit-bench-").tempdir_in(dir).context("no folder for the run can be made")?;
        Ok(Self { worker, hermitd: hermitd.to_owned(), dir, against })
    }

    /// The run's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts a broker on a folder of its own.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn broker(&self, name: &str, args: &[&str]) -> Result<Broker> {
        Broker::start(self.setup(name, args))
    }

    /// The other server, or a broker on a folder of its own.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn site(&self, name: &str) -> Result<Site> {
        Ok(match self.against {
            Some(address) => Site::Other(address),
            None => Site::Own(self.broker(name, &[])?.into()),
        })
    }

    /// A broker of its own with a certificate, for clients that want TLS and for others.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn secured_site(&self, name: &str) -> Result<Site> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        let (certificate, key) = (self.certificate(), self.dir().join("key.pem"));
        std::fs::write(&certificate, made.cert.pem())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
        let mut setup = self.setup(name, &[]);
        setup.args.extend(["--tls-cert".into(), certificate.into(), "--tls-key".into(), key.into()]);
        Ok(Site::Own(Broker::start(setup)?.into()))
    }

    /// A broker of its own that answers over HTTP, too.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn http_site(&self, name: &str) -> Result<(Site, SocketAddr)> {
        let broker = Broker::start(Setup { http: true, ..self.setup(name, &[]) })?;
        let http = broker.http()?;
        Ok((Site::Own(broker.into()), http))
    }

    /// Where that certificate is, which clients believe.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.dir().join("cert.pem")
    }

    /// How a broker on that folder is started.
    #[must_use]
    pub fn setup(&self, name: &str, args: &[&str]) -> Setup {
        let mut setup = Setup::new(&self.hermitd, &self.dir().join(name));
        setup.args = args.iter().map(OsString::from).collect();
        setup
    }

    /// The largest file of the logs of a broker on that folder.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn largest_log(&self, name: &str) -> Result<PathBuf> {
        let mut largest = None;
        for partition in std::fs::read_dir(self.setup(name, &[]).data_dir().join("partitions"))? {
            for entry in std::fs::read_dir(partition?.path())? {
                let entry = entry?;
                if entry.path().extension().is_some_and(|extension| extension == "wal") {
                    largest = largest.max(Some((entry.metadata()?.len(), entry.path())));
                }
            }
        }
        largest.map(|(_, path)| path).context("there is no log")
    }

    /// Makes a job ready in a process of its own.
    ///
    /// # Errors
    ///
    /// When it does not come so far.
    pub fn worker(&self, job: &Job) -> Result<Worker> {
        Worker::start(&self.worker, job)
    }

    /// Runs a job to its end.
    ///
    /// # Errors
    ///
    /// What goes wrong in it.
    pub fn run(&self, job: &Job) -> Result<Outcome> {
        self.worker(job)?.run()
    }
}
