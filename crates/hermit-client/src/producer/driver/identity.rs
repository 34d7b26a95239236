//! The producer's identity: asked for when a lane needs one, and again when a lane has to give one up.

use std::sync::Arc;

use hermit_proto::session::{InitProducerIdRequest, Operation, Status};
use tokio::sync::oneshot;

use super::Driver;
use crate::conn::Retry;
use crate::error::{Error, ProtocolFault, Result};
use crate::producer::identity::ProducerIdentity;
use crate::producer::lane::Promise;

impl Driver {
    pub(super) fn tell_identity(&mut self, reply: oneshot::Sender<Result<ProducerIdentity>>) {
        if self.lane_config.promise != Promise::Idempotent {
            let problem = "this producer has no identity: only idempotent ones that ask for answers have".to_owned();
            // Whoever asks may have stopped waiting; so below.
            return drop(reply.send(Err(Error::Config { setting: "idempotent", problem })));
        }
        match self.identity {
            Some(identity) if !self.asking_identity => drop(reply.send(Ok(identity))),
            _ => {
                self.curious.push(reply);
                self.ask_identity();
            }
        }
    }

    pub(super) fn take_identity(&mut self, identity: Result<ProducerIdentity>) {
        self.asking_identity = false;
        let identity = match identity {
            // The broker does not know the id that was to be renewed: it is another broker, or lost its memory.
            Err(error) if error.status() == Some(Status::UnknownProducer) && self.resume.is_none() && self.identity.is_some() => {
                self.identity = None;
                return self.ask_identity();
            }
            Err(error) if error.status() == Some(Status::UnknownProducer) && self.resume.is_some() => {
                let problem = "the broker never gave out this producer id; it is not the one that the identity is from, or lost its data: leave `resume` out";
                Err(Error::Config { setting: "resume", problem: problem.to_owned() })
            }
            identity => identity,
        };
        match &identity {
            Ok(identity) => {
                self.identity = Some(*identity);
                if let Some(earlier) = self.resume.take().filter(|earlier| earlier.id != identity.id) {
                    tracing::warn!(earlier = %earlier.id, now = %identity.id, "the epochs of the producer id are used up: its earlier incarnation is not fenced");
                }
            }
            Err(error) => {
                let mut finished = Vec::new();
                for stream in self.streams.values_mut().filter(|stream| stream.lane.wants_identity()) {
                    stream.lane.note(error);
                    if !error.is_retryable() && !error.is_transport() {
                        finished.extend(stream.lane.abandon(error));
                    }
                }
                self.finish(finished);
            }
        }
        self.curious.drain(..).for_each(|reply| drop(reply.send(identity.clone())));
        self.touch_all();
    }

    /// What to ask for: the place of an earlier incarnation, the next epoch of the present identity, or a new id.
    fn identity_request(&self) -> InitProducerIdRequest {
        let base = match (self.resume, self.identity) {
            (Some(earlier), _) => earlier.last_of_incarnation(),
            (None, Some(present)) if present.can_renew() => present,
            (None, _) => return InitProducerIdRequest::default(),
        };
        InitProducerIdRequest { producer_id: base.id, producer_epoch: base.epoch }
    }

    pub(super) fn ask_identity(&mut self) {
        if self.asking_identity {
            return;
        }
        self.asking_identity = true;
        let (link, reply, request) = (self.link.clone(), self.identities_to.clone(), self.identity_request());
        // Asks for as long as the request timeout, with back-off.
        tokio::spawn(async move {
            let given = link.call(&request, Retry::Always).await;
            let checked = given.and_then(|given| {
                let identity = ProducerIdentity { id: given.producer_id, epoch: given.producer_epoch };
                let is_next = identity.id != request.producer_id || identity.epoch > request.producer_epoch;
                if identity.id.is_some() && identity.epoch.0 >= 0 && is_next {
                    return Ok(identity);
                }
                let problem = "it holds no producer id, or one that was given before";
                let source = ProtocolFault::Answer { operation: Operation::InitProducerId, problem };
                Err(Error::Protocol { server: Arc::from("the broker"), source })
            });
            // The driver may have ended meanwhile.
            drop(reply.send(checked));
        });
    }
}
