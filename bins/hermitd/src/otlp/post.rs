//! Sending a body to a collector, and what its answer means.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::endpoint::Endpoint;

/// Time for an attempt, from the name's look-up to the last byte of the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a collector answers is short.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// As much of its words is told.
const MAX_TOLD_CHARACTERS: usize = 200;

/// What became of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The collector has it, but for so many items of it.
    Taken { rejected: u64, why: String },
    /// It may take it later, after this time if it says so.
    Later { after: Option<Duration>, why: String },
    /// It will never take it.
    Refused { why: String },
}

/// What `POST`s to one path of a collector, over a connection that is kept.
pub(super) struct Post {
    endpoint: Endpoint,
    path: String,
    kept: Option<SendRequest<Full<Bytes>>>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Post {
    /// `signal`: `metrics` or `logs`.
    pub(super) fn to(endpoint: &Endpoint, signal: &str) -> Self {
        Self { endpoint: endpoint.clone(), path: format!("{}/v1/{signal}", endpoint.path), kept: None }
    }

    /// Sends a body of JSON.
    pub(super) async fn send(&mut self, body: Bytes) -> Answer {
        let kept = self.kept.take().filter(|kept| !kept.is_closed());
        let attempt = async {
            if let Some(kept) = kept
                && let Ok(answer) = self.over(kept, body.clone()).await
            {
                return Ok(answer);
            }
            // A collector may close what it kept open, just when it is used: that is not yet a failure.
            let fresh = self.connect().await?;
            self.over(fresh, body).await
        };
        match tokio::time::timeout(PATIENCE, Box::pin(attempt)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::Later { after: None, why: hermit_broker::log::error_line(&*error) },
            Err(_elapsed) => Answer::Later { after: None, why: format!("no answer within {} s", PATIENCE.as_secs()) },
        }
    }

    async fn over(&mut self, mut connection: SendRequest<Full<Bytes>>, body: Bytes) -> Result<Answer, Failure> {
        connection.ready().await?;
        let response = connection.send_request(self.request(body)?).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let words = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await.map(|body| body.to_bytes());
        if words.is_ok() {
            self.kept = Some(connection);
        }
        Ok(judge(status, &headers, &words.unwrap_or_default()))
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::post(&self.path).body(Full::new(body))?;
        let headers = request.headers_mut();
        headers.extend(self.endpoint.headers.clone());
        headers.insert(header::HOST, HeaderValue::from_str(&self.endpoint.authority)?);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("hermitd/", env!("CARGO_PKG_VERSION"))));
        Ok(request)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let Endpoint { host, port, tls, .. } = &self.endpoint;
        let socket = TcpStream::connect((host.as_str(), *port)).await?;
        socket.set_nodelay(true)?;
        match tls {
            None => begin(socket).await,
            Some((connector, name)) => begin(Box::pin(connector.connect(name.clone(), socket)).await?).await,
        }
    }
}

async fn begin<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>> = Box::pin(connection);
    // It ends with the sender. What fails, fails for who waits for an answer.
    tokio::spawn(connection);
    Ok(sender)
}

/// By the specification of OTLP over HTTP: these four statuses are to be tried again, and no others.
fn judge(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Answer {
    if status.is_success() {
        let (rejected, why) = partial(body);
        return Answer::Taken { rejected, why };
    }
    let words = told(&String::from_utf8_lossy(body));
    let why = if words.trim().is_empty() { format!("it answers {status}") } else { format!("it answers {status}: {words}") };
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            let after = headers.get(header::RETRY_AFTER).and_then(|after| after.to_str().ok()?.trim().parse().ok());
            Answer::Later { after: after.map(Duration::from_secs), why }
        }
        _ => Answer::Refused { why },
    }
}

/// How many items a collector has not taken that has taken the others.
fn partial(body: &[u8]) -> (u64, String) {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let rejected = ["rejectedDataPoints", "rejectedLogRecords"].iter().find_map(|name| number(&partial[*name]));
    let why = partial["errorMessage"].as_str().unwrap_or_default();
    (rejected.unwrap_or(0), told(why))
}

/// A collector's words as they are told.
fn told(words: &str) -> String {
    words.chars().filter(|c| !c.is_control()).take(MAX_TOLD_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_as_the_specification_says() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
        let judge = |status: u16, body: &str| judge(StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes());
        let taken = |rejected, why: &str| Answer::Taken { rejected, why: why.into() };
        assert_eq!(judge(200, ""), taken(0, ""));
        assert_eq!(judge(200, "{\"partialSuccess\":{}}"), taken(0, ""));
        assert_eq!(judge(200, r#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"old"}}"#), taken(3, "old"));
        assert_eq!(judge(200, r#"{"partialSuccess":{"rejectedDataPoints":4}}"#), taken(4, ""));
        for status in [429, 502, 503, 504] {
            let answer = judge(status, "busy\n");
            assert!(
                matches!(&answer, Answer::Later { after: Some(after), why } if after.as_secs() == 7 && why.ends_with(": busy")),
                "{answer:?}"
            );
        }
        for status in [301, 400, 401, 404, 413, 500] {
            assert!(matches!(judge(status, ""), Answer::Refused { why } if why.contains(&status.to_string())));
        }
    }
}
