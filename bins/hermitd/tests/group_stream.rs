//! A real event stream through a consumer group whose members come, go, freeze and die: `cargo xtask groups` in small.

use std::path::Path;
use std::time::Duration;

use hermit_torture::group::{self, MemberSetup, Plan, run_member};
use hermit_torture::server::Setup;
use hermit_torture::stream::read_csv;

/// No test: what the members' processes run, which are this program again. Without what they are given it does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn member() {
    if let Some(setup) = MemberSetup::from_env().unwrap() {
        run_member(setup).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_tormented_handles_everything_in_order_and_nothing_committed_again() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/flights-sample.csv");
    let lines = read_csv(&sample, 7, None).unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_hermitd")), dir.path());
    let this = std::env::current_exe().unwrap();
    let member = [this.as_os_str(), "--exact".as_ref(), "member".as_ref(), "--nocapture".as_ref()].map(Into::into).to_vec();
    let report = group::run(setup, member, &Plan::new(lines, Duration::from_secs(15), 1, 7)).await.unwrap();
    assert!(report.is_good(), "{report}");
    assert!(report.facts.released > 0 && report.deeds.started > 3, "{report}");
}
