//! The benchmark in small: one case of each kind on the `hermitd` that cargo built, its loads in processes of their own.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use hermit_bench::case::{Case, Effort, Load, Safety, consume, durable, http, idle, lag, memory, produce, sdk, start};
use hermit_bench::drive::v1_consume::{Check, Consume, Extent};
use hermit_bench::drive::{Job, Until, v2_consume};
use hermit_bench::lab::Lab;
use hermit_bench::limits;
use hermit_bench::machine::Machine;
use hermit_bench::material::{Material, Protocol, Shape};
use hermit_bench::report::Report;
use hermit_bench::worker::{Program, WORKER, serve};

const EFFORT: Effort = Effort { seconds: 0.05, repeat: 1, log_bytes: 256 << 10, scale: 1 };

/// This program, started by a test below, is one of the loads.
#[test]
fn a_load_in_a_process_of_its_own() {
    if std::env::var_os(WORKER).is_some() {
        serve().unwrap();
    }
}

fn lab() -> Lab {
    let this = std::env::current_exe().unwrap();
    let dir = this.parent().unwrap().to_owned();
    let words = ["a_load_in_a_process_of_its_own", "--exact", "--nocapture"].map(Into::into);
    let program = Program([this.into()].into_iter().chain(words).collect());
    Lab::new(program, Path::new(env!("CARGO_BIN_EXE_hermitd")), &dir, None).unwrap()
}

fn plan(protocol: Protocol, safety: Safety) -> produce::Plan {
    let shape = Shape { protocol, ..Shape::v1(100, 2) };
    produce::Plan { shape, frames: 2, connections: 2, partitions: 1, window: None, safety }
}

#[test]
fn one_case_of_each_kind() {
    let consume = |shape, reader| Load::Consume(consume::Plan { shape, reader, check: Check::Heads, partitions: 2 });
    let sdk = |side, tls| {
        Load::Sdk(sdk::Plan {
            side,
            compression: hermit_load::Compression::None,
            safety: Safety::Os,
            connections: 1,
            value_bytes: 100,
            tls,
        })
    };
    let loads = [
        Load::Produce(plan(Protocol::V1, Safety::Os)),
        Load::Produce(plan(Protocol::V2, Safety::Sync)),
        consume(Shape::v1(100, 1), Protocol::V1),
        consume(Shape::v2(100, 10), Protocol::V1),
        consume(Shape::v2(100, 10), Protocol::V2),
        consume(Shape::v1(1 << 20, 1), Protocol::V2),
        sdk(sdk::Side::Produce(hermit_load::Results::PerBatch), false),
        sdk(sdk::Side::Produce(hermit_load::Results::PerBatch), true),
        sdk(sdk::Side::Consume(hermit_load::Check::Order), false),
        sdk(sdk::Side::Consume(hermit_load::Check::Order), true),
        Load::SyncLatency(durable::OneAtATime { protocol: Protocol::V1, beside: Some(16) }),
        Load::EndToEnd(lag::Plan { shares: vec![50], safety: Safety::Os }),
        Load::Start(start::Plan { partitions: 3 }),
        Load::Memory(memory::Plan { protocol: Protocol::V1, payload_bytes: 100 }),
        Load::Idle(idle::Plan { protocol: Protocol::V2, count: 20 }),
        Load::Http(http::Plan { connections: 2, records: 10, value_bytes: 100, safety: Safety::Sync }),
    ];
    let mut findings = Vec::new();
    for load in loads {
        // Without optimisation the SDK's load takes some 0.2 s to make its payloads.
        let seconds = if matches!(load, Load::Sdk(_)) { 0.5 } else { EFFORT.seconds };
        let case = Case::new("small", load);
        findings.extend(
            case.run(&lab(), &Effort { seconds, ..EFFORT }, &mut |_line| {}).unwrap_or_else(|error| panic!("{case:?}: {error:#}")),
        );
    }
    let empty: Vec<_> = findings.iter().filter(|finding| finding.figure.is_none_or(|figure| figure.min <= 0.0)).collect();
    assert!(empty.is_empty(), "{empty:#?}");

    let dir = tempfile::tempdir().unwrap();
    let machine = Machine::of(dir.path());
    let report = Report { machine, effort: EFFORT, against: None, limits: Vec::new(), findings, failures: Vec::new() };
    report.write(dir.path()).unwrap();
    hermit_bench::plot::draw(&report, dir.path()).unwrap();
    let page = std::fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert_eq!(page.lines().filter(|line| line.starts_with("| small")).count(), report.findings.len());
}

#[test]
fn the_limits_of_the_machine() {
    let limits = limits::measure(&lab(), 0.002).unwrap();
    assert!(limits.sendfile.iter().all(|(_, rate)| *rate > 0.0) && limits.ping.p50 > 0.0 && limits.sync.count > 0);
}

/// A log that is not what the reader was told of must fail it, whichever way it differs.
#[test]
fn a_wrong_log_fails_its_readers() {
    let lab = lab();
    let site = lab.site("wrong").unwrap();
    for protocol in [Protocol::V1, Protocol::V2] {
        let plan = produce::Plan { connections: 1, window: Some(4), ..plan(protocol, Safety::Os) };
        let (name, topic) = site.topic(1, Safety::Os).unwrap();
        let written = lab.run(&plan.job(&site, &name, topic, Until::Count(8))).unwrap().frames;
        let extent = Material::new(plan.shape, false).unwrap().extent(protocol, written);
        let read = |extent, records, check| {
            let (address, partitions, until) = (site.address(), vec![extent], Until::Count(1));
            lab.run(&match protocol {
                Protocol::V1 => {
                    let (topic, group) = (name.clone(), "wrong".to_owned());
                    Job::V1Consume(Consume { address, topic, group, partitions, records, check, until })
                }
                Protocol::V2 => {
                    let topic = topic.to_string();
                    Job::V2Consume(v2_consume::Consume { address, topic, partitions, records, check, until })
                }
            })
        };
        for check in [Check::Heads, Check::All] {
            read(extent, 2, check).unwrap();
            read(Extent { bytes: extent.bytes - 1, ..extent }, 2, check).unwrap_err();
            read(extent, 3, check).unwrap_err();
        }
    }
    site.stop().unwrap();
}
