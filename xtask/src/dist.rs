//! `cargo xtask dist`: what is handed out. Nothing of the machine or the day goes into it: the same sources and the same compiler give the same bytes.

mod archive;
mod brought;
mod date;
mod deb;
mod elf;
mod material;
mod notices;
mod tarball;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use flate2::Compression;
use sha2::{Digest, Sha256};

use crate::publish;
use crate::step::{Step, Stopwatch};
use crate::workspace::Workspace;
use material::Material;

/// The programs that are handed out.
const PROGRAMS: [&str; 2] = ["hermitd", "hermit-cli"];

#[derive(Debug, Args)]
pub(crate) struct Dist {
    /// Packs the programs of this folder instead of building them.
    #[arg(long, value_name = "DIR")]
    binaries: Option<PathBuf>,
    /// Where the packages are put: `target/dist`, if not said.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Makes this kind alone.
    #[arg(long, value_enum)]
    only: Option<Kind>,
    /// The version that the packages have, instead of the workspace's.
    #[arg(long)]
    version: Option<String>,
    /// Makes larger packages, in less time: for tests.
    #[arg(long)]
    fast: bool,
    /// Makes no packages of programs, but those of all crates for a registry, and builds each from what is in it alone.
    #[arg(long, conflicts_with_all = ["binaries", "out", "only", "version", "fast"])]
    verify_packages: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Deb,
    Tarball,
}

impl Dist {
    /// Builds the programs, packs them, and writes the sums of what was made.
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::load()?;
        if self.verify_packages {
            return publish::verify(&workspace);
        }
        let binaries = match self.binaries {
            Some(folder) => folder,
            None => build(&workspace)?,
        };
        let watch = Stopwatch::start();
        let effort = if self.fast { Compression::fast() } else { Compression::best() };
        let material = Material::gather(&workspace, &binaries, self.version, effort)?;
        let mut made = Vec::new();
        if self.only.is_none_or(|only| only == Kind::Tarball) {
            made.push(tarball::make(&material)?);
        }
        if self.only.is_none_or(|only| only == Kind::Deb) {
            made.push(deb::make(&material)?);
        }
        let out = self.out.unwrap_or_else(|| workspace.target_directory.join("dist"));
        write(&out, made)?;
        println!("  ok, {}", watch.read());
        Ok(())
    }
}

/// A package: its file name, and its bytes.
#[derive(Debug)]
struct Made {
    name: String,
    bytes: Vec<u8>,
}

/// Builds what is handed out, without a trace of where that happened: messages of panics carry the paths of sources.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("no home folder: set CARGO_HOME")?;
    // A folder of its own: these flags would have everything in `target/release` built anew, and those there everything here.
    let target = workspace.target_directory.join("dist-build");
    let flags = format!("--remap-path-prefix={}=cargo --remap-path-prefix={}=hermitmq", home.display(), workspace.root.display());
    let packages = PROGRAMS.iter().flat_map(|program| ["--package", program]);
    let build = Step::cargo("build --locked --release").args(packages).env("RUSTFLAGS", flags);
    build.env("CARGO_TARGET_DIR", target.display().to_string()).run(&workspace.root)?;
    Ok(target.join("release"))
}

/// Writes the packages, and `SHA256SUMS` over them, which `sha256sum --check` reads.
fn write(out: &Path, mut made: Vec<Made>) -> Result<()> {
    made.sort_by(|a, b| a.name.cmp(&b.name));
    fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    let mut sums = String::new();
    for Made { name, bytes } in &made {
        let sum: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        sums.push_str(&format!("{sum}  {name}\n"));
        put(&out.join(name), bytes)?;
        println!("  {} ({:.1} MiB)", out.join(name).display(), bytes.len() as f64 / f64::from(1 << 20));
    }
    put(&out.join("SHA256SUMS"), sums.as_bytes())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}
