//! Kills under load, a full disk and a soak, in small: `cargo xtask torture` and `cargo xtask soak` are the long forms.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::time::Duration;

use hermit_torture::full_disk::{self, DISK_BYTES, Mount, Unable};
use hermit_torture::server::Setup;
use hermit_torture::{kill, soak, workload};

fn setup() -> (tempfile::TempDir, Setup) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_hermitd")), dir.path());
    (dir, setup)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_all_kinds_see_a_few_kills_and_no_promise_broken() {
    let (_dir, setup) = setup();
    let plan = kill::Plan::new(4, 7);
    let load = workload::Plan { rate: 200.0, max_bytes: 16 << 10, ..plan.load };
    let plan = kill::Plan { load, calm: Duration::from_secs(1), ..plan };
    let report = kill::run(setup, &plan, |_, _, _| {}).await.unwrap();
    assert!(report.is_good(), "{report}");
    assert_eq!(report.recoveries.len(), 4, "{report}");
    assert!(report.totals.stored > 0 && report.totals.reads > 0 && report.totals.commits > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_rules_are_after_kills_what_was_answered_before_them() {
    let (_dir, setup) = setup();
    let plan = kill::Plan::new(3, 11);
    let load = workload::Plan { rate: 100.0, max_bytes: 4 << 10, churn: false, ..plan.load };
    let plan = kill::Plan { load, logins: true, calm: Duration::from_secs(2), ..plan };
    let report = kill::run(setup, &plan, |_, _, _| {}).await.unwrap();
    assert!(report.is_good(), "{report}");
    let counts = report.logins.unwrap();
    assert!(counts.made > 0 && counts.comparisons > 0 && counts.let_in > 0 && counts.not_allowed > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_runs_full_refuses_and_everything_else_goes_on() {
    let (dir, setup) = setup();
    let mount = match Mount::create(dir.path(), DISK_BYTES) {
        Ok(mount) => mount,
        Err(Unable(why)) => return println!("skipped, because {why}"),
    };
    let report = full_disk::run(setup, &mount, &full_disk::Plan::new(2, 7), |_, _, _| {}).await.unwrap();
    assert!(report.is_good(), "{report}");
    assert!(report.totals.refused > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_seconds_of_soak_pass() {
    let (_dir, setup) = setup();
    let report = soak::run(setup, &soak::Plan::new(Duration::from_secs(6), 7), |_| {}).await.unwrap();
    assert!(report.history.is_good(), "{report}");
    assert!(report.incarnations.len() >= 2 && report.visits > 0, "{report}");
}
