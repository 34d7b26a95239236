//! One page, run from its top to its end in one shell.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::blocks;
use crate::expect::matches;
use crate::pages::Page;
use crate::script::{self, MARK};
use crate::stage::Stage;

/// A page that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whatever the page left running ends with it.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        // The group may have ended by itself.
        let _gone = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _status = self.0.wait();
    }
}

/// Gives what is not as the page says.
pub fn run(page: &Page, stage: &Stage) -> Vec<String> {
    let blocks = blocks::to_run(page);
    let commands: Vec<_> = blocks.iter().flat_map(script::commands).collect();
    let log = stage.path("background.log");
    let script = format!("{}{}", stage.prelude(page), stage.here(&script::script(&commands, &log)));
    let printed_to = stage.path("printed");
    let output = File::create(&printed_to).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(stage.path("work")).env_clear().envs(stage.environment());
    shell.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output).process_group(0);
    let mut shell = Shell(shell.spawn().unwrap());
    let ended = wait(&mut shell.0);
    let printed = stage.as_shown(&std::fs::read_to_string(&printed_to).unwrap());
    let background = stage.as_shown(&std::fs::read_to_string(&log).unwrap_or_default());

    let mut problems = Vec::new();
    for (number, command) in commands.iter().enumerate() {
        let place = format!("{}:{}: {}", page.path, command.line, command.text.trim_end());
        let Some((text, status)) = between_marks(&printed, number) else {
            let why = if ended { "the shell ended here" } else { "still running after two minutes" };
            let tail = printed.split(&format!("{MARK}begin {number}\n")).last().unwrap_or_default();
            problems.push(format!("{place}\n  {why}; it printed:\n{tail}\n  and in the background:\n{background}"));
            return problems;
        };
        let Some(shown) = &command.shown else { continue };
        let shown_later = commands.get(number + 1).is_some_and(|next| next.text.contains("$?"));
        if status != "0" && !shown_later {
            problems.push(format!("{place}\n  ended with {status}, which the page does not show; it printed:\n{text}"));
        } else if !matches(shown, text) {
            problems.push(format!("{place}\n  the page shows:\n{}\n  it printed:\n{text}", shown.join("\n")));
        }
    }
    problems
}

fn wait(shell: &mut Child) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a deadline for a test")]
    let now = Instant::now;
    let deadline = now() + PATIENCE;
    while now() < deadline {
        if shell.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn between_marks(printed: &str, number: usize) -> Option<(&str, &str)> {
    let (_, rest) = printed.split_once(&format!("\n{MARK}begin {number}\n"))?;
    let (text, rest) = rest.split_once(&format!("\n{MARK}end {number} "))?;
    Some((text, rest.lines().next()?))
}
