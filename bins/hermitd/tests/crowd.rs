//! Good clients notice nothing of slow, hostile and idle ones: `cargo xtask crowd` in small.

use std::path::Path;
use std::time::Duration;

use hermit_torture::crowd;
use hermit_torture::server::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_which_half_is_good() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_hermitd")), dir.path());
    let report = crowd::run(setup, 200, Duration::from_secs(6)).await.unwrap();
    assert!(report.broken().is_empty(), "{report}{:?}", report.broken());
}
