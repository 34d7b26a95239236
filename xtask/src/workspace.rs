//! What cargo knows about the workspace, without resolving or downloading anything.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The workspace's packages and where they are.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) license: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
    /// Where it may be published: everywhere, or, by `publish = false`, nowhere.
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) version: String,
    pub(crate) description: Option<String>,
    pub(crate) repository: Option<String>,
    pub(crate) readme: Option<PathBuf>,
    #[serde(default)]
    pub(crate) keywords: Vec<String>,
    #[serde(default)]
    pub(crate) categories: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

impl Workspace {
    /// Asks cargo about the workspace that this program was built in.
    pub(crate) fn load() -> Result<Self> {
        metadata(Path::new(env!("CARGO_MANIFEST_DIR")), &["--no-deps"])
    }

    /// The packages for others, in the order in which cargo names them.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_published())
    }

    /// A path as people write it: relative to the root.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> std::borrow::Cow<'a, str> {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy()
    }
}

/// What cargo tells about the workspace that a folder is in, without downloading anything.
pub(crate) fn metadata<T: DeserializeOwned>(folder: &Path, args: &[&str]) -> Result<T> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(args)
        .current_dir(folder)
        .output()
        .context("cargo could not be run")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo's answer is not understood")
}

impl Package {
    /// The folder of the package.
    pub(crate) fn dir(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Whether it is for others to install or to build upon.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.is_none()
    }

    /// Whether it is one of the libraries in `crates/`, which others may embed.
    pub(crate) fn is_library(&self) -> bool {
        self.dir().parent().is_some_and(|parent| parent.ends_with("crates"))
    }
}
