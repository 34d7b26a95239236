//! `cargo xtask torture`: the promises about crashes and failing disks, on a simulated disk (`--sim`) and with real processes (`--kill`).

use std::ffi::OsString;

use anyhow::{Result, bail};
use clap::Args;

use crate::runs;
use crate::step::Step;
use crate::workspace::Workspace;

/// The tests that run simulated cases: package and test.
const SIMULATIONS: [(&str, &str); 2] = [("hermit-broker", "torture"), ("hermit-broker", "any_damage")];

#[derive(Debug, Args)]
pub(crate) struct Torture {
    /// So many cases on the simulated disk: power cuts, failing calls, full disks, and what a start makes of them.
    #[arg(long, value_name = "CASES")]
    sim: Option<u64>,
    /// So many kills of a real broker, of all kinds, under load.
    #[arg(long, value_name = "KILLS")]
    kill: Option<u64>,
    /// With `--sim`, the first case, which replays exactly; with `--kill`, what befalls the broker when is drawn from it.
    #[arg(long)]
    seed: Option<u64>,
    /// Further arguments of the run with real processes.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

impl Torture {
    pub(crate) fn start(self) -> Result<()> {
        match (self.sim, self.kill) {
            (Some(cases), None) if self.rest.is_empty() => simulate(cases, self.seed),
            (Some(_), None) => bail!("--sim takes no arguments but --seed"),
            (None, _) => {
                let kill = self.kill.map(|kills| ["--kill".into(), kills.to_string().into()]);
                let seed = self.seed.map(|seed| ["--seed".into(), seed.to_string().into()]);
                let args = kill.into_iter().flatten().chain(seed.into_iter().flatten()).chain(self.rest);
                runs::built("hermit-torture", "torture", args)
            }
            (Some(_), Some(_)) => bail!("one of --sim and --kill at a time"),
        }
    }
}

/// Runs the simulations one after the other, in release mode; each uses all cores.
fn simulate(cases: u64, seed: Option<u64>) -> Result<()> {
    let root = Workspace::load()?.root;
    for (package, test) in SIMULATIONS {
        let mut step =
            Step::cargo("test --locked --release --package").args([package, "--test", test, "--", "--nocapture", "torture"]);
        step = step.env("HERMIT_CASES", cases.to_string());
        if let Some(seed) = seed {
            step = step.env("HERMIT_SEED", seed.to_string());
        }
        step.run(&root)?;
    }
    Ok(())
}
