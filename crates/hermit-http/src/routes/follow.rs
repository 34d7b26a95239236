//! Reading what the client of a live stream follows.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hermit_broker::proto::session::AccessOperations;
use hermit_broker::proto::{Offset, TopicId, TopicName};
use hermit_broker::{Broker, BrokerError, Caller, Loan, Partition, Topic};
use tokio::sync::mpsc;

use crate::auth::Client;
use crate::blocking::searching;
use crate::fetch::{self, Most};
use crate::problem::Problem;
use crate::records::{Form, RecordOut};
use crate::room::Room;

/// What is read at a time: a client that takes nothing holds two of these. One record may be larger; what is beyond this is lent of the memory budget.
const PIECE_BYTES: usize = 64 << 10;
const PIECE_RECORDS: usize = 500;
/// A quiet stream says that it lives, and looks whether it still may.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// With more partitions than this an id is too long to be told with each record.
const FEW_PARTITIONS: usize = 16;

/// A partition that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) partition: Arc<Partition>,
    /// The next offset to read.
    pub(super) next: u64,
}

/// What the ids of events are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// The record's offset.
    Offset,
    /// Which topic, so that another one of the same name is not taken for it, and the next offset of each of its partitions.
    OfTopic(TopicId),
}

impl Ids {
    fn write(self, record: &RecordOut, followed: &[Followed], out: &mut String) {
        let written = match self {
            Self::Offset => writeln!(out, "id: {}", record.offset),
            Self::OfTopic(topic) => {
                let begun = write!(out, "id: {}", name_of(topic));
                let all = followed.iter().try_for_each(|followed| write!(out, ",{}", followed.next));
                begun.and(all).and_then(|()| out.write_char('\n'))
            }
        };
        // To write to a string does not fail.
        debug_assert!(written.is_ok());
    }

    /// The next offsets that an id tells; none, where it is that of another topic, whose records are all new.
    pub(super) fn parse(id: &str, topic: &Topic) -> Result<Vec<u64>, Problem> {
        let bad = || Problem::bad("last-event-id", "it must be the id of the last event that came");
        let mut parts = id.split(',');
        if parts.next() != Some(&name_of(topic.meta.id)) {
            return if id.contains(',') { Ok(Vec::new()) } else { Err(bad()) };
        }
        parts.map(|next| next.parse().map_err(|_other| bad())).collect()
    }
}

/// So much of a topic's id as tells it from an earlier one of the same name.
fn name_of(topic: TopicId) -> String {
    topic.to_string().get(..8).unwrap_or_default().to_owned()
}

