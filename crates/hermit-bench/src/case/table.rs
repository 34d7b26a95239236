//! The cases, by name.

use super::{Case, Load, Safety, consume, produce};
use crate::drive::v1_consume::Check;
use crate::material::{Compression, Protocol, Shape};

const SIZES: [(usize, &str); 5] = [(16, "16b"), (100, "100b"), (1 << 10, "1k"), (64 << 10, "64k"), (1 << 20, "1m")];

/// All of them.
#[must_use]
pub fn all() -> Vec<Case> {
    let mut cases = v1_produce();
    cases.extend(v2_produce());
    cases.extend(v1_consume());
    cases.extend(v2_consume());
    cases
}

fn safety_name(safety: Safety) -> &'static str {
    match safety {
        Safety::Sync => "sync",
        Safety::Os => "os",
    }
}

fn v1_produce() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |size: (usize, &str), records, connections, partitions, window: Option<u64>, safety| {
        let batch = if records == 1 { String::new() } else { format!("-x{records}") };
        let spread = if partitions == 1 { String::new() } else { format!("-{partitions}p") };
        let flow = match window {
            Some(1) => "lockstep".to_owned(),
            Some(window) => format!("window{window}"),
            None => "pipelined".to_owned(),
        };
        let name = format!("v1-produce-{}{batch}-{connections}c{spread}-{flow}-{}", size.1, safety_name(safety));
        let shape = Shape::v1(size.0, records);
        cases.push(Case { name, load: Load::Produce(produce::Plan { shape, frames: 1, connections, partitions, window, safety }) });
    };
    for size in SIZES {
        add(size, 1, 1, 1, None, Safety::Os);
        add(size, 1, 1, 1, Some(1), Safety::Os);
    }
    let small = SIZES[1];
    add(small, 1, 10, 1, None, Safety::Os);
    add(small, 1, 10, 10, None, Safety::Os);
    add(small, 100, 1, 1, None, Safety::Os);
    add(small, 1000, 1, 1, None, Safety::Os);
    add((27, "27b"), 100, 1, 1, None, Safety::Os);
    for window in [1, 16, 256, 4096] {
        add(small, 1, 1, 1, Some(window), Safety::Sync);
        add(small, 1, 1, 1, Some(window), Safety::Os);
    }
    add(small, 1, 10, 1, Some(400), Safety::Sync);
    add(small, 1, 1, 1, None, Safety::Sync);
    add(SIZES[3], 1, 1, 1, Some(64), Safety::Sync);
    cases
}

fn v2_produce() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |size: (usize, &str), records: u32, frames, connections, partitions, window, safety, compression| {
        let batch = if records == 1 { String::new() } else { format!("-x{records}") };
        let spread = if partitions == 1 { String::new() } else { format!("-{partitions}p") };
        let codec = match compression {
            Compression::None => "",
            Compression::Lz4 => "-lz4",
            Compression::Zstd => "-zstd",
        };
        let flow = if window == 1 { "lockstep".to_owned() } else { format!("window{window}") };
        let name = format!("v2-produce-{}{batch}{codec}-{connections}c{spread}-{flow}-{}", size.1, safety_name(safety));
        let shape = Shape { compression, ..Shape::v2(size.0, records) };
        let plan = produce::Plan { shape, frames, connections, partitions, window: Some(window), safety };
        cases.push(Case { name, load: Load::Produce(plan) });
    };
    let none = Compression::None;
    for size in SIZES {
        add(size, 1, 1, 1, 1, 16, Safety::Os, none);
    }
    let small = SIZES[1];
    for records in [100, 1000] {
        add(small, records, 1, 1, 1, 16, Safety::Os, none);
    }
    for compression in [Compression::Lz4, Compression::Zstd] {
        add(small, 1000, 1, 1, 1, 16, Safety::Os, compression);
    }
    add(small, 1, 1, 1, 1, 1, Safety::Os, none);
    for window in [1, 16, 256] {
        add(small, 1, 1, 1, 1, window, Safety::Sync, none);
    }
    for partitions in [16, 1000] {
        add(small, 100, 1, 1, partitions, 1000, Safety::Sync, none);
        add(small, 100, 1, 1, partitions, 1000, Safety::Os, none);
    }
    cases
}

fn v1_consume() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, shape, check, partitions| {
        let plan = consume::Plan { shape, reader: Protocol::V1, check, partitions };
        cases.push(Case { name: format!("v1-consume-{name}"), load: Load::Consume(plan) });
    };
    for (size, name) in SIZES {
        add(name.to_owned(), Shape::v1(size, 1), Check::Heads, 1);
        add(format!("{name}-discard"), Shape::v1(size, 1), Check::Nothing, 1);
    }
    add("2700b".to_owned(), Shape::v1(27, 100), Check::Heads, 1);
    add("100b-10p".to_owned(), Shape::v1(100, 1), Check::Heads, 10);
    // Record sets of version 2, unfolded.
    add("100b-unfold".to_owned(), Shape::v2(100, 100), Check::Heads, 1);
    cases
}

fn v2_consume() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, shape, check, partitions| {
        let plan = consume::Plan { shape, reader: Protocol::V2, check, partitions };
        cases.push(Case { name: format!("v2-consume-{name}"), load: Load::Consume(plan) });
    };
    for (size, name) in SIZES {
        add(name.to_owned(), Shape::v2(size, 1), Check::Heads, 1);
    }
    for (records, name) in [(100, "100b-x100"), (1000, "100b-x1000")] {
        add(name.to_owned(), Shape::v2(100, records), Check::Heads, 1);
        add(format!("{name}-crc"), Shape::v2(100, records), Check::All, 1);
    }
    add("64k-crc".to_owned(), Shape::v2(64 << 10, 1), Check::All, 1);
    add("100b-x100-10p".to_owned(), Shape::v2(100, 100), Check::Heads, 10);
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
}
