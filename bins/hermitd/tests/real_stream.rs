//! A real event stream through crashes of the real program: `cargo xtask real` in small.

use std::path::Path;

use hermit_torture::real::{self, Plan};
use hermit_torture::server::Setup;
use hermit_torture::stream::read_csv;

#[tokio::test(flavor = "multi_thread")]
async fn some_hundred_lines_survive_three_crashes_each_exactly_once_and_in_order() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/flights-sample.csv");
    let lines = read_csv(&sample, 7, None).unwrap();
    assert_eq!(lines.len(), 600);

    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_hermitd")), dir.path());
    let report = real::run(setup, &Plan::short(lines, 3)).await.unwrap();
    assert!(report.is_good(), "{report}");
    assert_eq!(report.kills.len(), 3, "{report}");
}
