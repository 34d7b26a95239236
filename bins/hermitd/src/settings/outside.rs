//! What settings name outside of themselves: addresses, certificates, the data directory. It is looked at, and nothing is changed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use hermit_broker::import::{self, Found};
use rustix::fs::{Access, access};

use super::Settings;
use super::gather::Gathered;
use super::quantity::Bytes;
use super::table::ImportName;
use super::value::Value as _;

impl Gathered {
    /// Looks at all of it.
    pub(super) fn look_outside(&mut self, settings: &Settings) {
        self.look_at_reach(settings);
        self.look_at_overlap(settings);
        if let Some(tls) = &settings.broker.tls {
            self.check_tls_files(tls);
        }
        if let Some(tls) = &settings.http_tls {
            self.check_http_tls_files(tls);
        }
        self.look_at_otlp(settings);
        if self.are_sound(&["data_dir"]) {
            self.look_at_data_dir(settings);
        }
    }

    fn look_at_data_dir(&mut self, settings: &Settings) {
        let dir = &settings.broker.data_dir;
        if let Err(message) = usable(dir) {
            self.wrong(&["data_dir"], format!("`data_dir` is {}: {message}", dir.display()));
            return;
        }
        self.notes.extend(writable_by_others(dir));
        match import::look(dir) {
            Ok(found @ (Found::Older | Found::Unfinished { .. })) if settings.import == ImportName::Never => {
                let old_dir = if let Found::Unfinished { from } = &found { from } else { dir };
                let message = format!(
                    "`import` is `never`, and {} holds the data of an older HermitMQ: set it to `auto`, run `hermit-cli log import {}`, or choose another `data_dir`",
                    dir.display(),
                    old_dir.display()
                );
                self.wrong(&["import", "data_dir"], message);
            }
            Ok(Found::Older) => {
                self.notes.push(format!("{} holds the data of an older HermitMQ: a start takes them over", dir.display()));
            }
            Ok(_) => {}
            Err(error) => self.wrong(&["data_dir"], format!("`data_dir` is {}: {error}", dir.display())),
        }
        self.look_at_space(settings);
    }

    fn look_at_space(&mut self, settings: &Settings) {
        let low = settings.broker.limits.disk_low_bytes;
        let Some(there) = nearest_there(&settings.broker.data_dir) else { return };
        let Ok(disk) = rustix::fs::statvfs(&there) else { return };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < low {
            let (free, low) = (Bytes(free >> 20 << 20).shown(), Bytes(low).shown());
            self.notes.push(format!(
                "on the disk of `data_dir` about {free} are free: below `disk_low_bytes` of {low} produce requests are refused"
            ));
        }
    }
}

/// Whether a broker of this user could keep its data there.
fn usable(dir: &Path) -> Result<(), String> {
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match std::fs::metadata(dir) {
        Ok(there) if !there.is_dir() => Err("that is no directory".to_owned()),
        Ok(_) => access(dir, all).map_err(|error| format!("this user cannot read and write it: {error}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let Some(parent) = nearest_there(dir) else { return Err(error.to_string()) };
            access(&parent, Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| format!("it is not there, and this user cannot make it in {}: {error}", parent.display()))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The directory, or the nearest above it that is there.
fn nearest_there(dir: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(dir).ok()?;
    whole.ancestors().find(|part| part.is_dir()).map(Path::to_path_buf)
}

/// What to say of a file with a secret that not only its owner can read.
pub(super) fn open_to_others(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    let open = mode & 0o077 != 0;
    open.then(|| format!("{} holds a secret, and others than its owner may read or write it: chmod 600", path.display()))
}

/// The broker makes the directory for itself alone, but one that is there may be anybody's.
fn writable_by_others(dir: &Path) -> Option<String> {
    let mode = std::fs::metadata(dir).ok()?.permissions().mode();
    let note = "others than its owner may write to the data directory, and put users, rules and data of theirs in place of those that are there: chmod 700";
    (mode & 0o022 != 0).then(|| format!("{}: {note}", dir.display()))
}
