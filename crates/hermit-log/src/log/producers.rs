//! Producer state: loaded when it is first needed.

use std::sync::Arc;

use super::{Inner, Log, State};
use crate::error::LogError;
use crate::producers::{ProducerTable, Sequenced};
use crate::view::Until;

impl Inner {
    /// Loads the newest snapshot and reads the frame headers behind it. The caller holds the append lock, so that nothing is missed.
    pub(super) fn load_producers(self: &Arc<Self>, state: &mut State) -> Result<(), LogError> {
        if state.producers.is_some() {
            return Ok(());
        }
        let read_error = |source| LogError::io("read the producers of", &self.dir, source);
        let log_start = self.view.read().bounds().log_start;
        let loaded = ProducerTable::load(&*self.env.disk, &self.dir, &self.segment_env.salt)
            .map_err(read_error)?
            .filter(|(_, end)| *end <= state.log_end);
        let (mut table, from) = loaded.unwrap_or_default();
        let config = state.config.producers;
        let log = Log { inner: Arc::clone(self) };
        let from = from.max(log_start);
        let mut cursor = log.cursor_past_damage(from, Until::LogEnd)?;
        cursor.each_prefix(Until::LogEnd, |prefix| {
            if let Some(stamp) = prefix.producer().filter(|_| prefix.offset() >= from) {
                let count = prefix.header.record_count;
                let _forgotten = table
                    .note(&Sequenced { stamp, count, offset: prefix.offset(), append_time: prefix.extension.append_time }, &config);
            }
            true
        })?;
        state.producers = Some(table);
        Ok(())
    }
}
