//! What befalls the broker.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::Recovery;
use crate::check::history::Deed;
use crate::server::Hermitd;
use crate::workload::Recorder;

/// A start takes some ten milliseconds: kills fall on every part of it, and on the first moments after it.
const START: Duration = Duration::from_millis(60);
/// A stop drains, flushes and writes its marks.
const STOP: Duration = Duration::from_millis(80);

/// A deed, and its measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate {
    pub(super) deed: Deed,
    session: Duration,
}

impl Fate {
    pub(super) fn draw(random: &mut fastrand::Rng, session: Duration) -> Self {
        let deed = match random.u8(0..100) {
            0..34 => Deed::Killed,
            34..50 => Deed::KilledInRecovery,
            50..64 => Deed::KilledInStop,
            64..74 => Deed::KilledTwice,
            74..86 => Deed::Stopped,
            86..95 => Deed::Paused,
            _ => Deed::PausedLong,
        };
        Self { deed, session }
    }

    /// Does it, and has the broker serve again.
    pub(super) async fn befall(&self, broker: &mut Hermitd, recorder: &Recorder, random: &mut fastrand::Rng) -> Result<Recovery> {
        let mut kills = 0;
        recorder.befell(self.deed);
        match self.deed {
            Deed::Stopped => broker.halt().await?,
            Deed::KilledInStop => kills += usize::from(broker.kill_in_stop(STOP.mul_f64(random.f64())).await?),
            Deed::Paused | Deed::PausedLong => {
                let sessions = if self.deed == Deed::Paused { 0.9 * random.f64() } else { 1.5 + 2.0 * random.f64() };
                broker.pause(self.session.mul_f64(sessions)).await?;
                recorder.befell(Deed::Serves);
                return Ok(Recovery { deed: self.deed, kills, ready_after: Duration::ZERO });
            }
            _ => {
                broker.kill().await?;
                kills += 1;
            }
        }
        if self.deed == Deed::KilledInRecovery {
            for _ in 0..random.u8(1..4) {
                broker.kill_in_start(START.mul_f64(random.f64())).await?;
                kills += 1;
            }
        }
        if self.deed == Deed::KilledTwice {
            broker.restart().await?;
            sleep(START.mul_f64(random.f64())).await;
            broker.kill().await?;
            kills += 1;
        }
        let down = Instant::now();
        broker.restart().await?;
        recorder.befell(Deed::Serves);
        Ok(Recovery { deed: self.deed, kills, ready_after: down.elapsed() })
    }
}
