//! Handing records over: one by one, or many at once.

use std::sync::Arc;

use tokio::sync::TryAcquireError;

use super::Producer;
use super::delivery::{BatchDelivery, Delivery};
use super::driver::Command;
use super::record::{BatchMetadata, ProducerRecord, RecordMetadata};
use super::slot::{Appended, Incoming, NotTaken, Slot};
use super::topic::TopicSlots;
use crate::clock::wall_clock_ns;
use crate::error::{Error, RecordFault, Result};

/// How often a record is handed over: a topic that was deleted and created again has another id, and is looked up once more.
const ATTEMPTS: usize = 2;

/// The topic has to be looked up first.
pub(super) const NOT_KNOWN: Error = Error::WouldWait { awaited: "the look-up of the topic: call `prepare` before" };

/// A shorter run of records of one partition is not worth a turn of its own: records are sorted by partition then.
const SHORT_RUN: usize = 32;

/// What became of records that were divided.
struct Division<'a> {
    left: Vec<ProducerRecord<'a>>,
    failed: Option<Error>,
    wall_clock: u64,
}

impl Producer {
    /// Sends a record and waits until it is stored.
    ///
    /// # Errors
    /// As [`Producer::enqueue`], and why the record could not be stored: [`Error::Refused`], [`Error::DeliveryTimeout`],
    /// [`Error::OutcomeUnknown`], [`Error::ProducerFenced`], and with [`Acks::None`](crate::Acks::None) connection errors.
    pub async fn send(&self, topic: &str, record: ProducerRecord<'_>) -> Result<RecordMetadata> {
        self.enqueue(topic, record).await?.await
    }

