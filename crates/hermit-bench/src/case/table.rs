//! The cases, by name, and what each should reach.

use super::durable::{Flow, OneAtATime, Spread};
use super::start::BySize;
use super::{Case, Load, Safety, consume, http, idle, lag, memory, produce, sdk, start};
use crate::drive::v1_consume::Check;
use crate::finding::Target;
use crate::material::{Compression, Protocol, Shape};

const SIZES: [(usize, &str); 5] = [(16, "16b"), (100, "100b"), (1 << 10, "1k"), (64 << 10, "64k"), (1 << 20, "1m")];
const SMALL: usize = 100;

/// All of them.
#[must_use]
pub fn all() -> Vec<Case> {
    let groups = [v1_produce(), v2_produce(), v1_consume(), v2_consume(), sdk(), over_http(), durable(), over_time(), standing()];
    groups.into_iter().flatten().collect()
}

/// The load that most cases of producing differ from in one thing.
const fn single(payload_bytes: usize) -> produce::Plan {
    let shape = Shape::v1(payload_bytes, 1);
    produce::Plan { shape, frames: 1, connections: 1, partitions: 1, window: None, safety: Safety::Os }
}

fn produced(name: &str, plan: produce::Plan) -> Case {
    let version = match plan.shape.protocol {
        Protocol::V1 => "v1",
        Protocol::V2 => "v2",
    };
    Case::new(format!("{version}-produce-{name}-{}", plan.safety.name()), Load::Produce(plan))
}

fn v1_produce() -> Vec<Case> {
    let fast = || Target::at_least(1.3e6, "≥ 1.3 M frames/s");
    let mut cases = Vec::new();
    for (size, name) in SIZES {
        let case = produced(&format!("{name}-pipelined"), single(size));
        cases.push(if size == SMALL { case.reaching("", fast()) } else { case });
        cases.push(produced(&format!("{name}-lockstep"), produce::Plan { window: Some(1), ..single(size) }));
    }
    let ten = produce::Plan { connections: 10, ..single(SMALL) };
    cases.push(produced("100b-pipelined-10c", ten).reaching("", fast()));
    cases.push(produced("100b-pipelined-10c-10p", produce::Plan { partitions: 10, ..ten }));
    for (size, records) in [(SMALL, 100), (SMALL, 1000), (27, 100)] {
        let plan = produce::Plan { shape: Shape::v1(size, records), ..single(size) };
        cases.push(produced(&format!("{size}b-x{records}-pipelined"), plan));
    }
    cases.push(produced("27b-x100-pipelined-10c", produce::Plan { shape: Shape::v1(27, 100), ..ten }));
    cases
}

fn v2_produce() -> Vec<Case> {
    let plan = |size, records| produce::Plan { shape: Shape::v2(size, records), window: Some(16), ..single(size) };
    let mut cases = Vec::new();
    for (size, name) in SIZES {
        cases.push(produced(&format!("{name}-16-under-way"), plan(size, 1)));
    }
    cases.push(produced("100b-lockstep", produce::Plan { window: Some(1), ..plan(SMALL, 1) }));
    cases.push(produced("100b-500-under-way", produce::Plan { window: Some(500), ..plan(SMALL, 1) }));
    for records in [100, 1000] {
        cases.push(produced(&format!("100b-x{records}"), plan(SMALL, records)));
    }
    cases.push(produced("100b-x1000-10c", produce::Plan { connections: 10, window: Some(4), ..plan(SMALL, 1000) }));
    for (compression, name) in [(Compression::Lz4, "lz4"), (Compression::Zstd, "zstd")] {
        let shape = Shape { compression, ..Shape::v2(SMALL, 1000) };
        cases.push(produced(&format!("100b-x1000-{name}"), produce::Plan { shape, ..plan(SMALL, 1000) }));
    }
    for partitions in [16, 1000] {
        cases.push(produced(
            &format!("100b-x100-{partitions}p"),
            produce::Plan { partitions, window: Some(200), ..plan(SMALL, 100) },
        ));
    }
    cases
}

fn consumed(name: &str, shape: Shape, reader: Protocol, check: Check, partitions: u32) -> Case {
    let version = match reader {
        Protocol::V1 => "v1",
        Protocol::V2 => "v2",
    };
    Case::new(format!("{version}-consume-{name}"), Load::Consume(consume::Plan { shape, reader, check, partitions }))
}

fn of_sendfile(bound: f64) -> Target {
    Target::at_least(bound, &format!("≥ {bound} of raw sendfile")).ratio()
}

