//! The real world around the logs.

use hermit_log::LogEnv;

use crate::config::BrokerConfig;
use crate::error::BrokerError;

/// Real files and clocks, and threads that flush.
pub(crate) fn real(config: &BrokerConfig) -> Result<LogEnv, BrokerError> {
    LogEnv::real(config.flush_threads, config.max_open_files)
        .map_err(|error| BrokerError::io("start the flush threads for", &config.data_dir, error))
}
