//! Heartbeat and goodbye.

use super::message::{Request, Response, empty_message};

empty_message! {
    /// Says "still here" when there is nothing else to say.
    HeartbeatRequest, Heartbeat
}
empty_message! {
    /// So is the broker.
    HeartbeatResponse, Heartbeat
}
empty_message! {
    /// The client's last request: what came before it is still answered.
    GoodbyeRequest, Goodbye
}
empty_message! {
    /// The broker's last unit; it closes behind it.
    GoodbyeResponse, Goodbye
}

impl Request for HeartbeatRequest {
    type Response = HeartbeatResponse;
}
impl Response for HeartbeatResponse {}
impl Request for GoodbyeRequest {
    type Response = GoodbyeResponse;
}
impl Response for GoodbyeResponse {}