fn v1_consume() -> Vec<Case> {
    let of = |name: &str, shape| consumed(name, shape, Protocol::V1, Check::Heads, 1);
    let [tiny, small, middle, large, huge] = SIZES.map(|(size, name)| of(name, Shape::v1(size, 1)));
    let mut cases = vec![
        tiny,
        small.reaching("", Target::at_least(2.5e6, "≥ 2.5 M frames/s")),
        middle,
        large.reaching("", of_sendfile(0.75)),
        huge.reaching("", of_sendfile(0.9)),
        of("27b-x100", Shape::v1(27, 100)),
        // Record sets of version 2, unfolded.
        of("100b-unfolded", Shape::v2(SMALL, 100)),
        of("100b-unfolded-zstd", Shape { compression: Compression::Zstd, ..Shape::v2(SMALL, 100) }),
    ];
    for (size, name) in [SIZES[1], SIZES[3]] {
        cases.push(consumed(&format!("{name}-discarding"), Shape::v1(size, 1), Protocol::V1, Check::Nothing, 1));
    }
    cases.push(consumed("100b-10p", Shape::v1(SMALL, 1), Protocol::V1, Check::Heads, 10));
    cases
}

fn v2_consume() -> Vec<Case> {
    let of = |name: &str, shape, check| consumed(name, shape, Protocol::V2, check, 1);
    let mut cases = Vec::new();
    for (size, name) in SIZES {
        let case = of(name, Shape::v2(size, 1), Check::Heads);
        cases.push(if size >= 16 << 10 { case.reaching("", of_sendfile(0.9)) } else { case });
    }
    for records in [100, 1000] {
        cases.push(of(&format!("100b-x{records}"), Shape::v2(SMALL, records), Check::Heads).reaching("", of_sendfile(0.9)));
        cases.push(of(&format!("100b-x{records}-crc"), Shape::v2(SMALL, records), Check::All).reaching("", of_sendfile(0.85)));
    }
    cases.push(of("64k-crc", Shape::v2(64 << 10, 1), Check::All).reaching("", of_sendfile(0.85)));
    cases.push(consumed("100b-x100-10p", Shape::v2(SMALL, 100), Protocol::V2, Check::Heads, 10));
    cases.push(consumed("100b-x100-100p", Shape::v2(SMALL, 100), Protocol::V2, Check::Heads, 100));
    cases
}

fn sdk() -> Vec<Case> {
    use hermit_load::{Check, Compression, Results};
    let of = |name: &str, plan| Case::new(format!("sdk-{name}"), Load::Sdk(plan));
    let plan = |side, compression, safety, connections| sdk::Plan {
        side,
        compression,
        safety,
        connections,
        value_bytes: SMALL,
        tls: false,
    };
    let case = |name: &str, side, compression, safety, connections| of(name, plan(side, compression, safety, connections));
    let (per_batch, per_record) = (sdk::Side::Produce(Results::PerBatch), sdk::Side::Produce(Results::PerRecord));
    let consume = sdk::Side::Consume;
    let none = Compression::None;
    let mut cases = vec![
        case("produce-per-batch", per_batch, none, Safety::Os, 1).reaching("", Target::at_least(5e6, "≥ 5 M records/s")),
        case("produce-per-record", per_record, none, Safety::Os, 1).reaching("", Target::at_least(3e6, "≥ 3 M records/s")),
        case("produce-per-batch-sync", per_batch, none, Safety::Sync, 1),
        case("produce-per-batch-10c", per_batch, none, Safety::Os, 10),
        case("produce-per-batch-lz4", per_batch, Compression::Lz4, Safety::Os, 1),
        case("produce-per-batch-zstd", per_batch, Compression::Zstd, Safety::Os, 1),
        case("consume", consume(Check::Nothing), none, Safety::Os, 1).reaching("", Target::at_least(10e6, "≥ 10 M records/s")),
        case("consume-checking-order", consume(Check::Order), none, Safety::Os, 1),
        case("consume-zstd", consume(Check::Nothing), Compression::Zstd, Safety::Os, 1),
    ];
    // With TLS and without, of the same.
    for (side, name) in [(per_batch, "produce-per-batch"), (consume(Check::Nothing), "consume")] {
        let small = plan(side, none, Safety::Os, 1);
        let large = sdk::Plan { value_bytes: 64 << 10, ..small };
        cases.push(of(&format!("{name}-tls"), sdk::Plan { tls: true, ..small }));
        cases.push(of(&format!("{name}-64k"), large));
        cases.push(of(&format!("{name}-64k-tls"), sdk::Plan { tls: true, ..large }));
    }
    cases
}

