//! Printing records, and committing what was printed.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, StdoutLock, Write};

use anyhow::Result;
use hermit_client::{Consumer, PartitionId, Position, Record};

use super::filter::Filter;
use crate::args::{ConsumeArgs, Output};
use crate::json_record;

pub(super) struct Printer<'a> {
    pub(super) args: &'a ConsumeArgs,
    filter: Filter<'a>,
    output: Output,
    out: BufWriter<StdoutLock<'static>>,
    /// How far the partitions were printed since the last commit.
    printed: BTreeMap<PartitionId, Position>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(args: &'a ConsumeArgs, output: Output) -> Self {
        let out = BufWriter::with_capacity(256 << 10, io::stdout().lock());
        Self { args, filter: Filter::new(args), output, out, printed: BTreeMap::new() }
    }

    /// Prints those that the filter takes, and gives their number.
    pub(super) fn print(&mut self, batch: &[Record]) -> io::Result<u64> {
        let mut taken = 0;
        for record in batch.iter().filter(|record| self.filter.takes(record)) {
            taken += 1;
            match self.output {
                Output::Text => self.args.format.write(record, &mut self.out)?,
                Output::Json => {
                    serde_json::to_writer(&mut self.out, &json_record::print(record))?;
                    self.out.write_all(b"\n")?;
                }
            }
        }
        self.out.flush()?;
        // Only what the output has taken: what was not printed must come again. What was passed over need not.
        for record in batch {
            self.printed.insert(record.partition, Position::from(record));
        }
        Ok(taken)
    }

    /// Commits what was printed, if there is a group.
    pub(super) async fn commit(&mut self, consumer: &Consumer) -> Result<()> {
        let printed: Vec<_> = std::mem::take(&mut self.printed).into_values().collect();
        if self.args.group.is_some() {
            consumer.commit_positions(&printed).await?;
        }
        Ok(())
    }
}
