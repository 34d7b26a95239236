//! The largest rate that a topic carries end to end.

use serde::{Deserialize, Serialize};

use crate::end_to_end::{EndToEndLoad, EndToEndReport};
use crate::error::Result;
use crate::meter::Meter;

/// Of what is due while a probe runs, so much must have come in that time.
const KEPT_UP: f64 = 0.98;
/// What is tried after a rate that the broker did not keep up with.
const STEP_DOWN: f64 = 0.9;
/// Down to 0.28 of the first estimate.
const MAX_PROBES: usize = 12;

/// The largest rate that was kept up, and how it was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MaxRate {
    /// Records a second; 0 where nothing was kept up.
    pub rate: f64,
    /// Records a second as fast as can be, with a bounded number of records under way.
    pub unpaced: f64,
    /// The rates that were tried, and what came of each.
    pub probes: Vec<Probe>,
}

/// One rate that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Records a second.
    pub rate: f64,
    /// Whether the broker kept up with it.
    pub kept_up: bool,
    /// What came of it.
    pub report: EndToEndReport,
}

impl EndToEndLoad {
    /// Finds the largest rate at which records arrive as fast as they are due: first as fast as can be, then, from there downwards in steps of 10 %, on an open schedule.
    /// Takes some times `duration_ms`.
    ///
    /// # Errors
    /// As [`EndToEndLoad::prepare`] and [`ReadyEndToEndLoad::run`](crate::ReadyEndToEndLoad::run).
    pub async fn max_rate(&self, meter: &Meter) -> Result<MaxRate> {
        let unpaced = Self { rate: None, ..self.clone() }.prepare().await?.run(&meter.fresh()).await?;
        let mut found = MaxRate { unpaced: unpaced.records_per_second(), ..MaxRate::default() };
        let mut rate = found.unpaced;
        while found.probes.len() < MAX_PROBES && rate >= 1.0 && !meter.is_stopped() {
            let report = Self { rate: Some(rate), ..self.clone() }.prepare().await?.run(&meter.fresh()).await?;
            let kept_up = kept_up(&report, rate, self.duration_ms);
            found.probes.push(Probe { rate, kept_up, report });
            if kept_up {
                found.rate = rate;
                break;
            }
            rate *= STEP_DOWN;
        }
        Ok(found)
    }
}

fn kept_up(report: &EndToEndReport, rate: f64, duration_ms: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "counts of a short probe")]
    let (in_time, due) = (report.received_in_time as f64, rate * duration_ms as f64 / 1000.0);
    report.is_sound() && in_time >= due * KEPT_UP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_up_when_nearly_all_came_in_time() {
        let report =
            |received_in_time| EndToEndReport { sent: 1000, received: 1000, received_in_time, ..EndToEndReport::default() };
        assert!(kept_up(&report(985), 1000.0, 1000));
        assert!(!kept_up(&report(970), 1000.0, 1000), "the rest came while nothing was sent any more");
        assert!(!kept_up(&EndToEndReport { failed: 1, ..report(1000) }, 1000.0, 1000));
    }
}
