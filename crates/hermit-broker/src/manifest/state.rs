//! What the manifest's records add up to. Pure: no file is touched here.

use std::collections::{BTreeMap, HashMap};

use hermit_proto::{LeaderEpoch, ProducerId, TopicId, TopicName, crc32c};

use super::record::{Record, RecordError};
use crate::topic::TopicMeta;

/// Where a topic stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Recorded, but perhaps not all there yet.
    Creating,
    /// There.
    Live,
    /// To be removed, perhaps in part already.
    Deleting,
}

/// Partitions that a topic is going to have, or was going to have, beyond those of its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// To so many, in all.
    Growing(u32),
    /// The directories up to so many are to be removed.
    Undoing(u32),
}

/// A topic of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) meta: TopicMeta,
    pub(crate) stage: Stage,
    pub(crate) growth: Option<Growth>,
}

impl Entry {
    const fn new(meta: TopicMeta, stage: Stage) -> Self {
        Self { meta, stage, growth: None }
    }

    /// The partitions that may have directories.
    pub(crate) const fn partitions(&self) -> u32 {
        match self.growth {
            Some(Growth::Growing(partitions) | Growth::Undoing(partitions)) => partitions,
            None => self.meta.partitions,
        }
    }
}

/// The sum of the records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) broker_id: u128,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) next_producer: ProducerId,
    pub(crate) topics: BTreeMap<TopicId, Entry>,
    /// The names of all topics that are not being deleted.
    names: HashMap<TopicName, TopicId>,
}

/// The format that this release writes, and the newest that it reads. What an older release wrote is rewritten at the first start.
///
/// | version | what is new |
/// | --- | --- |
/// | 1 | |
/// | 2 | records of adding partitions; how often a topic was changed |
pub const FORMAT_VERSION: u32 = 2;
const MAGIC: &[u8; 8] = b"HERMITMQ";
const VERSION_AT: usize = MAGIC.len();
const CRC_AT: usize = VERSION_AT + 4;
/// Magic, format version (u32), CRC-32C over both.
pub(super) const HEADER_BYTES: usize = CRC_AT + 4;

/// From where on the manifest cannot be believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the manifest is damaged from byte {position} on: {what}")]
pub struct Damage {
    /// The first byte that is not believed.
    pub position: u64,
    /// What is wrong there.
    pub what: String,
}

/// What a manifest's bytes say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The sum of the records before any damage.
    pub(crate) state: State,
    /// Their bytes, with the header.
    pub(crate) good_bytes: usize,
    /// The format that they are in.
    pub(crate) version: u32,
    pub(crate) damage: Option<Damage>,
}

/// The manifest was written by a newer release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newer(pub(crate) u32);

pub(super) fn header(version: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let (magic, rest) = bytes.split_at_mut(VERSION_AT);
    magic.copy_from_slice(MAGIC);
    let (number, _crc) = rest.split_at_mut(4);
    number.copy_from_slice(&version.to_be_bytes());
    let crc = crc32c(bytes.get(..CRC_AT).unwrap_or_default());
    if let Some(place) = bytes.get_mut(CRC_AT..) {
        place.copy_from_slice(&crc.to_be_bytes());
    }
    bytes
}

fn version(bytes: &[u8]) -> Result<u32, &'static str> {
    let bytes = bytes.first_chunk::<HEADER_BYTES>().ok_or("the header is cut")?;
    let number = bytes.get(VERSION_AT..CRC_AT).and_then(|number| number.first_chunk::<4>());
    let version = u32::from_be_bytes(*number.ok_or("the header is cut")?);
    if *bytes == header(version) { Ok(version) } else { Err("the header's checksum does not match") }
}

/// Reads a manifest. Never fails at damage: it tells what came before.
pub(crate) fn read(bytes: &[u8]) -> Result<Facts, Newer> {
    let mut facts = Facts { state: State::default(), good_bytes: 0, version: FORMAT_VERSION, damage: None };
    match version(bytes) {
        Ok(version) if version > FORMAT_VERSION => return Err(Newer(version)),
        Ok(known) => (facts.good_bytes, facts.version) = (HEADER_BYTES, known),
        Err(what) => facts.damage = Some(Damage { position: 0, what: what.into() }),
    }
    while facts.damage.is_none()
        && let Some(rest) = bytes.get(facts.good_bytes..).filter(|rest| !rest.is_empty())
    {
        let first = facts.good_bytes == HEADER_BYTES;
        let applied = Record::decode(rest).and_then(|(record, size)| {
            if first != matches!(record, Record::Begin { .. }) {
                return Err(RecordError::Contradiction("the first record, and only that, tells the broker's id"));
            }
            facts.state.apply(record)?;
            Ok(size)
        });
        match applied {
            Ok(size) => facts.good_bytes += size,
            Err(error) => facts.damage = Some(Damage { position: facts.good_bytes as u64, what: error.to_string() }),
        }
    }
    if facts.damage.is_none() && facts.good_bytes == HEADER_BYTES {
        facts.damage = Some(Damage { position: HEADER_BYTES as u64, what: "there are no records".into() });
    }
    Ok(facts)
}

impl State {
    /// A broker without topics.
    pub(crate) fn begin(broker_id: u128, epoch: LeaderEpoch) -> Self {
        Self { broker_id, epoch, ..Self::default() }
    }