fn durable() -> Vec<Case> {
    let flow = |name: &str, protocol, payload_bytes, in_flight, connections| {
        let load = Load::SyncFlow(Flow { protocol, payload_bytes, in_flight, connections });
        Case::new(format!("sync-flow-{name}"), load)
            .reaching("", Target::at_least(0.9, "≥ 0.9 of min(os, n / 1.5 syncs, disk)").ratio())
    };
    let one = |name: &str, protocol, beside: Option<u64>| {
        let words = if beside.is_some() { "p50 ≤ 2.2 syncs + 100 µs" } else { "p50 ≤ 1.2 syncs + 100 µs" };
        let load = Load::SyncLatency(OneAtATime { protocol, beside });
        Case::new(format!("sync-latency-{name}"), load).reaching("", Target::at_most(1.0, words).ratio())
    };
    let spread = |safety: Safety| {
        Case::new(format!("partitions-1000-{}", safety.name()), Load::Partitions(Spread { few: 16, many: 1000, safety }))
    };
    let mut cases = vec![
        flow("v1-100b-1", Protocol::V1, SMALL, 1, 1),
        flow("v1-100b-16", Protocol::V1, SMALL, 16, 1),
        flow("v1-100b-256", Protocol::V1, SMALL, 256, 1),
        flow("v1-100b-4096", Protocol::V1, SMALL, 4096, 1),
        flow("v1-100b-4000-10c", Protocol::V1, SMALL, 4000, 10),
        flow("v1-64k-64", Protocol::V1, 64 << 10, 64, 1),
        flow("v2-100b-256", Protocol::V2, SMALL, 256, 1),
        one("v1-alone", Protocol::V1, None),
        one("v1-beside-256", Protocol::V1, Some(256)),
        one("v1-under-load", Protocol::V1, Some(4000)),
        one("v2-alone", Protocol::V2, None),
        one("v2-under-load", Protocol::V2, Some(4000)),
        spread(Safety::Sync).reaching("", Target::at_least(0.5, "≥ 0.5 of 16 partitions").ratio()),
        spread(Safety::Os),
    ];
    // The short selection has one of each kind.
    let long = [
        "sync-flow-v1-100b-1",
        "sync-flow-v1-100b-16",
        "sync-flow-v1-100b-4000-10c",
        "sync-flow-v1-64k-64",
        "sync-latency-v2-under-load",
    ];
    for case in &mut cases {
        case.quick &= !long.contains(&case.name.as_str());
    }
    cases
}

fn over_time() -> Vec<Case> {
    let times = |bound: f64, words: &str| Target::at_most(bound, words).ratio();
    let end_to_end = |safety: Safety| {
        let shares = if safety == Safety::Os { vec![10, 50, 90] } else { vec![50] };
        Case::new(format!("end-to-end-{}", safety.name()), Load::EndToEnd(lag::Plan { shares, safety }))
    };
    let catch_up = |name: &str, reader| {
        Case::new(format!("catch-up-{name}"), Load::CatchUp(lag::CatchUp { reader }))
            .reaching("tail p99", times(3.0, "p99 ≤ 3 × alone"))
    };
    vec![
        end_to_end(Safety::Os)
            .reaching("50% p50", times(3.0, "p50 ≤ 3 × a round trip's"))
            .reaching("50% p99", times(3.0, "p99 ≤ 3 × that of round trips beside it")),
        end_to_end(Safety::Sync),
        catch_up("v1", Protocol::V1),
        catch_up("v2", Protocol::V2),
    ]
}

fn over_http() -> Vec<Case> {
    let plan = http::Plan { connections: 8, records: 100, value_bytes: SMALL, safety: Safety::Sync };
    vec![Case::new("http-produce-batch", Load::Http(plan)).reaching("", Target::at_least(1e5, "≥ 100,000 records/s"))]
}

fn standing() -> Vec<Case> {
    let at_most_mib = |bound: f64| Target::at_most(bound, &format!("≤ {bound} MiB"));
    let start = |partitions| Case::new(format!("start-{partitions}"), Load::Start(start::Plan { partitions }));
    let memory = |name: &str, protocol, payload_bytes| {
        Case::new(format!("memory-{name}"), Load::Memory(memory::Plan { protocol, payload_bytes }))
            .reaching("idle", at_most_mib(20.0))
            .reaching("peak", Target::at_most(1.25, "flat: ≤ 1.25 of the first part's peak").ratio())
    };
    let idle = |name: &str, protocol, count| Case::new(format!("idle-{count}-{name}"), Load::Idle(idle::Plan { protocol, count }));
    let mut cases = vec![
        start(1),
        start(100),
        start(10_000).reaching("unclean", Target::at_most(3000.0, "≤ 3 s")).reaching("memory", at_most_mib(200.0)),
        Case::new("start-by-size", Load::StartBySize(BySize { small_bytes: 16 << 20, large_bytes: 1 << 30 }))
            .reaching("", Target::at_most(1.5, "not growing: ≤ 1.5 × (16 MiB's + 25 ms)").ratio()),
        memory("v1", Protocol::V1, SMALL),
        memory("v2", Protocol::V2, 64 << 10),
        idle("v1", Protocol::V1, 1000),
        idle("v1", Protocol::V1, 10_000),
        idle("v2", Protocol::V2, 1000),
        idle("v2", Protocol::V2, 10_000),
    ];
    for case in &mut cases {
        case.quick &= case.name != "memory-v2";
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ() {
        let mut names: Vec<_> = all().into_iter().map(|case| case.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn another_server_is_asked_for_version_1_alone() {
        let names: Vec<_> = all().into_iter().filter(Case::is_for_any_server).map(|case| case.name).collect();
        assert!(names.len() > 10 && names.iter().all(|name| name.starts_with("v1-")), "{names:?}");
    }
}
