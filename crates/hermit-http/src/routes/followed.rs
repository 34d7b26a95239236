//! The partitions of a live stream: how far each is, and what keeps one from going on.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use hermit_broker::proto::Offset;
use hermit_broker::{BrokerError, Partition};

use crate::problem::Problem;
use crate::sets::OpenSet;

/// Most partitions of a stream: each event's id tells where to go on in each of them, and comes back in the head of a request.
const MOST_PARTITIONS: usize = 256;

/// Refuses topics that cannot be followed in one stream.
pub(super) fn check_partitions(count: usize) -> Result<(), Problem> {
    if count <= MOST_PARTITIONS {
        return Ok(());
    }
    let detail =
        format!("a stream has at most {MOST_PARTITIONS} partitions: follow them one by one, or as a group over the native port");
    Err(Problem::bad("topic", detail))
}

/// A partition that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) partition: Arc<Partition>,
    /// The next offset to read; none where the partition could not be read when the stream began, nor is known from an earlier stream.
    pub(super) next: Option<u64>,
    /// The rest of a set of which a part was told.
    pub(super) open: Option<OpenSet>,
    /// Why nothing more will come.
    trouble: Option<Trouble>,
}

/// Why nothing more comes of a partition.
#[derive(Debug)]
struct Trouble {
    problem: Problem,
    /// Whether what is there can be read all the same.
    is_readable: bool,
    is_told: bool,
}

impl Followed {
    pub(super) const fn new(partition: Arc<Partition>, next: u64) -> Self {
        Self { partition, next: Some(next), open: None, trouble: None }
    }

    /// From where `begin` says; a partition that cannot be read is followed as one from which nothing comes, and goes on at `last` another time.
    pub(super) fn begin(
        partition: &Arc<Partition>,
        last: Option<u64>,
        begin: impl FnOnce() -> Result<u64, BrokerError>,
    ) -> Result<Self, Problem> {
        match begin() {
            Ok(next) => Ok(Self::new(Arc::clone(partition), next)),
            Err(error @ BrokerError::UnknownTopic { .. }) => Err(error.into()),
            Err(error) => {
                let mut followed = Self { next: last, ..Self::new(Arc::clone(partition), 0) };
                followed.give_up(error.into(), false);
                Ok(followed)
            }
        }
    }

    fn is_readable(&self) -> bool {
        self.trouble.as_ref().is_none_or(|trouble| trouble.is_readable)
    }

    /// Nothing more comes of it, but for what is there if that can be read.
    pub(super) fn give_up(&mut self, problem: Problem, is_readable: bool) {
        self.open = None;
        self.trouble = Some(Trouble { problem, is_readable, is_told: false });
    }

    /// Whether more may come of it.
    pub(super) const fn moves(&self) -> bool {
        self.trouble.is_none()
    }

    /// Why nothing more comes of it.
    pub(super) fn trouble(&self) -> Option<&Problem> {
        self.trouble.as_ref().map(|trouble| &trouble.problem)
    }

    /// The same, the first time that this is asked.
    pub(super) fn untold_trouble(&mut self) -> Option<&Problem> {
        let trouble = self.trouble.as_mut().filter(|trouble| !trouble.is_told)?;
        trouble.is_told = true;
        Some(&trouble.problem)
    }

    /// Whether there is something to be told.
    pub(super) fn is_ready(&self) -> Result<bool, BrokerError> {
        if self.trouble.as_ref().is_some_and(|trouble| !trouble.is_told) {
            return Ok(true);
        }
        Ok(self.is_readable() && self.next != Some(self.partition.bounds()?.high_watermark.0))
    }
}

/// Resolves when there is something new in any of those that move, or one of them moves no more.
pub(super) async fn any_moves(followed: &[Followed]) -> (usize, Result<(), BrokerError>) {
    let moving = followed.iter().enumerate().filter(|(_, followed)| followed.moves());
    let mut waits: Vec<_> = moving
        .map(|(at, followed)| {
            let behind = Offset(followed.next.unwrap_or_default().saturating_add(1));
            (at, Box::pin(followed.partition.wait_for(behind)))
        })
        .collect();
    poll_fn(|cx| {
        for (at, wait) in &mut waits {
            if let Poll::Ready(moved) = wait.as_mut().poll(cx) {
                return Poll::Ready((*at, moved));
            }
        }
        Poll::Pending
    })
    .await
}
