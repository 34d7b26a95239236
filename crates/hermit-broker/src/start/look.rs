//! What a start would find, without changing anything.

use std::collections::BTreeMap;
use std::path::Path;

use hermit_log::disk::Disk;
use hermit_proto::TopicId;

use super::clean::{self, LastStop};
use super::rebuild::{self, FoundDir};
use crate::error::BrokerError;
use crate::layout;
use crate::manifest::{self, Damage, Entry, State};

/// The topics of a data directory.
#[derive(Debug)]
pub(crate) struct Looked {
    /// By id: those of the manifest, and where that is damaged, those that the copies add.
    pub(crate) topics: BTreeMap<TopicId, Entry>,
    /// Which of them only the copies know.
    pub(crate) adopted: Vec<TopicId>,
    pub(crate) clean: bool,
    pub(crate) damage: Option<Damage>,
    /// Directories of partitions that no topic claims.
    pub(crate) unknown: Vec<String>,
    /// Whether a broker has ever been there.
    pub(crate) is_fresh: bool,
}

/// Reads the manifest, and, where it is damaged or missing, the copies in the partitions' directories.
pub(crate) fn look(disk: &dyn Disk, dir: &Path) -> Result<Looked, BrokerError> {
    let bytes = manifest::load(disk, dir).map_err(|error| BrokerError::io("read", dir.join(layout::MANIFEST), error))?;
    let stop = clean::last_stop(disk, dir, bytes.as_deref());
    let known = super::find_dirs(disk, dir)?;
    let facts = super::facts(dir, bytes.as_deref(), stop, !known.is_empty())?;
    let is_fresh = facts.is_none();
    let (mut state, damage) = facts.map_or_else(|| (State::default(), None), |facts| (facts.state, facts.damage));
    let mut adopted = Vec::new();
    if damage.is_some() {
        let read = |found: &FoundDir| {
            let partition_dir = layout::partition_dir(dir, found.topic, found.partition);
            FoundDir { copy: manifest::read_topic_copy(disk, &partition_dir), ..found.clone() }
        };
        let copies: Vec<_> = known.iter().map(read).collect();
        adopted = rebuild::adopt(&mut state, &copies).into_iter().map(|meta| meta.id).collect();
    }
    let unknown = super::unknown_dirs(&state, &known);
    Ok(Looked { topics: state.topics, adopted, clean: stop == LastStop::Clean, damage, unknown, is_fresh })
}
