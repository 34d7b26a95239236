//! Which records are printed.

use hermit_client::Record;
use regex::bytes::Regex;

use crate::args::{ConsumeArgs, HeaderFilter};

/// What `--key` and `--header` ask for.
#[derive(Debug)]
pub(super) struct Filter<'a> {
    key: Option<&'a Regex>,
    headers: &'a [HeaderFilter],
}

impl<'a> Filter<'a> {
    pub(super) fn new(args: &'a ConsumeArgs) -> Self {
        Self { key: args.key.as_ref(), headers: &args.header }
    }

    /// What is not there matches nothing, not even the empty pattern.
    pub(super) fn takes(&self, record: &Record) -> bool {
        let key = self.key.is_none_or(|pattern| record.key.as_ref().is_some_and(|key| pattern.is_match(key)));
        key && self.headers.iter().all(|filter| {
            let values = record.headers.iter().filter(|(name, _)| *name == filter.name).filter_map(|(_, value)| value.as_ref());
            values.into_iter().any(|value| filter.value.is_match(value))
        })
    }
}