/// Reads what a client follows.
pub(super) struct Follower {
    caller: Caller,
    broker: Broker,
    topic: String,
    ids: Ids,
    followed: Vec<Followed>,
    /// Whose turn it is: each partition has its own, however much there is in others.
    turn: usize,
    form: Form,
    events: mpsc::Sender<Bytes>,
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
        let Client { caller, broker } = client;
        Self { caller, broker, topic, ids, followed, turn: 0, form, events }
    }

    /// Until the client goes, the broker stops, or something is wrong.
    pub(super) async fn run(mut self) {
        // Says to the client, and to what stands between, that the stream has begun.
        if !self.send(Bytes::from_static(b": here\n\n")).await {
            return;
        }
        loop {
            let piece = match self.next_piece().await {
                Ok(Some(piece)) => piece,
                Ok(None) => return,
                Err(problem) => {
                    let told = serde_json::to_string(&problem).unwrap_or_default();
                    // Whoever is gone needs no reason.
                    let _is_there = self.send(format!("event: error\ndata: {told}\n\n").into()).await;
                    return;
                }
            };
            if !self.send(piece).await {
                return;
            }
        }
    }

    /// Answers whether to go on. A client that takes nothing does not hold up a stop.
    async fn send(&self, piece: Bytes) -> bool {
        tokio::select! {
            sent = self.events.send(piece) => sent.is_ok(),
            () = self.broker.stopping() => false,
        }
    }

    /// The next piece; none where the client has gone or the broker stops.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, Problem> {
        if self.broker.is_stopping() {
            return Ok(None);
        }
        self.follow_new_ones()?;
        let mut ready = self.ready()?;
        if ready.is_none() {
            tokio::select! {
                moved = any_moves(&self.followed) => moved?,
                () = tokio::time::sleep(ALIVE_INTERVAL) => {}
                () = self.broker.stopping() => return Ok(None),
                () = self.events.closed() => return Ok(None),
            }
            ready = self.ready()?;
        }
        // After the wait: what was allowed before it need not be now.
        if !self.caller.renew() {
            return Err(hermit_broker::LoginRefused::Wrong.into());
        }
        self.caller.check_topic(&self.topic, AccessOperations::CONSUME)?;
        let Some(at) = ready else {
            return Ok(Some(Bytes::from_static(b": alive\n\n")));
        };
        self.turn = at + 1;
        self.read(at).await.map(Some)
    }

    /// Of the partitions that have something new, the one whose turn it is.
    fn ready(&self) -> Result<Option<usize>, Problem> {
        let count = self.followed.len();
        for at in (0..count).map(|step| (self.turn + step) % count) {
            let Some(followed) = self.followed.get(at) else { continue };
            if followed.next < followed.partition.bounds()?.high_watermark.0 {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Partitions that were added are followed from their beginning.
    fn follow_new_ones(&mut self) -> Result<(), Problem> {
        let Ids::OfTopic(id) = self.ids else { return Ok(()) };
        let topic = self.broker.topic(&TopicName::new(&self.topic)?)?;
        if topic.meta.id == id {
            for partition in topic.partitions().iter().skip(self.followed.len()) {
                self.followed.push(Followed { partition: Arc::clone(partition), next: partition.bounds()?.log_start.0 });
            }
        }
        Ok(())
    }

    async fn read(&mut self, at: usize) -> Result<Bytes, Problem> {
        let Some(followed) = self.followed.get(at) else { return Err(Problem::internal()) };
        let (broker, partition, next) = (self.broker.clone(), Arc::clone(&followed.partition), followed.next);
        let log_start = partition.bounds()?.log_start.0;
        if self.ids != Ids::Offset && next < log_start {
            return Ok(self.gap(at, log_start));
        }
        let most = Most { bytes: PIECE_BYTES, records: PIECE_RECORDS, form: self.form };
        let (piece, room) = searching(&self.broker, move || {
            let mut room = Room::new(&broker, PIECE_BYTES as u64);
            let piece = fetch::read(&broker, &partition, next, most, &mut room)?;
            Ok((piece, room))
        })
        .await?;
        let last = piece.records.len().saturating_sub(1);
        let mut text = String::with_capacity(piece.bytes);
        for (number, record) in piece.records.into_iter().enumerate() {
            let is_last = number == last;
            let next = if is_last { piece.next } else { record.offset.saturating_add(1) };
            self.event(at, record, next, is_last, &mut text)?;
        }
        if let Some(followed) = self.followed.get_mut(at) {
            followed.next = piece.next;
        }
        // Where there was nothing but offsets without records the client hears that the stream lives.
        if text.is_empty() {
            return Ok(Bytes::from_static(b": gap\n\n"));
        }
        // What is beyond a piece: the records and what they were read from are no more.
        let loan = room.keep(text.len() as u64);
        Ok(Bytes::from_owner(LentText { text, _loan: loan }))
    }

    /// Writes one event. JSON as it was stored may have several lines.
    fn event(&mut self, at: usize, mut record: RecordOut, next: u64, is_last: bool, out: &mut String) -> Result<(), Problem> {
        if let Some(followed) = self.followed.get_mut(at) {
            followed.next = next;
            record.partition = (self.ids != Ids::Offset).then_some(followed.partition.id().0);
        }
        if is_last || self.ids == Ids::Offset || self.followed.len() <= FEW_PARTITIONS {
            self.ids.write(&record, &self.followed, out);
        }
        let json = serde_json::to_string(&record).map_err(|_impossible| Problem::internal())?;
        for line in json.split(['\n', '\r']) {
            out.push_str("data: ");
            out.push_str(line);
            out.push('\n');
        }
        out.push('\n');
        Ok(())
    }

    /// Goes on behind what retention has deleted, and says so: a stream of many partitions must not end for one of them.
    fn gap(&mut self, at: usize, log_start: u64) -> Bytes {
        let Some(followed) = self.followed.get_mut(at) else { return Bytes::new() };
        let (partition, from) = (followed.partition.id().0, std::mem::replace(&mut followed.next, log_start));
        format!("event: gap\ndata: {{\"partition\":{partition},\"from\":{from},\"next\":{log_start}}}\n\n").into()
    }
}

/// Resolves when there is something new in any of them, or one of them is no more.
async fn any_moves(followed: &[Followed]) -> Result<(), BrokerError> {
    let mut waits: Vec<_> =
        followed.iter().map(|followed| Box::pin(followed.partition.wait_for(Offset(followed.next.saturating_add(1))))).collect();
    poll_fn(|cx| {
        let mut polled = waits.iter_mut().map(|wait| wait.as_mut().poll(cx));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Given back when the last of the text was sent.
struct LentText {
    text: String,
    _loan: Loan,
}

impl AsRef<[u8]> for LentText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}
