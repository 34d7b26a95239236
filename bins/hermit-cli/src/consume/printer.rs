//! Printing records, and committing what was printed.

use std::io::{self, BufWriter, StdoutLock, Write};

use anyhow::Result;
use hermit_client::{Consumer, Error, Record};

use super::filter::Filter;
use super::member::Printed;
use crate::args::{ConsumeArgs, Output};
use crate::json_record;

pub(super) struct Printer<'a> {
    pub(super) args: &'a ConsumeArgs,
    filter: Filter<'a>,
    output: Output,
    out: BufWriter<StdoutLock<'static>>,
    printed: Printed,
}

impl<'a> Printer<'a> {
    pub(super) fn new(args: &'a ConsumeArgs, output: Output) -> Self {
        let out = BufWriter::with_capacity(256 << 10, io::stdout().lock());
        Self { args, filter: Filter::new(args), output, out, printed: Printed::default() }
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
            self.printed.add(record);
        }
        Ok(taken)
    }

    /// What was printed and is not committed.
    pub(super) fn printed(&self) -> Printed {
        self.printed.clone()
    }

    /// Commits what was printed, if there is a group.
    pub(super) async fn commit(&mut self, consumer: &Consumer) -> Result<()> {
        let mut printed = self.printed.take();
        if self.args.group.is_none() {
            return Ok(());
        }
        // What a member has given up it has committed then.
        let assigned: Vec<_> = consumer.assignment().map(|(_, partition)| partition).collect();
        printed.retain(|position| assigned.contains(&position.partition));
        match consumer.commit_positions(&printed).await {
            // Another member reads these records again, and the group goes on.
            Err(lost @ Error::Fenced { .. }) => super::warn(&lost),
            committed => Ok(committed?),
        }
    }
}
