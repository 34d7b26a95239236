//! The producer's id: asked for when a lane needs one, and again when a lane has to give one up.

use std::sync::Arc;

use hermit_proto::session::{InitProducerIdRequest, Operation};

use super::Driver;
use crate::conn::Retry;
use crate::error::{Error, ProtocolFault, Result};
use crate::producer::lane::Identity;

impl Driver {
    pub(super) fn take_identity(&mut self, identity: Result<Identity>) {
        self.asking_identity = false;
        match identity {
            Ok(identity) => self.identity = Some(identity),
            Err(error) => {
                let mut finished = Vec::new();
                for stream in self.streams.values_mut().filter(|stream| stream.lane.wants_identity()) {
                    stream.lane.note(&error);
                    if !error.is_retryable() && !error.is_transport() {
                        finished.extend(stream.lane.abandon(&error));
                    }
                }
                self.finish(finished);
            }
        }
        self.touch_all();
    }

    pub(super) fn ask_identity(&mut self) {
        if self.asking_identity {
            return;
        }
        self.asking_identity = true;
        let (link, reply) = (self.link.clone(), self.identities_to.clone());
        // Asks for as long as the request timeout, with back-off.
        tokio::spawn(async move {
            let given = link.call(&InitProducerIdRequest::default(), Retry::Always).await;
            let checked = given.and_then(|given| {
                if given.producer_id.is_some() && given.producer_epoch.0 >= 0 {
                    return Ok(Identity { id: given.producer_id, epoch: given.producer_epoch });
                }
                let problem = "it holds no producer id";
                let source = ProtocolFault::Answer { operation: Operation::InitProducerId, problem };
                Err(Error::Protocol { server: Arc::from("the broker"), source })
            });
            // The driver may have ended meanwhile.
            drop(reply.send(checked));
        });
    }
}
