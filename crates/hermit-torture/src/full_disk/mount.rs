//! A small file system in a file, mounted by a loop device.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// What a file system is to hold besides, so that it is full.
const BALLAST: &str = "ballast";
/// Freed in steps of this, where the rest that is free is less than asked for.
const STEP_BYTES: u64 = 64 << 10;

/// Why there is no such file system here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unable(pub String);

/// A mounted file system; it is unmounted when this is dropped.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
}

impl Mount {
    /// Makes one of so many bytes in a folder.
    ///
    /// # Errors
    ///
    /// Why it cannot be done here: that takes root, `mkfs.ext4` and loop devices.
    pub fn create(dir: &Path, bytes: u64) -> std::result::Result<Self, Unable> {
        Self::try_create(dir, bytes).map_err(|error| Unable(format!("{error:#}")))
    }

    fn try_create(dir: &Path, bytes: u64) -> Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "mounting takes root");
        let (image, path) = (dir.join("disk.img"), dir.join("disk"));
        std::fs::create_dir_all(&path).with_context(|| format!("{} cannot be created", path.display()))?;
        File::create(&image).and_then(|file| file.set_len(bytes)).with_context(|| format!("{} cannot be made", image.display()))?;
        // No blocks that only root can have: the broker may well be root here.
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&path))?;
        Ok(Self { path })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn free_bytes(&self) -> Result<u64> {
        let stat = statvfs(&self.path).context("the file system cannot be asked for its space")?;
        Ok(stat.f_bavail * stat.f_frsize)
    }

    /// Takes all its space but so many bytes.
    ///
    /// # Errors
    ///
    /// When that cannot be done.
    pub fn fill(&self, left_bytes: u64) -> Result<()> {
        let file = File::options().create(true).append(true).open(self.path.join(BALLAST)).context("no ballast")?;
        let mut taken = file.metadata().context("no ballast")?.len();
        loop {
            let more = self.free_bytes()?.saturating_sub(left_bytes);
            if more < STEP_BYTES {
                return Ok(());
            }
            // A broker that writes meanwhile may leave less than was asked for.
            match fallocate(&file, FallocateFlags::empty(), taken, more) {
                Ok(()) => taken += more,
                Err(rustix::io::Errno::NOSPC) => return Ok(()),
                Err(error) => return Err(error).context("no ballast"),
            }
        }
    }

    /// Gives it back.
    ///
    /// # Errors
    ///
    /// When that cannot be done.
    pub fn free(&self) -> Result<()> {
        std::fs::remove_file(self.path.join(BALLAST)).context("the ballast stays")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A broker that was killed just now may hold it for another moment: it goes when nobody does.
        if let Err(error) = run(Command::new("umount").arg("--lazy").arg(&self.path)) {
            tracing::error!(%error, "the small file system stays mounted");
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let said = command.stdin(Stdio::null()).output().with_context(|| format!("{:?} cannot be run", command.get_program()))?;
    let error = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "{:?}: {}", command.get_program(), error.trim());
    Ok(())
}
