//! `hermit-cli export …`

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use hermit_client::{Client, Consumer, Error, OnDamage, Start};
use serde_json::json;

use crate::args::{ExportArgs, Output};
use crate::consume::partitions;
use crate::text::counted;
use crate::topic_file::{Head, Stored, TopicWriter};

const BUFFER_BYTES: usize = 256 << 10;
/// Records that are taken at once.
const BATCH_RECORDS: usize = 4096;

/// Writes what the topic holds now.
pub(crate) async fn run(client: &Client, args: ExportArgs, output: Output) -> Result<()> {
    let topic = client.admin().describe_topic(&args.topic).await.map_err(crate::topic::or_list)?;
    let on_damage = if args.skip_damaged { OnDamage::Skip } else { OnDamage::Stop };
    let mut consumer = client.consumer().on_damage(on_damage).build()?;
    for partition in partitions(&topic, &args.partition)? {
        consumer.assign(&args.topic, partition, Start::Earliest).await?;
    }
    consumer.stop_at_present_end().await?;
    let count = u32::try_from(topic.partitions.len())?;
    let head = Head { topic: topic.name, id: topic.topic, partitions: count, config: topic.config };

    if args.file.as_os_str() == "-" {
        let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
        let written = write(&mut consumer, &args, &head, out).await?;
        return written.tell(&args, output, &mut io::stderr());
    }
    let written = match write(&mut consumer, &args, &head, BufWriter::with_capacity(BUFFER_BYTES, create(&args)?)).await {
        Ok(written) => written,
        Err(error) => {
            // Half a file is of no use, and would stand in the way of the next attempt. A device or a pipe is not ours to remove.
            if is_regular(&args.file) {
                drop(std::fs::remove_file(&args.file));
            }
            return Err(error);
        }
    };
    if is_regular(&args.file) {
        written.out.get_ref().sync_all().with_context(|| format!("cannot write {}", args.file.display()))?;
    }
    written.tell(&args, output, &mut io::stdout())
}

fn is_regular(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.is_file())
}

fn create(args: &ExportArgs) -> Result<File> {
    let file = args.file.display();
    let mut options = OpenOptions::new();
    // A new file is for its owner alone, as the data are that it is a copy of.
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(!args.overwrite).create(true).truncate(args.overwrite);
    options.open(&args.file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => anyhow!("{file} exists; name another file, or say --overwrite"),
        _ => anyhow::Error::from(error).context(format!("cannot write {file}")),
    })
}

struct Written<W> {
    out: W,
    records: u64,
    skipped: u64,
}

impl<W> Written<W> {
    fn tell(&self, args: &ExportArgs, output: Output, to: &mut impl Write) -> Result<()> {
        let Self { records, skipped, .. } = self;
        let told = match output {
            Output::Text => writeln!(to, "exported {} of {}", counted(*records, "record"), args.topic),
            Output::Json => writeln!(to, "{}", json!({ "topic": args.topic, "records": records })),
        };
        told.context("the summary")?;
        anyhow::ensure!(*skipped == 0, "{} left out", counted(*skipped, "damaged range"));
        Ok(())
    }
}

async fn write<W: Write>(consumer: &mut Consumer, args: &ExportArgs, head: &Head, out: W) -> Result<Written<W>> {
    let place = || format!("cannot write {}", args.file.display());
    let mut skipped = 0;
    let mut file = TopicWriter::new(out, head, args.compression).with_context(place)?;
    loop {
        match consumer.recv_batch(BATCH_RECORDS).await {
            Ok(batch) if batch.is_empty() => break,
            Ok(batch) => batch.iter().try_for_each(|record| file.append(&Stored::from(record))).with_context(place)?,
            Err(damage @ (Error::Corrupt { .. } | Error::BadRecordSet { .. })) if args.skip_damaged => {
                skipped += 1;
                writeln!(io::stderr(), "warning: {damage}").context("standard error")?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let (out, records) = file.finish().with_context(place)?;
    Ok(Written { out, records, skipped })
}