    /// Takes a record in.
    pub(crate) fn apply(&mut self, record: Record) -> Result<(), RecordError> {
        let refuse = |what| Err(RecordError::Contradiction(what));
        match record {
            Record::Begin { broker_id } => self.broker_id = broker_id,
            Record::Epoch(epoch) if epoch < self.epoch => return refuse("the leader epoch fell"),
            Record::Epoch(epoch) => self.epoch = epoch,
            Record::Producers { next } if next < self.next_producer => return refuse("the producer ids fell"),
            Record::Producers { next } => self.next_producer = next,
            Record::CreateIntent(meta) => {
                if self.topics.contains_key(&meta.id) {
                    return refuse("a topic id was used twice");
                }
                if self.by_name(&meta.name).is_some() {
                    return refuse("a topic name was used twice");
                }
                self.names.insert(meta.name.clone(), meta.id);
                self.topics.insert(meta.id, Entry::new(meta, Stage::Creating));
            }
            Record::CreateDone(id) => match self.topics.get_mut(&id) {
                Some(entry) if entry.stage == Stage::Creating => entry.stage = Stage::Live,
                _ => return refuse("a topic was completed that was not begun"),
            },
            Record::Alter { id, settings } => match self.topics.get_mut(&id) {
                Some(entry) => entry.meta = entry.meta.altered(settings),
                None => return refuse("a topic was altered that is not there"),
            },
            Record::DeleteIntent(id) => match self.topics.get_mut(&id) {
                Some(entry) => {
                    entry.stage = Stage::Deleting;
                    // All its directories go, those of a growth that came to nothing too.
                    entry.meta.partitions = entry.partitions();
                    entry.growth = None;
                    self.names.remove(&entry.meta.name);
                }
                None => return refuse("a topic was deleted that is not there"),
            },
            Record::DeleteDone(id) => match self.topics.get(&id) {
                Some(entry) if entry.stage == Stage::Deleting => drop(self.topics.remove(&id)),
                _ => return refuse("a topic is gone that was not deleted"),
            },
            Record::GrowIntent { id, partitions } => match self.topics.get_mut(&id) {
                Some(entry) if entry.stage != Stage::Live || entry.growth.is_some() => {
                    return refuse("a topic was to grow that was not to be had");
                }
                Some(entry) if partitions > entry.meta.partitions => entry.growth = Some(Growth::Growing(partitions)),
                _ => return refuse("a topic was to grow that is not there, or has as many partitions"),
            },
            Record::GrowDone(id) => match self.topics.get_mut(&id).map(|entry| (entry.growth, entry)) {
                Some((Some(Growth::Growing(partitions)), entry)) => {
                    entry.meta = entry.meta.grown(partitions);
                    entry.growth = None;
                }
                _ => return refuse("a topic has grown that was not to"),
            },
            Record::GrowUndo(id) => match self.topics.get_mut(&id).map(|entry| (entry.growth, entry)) {
                Some((Some(Growth::Growing(partitions)), entry)) => entry.growth = Some(Growth::Undoing(partitions)),
                _ => return refuse("a growth was taken back that was not begun"),
            },
            Record::GrowUndone(id) => match self.topics.get_mut(&id) {
                Some(entry) if matches!(entry.growth, Some(Growth::Undoing(_))) => entry.growth = None,
                _ => return refuse("a growth is gone that was not taken back"),
            },
        }
        Ok(())
    }

    /// Takes over what a copy of a topic's metadata tells, where that is newer. Answers whether it was.
    pub(crate) fn renew(&mut self, copy: &TopicMeta) -> bool {
        let entry =
            self.topics.get_mut(&copy.id).filter(|entry| entry.stage != Stage::Deleting && entry.meta.revision < copy.revision);
        let Some(entry) = entry else { return false };
        let partitions = entry.meta.partitions.max(copy.partitions);
        entry.meta = TopicMeta { partitions, settings: copy.settings, revision: copy.revision, ..entry.meta.clone() };
        if entry.partitions() <= partitions {
            entry.growth = None;
        }
        true
    }

    /// Partitions of all topics, with those that are going to be there.
    pub(crate) fn total_partitions(&self) -> u64 {
        self.topics.values().map(|entry| u64::from(entry.partitions())).sum()
    }

    /// The topic of a name that is there, or is going to be.
    pub(crate) fn by_name(&self, name: &TopicName) -> Option<&Entry> {
        self.topics.get(self.names.get(name)?)
    }

    /// The shortest manifest with this sum.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = header(FORMAT_VERSION).to_vec();
        Record::Begin { broker_id: self.broker_id }.encode_into(&mut bytes);
        Record::Epoch(self.epoch).encode_into(&mut bytes);
        Record::Producers { next: self.next_producer }.encode_into(&mut bytes);
        // Those to be deleted first: their names may have been given out again.
        let deleting_first = |entry: &&Entry| entry.stage != Stage::Deleting;
        let (rest, deleting): (Vec<_>, Vec<_>) = self.topics.values().partition(deleting_first);
        for entry in deleting.into_iter().chain(rest) {
            Record::CreateIntent(entry.meta.clone()).encode_into(&mut bytes);
            match entry.stage {
                Stage::Creating => {}
                Stage::Live => Record::CreateDone(entry.meta.id).encode_into(&mut bytes),
                Stage::Deleting => Record::DeleteIntent(entry.meta.id).encode_into(&mut bytes),
            }
            if let Some(growth) = entry.growth {
                Record::GrowIntent { id: entry.meta.id, partitions: entry.partitions() }.encode_into(&mut bytes);
                if matches!(growth, Growth::Undoing(_)) {
                    Record::GrowUndo(entry.meta.id).encode_into(&mut bytes);
                }
            }
        }
        bytes
    }
}
