//! Checks of what tests alone do not show: the interleavings of small models (loom), undefined behaviour (miri), data races (thread sanitizer). By
//! command and not part of the gate: miri and the sanitizer need a nightly toolchain, and all of them time.

use std::path::Path;

use anyhow::Result;

use crate::step::Step;
use crate::workspace::Workspace;

/// Runs the models of the parts that wake and wait: a crate of its own, in which files of the product are compiled with loom's locks.
pub(crate) fn loom() -> Result<()> {
    let workspace = Workspace::load()?;
    let target = workspace.target_directory.join("loom").display().to_string();
    Step::cargo("run --locked --manifest-path models/Cargo.toml").args(["--target-dir", &target]).run(&workspace.root)
}

/// What miri runs: package, its targets, and the tests of these. The codec but for what goes through zstd, which is C, and what of the log is pure. Not the
/// simulated disk, which takes hours, nor the one module with `unsafe`: it maps a file, which miri cannot.
const MIRI: &[(&str, &[&str], &[&str])] = &[
    ("hermit-proto", &["--lib"], &["header::", "frame::", "crc::", "varint::"]),
    // Those without megabytes.
    ("hermit-proto", &["--test", "deframing"], &["idle", "in_place", "another_kind", "extension", "raised"]),
    ("hermit-proto", &["--test", "names", "--test", "version_1_vectors"], &[]),
    (
        "hermit-log",
        &["--lib"],
        &["batch::", "index::tests::a_search_finds", "names::tests", "pace::", "producers::", "state_file::", "recovery::decide::"],
    ),
];

/// Cases of a property test: making a kilobyte of input up takes seconds under miri.
const MIRI_CASES: &str = "2";

/// Runs the pure tests under miri.
pub(crate) fn miri() -> Result<()> {
    let workspace = Workspace::load()?;
    let target = workspace.target_directory.join("miri").display().to_string();
    for (package, targets, tests) in MIRI {
        let step = Step::program(Path::new("cargo")).args(["+nightly", "miri", "test", "--locked", "--package", package]);
        step.args(*targets)
            .args(["--target-dir", &target, "--"])
            .args(*tests)
            // The test runner reads the clock, and property tests the environment.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("PROPTEST_CASES", MIRI_CASES)
            .run(&workspace.root)?;
    }
    Ok(())
}

/// What runs under thread sanitizer: tests with threads of the log, the broker and the SDK.
const TSAN: &[(&str, &[&str])] = &[
    ("hermit-log", &["--test", "behaviour", "--test", "incidents"]),
    ("hermit-broker", &["--test", "sessions", "--test", "groups"]),
    ("hermit-client", &["--test", "batches", "--test", "administering"]),
];

/// Runs tests that use threads under thread sanitizer, with the standard library instrumented too.
pub(crate) fn tsan() -> Result<()> {
    let workspace = Workspace::load()?;
    let target = workspace.target_directory.join("tsan").display().to_string();
    for (package, tests) in TSAN {
        let step =
            Step::program(Path::new("cargo")).args(["+nightly", "test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu"]);
        step.args(["--locked", "--target-dir", &target, "--package", package])
            .args(*tests)
            .env("RUSTFLAGS", "-Zsanitizer=thread")
            .run(&workspace.root)?;
    }
    Ok(())
}
