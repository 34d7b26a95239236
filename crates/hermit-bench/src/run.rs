//! A whole run: limits, cases, limits again, report.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::case::{Case, Effort, table};
use crate::lab::Lab;
use crate::limits;
use crate::machine::Machine;
use crate::plot;
use crate::report::Report;

/// Seconds of each limit in the short form and in the long one.
const QUICK_SECONDS: f64 = 0.2;
const SECONDS: f64 = 1.0;

/// What is run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only the cases that have this in their names; a whole name is that case alone.
    pub pattern: Option<String>,
    /// Only the short selection.
    pub quick: bool,
    /// Only what any server can be measured by.
    pub against: Option<SocketAddr>,
}

impl Selection {
    /// The cases.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn cases(&self) -> Result<Vec<Case>> {
        let mut cases = table::all();
        if let Some(pattern) = &self.pattern {
            let exact = cases.iter().any(|case| case.name == *pattern);
            cases.retain(|case| if exact { case.name == *pattern } else { case.name.contains(pattern) });
        }
        cases.retain(|case| !self.quick || case.quick);
        cases.retain(|case| self.against.is_none() || case.is_for_any_server());
        ensure!(!cases.is_empty(), "no case is left; `list` tells all names");
        Ok(cases)
    }

    /// The effort that suits the selection.
    #[must_use]
    pub fn effort(&self) -> Effort {
        if self.quick {
            Effort { seconds: 0.4, repeat: 1, log_bytes: 128 << 20, scale: 10 }
        } else {
            Effort { seconds: 1.5, repeat: 3, log_bytes: 512 << 20, scale: 1 }
        }
    }
}

/// Runs the selection. A case that fails is written down, and the others go on; a missed target is no error here.
///
/// # Errors
///
/// When the limits cannot be measured, or the report cannot be written.
pub fn run(
    selection: &Selection,
    effort: Effort,
    lab: &mut dyn FnMut() -> Result<Lab>,
    out: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<Report> {
    let cases = selection.cases()?;
    std::fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    let seconds = if selection.quick { QUICK_SECONDS } else { SECONDS };
    tell("what the machine does");
    let place = lab()?;
    let mut report = Report {
        machine: Machine::of(place.dir()),
        effort,
        against: selection.against.map(|address| address.to_string()),
        limits: vec![limits::measure(&place, seconds)?],
        findings: Vec::new(),
        failures: Vec::new(),
    };
    let count = cases.len();
    for (number, case) in cases.iter().enumerate() {
        tell(&format!("{} ({} of {count})", case.name, number + 1));
        // A place of its own: what one case leaves on the disk is no burden of the next.
        match lab().and_then(|place| case.run(&place, &effort, &mut |line| tell(&format!("  {line}")))) {
            Ok(findings) => {
                let verdicts = findings.iter().filter(|finding| finding.met.is_some());
                verdicts.for_each(|finding| tell(&format!("  = {finding}")));
                report.findings.extend(findings);
            }
            Err(error) => {
                tell(&format!("  FAILED: {error:#}"));
                report.failures.push((case.name.clone(), format!("{error:#}")));
            }
        }
        report.write(out)?;
    }
    if !selection.quick {
        report.limits.push(limits::measure(&place, seconds)?);
    }
    report.write(out)?;
    plot::draw(&report, out)?;
    Ok(report)
}
