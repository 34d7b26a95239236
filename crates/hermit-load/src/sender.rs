//! Building records, many without an allocation for each.

use hermit_client::{PartitionId, ProducerRecord};

use crate::payload::{Payloads, RecordId};

/// What tells records apart that one connection sends.
#[derive(Debug)]
pub(crate) struct Numbering {
    stream: u32,
    /// The sequence of each lane's next record.
    next: Vec<u64>,
    /// The lanes' keys; empty where lanes are partitions.
    keys: Vec<Vec<u8>>,
}

impl Numbering {
    pub(crate) fn by_partition(stream: u32, partitions: usize) -> Self {
        Self { stream, next: vec![0; partitions], keys: Vec::new() }
    }

    /// Keys of this stream, so that each belongs to one connection, which keeps their order.
    pub(crate) fn by_key(stream: u32, keys: usize) -> Self {
        let keys: Vec<_> = (0..keys).map(|key| format!("{stream:08x}-{key:05}").into_bytes()).collect();
        Self { stream, next: vec![0; keys.len()], keys }
    }

    pub(crate) const fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    pub(crate) fn lanes(&self) -> u64 {
        self.next.len() as u64
    }

    fn next(&mut self, lane: u16) -> RecordId {
        let next = self.next.get_mut(usize::from(lane)).map_or(0, |next| std::mem::replace(next, *next + 1));
        RecordId { stream: self.stream, lane, sequence: next }
    }
}

/// Values of the records of one call.
#[derive(Debug)]
pub(crate) struct Values {
    payloads: Payloads,
    size_bytes: usize,
    lanes: Vec<u16>,
    bytes: Vec<u8>,
}

impl Values {
    pub(crate) const fn new(payloads: Payloads, size_bytes: usize) -> Self {
        Self { payloads, size_bytes, lanes: Vec::new(), bytes: Vec::new() }
    }

    /// Makes the values of records of these lanes, in place of those before.
    pub(crate) fn fill(&mut self, numbering: &mut Numbering, lanes: impl Iterator<Item = u16>) {
        self.bytes.clear();
        self.lanes.clear();
        for lane in lanes {
            self.lanes.push(lane);
            self.payloads.append(numbering.next(lane), self.size_bytes, &mut self.bytes);
        }
    }

    /// The records. `spare` is an earlier call's, whose memory is used again.
    pub(crate) fn records<'a>(&'a self, numbering: &'a Numbering, spare: Vec<ProducerRecord<'_>>) -> Vec<ProducerRecord<'a>> {
        let mut records = recycled(spare);
        let values = self.bytes.chunks_exact(self.size_bytes);
        records.extend(self.lanes.iter().zip(values).map(|(lane, value)| {
            let record = ProducerRecord::new(value);
            match numbering.keys.get(usize::from(*lane)) {
                Some(key) => record.key(key),
                None => record.partition(PartitionId(u32::from(*lane))),
            }
        }));
        records
    }
}

/// An empty vector with the memory of another one, whose records borrowed from somewhere else. (The standard library collects in place.)
pub(crate) fn recycled<'a>(mut spare: Vec<ProducerRecord<'_>>) -> Vec<ProducerRecord<'a>> {
    spare.clear();
    spare.into_iter().map(|_none| ProducerRecord::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{self, Contents};

    #[test]
    fn records_of_a_lane_are_numbered_without_a_gap() {
        let payloads = Payloads::new(Contents::Random);
        let mut values = Values::new(payloads, 24);
        for mut numbering in [Numbering::by_partition(9, 3), Numbering::by_key(9, 3)] {
            let mut spare = Vec::new();
            for round in 0..3 {
                values.fill(&mut numbering, [0, 2, 0].into_iter());
                let records = values.records(&numbering, spare);
                let sequences: Vec<_> =
                    records.iter().map(|record| payload::check(record.value.unwrap(), true).unwrap().sequence).collect();
                assert_eq!(sequences, [2 * round, round, 2 * round + 1]);
                assert_eq!(records[0].key.is_some(), numbering.has_keys());
                assert_eq!(records[1].partition.is_some(), !numbering.has_keys());
                spare = recycled(records);
            }
        }
    }

    #[test]
    fn memory_is_used_again() {
        let mut spare = vec![ProducerRecord::default(); 100];
        let at = spare.as_ptr().addr();
        for _ in 0..3 {
            spare = recycled(spare);
            assert_eq!((spare.as_ptr().addr(), spare.capacity()), (at, 100));
        }
    }
}
