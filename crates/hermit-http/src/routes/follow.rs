//! Reading what the client of a live stream follows.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermit_broker::proto::TopicName;
use hermit_broker::proto::session::AccessOperations;
use hermit_broker::{BrokerError, Loan};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::event::{self, BREAK_BYTES, Ids};
use super::followed::{Followed, any_moves, check_partitions};
use crate::auth::Client;
use crate::blocking::searching;
use crate::fetch::{self, Most, Piece};
use crate::problem::Problem;
use crate::records::Form;
use crate::room::Room;
use crate::sets::OpenSet;
use crate::untold::{Untold, Why};

/// What is read at a time. A client that takes nothing holds two of these, of which one is not lent of the memory budget; one record may be larger, and is then lent, too.
const PIECE_BYTES: usize = 64 << 10;
const PIECE_RECORDS: usize = 500;
/// A quiet stream says that it lives, and looks whether it still may.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Where others have all memory, it is asked for again after this.
const ROOM_INTERVAL: Duration = Duration::from_millis(100);
/// A client that takes this long for a piece does not keep sets in memory.
const SET_PATIENCE: Duration = Duration::from_secs(1);

/// Reads what a client follows.
pub(super) struct Follower {
    client: Client,
    topic: String,
    ids: Ids,
    followed: Vec<Followed>,
    /// Whose turn it is: each partition has its own, however much there is in others.
    turn: usize,
    form: Form,
    events: mpsc::Sender<Bytes>,
    /// Held by each piece that the client has not taken.
    on_its_way: Arc<()>,
}

impl Follower {
    pub(super) fn new(
        client: Client,
        topic: String,
        ids: Ids,
        followed: Vec<Followed>,
        form: Form,
        events: mpsc::Sender<Bytes>,
    ) -> Self {
        Self { client, topic, ids, followed, turn: 0, form, events, on_its_way: Arc::default() }
    }

    /// Until the client goes, the broker stops, or something is wrong.
    pub(super) async fn run(mut self) {
        let events = self.events.clone();
        // Says to the client, and to what stands between, that the stream has begun.
        if events.send(Bytes::from_static(b": here\n\n")).await.is_err() {
            return;
        }
        let mut said = Instant::now();
        // What is read has its place already, so that it waits for none in memory.
        while let Some(place) = self.place(&events).await {
            let piece = match self.next_piece().await {
                Ok(Some(nothing)) if nothing.is_empty() && said.elapsed() >= ALIVE_INTERVAL => alive(),
                Ok(Some(piece)) => piece,
                Ok(None) => return,
                Err(problem) => return place.send(event::error(&problem).into()),
            };
            if !piece.is_empty() {
                place.send(piece);
                said = Instant::now();
            }
        }
    }

