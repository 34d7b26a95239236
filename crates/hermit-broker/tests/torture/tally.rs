//! What the cases of a run amounted to.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hermit_log::disk::sim::{Effect, Struck};

#[derive(Debug, Default)]
pub struct Tally {
    pub cases: u64,
    pub actions: u64,
    pub refused: u64,
    pub starts: u64,
    /// Power cuts, by what the broker was doing.
    pub cuts: BTreeMap<&'static str, u64>,
    /// Failures that came to pass, by what the broker was doing.
    pub phases: BTreeMap<&'static str, u64>,
    /// The same, by operation and error.
    pub faults: BTreeMap<String, u64>,
    pub full_disks: u64,
    pub writebacks: u64,
    pub stopped_partitions: u64,
    pub lost_manifests: u64,
}

impl Tally {
    pub fn note(&mut self, phase: &'static str, struck: &[Struck]) {
        *self.phases.entry(phase).or_default() += struck.len() as u64;
        for Struck { op, effect, .. } in struck {
            let how = match effect {
                Effect::Error(errno) => format!("{errno:?}"),
                Effect::Short(_) => "short".to_owned(),
            };
            *self.faults.entry(format!("{op} {how}")).or_default() += 1;
        }
    }

    pub fn add(&mut self, other: Self) {
        let sum = |into: &mut BTreeMap<&'static str, u64>, from: BTreeMap<&'static str, u64>| {
            from.into_iter().for_each(|(key, count)| *into.entry(key).or_default() += count);
        };
        sum(&mut self.cuts, other.cuts);
        sum(&mut self.phases, other.phases);
        other.faults.into_iter().for_each(|(key, count)| *self.faults.entry(key).or_default() += count);
        self.cases += other.cases;
        self.actions += other.actions;
        self.refused += other.refused;
        self.starts += other.starts;
        self.full_disks += other.full_disks;
        self.writebacks += other.writebacks;
        self.stopped_partitions += other.stopped_partitions;
        self.lost_manifests += other.lost_manifests;
    }

    pub fn print(&self, took: Duration) {
        let rate = self.cases as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        eprintln!("{self}in {:.1} s, {rate:.0} cases/s", took.as_secs_f64());
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cuts, faults): (u64, u64) = (self.cuts.values().sum(), self.phases.values().sum());
        let Self { cases, actions, refused, starts, .. } = self;
        writeln!(f, "{cases} cases, {starts} starts, {actions} actions of which {refused} were refused")?;
        writeln!(f, "{cuts} power cuts: {:?}", self.cuts)?;
        writeln!(f, "{faults} failing calls: {:?}", self.phases)?;
        for (kind, count) in &self.faults {
            writeln!(f, "  {count:>7} {kind}")?;
        }
        let Self { full_disks, writebacks, stopped_partitions, lost_manifests, .. } = self;
        writeln!(
            f,
            "{full_disks} full disks, {writebacks} failures to write back, {lost_manifests} lost manifests; {stopped_partitions} times a partition took no more writes"
        )
    }
}
