//! Bodies of requests: within the broker's budget, in time, and what they claim to be.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use hermit_broker::{Broker, Loan};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::config::HttpConfig;
use crate::pace::Pace;
use crate::problem::Problem;
use crate::stage::Standing;

/// What is decoded takes as much again: so many copies are lent as a body comes.
pub(crate) const COPIES: u64 = 2;

/// What a body has left to come once the broker stops: it is refused then, so that no slow client makes a stop long, and may be sent again.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A body that was received, and its room in the budget.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    loan: Loan,
}

impl Received {
    /// Takes room for so many copies more, for as long as it is there.
    pub(crate) fn lend_copies(&mut self, copies: u64) -> Result<(), Problem> {
        let has_room = self.loan.grow((self.bytes.len() as u64).saturating_mul(copies));
        if has_room { Ok(()) } else { Err(Problem::throttled_body()) }
    }
}

/// Reads a whole body of `most` bytes, or as many as there can be room for.
pub(crate) async fn receive(
    body: Body,
    headers: &HeaderMap,
    broker: &Broker,
    config: &HttpConfig,
    most: u64,
) -> Result<Received, Problem> {
    let most = most.min(broker.max_loan_bytes().min(broker.limits().max_request_bytes.into()) / COPIES);
    let too_large =
        || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", format!("a body may have {most} bytes here")).field("body");
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > most) {
        return Err(too_large());
    }
    let (mut body, mut loan, mut received) = (body, broker.loan(), BytesMut::new());
    let mut only = None;
    let mut pace = Pace::new(config.body_timeout, config.min_rate);
    let stop = async {
        broker.stopping().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    let mut stop = std::pin::pin!(stop);
    loop {
        let so_far = (received.len() + only.as_ref().map_or(0, Bytes::len)) as u64;
        let until = pace.waits(Instant::now());
        let frame = tokio::select! {
            frame = tokio::time::timeout_at(until, body.frame()) => frame.map_err(|_elapsed| late())?,
            () = &mut stop => return Err(Problem::stopping()),
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Problem::bad("body", format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if !pace.took(data.len(), Instant::now()) {
            return Err(late());
        }
        let more = data.len() as u64;
        if so_far.saturating_add(more) > most {
            return Err(too_large());
        }
        if !loan.grow(more.saturating_mul(COPIES)) {
            return Err(Problem::throttled_body());
        }
        // Most bodies come in one piece, which is then not copied.
        match only.take() {
            None if received.is_empty() => only = Some(data),
            None => received.extend_from_slice(&data),
            Some(first) => {
                received.extend_from_slice(&first);
                received.extend_from_slice(&data);
            }
        }
    }
    Ok(Received { bytes: only.unwrap_or_else(|| received.freeze()), loan })
}

fn late() -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, "TimedOut", "the body does not come, or too slowly").field("body")
}

/// The type of a body, without parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Most bytes of a body that is no records: some thousand rules.
const MOST_OF_OTHERS: u64 = 1 << 20;

/// A body that is read once it is known that its sender may do what the path says.
#[derive(Debug)]
pub(crate) struct Unread {
    headers: HeaderMap,
    body: Body,
    standing: Arc<Standing>,
}

impl FromRequest<Arc<Standing>> for Unread {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: Request, standing: &Arc<Standing>) -> Result<Self, Self::Rejection> {
        let (parts, body) = request.into_parts();
        Ok(Self { headers: parts.headers, body, standing: Arc::clone(standing) })
    }
}

impl Unread {
    /// Reads it as JSON. Another type is refused, as pages of other sites can send those without asking.
    pub(crate) async fn json<T: DeserializeOwned>(self, broker: &Broker) -> Result<T, Problem> {
        if media_type(&self.headers) != "application/json" {
            return Err(not_json());
        }
        parse(&receive(self.body, &self.headers, broker, self.standing.config(), MOST_OF_OTHERS).await?.bytes)
    }
}

pub(crate) fn not_json() -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        "the body must be JSON: send Content-Type: application/json",
    )
    .field("content-type")
}

/// Refuses what is no object: a list would be taken for the values of the fields in their order.
pub(crate) fn check_object(bytes: &[u8]) -> Result<(), Problem> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => Ok(()),
        _ => Err(Problem::bad("body", "the body must be a JSON object")),
    }
}

/// Parses a JSON object; what is wrong is told with its place.
pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    check_object(bytes)?;
    let error = match serde_json::from_slice(bytes) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    // Once more, to find the field: good bodies do not pay for it.
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let path = serde_path_to_error::deserialize::<_, T>(&mut json).err().map(|error| error.path().to_string());
    let field = path.filter(|path| ![".", "?", ""].contains(&path.as_str())).unwrap_or_else(|| "body".to_owned());
    Err(Problem::bad(&field, error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use axum::response::IntoResponse as _;
    use hermit_broker::testing::TestBroker;
    use hyper::body::Frame;
    use tokio::time::Sleep;

    use super::*;

    /// Much at once, then a byte after each pause, without end.
    struct Trickle {
        burst: Option<Bytes>,
        pause: Duration,
        next: Pin<Box<Sleep>>,
    }

    impl Trickle {
        fn new(burst: usize, pause: Duration) -> Self {
            Self { burst: Some(vec![7; burst].into()), pause, next: Box::pin(tokio::time::sleep(pause)) }
        }
    }

    impl hyper::body::Body for Trickle {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if let Some(burst) = self.burst.take() {
                return Poll::Ready(Some(Ok(Frame::data(burst))));
            }
            ready!(self.next.as_mut().poll(cx));
            let pause = self.pause;
            self.next.set(tokio::time::sleep(pause));
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    #[tokio::test]
    async fn what_came_fast_is_no_credit_for_what_comes_slowly() {
        let test = TestBroker::start_async().await.unwrap();
        tokio::time::pause();
        let began = Instant::now();
        let body = Body::new(Trickle::new(1 << 20, Duration::from_secs(25)));
        let received = receive(body, &HeaderMap::new(), test.broker(), &HttpConfig::default(), u64::MAX).await;
        assert_eq!(received.unwrap_err().into_response().status(), 408);
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert_eq!(test.broker().inflight_bytes(), 0);
    }

    #[tokio::test]
    async fn who_finds_no_room_for_more_copies_takes_none() {
        const BYTES: u64 = 1000;
        let test = TestBroker::start_async().await.unwrap();
        let broker = test.broker();
        // Two copies are lent as it comes; of four one has no room.
        let others = broker.max_loan_bytes() - 3 * BYTES;
        let mut hog = broker.loan();
        assert!(hog.grow(others));
        let body = Body::from(vec![7; 1000]);
        let mut received = receive(body, &HeaderMap::new(), broker, &HttpConfig::default(), u64::MAX).await.unwrap();
        assert_eq!(broker.inflight_bytes(), others + 2 * BYTES);
        assert_eq!(received.lend_copies(2).unwrap_err().into_response().status(), 503);
        assert_eq!(broker.inflight_bytes(), others + 2 * BYTES);
        drop(hog);
        received.lend_copies(2).unwrap();
        assert_eq!(broker.inflight_bytes(), 4 * BYTES);
        drop(received);
        assert_eq!(broker.inflight_bytes(), 0);
    }
}