    /// A place for what is sent next; none where the client is gone, or the broker stops: one that takes nothing does not hold up that.
    async fn place<'a>(&mut self, events: &'a mpsc::Sender<Bytes>) -> Option<mpsc::Permit<'a, Bytes>> {
        let quick = tokio::select! {
            quick = timeout(SET_PATIENCE, events.reserve()) => quick,
            () = self.client.broker.stopping() => return None,
        };
        if let Ok(place) = quick {
            return place.ok();
        }
        self.close_sets();
        tokio::select! {
            place = events.reserve() => place.ok(),
            () = self.client.broker.stopping() => None,
        }
    }

    /// The next piece, which is empty where there was no room for it; none where the client has gone or the broker stops.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, Problem> {
        if self.client.broker.is_stopping() {
            return Ok(None);
        }
        self.follow_new_ones()?;
        let mut ready = self.ready()?;
        if ready.is_none() {
            self.check_that_some_move()?;
            tokio::select! {
                (at, moved) = any_moves(&self.followed) => if let Err(error) = moved {
                    self.lose(at, error, true)?;
                },
                () = sleep(ALIVE_INTERVAL) => {}
                () = self.client.broker.stopping() => return Ok(None),
                () = self.events.closed() => return Ok(None),
            }
            ready = self.ready()?;
        }
        // After the wait: what was allowed before it need not be now.
        self.client.check_topic_now(&self.topic, AccessOperations::CONSUME)?;
        let Some(at) = ready else { return Ok(Some(alive())) };
        self.turn = at + 1;
        if let Some(told) = self.trouble_of(at)? {
            return Ok(Some(told));
        }
        if let Some(piece) = self.read(at).await? {
            return Ok(Some(piece));
        }
        tokio::select! {
            () = sleep(ROOM_INTERVAL) => Ok(Some(Bytes::new())),
            () = self.client.broker.stopping() => Ok(None),
            () = self.events.closed() => Ok(None),
        }
    }

    /// Of the partitions that have something new, the one whose turn it is.
    fn ready(&mut self) -> Result<Option<usize>, Problem> {
        let count = self.followed.len();
        for at in (0..count).map(|step| (self.turn + step) % count) {
            let Some(followed) = self.followed.get(at) else { continue };
            match followed.is_ready() {
                Ok(false) => {}
                Ok(true) => return Ok(Some(at)),
                Err(error) => {
                    self.lose(at, error, false)?;
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }

    /// Nothing more comes from a partition, but for what is there if that can be read. Where it is the only one, or the topic is gone, the stream ends.
    fn lose(&mut self, at: usize, error: BrokerError, is_readable: bool) -> Result<(), Problem> {
        if matches!(error, BrokerError::UnknownTopic { .. }) {
            return Err(error.into());
        }
        self.give_up(at, error.into(), is_readable)
    }

    fn give_up(&mut self, at: usize, problem: Problem, is_readable: bool) -> Result<(), Problem> {
        if self.followed.len() == 1 {
            return Err(problem);
        }
        if let Some(followed) = self.followed.get_mut(at) {
            followed.give_up(problem, is_readable);
        }
        Ok(())
    }

    /// What is to be told of a partition from which nothing more comes, once.
    fn trouble_of(&mut self, at: usize) -> Result<Option<Bytes>, Problem> {
        let Some(followed) = self.followed.get_mut(at) else { return Ok(None) };
        let partition = followed.partition.id().0;
        followed.untold_trouble().map(|problem| Ok(event::down(partition, problem)?.into())).transpose()
    }

    /// A stream from which nothing can come any more ends.
    fn check_that_some_move(&self) -> Result<(), Problem> {
        if self.followed.iter().any(Followed::moves) {
            return Ok(());
        }
        let last = self.followed.iter().filter_map(Followed::trouble).next_back();
        Err(last.cloned().unwrap_or_else(Problem::internal))
    }

    /// Partitions that were added are followed from their beginning.
    fn follow_new_ones(&mut self) -> Result<(), Problem> {
        let Ids::OfTopic(id) = self.ids else { return Ok(()) };
        let topic = self.client.broker.topic(&TopicName::new(&self.topic)?)?;
        if topic.meta.id == id {
            // Who came again could not go on.
            check_partitions(topic.partitions().len())?;
            for partition in topic.partitions().iter().skip(self.followed.len()) {
                self.followed.push(Followed::begin(partition, Some(0), || Ok(partition.bounds()?.log_start.0))?);
            }
        }
        Ok(())
    }

    /// What is next of a partition; none where there is no room for it now.
    async fn read(&mut self, at: usize) -> Result<Option<Bytes>, Problem> {
        let count = self.followed.len();
        let Some(followed) = self.followed.get_mut(at) else { return Err(Problem::internal()) };
        let next = followed.next.unwrap_or_default();
        let (broker, partition, mut open) = (self.client.broker.clone(), Arc::clone(&followed.partition), followed.open.take());
        let most = Most {
            bytes: PIECE_BYTES,
            records: PIECE_RECORDS,
            form: self.form,
            around_bytes: self.ids.around_bytes(count),
            break_bytes: BREAK_BYTES,
            keeps_sets: true,
        };
        // What a client does not take is lent but for one piece.
        let free_bytes = if Arc::strong_count(&self.on_its_way) == 1 { PIECE_BYTES as u64 } else { 0 };
        let (told, room, open) = searching(&self.client.broker, move || {
            let mut room = Room::new(&broker, free_bytes, PIECE_BYTES as u64);
            let told = fetch::read(&broker, &partition, next, most, &mut room, &mut open);
            Ok((told, room, open))
        })
        .await?;
        match told {
            Ok(piece) => self.events_of(at, piece, room, open).map(Some),
            Err(Untold::NoRoom) => {
                // The room that is missing may be what its own sets have.
                self.close_sets();
                Ok(None)
            }
            Err(Untold::Skip { next: behind, why, .. }) if behind != next => self.gap(at, behind, why).map(Some),
            Err(Untold::Skip { problem, .. } | Untold::Failed(problem)) => {
                self.give_up(at, problem, false)?;
                Ok(Some(Bytes::new()))
            }
        }
    }

    /// The events of a piece.
    fn events_of(&mut self, at: usize, piece: Piece, room: Room, open: Option<OpenSet>) -> Result<Bytes, Problem> {
        let last = piece.records.len().saturating_sub(1);
        let mut text = Vec::with_capacity(piece.text_bytes.saturating_add(self.ids.long_bytes(self.followed.len())));
        for (number, record) in piece.records.into_iter().enumerate() {
            let is_last = number == last;
            if let Some(followed) = self.followed.get_mut(at) {
                // An id of one partition is that of a record.
                followed.next = Some(if is_last && self.ids != Ids::Offset { piece.next } else { record.next });
            }
            event::record(self.ids, at, record, is_last, &self.followed, &mut text)?;
        }
        if let Some(followed) = self.followed.get_mut(at) {
            followed.next = Some(piece.next);
        }
        // What is beyond a piece: the records and what they were read from are no more.
        let loan = room.keep(text.len() as u64);
        self.keep(at, open);
        // Where there was nothing but offsets without records the client hears that the stream lives.
        if text.is_empty() {
            return Ok(alive());
        }
        Ok(Bytes::from_owner(Sent { text, _loan: loan, _on_its_way: Arc::clone(&self.on_its_way) }))
    }

    /// Keeps the rest of a set, where there is room for it and for others.
    fn keep(&mut self, at: usize, open: Option<OpenSet>) {
        let most_bytes = self.client.broker.max_loan_bytes() / 4;
        let kept = self.followed.iter().filter_map(|followed| followed.open.as_ref());
        let kept_bytes: u64 = kept.map(|set| set.bytes.len() as u64).sum();
        let fits = |set: &OpenSet| kept_bytes.saturating_add(set.bytes.len() as u64) <= most_bytes;
        let open = open.filter(fits).and_then(|mut set| set.lend(&self.client.broker).then_some(set));
        if let Some(followed) = self.followed.get_mut(at) {
            followed.open = open;
        }
    }

    fn close_sets(&mut self) {
        for followed in &mut self.followed {
            followed.open = None;
        }
    }

    /// Goes on behind what cannot be told, and says so: a stream must not end for it, as it would again for who comes again.
    fn gap(&mut self, at: usize, behind: u64, why: Why) -> Result<Bytes, Problem> {
        let Some(followed) = self.followed.get_mut(at) else { return Err(Problem::internal()) };
        let from = followed.next.replace(behind);
        Ok(event::gap(self.ids, at, from, why, &self.followed)?.into())
    }
}

const fn alive() -> Bytes {
    Bytes::from_static(b": alive\n\n")
}

/// A piece on its way to the client: its room is given back when the last of it was sent.
#[derive(Debug)]
struct Sent {
    text: Vec<u8>,
    _loan: Loan,
    /// Counts what is on its way.
    _on_its_way: Arc<()>,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use bytes::BytesMut;
    use hermit_broker::Shown;
    use hermit_broker::proto::record_set::{NewRecord, RecordSetBuilder};
    use hermit_broker::proto::session::TopicConfig;
    use hermit_broker::proto::{Codec, PartitionId, ProducedFrame};
    use hermit_broker::testing::TestBroker;

    use super::*;
    use crate::sets::UNPACKED;

    const PATIENCE: Duration = Duration::from_secs(20);
    const RECORDS: u32 = 5000;

    async fn follower(test: &TestBroker, events: mpsc::Sender<Bytes>) -> Follower {
        let broker = test.broker().clone();
        let topic = broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
        let mut set = RecordSetBuilder::new(0);
        for _ in 0..RECORDS {
            set.append(&NewRecord { timestamp_ms: 0, key: None, value: Some(b"a value of a record"), headers: &[] }).unwrap();
        }
        let set = set.finish(Codec::Zstd).unwrap();
        let frame = ProducedFrame::record_set(0, Codec::Zstd, RECORDS, &set).to_vec().unwrap();
        let mut batch = broker.parse(BytesMut::from(&frame[..])).unwrap();
        let partition = topic.partition(PartitionId(0)).unwrap();
        broker.append(&broker.writable(topic.meta.id, PartitionId(0)).unwrap(), &mut batch).unwrap().committed().await.unwrap();
        let caller = broker.log_in(Shown::Nothing, "127.0.0.1:1".parse().unwrap(), true).await.unwrap();
        let followed = vec![Followed::new(Arc::clone(partition), 0)];
        Follower::new(Client { caller, broker }, "t".to_owned(), Ids::OfTopic(topic.meta.id), followed, Form::Text, events)
    }

    #[tokio::test]
    async fn a_set_is_unpacked_once_and_what_a_client_does_not_take_is_lent() {
        let test = TestBroker::start_async().await.unwrap();
        let (events, mut received) = mpsc::channel(1);
        let following = tokio::spawn(follower(&test, events).await.run());
        let mut pieces = Vec::new();
        let mut told = 0;
        while told < RECORDS as usize {
            let piece = tokio::time::timeout(PATIENCE, received.recv()).await.unwrap().unwrap();
            let text = std::str::from_utf8(&piece).unwrap();
            assert!(!text.contains("event: "), "{text}");
            told += text.matches("data: {").count();
            pieces.push(piece);
        }
        assert_eq!(told, RECORDS as usize);
        // With more and more room, until it fits.
        let unpacked = UNPACKED.load(Ordering::Relaxed);
        assert!(pieces.len() > 8 && unpacked < 5, "{unpacked} times for {} pieces", pieces.len());
        // The first piece has its place, the others not; and nothing is left of the set.
        let lent = pieces.iter().filter(|piece| piece.len() > 20).skip(1).map(|piece| piece.len() as u64).sum::<u64>();
        let is_lent = async {
            while test.broker().inflight_bytes() != lent {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, is_lent).await.unwrap();
        drop(pieces);
        drop(received);
        tokio::time::timeout(PATIENCE, following).await.unwrap().unwrap();
        assert_eq!(test.broker().inflight_bytes(), 0);
    }
}
