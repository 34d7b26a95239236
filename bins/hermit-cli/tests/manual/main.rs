//! The README and the manual are true: their commands run and print what is shown, their settings files are taken, their links lead
//! somewhere, and what they name is there.
#![expect(unreachable_pub, clippy::unwrap_used, clippy::panic, reason = "a test")]

mod blocks;
#[path = "../support/copy.rs"]
mod copy;
mod expect;
mod links;
mod mentions;
mod pages;
mod script;
mod session;
mod stage;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pages::{Page, pages};
use stage::Stage;

/// Pages that run at a time: they wait more than they compute.
const AT_A_TIME: usize = 4;

#[test]
fn every_command_runs_and_prints_what_is_shown() {
    let all = pages();
    let with_commands: Vec<(usize, &Page)> = all.iter().enumerate().filter(|(_, page)| blocks::has_commands(page)).collect();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((number, page)) = with_commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = session::run(page, &Stage::set(*number, page));
                    problems.lock().unwrap().extend(found);
                }
            });
        }
    });
    none(problems.into_inner().unwrap());
}

#[test]
fn every_settings_file_is_taken() {
    none(pages().iter().enumerate().flat_map(|(number, page)| blocks::check_files(page, number)).collect());
}

/// So that no block is left out by being called something else, and none stays on the list that is gone.
#[test]
fn every_block_is_run_or_checked_or_has_a_reason() {
    none(blocks::unaccounted(&pages()));
}

#[test]
fn every_link_leads_somewhere() {
    none(links::broken());
}

#[test]
fn what_is_named_is_there() {
    none(mentions::unknown(&pages()));
}

fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n\n"));
}
