//! One case: lives of a broker, one after the other, on one disk.

use std::path::Path;
use std::rc::Rc;

use hermit_broker::{Broker, BrokerError};
use hermit_log::disk::Disk;
use hermit_log::disk::sim::{Effect, Fault, Op, Rng, Struck};

use crate::actions::{self, act};
use crate::check::{self, End};
use crate::model::{Fate, Model, Record};
use crate::outcome::{self, StartStops, Stops};
use crate::records;
use crate::tally::Tally;
use crate::world::World;

/// Calls among which one is chosen to fail, or changes at one of which the power goes: about as many as there are.
const RUN_CALLS: usize = 300;
const START_CALLS: usize = 120;
const STOP_CALLS: usize = 60;

pub struct Case {
    pub world: World,
    pub model: Model,
    rng: Rng,
    pub tally: Tally,
    /// Whether all so far went as it should, so that the copies of the topics' metadata tell what the manifest does.
    untroubled: bool,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let tally = Tally { cases: 1, ..Tally::default() };
        Self { world: World::new(seed), model: Model::default(), rng: Rng::new(seed), tally, untroubled: true }
    }

    pub fn run(&mut self) {
        let mut broker = self.start(End::Killed);
        for _ in 0..=self.rng.below(3) {
            self.live(&broker);
            let end = self.stop(broker);
            let end = self.start_in_vain(end);
            broker = self.start(end);
        }
        self.all_is_served(&broker, true);
    }

    /// Starts on a disk with which nothing is wrong any more, and checks what is there.
    fn start(&mut self, end: End) -> Broker {
        self.heal();
        self.tally.starts += 1;
        let lost_manifest = self.untroubled && end == End::Killed && self.rng.one_in(8) && self.tally.starts > 1;
        if lost_manifest {
            self.tally.lost_manifests += 1;
            self.world.tell("the manifest is lost".into());
            self.world.disk.remove_file(Path::new("/data/manifest")).unwrap();
        }
        self.world.tell("start".into());
        let broker = self.world.open().unwrap();
        self.world.tell(format!("started, after {end:?}"));
        check::check(&self.world, &broker, &mut self.model, end, lost_manifest);
        broker
    }

    fn heal(&mut self) {
        self.world.disk.heal();
        self.world.disk.set_capacity(None);
    }

    /// Clients do this and that, and now and then something fails, or the power goes.
    fn live(&mut self, broker: &Broker) {
        let count = 5 + self.rng.below(40);
        let fail_at = self.rng.below(count);
        let heal_at = fail_at + self.rng.below(count);
        let trouble = self.rng.below(10);
        for at in 0..count {
            if at == fail_at {
                match trouble {
                    0 => {}
                    1..=6 => self.order_faults(RUN_CALLS),
                    7 | 8 => self.order_cut(RUN_CALLS / 2),
                    _ => {
                        self.order_faults(RUN_CALLS / 3);
                        self.order_cut(RUN_CALLS / 3);
                    }
                }
            }
            self.tally.actions += 1;
            let done = act(&self.world, broker, &mut self.model, &mut self.rng);
            self.note("running");
            if let Err(error) = done {
                self.refused(&error);
            }
            if self.world.disk.is_off() {
                *self.tally.cuts.entry("running").or_default() += 1;
                return;
            }
            check::watch(broker, &mut self.model);
            self.check_stopped(broker);
            // Not while the power may go.
            if at == heal_at && trouble <= 6 {
                self.world.tell("healed".into());
                self.heal();
                self.all_is_served(broker, false);
            }
        }
    }

    fn note(&mut self, phase: &'static str) {
        let before = self.world.struck.len();
        self.world.note_struck();
        self.tally.note(phase, &self.world.struck[before..]);
        self.untroubled &= !self.world.may_refuse();
    }

    fn refused(&mut self, error: &BrokerError) {
        self.tally.refused += 1;
        self.world.tell(format!("refused: {error:?}"));
        assert!(self.world.may_refuse(), "refused with nothing wrong: {error:?}");
        // What a full disk refuses may be tried again.
        let only_full = self.world.full && self.world.struck.is_empty() && !self.world.disk.is_off();
        assert!(!only_full || error.is_retryable(), "refused for good on a full disk: {error:?}");
    }

    /// Only what is in the table stops, and only where it was met.
    fn check_stopped(&mut self, broker: &Broker) {
        for topic in broker.topics() {
            for partition in topic.partitions() {
                let Some(trouble) = partition.trouble() else { continue };
                let Ok(log) = partition.log() else { panic!("a partition is down while the broker runs: {trouble:?}") };
                let stops = |struck| match outcome::stops(struck) {
                    Stops::Partition => outcome::is_in(struck, log.dir()),
                    Stops::Partitions => true,
                    Stops::Topics | Stops::Nothing => false,
                };
                assert!(self.world.struck.iter().any(stops), "stopped by nothing that may: {:?}: {trouble:?}", log.dir());
            }
        }
    }

    /// Whatever failed is over: what was not stopped for good takes more, and all of it is read.
    fn all_is_served(&mut self, broker: &Broker, after_start: bool) {
        let served: Vec<_> = (self.model.topics.iter().enumerate())
            .filter_map(|(at, topic)| Some((at, topic.id.filter(|id| broker.topic_by_id(*id).is_ok())?)))
            .collect();
        let fail = |what: &str, error: &BrokerError| panic!("{what} when all was well again: {error:?}");
        for (at, id) in served {
            for number in 0..self.model.topics[at].parts.len() {
                records::read_and_check(broker, &mut self.model, at, id, number).unwrap_or_else(|error| fail("not read", &error));
                let partition = broker.topic_by_id(id).unwrap().partitions()[number].clone();
                if partition.trouble().is_some() {
                    self.tally.stopped_partitions += 1;
                    assert!(!after_start);
                    continue;
                }
                self.model.written += 1;
                let key = self.model.topics[at].keyed.then(|| b"k".to_vec());
                let record = Record { number: self.model.written, key, payload: Some(b"more".to_vec()), producer: None };
                let records = [Rc::new(record)];
                let sent = records::send(&self.world, broker, &mut self.model, (at, id, number), &records, true);
                // A failure to write back is told at the next sync only.
                let told = partition.trouble().is_some() && !after_start;
                sent.unwrap_or_else(|error| {
                    if !told {
                        fail("not taken", &error);
                    }
                });
            }
        }
        let stopped = self.world.struck.iter().any(|struck| outcome::stops(struck) != Stops::Nothing);
        let made = actions::init_producer(&self.world, broker, &mut self.model);
        if let Err(error) = made
            && !stopped
        {
            fail("no producer", &error);
        }
        self.check_stopped(broker);
        if !after_start {
            check::watch(broker, &mut self.model);
        } else {
            for topic in self.model.topics.iter().filter(|topic| topic.fate == Fate::There) {
                broker.delete_topic(&topic.name.parse().unwrap()).unwrap_or_else(|error| fail("not deleted", &error));
                broker
                    .create_topic(&topic.name, 1, &Default::default())
                    .map(drop)
                    .unwrap_or_else(|error| fail("not created", &error));
            }
        }
    }

    /// The life of the broker ends, in one way or another.
    fn stop(&mut self, broker: Broker) -> End {
        self.model.members.clear();
        if self.world.disk.is_off() {
            return self.crash();
        }
        if self.rng.one_in(2) {
            match self.rng.below(4) {
                0 => self.order_faults(STOP_CALLS),
                1 => self.order_cut(STOP_CALLS),
                _ => {}
            }
            self.world.tell("close".into());
            let closed = broker.close();
            self.note("stopping");
            match closed {
                Ok(()) => self.model.promise_all(),
                Err(error) => self.refused(&error),
            }
            if self.world.disk.is_off() {
                *self.tally.cuts.entry("stopping").or_default() += 1;
                return self.crash();
            }
        }
        if self.rng.one_in(2) {
            *self.tally.cuts.entry("between").or_default() += 1;
            self.crash()
        } else {
            self.world.tell("killed".into());
            self.world.disk.kill();
            End::Killed
        }
    }

    fn crash(&mut self) -> End {
        let seed = self.rng.next_u64();
        self.world.tell(format!("power cut, {seed}"));
        self.world.disk.crash(seed);
        self.untroubled = false;
        End::Cut
    }

    /// Starts that meet failures, or a power cut: they stop what may be stopped, and nothing more is lost.
    fn start_in_vain(&mut self, mut end: End) -> End {
        while self.rng.one_in(3) {
            let cut = self.rng.one_in(2);
            if cut {
                self.order_cut(START_CALLS);
            } else {
                if self.rng.one_in(2) {
                    self.heal();
                }
                self.order_faults(START_CALLS);
            }
            self.tally.starts += 1;
            self.world.tell("start in vain".into());
            let full = std::mem::take(&mut self.world.full);
            let opened = self.world.open();
            self.world.full = full;
            self.note("starting");
            match &opened {
                Ok(broker) if !self.world.disk.is_off() => self.check_stopped_by_start(broker),
                Ok(_) => {}
                Err(error) => self.refused_start(error),
            }
            drop(opened);
            if self.world.disk.is_off() {
                *self.tally.cuts.entry("starting").or_default() += 1;
                end = self.crash();
            } else if self.rng.one_in(3) {
                *self.tally.cuts.entry("between").or_default() += 1;
                end = self.crash();
            } else {
                self.world.disk.kill();
            }
        }
        end
    }

    fn refused_start(&mut self, error: &BrokerError) {
        self.world.tell(format!("refused: {error:?}"));
        let may = |struck| outcome::start_stops(struck) == StartStops::All;
        // Where an earlier start has used the reserve up, and not a byte came free since.
        let no_byte_left = self.world.full && error.is_retryable();
        let refuse = no_byte_left || self.world.disk.is_off() || self.world.struck.iter().any(may);
        assert!(refuse, "a start was refused by nothing that may: {error:?}");
    }

    fn check_stopped_by_start(&self, broker: &Broker) {
        for report in &broker.report().partitions {
            let Err(error) = &report.recovery else { continue };
            let topic = broker.topic(&report.topic).unwrap();
            let name = format!("{}-{}", topic.meta.id, report.partition);
            let dir = Path::new(crate::world::DIR).join("partitions").join(name);
            let stops = |struck| match outcome::start_stops(struck) {
                StartStops::Partition => outcome::is_in(struck, &dir),
                StartStops::Partitions | StartStops::All => true,
            };
            let may = self.world.full || self.world.struck.iter().any(stops);
            assert!(may, "a start left a partition out for nothing that may: {dir:?}: {error:?}");
        }
    }

    fn order_cut(&mut self, changes: usize) {
        let within = 1 + self.rng.below(changes);
        let at = self.world.disk.mutations() + self.rng.below(within) as u64;
        self.world.tell(format!("the power goes at {at}"));
        self.world.disk.cut_after(at);
    }

    fn order_faults(&mut self, calls: usize) {
        for _ in 0..=self.rng.below(2) {
            self.order_fault(calls);
        }
    }

    fn order_fault(&mut self, calls: usize) {
        const OPS: [Op; 18] = [
            Op::CreateDir,
            Op::List,
            Op::Open,
            Op::Create,
            Op::Len,
            Op::Rename,
            Op::RemoveFile,
            Op::RemoveDir,
            Op::SyncDir,
            Op::SyncAll,
            Op::Free,
            Op::Lock,
            Op::Read,
            Op::Write,
            Op::Sync,
            Op::SetLen,
            Op::Allocate,
            Op::Map,
        ];
        const PARTS: [&str; 8] = ["", "", "", ".wal", ".idx", "manifest", ".tmp", "partitions/"];
        const TIMES: [u64; 4] = [1, 2, 5, u64::MAX];
        let rng = &mut self.rng;
        // The first ones more often: all of them are reached.
        let within = 1 + rng.below(calls);
        let (seed, after) = (rng.next_u64(), rng.below(within) as u64);
        let times = TIMES[rng.below(TIMES.len())];
        let fault = match rng.below(10) {
            0..=3 => Fault::any(seed).after(after),
            4 => Fault::any(seed).after(after).times(times),
            5..=7 => {
                let op = OPS[rng.below(OPS.len())];
                Fault::any_of(op, seed).on(PARTS[rng.below(PARTS.len())]).after(rng.below(20) as u64).times(times)
            }
            8 => {
                self.tally.writebacks += 1;
                self.world.tell("writing back fails".into());
                self.world.disk.fail_writeback();
                // Whoever syncs next is told.
                for (op, path) in [(Op::SyncAll, "/data"), (Op::Sync, "/data/manifest")] {
                    self.world.struck.push(Struck { op, path: path.into(), effect: Effect::Error(rustix::io::Errno::IO) });
                }
                return;
            }
            _ => {
                self.tally.full_disks += 1;
                self.world.full = true;
                let room = rng.below(4000) as u64;
                self.world.tell(format!("{room} bytes are left"));
                self.world.disk.set_capacity(Some(self.world.disk.used_bytes() + room));
                return;
            }
        };
        self.world.tell(format!("ordered {fault:?}"));
        self.world.disk.fail(fault);
    }
}
