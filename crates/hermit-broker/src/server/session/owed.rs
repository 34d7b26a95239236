//! Answers that wait for a partition to be flushed: in the order of the requests, partition by partition. No I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use hermit_proto::session::{CommitResponse, CommitResult, FetchCommittedRequest, ProduceResponse, Response, WireError};
use hermit_proto::{CorrelationId, HEADER_SIZE, Offset, PartitionId, TopicId};

use super::positions::fetch;
use crate::broker::Broker;
use crate::error::{BrokerError, to_wire};
use crate::metrics::Counters;
use crate::partition::Partition;
use crate::signal::Signal;

/// What is answered once the high watermark has passed.
#[derive(Debug)]
pub(super) enum Answer {
    Produced(ProduceResponse),
    Committed(CommitResponse),
    /// Positions, looked up then.
    Fetched(Broker, FetchCommittedRequest),
    Refused(WireError),
    /// A refusal that tells what is in the log: true once that is flushed.
    Passed(WireError),
}

#[derive(Debug)]
struct OwedAnswer {
    correlation: CorrelationId,
    until: Offset,
    answer: Answer,
}

#[derive(Debug)]
struct Queue {
    partition: Arc<Partition>,
    token: u64,
    owed: VecDeque<OwedAnswer>,
}

/// Answers for which a queue keeps room while others wait.
const KEEP_OWED: usize = 1024;
/// The same in an idle session.
const KEEP_OWED_IDLE: usize = 8;

/// Bytes of an answer to a produce request.
const ANSWER_BYTES: usize = HEADER_SIZE + 25;

/// Bytes of requests and answers that wait, beyond which no more requests are taken: they are not counted elsewhere.
const MAX_KEPT_BYTES: usize = 256 << 10;

impl Answer {
    /// What it takes besides its place in the queue.
    fn kept_bytes(&self) -> usize {
        match self {
            Self::Produced(_) => 0,
            Self::Committed(response) => response.results.len().saturating_mul(size_of::<CommitResult>()),
            Self::Fetched(_, request) => {
                let partitions = request.partitions.len().saturating_mul(size_of::<(TopicId, PartitionId)>());
                request.group.len().saturating_add(partitions)
            }
            Self::Refused(error) | Self::Passed(error) => error.message.len(),
        }
    }
}

/// All answers that wait.
#[derive(Debug, Default)]
pub(super) struct OwedAnswers {
    queues: HashMap<(TopicId, PartitionId), Queue>,
    by_token: HashMap<u64, (TopicId, PartitionId)>,
    count: usize,
    /// What the answers take that are more than a few numbers.
    kept_bytes: usize,
    /// Room for the next queue: most are soon empty.
    spare: VecDeque<OwedAnswer>,
}

impl OwedAnswers {
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Whether what waits leaves room for more.
    pub(super) const fn has_room(&self) -> bool {
        self.kept_bytes < MAX_KEPT_BYTES
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Owes an answer once `partition` has reached `until`. `token` is used if the partition has none owed yet.
    pub(super) fn push(
        &mut self,
        partition: &Arc<Partition>,
        token: u64,
        correlation: CorrelationId,
        until: Offset,
        answer: Answer,
    ) -> u64 {
        self.push_all(partition, token, std::iter::once((correlation, until, answer)))
    }

    /// As [`OwedAnswers::push`], for several answers.
    pub(super) fn push_all(
        &mut self,
        partition: &Arc<Partition>,
        token: u64,
        answers: impl Iterator<Item = (CorrelationId, Offset, Answer)>,
    ) -> u64 {
        let key = (partition.topic(), partition.id());
        let (spare, by_token) = (&mut self.spare, &mut self.by_token);
        let queue = self.queues.entry(key).or_insert_with(|| {
            by_token.insert(token, key);
            Queue { partition: Arc::clone(partition), token, owed: std::mem::take(spare) }
        });
        let before = queue.owed.len();
        for (correlation, until, answer) in answers {
            self.kept_bytes = self.kept_bytes.saturating_add(answer.kept_bytes());
            queue.owed.push_back(OwedAnswer { correlation, until, answer });
        }
        self.count += queue.owed.len() - before;
        queue.token
    }

    /// Owes a refusal behind what the partition has owed already; gives it back where that is nothing.
    pub(super) fn refuse(
        &mut self,
        topic: TopicId,
        partition: PartitionId,
        correlation: CorrelationId,
        error: WireError,
    ) -> Result<(), WireError> {
        let Some(queue) = self.queues.get_mut(&(topic, partition)) else { return Err(error) };
        let answer = Answer::Refused(error);
        self.kept_bytes = self.kept_bytes.saturating_add(answer.kept_bytes());
        queue.owed.push_back(OwedAnswer { correlation, until: Offset::ZERO, answer });
        self.count += 1;
        Ok(())
    }

    /// Writes the answers that can be given now for the partition of `token`.
    pub(super) fn settle(&mut self, token: u64, signal: &Arc<Signal>, counters: &Counters, out: &mut BytesMut) {
        let Some(key) = self.by_token.get(&token) else { return };
        let Some(queue) = self.queues.get_mut(key) else { return };
        let high_watermark = queue.partition.progress().high_watermark();
        if queue.owed.front().is_some_and(|owed| owed.until <= high_watermark) {
            out.reserve(queue.owed.len().min(KEEP_OWED).saturating_mul(ANSWER_BYTES));
        }
        while let Some(owed) = queue.owed.front() {
            let reached = if owed.until <= high_watermark {
                Ok(())
            } else {
                match queue.partition.progress().wait(owed.until, signal, token) {
                    Poll::Pending => return,
                    Poll::Ready(reached) => reached,
                }
            };
            let Some(owed) = queue.owed.pop_front() else { return };
            self.count -= 1;
            self.kept_bytes = self.kept_bytes.saturating_sub(owed.answer.kept_bytes());
            answer(owed, reached, counters, out);
        }
        if let Some(queue) = self.queues.remove(key)
            && queue.owed.capacity() <= KEEP_OWED
        {
            self.spare = queue.owed;
        }
        self.by_token.remove(&token);
    }

    /// An idle session keeps little room.
    pub(super) fn rest(&mut self) {
        if self.is_empty() && self.spare.capacity() > KEEP_OWED_IDLE {
            self.spare = VecDeque::new();
        }
    }

    /// Waits no longer.
    pub(super) fn forget(&self, signal: &Signal) {
        for queue in self.queues.values() {
            queue.partition.progress().forget(signal, queue.token);
        }
    }
}

fn answer(owed: OwedAnswer, reached: Result<(), BrokerError>, counters: &Counters, out: &mut BytesMut) {
    let correlation = owed.correlation;
    let encoded = match (owed.answer, reached) {
        (Answer::Refused(error), _) | (Answer::Passed(error), Ok(())) => {
            counters.refused(error.status);
            error.encode(correlation, out);
            return;
        }
        // What is never flushed was never answered, and is not shown: the older positions are.
        (Answer::Fetched(broker, request), _) => fetch(&broker, &request).encode(correlation, out),
        (_, Err(error)) => {
            let error = to_wire(&error);
            counters.refused(error.status);
            error.encode(correlation, out);
            return;
        }
        (Answer::Produced(response), Ok(())) => response.encode(correlation, out),
        (Answer::Committed(response), Ok(())) => response.encode(correlation, out),
    };
    if let Err(error) = encoded {
        WireError::new(hermit_proto::session::Status::Internal, error.to_string()).encode(correlation, out);
    }
}
