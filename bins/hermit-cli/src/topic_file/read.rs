//! Reading a topic's file: nothing in it is believed before a checksum has vouched for it.

use std::io::{self, Read};

use anyhow::{Context, Result, anyhow, bail, ensure};
use hermit_client::{Offset, PartitionId};
use hermit_proto::record_set::{Record, RecordSet, unpack};
use hermit_proto::{Attributes, FrameLimits, FramePrefix, FrameSalt, FrameView, PREFIX_SIZE, crc32c};

use super::{END, Head, MAGIC, VERSION};

/// A topic's name and settings take far less.
const MAX_HEAD_BYTES: u32 = 1 << 20;
/// Larger blocks are written for single records only.
const MAX_SMALL_BLOCK_BYTES: usize = 1 << 20;
/// What a frame and a set add to a record, with room to spare.
const OVERHEAD_BYTES: usize = 64 << 10;

/// Reads a topic's file.
#[derive(Debug)]
pub(crate) struct TopicReader<R> {
    input: R,
    head: Head,
    limits: FrameLimits,
    /// Bytes read.
    position: u64,
    records: u64,
}

/// Records of one partition, as the file has them.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) partition: PartitionId,
    /// The offset of the first one where they came from.
    pub(crate) first: Offset,
    /// Of the frame, in ns since the Unix epoch.
    pub(crate) timestamp: u64,
    set: Vec<u8>,
}

impl Block {
    pub(crate) fn records(&self) -> Result<Vec<Record<'_>>> {
        RecordSet::new(&self.set).records().collect::<Result<_, _>>().context("a record set cannot be read")
    }
}

impl<R: Read> TopicReader<R> {
    /// Reads the head. Records of more than `max_record_bytes` are refused.
    pub(crate) fn new(input: R, max_record_bytes: usize) -> Result<Self> {
        let max_body_bytes = max_record_bytes.saturating_add(OVERHEAD_BYTES).max(MAX_SMALL_BLOCK_BYTES) as u64;
        let limits = FrameLimits { max_body_bytes, max_record_count: u32::MAX };
        let head = Head { topic: String::new(), id: Default::default(), partitions: 0, config: Default::default() };
        let mut reader = Self { input, head, limits, position: 0, records: 0 };
        reader.head = reader.read_head()?;
        Ok(reader)
    }

    pub(crate) const fn head(&self) -> &Head {
        &self.head
    }

    fn read_head(&mut self) -> Result<Head> {
        let foreign = "it is no file that `hermit-cli export` wrote";
        let mut start = [0; 16];
        let (magic, numbers) = (self.exactly(&mut start).context(foreign), start);
        ensure!(numbers.starts_with(MAGIC), foreign);
        magic?;
        let [.., v0, v1, v2, v3, s0, s1, s2, s3] = numbers;
        let (version, size) = (u32::from_be_bytes([v0, v1, v2, v3]), u32::from_be_bytes([s0, s1, s2, s3]));
        ensure!(version == VERSION, "its format is version {version}, and this hermit-cli reads version {VERSION}");
        ensure!(size <= MAX_HEAD_BYTES, "its head is damaged");
        let mut bytes = numbers.to_vec();
        self.append(&mut bytes, size as usize)?;
        let crc = self.u32()?;
        ensure!(crc == crc32c(&bytes), "its head is damaged");
        let json = bytes.get(numbers.len()..).unwrap_or_default();
        Head::from_json(json).ok_or_else(|| anyhow!("its head does not tell of a topic"))
    }

    /// The next block; `None` at the end, once that was found to be the right one.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block>> {
        let at = self.position;
        let partition = self.u32()?;
        if partition == END {
            return self.check_end().map(|()| None);
        }
        let damaged = |problem: anyhow::Error| anyhow!("it is damaged at byte {at}: {problem}");
        let mut prefix = [0; PREFIX_SIZE];
        self.exactly(&mut prefix)?;
        let partition = PartitionId(partition);
        let verified = FramePrefix::verify(&prefix, &FrameSalt::new(self.head.id, partition)).map_err(|e| damaged(e.into()))?;
        verified.check(&self.limits).map_err(|e| damaged(e.into()))?;
        ensure!(partition.0 < self.head.partitions, damaged(anyhow!("it names partition {partition}")));
        let mut frame = prefix.to_vec();
        self.append(&mut frame, usize::try_from(verified.header.body_bytes())?)?;
        let block = self.open(partition, &frame).map_err(damaged)?;
        self.records = self.records.saturating_add(verified.header.record_count.into());
        Ok(Some(block))
    }

    fn open(&self, partition: PartitionId, frame: &[u8]) -> Result<Block> {
        let (view, _rest) = FrameView::split(frame, &self.limits)?;
        view.verify_body()?;
        let attributes = view.prefix.extension.attributes;
        ensure!(attributes.has(Attributes::RECORD_SET), "a block without a record set");
        let set = unpack(attributes, view.payload(), usize::try_from(self.limits.max_body_bytes)?)?;
        let set = set.into_owned();
        RecordSet::new(&set).verify_count(view.prefix.header.record_count)?;
        Ok(Block { partition, first: view.prefix.offset(), timestamp: view.prefix.header.timestamp, set })
    }

    fn check_end(&mut self) -> Result<()> {
        let mut end = [0; 12];
        self.exactly(&mut end)?;
        let [r0, r1, r2, r3, r4, r5, r6, r7, crc @ ..] = end;
        let records = [r0, r1, r2, r3, r4, r5, r6, r7];
        let covered = [&END.to_be_bytes()[..], &records].concat();
        ensure!(u32::from_be_bytes(crc) == crc32c(&covered), "its end is damaged");
        let (expected, found) = (u64::from_be_bytes(records), self.records);
        ensure!(expected == found, "it should have {expected} records, and has {found}");
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_more) => bail!("something follows its end"),
            Err(error) => Err(error).context("cannot read it"),
        }
    }

    fn u32(&mut self) -> Result<u32> {
        let mut bytes = [0; 4];
        self.exactly(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn exactly(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.cut(),
            _ => anyhow::Error::from(error).context("cannot read it"),
        })?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Memory grows with what comes, not with what is announced.
    fn append(&mut self, bytes: &mut Vec<u8>, size: usize) -> Result<()> {
        let read = self.input.by_ref().take(size as u64).read_to_end(bytes).context("cannot read it")?;
        if read < size {
            return Err(self.cut());
        }
        self.position += size as u64;
        Ok(())
    }

    fn cut(&self) -> anyhow::Error {
        anyhow!("it ends too early: it was cut, or exporting it did not come to its end")
    }
}