    /// Sends records and waits until all are stored; gives one result for each batch that they went into.
    ///
    /// # Errors
    /// As [`Producer::enqueue_batch`], and the first failure as of [`Producer::send`], where others may be stored.
    pub async fn send_batch(&self, topic: &str, records: &[ProducerRecord<'_>]) -> Result<Vec<BatchMetadata>> {
        self.enqueue_batch(topic, records).await?.await
    }

    /// Copies a record into its batch, waiting for room in the buffer if need be; the answer comes with the [`Delivery`].
    ///
    /// # Errors
    /// [`Error::InvalidRecord`] and [`Error::UnknownPartition`] for a record that cannot be sent; [`Error::Name`],
    /// [`Error::UnknownTopic`], [`Error::Refused`] and [`Error::Timeout`] where the topic cannot be looked up or created;
    /// [`Error::Closed`]; [`Error::ProducerFenced`].
    pub async fn enqueue(&self, topic: &str, record: ProducerRecord<'_>) -> Result<Delivery> {
        // Nearly always there is room. What waits is a large future, and costs more than what is done here.
        match self.try_enqueue(topic, record) {
            Err(Error::WouldWait { .. } | Error::UnknownPartition { .. }) => self.enqueue_waiting(topic, record).await,
            done => done,
        }
    }

    pub(super) async fn enqueue_waiting(&self, topic: &str, record: ProducerRecord<'_>) -> Result<Delivery> {
        for _ in 0..ATTEMPTS {
            let mut slots = self.slots(topic).await?;
            let mut checked = slots.check(&record);
            if let Err(Error::UnknownPartition { .. }) = checked {
                slots = self.refresh(&slots).await?;
                checked = slots.check(&record);
            }
            let cost = checked?;
            self.reserve(&slots, cost).await?;
            if let Some(delivery) = self.place(&slots, &record, cost)? {
                return Ok(delivery);
            }
        }
        Err(Error::UnknownTopic { topic: topic.into() })
    }

    /// As [`Producer::enqueue`], but without waiting, and not only from within a runtime.
    ///
    /// # Errors
    /// [`Error::WouldWait`] where the buffer has no room, or the topic was not looked up yet: that happens at the first record
    /// that is enqueued, or by [`Producer::prepare`]. Others as [`Producer::enqueue`].
    pub fn try_enqueue(&self, topic: &str, record: ProducerRecord<'_>) -> Result<Delivery> {
        let Some(slots) = self.known(topic) else { return Err(NOT_KNOWN) };
        self.enqueue_to(&slots, &record)
    }

    #[inline]
    pub(super) fn enqueue_to(&self, slots: &Arc<TopicSlots>, record: &ProducerRecord<'_>) -> Result<Delivery> {
        let cost = slots.check(record)?;
        self.try_reserve(slots, cost)?;
        match self.place(slots, record, cost) {
            Ok(Some(delivery)) => Ok(delivery),
            Ok(None) => Err(NOT_KNOWN),
            Err(error) => Err(error),
        }
    }

    /// Copies records into their batches, waiting for room in the buffer if need be. Cheaper than one by one: partitions are locked once for all of
    /// their records, and there is one result for each batch. Records of one partition are stored in the order of `records`.
    ///
    /// ```no_run
    /// # async fn example(producer: hermit_client::Producer, lines: Vec<String>) -> hermit_client::Result<()> {
    /// use hermit_client::ProducerRecord;
    ///
    /// let records: Vec<_> = lines.iter().map(ProducerRecord::new).collect();
    /// let delivery = producer.enqueue_batch("lines", &records).await?;
    /// for part in delivery.outcomes().await {
    ///     match part.result {
    ///         Ok(stored) => println!("{} records from offset {:?}", stored.records, stored.first_offset),
    ///         Err(error) => eprintln!("{} records of partition {:?}: {error}", part.records, part.partition),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Producer::enqueue`], of the first record that cannot be sent: then none is.
    pub async fn enqueue_batch(&self, topic: &str, records: &[ProducerRecord<'_>]) -> Result<BatchDelivery> {
        let mut slots = match self.known(topic) {
            Some(slots) => slots,
            None => self.look_up(topic).await?,
        };
        let mut checked = self.check_all(&slots, records);
        if let Err(Error::UnknownPartition { .. }) = checked {
            slots = self.refresh(&slots).await?;
            checked = self.check_all(&slots, records);
        }
        let total = checked?;
        let mut delivery = BatchDelivery::default();
        let mut rest = records;
        while !rest.is_empty() {
            let whole = rest.len() == records.len() && total <= self.portion_bytes();
            let (count, cost) = if whole { (rest.len(), total) } else { self.portion(&slots, rest) };
            let (portion, behind) = rest.split_at(count);
            let placed = match self.reserve(&slots, cost).await {
                Ok(()) => self.place_all(topic, slots.clone(), portion, &mut delivery).await,
                Err(error) => Err((portion.len(), error)),
            };
            match placed {
                Ok(()) => rest = behind,
                Err((_, error)) if delivery.is_empty() => return Err(error),
                // Some are on their way: how those fare matters too.
                Err((lost, error)) => {
                    delivery.refuse(lost.saturating_add(behind.len()), error);
                    break;
                }
            }
        }
        Ok(delivery)
    }

    /// The cost of all.
    fn check_all(&self, slots: &TopicSlots, records: &[ProducerRecord<'_>]) -> Result<usize> {
        let limit_bytes = self.handle.settings.max_buffered_bytes;
        records.iter().try_fold(0usize, |sum, record| match slots.check(record)? {
            cost if cost > limit_bytes => Err(too_large(slots, cost, limit_bytes)),
            cost => Ok(sum.saturating_add(cost)),
        })
    }

    fn portion_bytes(&self) -> usize {
        self.handle.settings.max_buffered_bytes / 4
    }

    /// How many of the records to hand over together, and their cost: some batches, and a quarter of the buffer at most, so that one part is on its way while the
    /// next waits for room.
    fn portion(&self, slots: &TopicSlots, records: &[ProducerRecord<'_>]) -> (usize, usize) {
        let most = self.portion_bytes();
        let (mut count, mut sum) = (0, 0usize);
        for record in records {
            let cost = slots.cost(record);
            if count > 0 && sum.saturating_add(cost) > most {
                break;
            }
            (count, sum) = (count + 1, sum.saturating_add(cost));
        }
        (count, sum)
    }

    /// Puts records into their batches, partition by partition; their buffer space is reserved. With an error, how many of them were not taken.
    async fn place_all(
        &self,
        topic: &str,
        slots: Arc<TopicSlots>,
        records: &[ProducerRecord<'_>],
        delivery: &mut BatchDelivery,
    ) -> Result<(), (usize, Error)> {
        let (mut left, mut failed) = self.divide(&slots, records, delivery);
        // Also where the look-up is not waited for.
        let mut reserved = self.handle.shared.buffer.reserved(cost_of(&slots, &left));
        for _ in 1..ATTEMPTS {
            if left.is_empty() || failed.is_some() {
                break;
            }
            // Another topic has the name now; the cost of a record is the same.
            match self.slots(topic).await.and_then(|slots| self.check_all(&slots, &left).map(|_cost| slots)) {
                Ok(slots) => {
                    (left, failed) = self.divide(&slots, &left, delivery);
                    reserved.bytes = cost_of(&slots, &left);
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None if left.is_empty() => Ok(()),
            None => Err((left.len(), Error::UnknownTopic { topic: topic.into() })),
            Some(failed) => Err((left.len(), failed)),
        }
    }

    /// Gives what was not taken: with an error, because of that; without one, because the topic is gone.
    fn divide<'a>(
        &self,
        slots: &Arc<TopicSlots>,
        records: &[ProducerRecord<'a>],
        delivery: &mut BatchDelivery,
    ) -> (Vec<ProducerRecord<'a>>, Option<Error>) {
        let mut division = Division { left: Vec::new(), failed: None, wall_clock: wall_clock_ns() };
        let behind = self.divide_runs(slots, records, delivery, &mut division);
        if behind.is_empty() {
            return (division.left, division.failed);
        }
        let (order, begins) = slots.divide(behind);
        for (slot, range) in slots.slots.iter().zip(begins.windows(2)) {
            let (Some(begin), Some(end)) = (range.first(), range.last()) else { continue };
            let numbers = order.get(*begin as usize..*end as usize).unwrap_or_default();
            if !numbers.is_empty() {
                let of_slot = numbers.iter().filter_map(|number| behind.get(*number as usize));
                self.place_in(slots, slot, of_slot, delivery, &mut division);
            }
        }
        (division.left, division.failed)
    }

    /// Places records run by run, as long as runs of one partition are long: without keys, with one key, with one partition. Gives what is behind those.
    fn divide_runs<'r, 'a>(
        &self,
        slots: &Arc<TopicSlots>,
        mut records: &'r [ProducerRecord<'a>],
        delivery: &mut BatchDelivery,
        division: &mut Division<'a>,
    ) -> &'r [ProducerRecord<'a>] {
        if slots.takes_turns() {
            return records;
        }
        let (mut turn, mut in_turn_bytes) = (slots.turn(), 0);
        while !records.is_empty() {
            let (partition, len) = slots.run(records, &mut turn, &mut in_turn_bytes);
            let Some(slot) = slots.slots.get(partition as usize) else { break };
            if len < SHORT_RUN.min(records.len()) {
                break;
            }
            let (run, behind) = records.split_at(len);
            self.place_in(slots, slot, run.iter(), delivery, division);
            records = behind;
        }
        records
    }

    /// Puts records into the batches of their partition.
    fn place_in<'r, 'a: 'r>(
        &self,
        slots: &Arc<TopicSlots>,
        slot: &Arc<Slot>,
        records: impl Iterator<Item = &'r ProducerRecord<'a>> + Clone,
        delivery: &mut BatchDelivery,
        division: &mut Division<'a>,
    ) {
        let wall_clock = division.wall_clock;
        let incoming = records.clone().map(|record| Incoming {
            record,
            timestamp: record.timestamp.unwrap_or(wall_clock),
            cost_bytes: slots.cost(record),
        });
        let appended = slot.append(incoming, slots.compacted, |completer, index| delivery.add(completer, index));
        division.left.extend(records.skip(appended.taken).copied());
        let announced = self.announce(slots, slot, &appended);
        match appended.not_taken.map(|why| *why) {
            Some(NotTaken::Closed) => division.failed = Some(self.handle.shared.closed()),
            Some(NotTaken::Invalid(error)) => division.failed = Some(error),
            Some(NotTaken::TopicGone) | None => {}
        }
        if division.failed.is_none() {
            division.failed = announced.err();
        }
    }

    /// `None` where the topic has to be looked up again. The buffer space is reserved, and given back where the record is not taken. Not before that is
    /// a partition chosen: a record that waits for space does not take another's turn.
    #[inline]
    fn place(&self, slots: &Arc<TopicSlots>, record: &ProducerRecord<'_>, cost: usize) -> Result<Option<Delivery>> {
        let mut reserved = self.handle.shared.buffer.reserved(cost);
        let slot = slots.choose(record)?;
        let timestamp = record.timestamp.unwrap_or_else(wall_clock_ns);
        let incoming = Incoming { record, timestamp, cost_bytes: cost };
        let mut delivery = None;
        let appended = slot.append([incoming], slots.compacted, |completer, index| {
            delivery = Some(completer.delivery(index, timestamp));
        });
        let announced = self.announce(slots, slot, &appended);
        match appended.not_taken.map(|why| *why) {
            None => {
                // The batch has it now.
                reserved.bytes = 0;
                announced.map(|()| delivery)
            }
            Some(NotTaken::TopicGone) => Ok(None),
            Some(NotTaken::Closed) => Err(self.handle.shared.closed()),
            Some(NotTaken::Invalid(error)) => Err(error),
        }
    }

    #[inline]
    fn announce(&self, slots: &Arc<TopicSlots>, slot: &Arc<Slot>, appended: &Appended) -> Result<()> {
        if let Some(now) = appended.begun {
            self.refresh_if_old(slots, now);
        }
        if appended.announce
            && let Err(closed) = self.command(Command::Ready(slot.clone()))
        {
            slot.fail(&closed);
            return Err(closed);
        }
        Ok(())
    }

    /// Takes buffer space; it is given back when the record's batch is done.
    async fn reserve(&self, slots: &TopicSlots, cost: usize) -> Result<()> {
        match self.try_reserve(slots, cost) {
            Err(Error::WouldWait { .. }) => {}
            done => return done,
        }
        let shared = &self.handle.shared;
        let bytes = u32::try_from(cost).unwrap_or(u32::MAX);
        shared.buffer.take(bytes, || self.command(Command::Urge), || shared.closed()).await
    }

    #[inline]
    fn try_reserve(&self, slots: &TopicSlots, cost: usize) -> Result<()> {
        let limit_bytes = self.handle.settings.max_buffered_bytes;
        let bytes = match u32::try_from(cost) {
            Ok(bytes) if cost <= limit_bytes => bytes,
            _ => return Err(too_large(slots, cost, limit_bytes)),
        };
        let shared = &self.handle.shared;
        shared.buffer.try_take(bytes).map_err(|error| match error {
            TryAcquireError::Closed => shared.closed(),
            TryAcquireError::NoPermits => Error::WouldWait { awaited: "room in the producer's buffer" },
        })
    }

    /// Bytes of records that wait for their answers: at most
    /// [`max_buffered_bytes`](crate::ProducerBuilder::max_buffered_bytes).
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.handle.settings.max_buffered_bytes.saturating_sub(self.handle.shared.buffer.free_bytes())
    }
}

fn cost_of(slots: &TopicSlots, records: &[ProducerRecord<'_>]) -> usize {
    records.iter().map(|record| slots.cost(record)).sum()
}

fn too_large(slots: &TopicSlots, cost: usize, limit_bytes: usize) -> Error {
    let source = RecordFault::TooLarge { size_bytes: cost as u64, limit_bytes: limit_bytes as u64 };
    Error::InvalidRecord { topic: slots.name.clone(), source }
}
