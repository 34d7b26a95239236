//! Secrets: from files, the environment, or the terminal; never from the command line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hermit_client::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::Interrupted;
use crate::signals::Signals;

/// A longer secret is another file.
const MAX_BYTES: u64 = 4096;

/// A variable's text; `None` if it is not there or empty.
pub(crate) fn variable(name: &str) -> Result<Option<Secret>> {
    match std::env::var_os(name).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => match value.into_string() {
            Ok(text) => Ok(Some(Secret::new(text))),
            // Without the value.
            Err(_not_utf_8) => bail!("{name} is not UTF-8"),
        },
    }
}

/// A file's first line; `-` is standard input.
pub(crate) fn file(path: &Path) -> Result<Secret> {
    if path.as_os_str() == "-" {
        return first_line(io::stdin()).context("standard input");
    }
    warn_if_open(path)?;
    let name = path.display();
    let file = File::open(path).with_context(|| name.to_string())?;
    first_line(file).with_context(|| name.to_string())
}

/// Warns of a file with a secret that not only its owner may read.
pub(crate) fn warn_if_open(path: &Path) -> Result<()> {
    let open = |found: &std::fs::Metadata| found.is_file() && found.permissions().mode() & 0o077 != 0;
    if std::fs::metadata(path).is_ok_and(|found| open(&found)) {
        let warning = format!("warning: others than its owner may read {}, which holds a secret: chmod 600", path.display());
        writeln!(io::stderr(), "{warning}").context("standard error")?;
    }
    Ok(())
}

fn first_line(source: impl Read) -> Result<Secret> {
    let mut text = String::new();
    source.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        bail!("it has more than {MAX_BYTES} bytes: is it the file with the secret?");
    }
    let whole = Secret::new(text);
    let line = whole.expose().trim_end_matches(['\n', '\r']);
    if line.is_empty() || line.contains('\n') {
        bail!("a secret is one line, and not an empty one");
    }
    Ok(Secret::new(line))
}

/// Asks at the terminal, without showing what is typed. `None` where there is no terminal.
pub(crate) async fn prompt(question: &str) -> Result<Option<Secret>> {
    let Ok(terminal) = File::options().read(true).write(true).open("/dev/tty") else { return Ok(None) };
    if !terminal.is_terminal() {
        return Ok(None);
    }
    let mut signals = Signals::new()?;
    let hidden = Hidden::new(terminal.try_clone()?)?;
    write!(&terminal, "{question}: ").context("the terminal")?;
    let reading = tokio::task::spawn_blocking({
        let terminal = terminal.try_clone()?;
        move || {
            let mut line = String::new();
            BufReader::new(terminal.take(MAX_BYTES)).read_line(&mut line).map(|_bytes| Secret::new(line))
        }
    });
    let line = tokio::select! {
        line = reading => line.context("the terminal")?.context("the terminal")?,
        signal = signals.recv() => {
            drop(hidden);
            return Err(Interrupted { signal }.into());
        }
    };
    drop(hidden);
    // What ended the line was not shown either.
    writeln!(&terminal).context("the terminal")?;
    Ok(Some(Secret::new(line.expose().trim_end_matches(['\n', '\r']))))
}

/// The terminal while it does not show what is typed.
struct Hidden {
    terminal: File,
    before: Termios,
}

impl Hidden {
    fn new(terminal: File) -> Result<Self> {
        let before = tcgetattr(&terminal).context("the terminal")?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &hidden).context("the terminal")?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before) {
            // It went away, and with it whoever could read this.
            drop(writeln!(io::stderr(), "warning: the terminal may not show what is typed: {error}; `stty echo` mends that"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_line() {
        assert_eq!(first_line(&b"s3 cret\r\n"[..]).unwrap().expose(), "s3 cret");
        for bad in [&b""[..], b"\n", b"two\nlines\n", &[b'x'; 5000], b"\xFF"] {
            let error = format!("{:#}", first_line(bad).unwrap_err());
            assert!(!error.contains("two") && !error.contains("xxx"), "{error}");
        }
    }
}
