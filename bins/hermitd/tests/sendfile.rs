//! The log's bytes leave by `sendfile` alone: `cargo xtask sendfile-proof` in small.

use std::path::Path;

use hermit_torture::sendfile::{Load, has_strace, prove};
use hermit_torture::server::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn a_version_2_consumer_gets_the_log_by_sendfile_alone() {
    if !has_strace() {
        assert!(std::env::var_os("CI").is_none(), "strace cannot be started: install it");
        eprintln!("skipped: strace cannot be started here; install it to run this test");
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_hermitd")), dir.path());
    let proof = prove(setup, Load { total_bytes: 64 << 20, payload_bytes: 1024 }).await.unwrap();
    assert_eq!(proof.contradictions(), <[String; 0]>::default(), "{proof}");
    assert!(proof.frame_bytes >= 64 << 20, "{proof}");
}
