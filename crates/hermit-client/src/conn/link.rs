//! The connection that is made again whenever it breaks.

use std::sync::Arc;
use std::time::Duration;

use hermit_proto::session::Request;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::dial::dial;
use super::session::Session;
use crate::backoff::Backoff;
use crate::config::ClientConfig;
use crate::error::{Error, Result};

/// A broker that puts logins off for longer is asked again nevertheless.
const LONGEST_LOGIN_WAIT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(crate) enum LinkState {
    Connecting {
        /// Why there is no session.
        last: Option<Error>,
        /// How many times every server was tried since the last session.
        failed_rounds: u64,
    },
    Up(Session),
}

/// What may be done again when the connection broke before the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Anything: asking twice is the same as asking once.
    Always,
    /// Only what was never sent, or was refused for now.
    Unsent,
}

/// Outlives the connections. Dropping the last one closes the session with a goodbye.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    config: Arc<ClientConfig>,
    state: watch::Receiver<LinkState>,
}

impl Link {
    /// Starts connecting, and stays connected from then on.
    pub(crate) fn start(config: Arc<ClientConfig>) -> Self {
        let (sender, state) = watch::channel(LinkState::Connecting { last: None, failed_rounds: 0 });
        tokio::spawn(keep_connected(config.clone(), sender));
        Self { config, state }
    }

    pub(crate) fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// To follow the sessions as they come and go.
    pub(crate) fn watch(&self) -> watch::Receiver<LinkState> {
        self.state.clone()
    }

    /// When a request that begins now has to be answered.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.config.request_timeout
    }

    /// Waits until every server was tried once. A login that is only put off is waited for, as long as a request may take.
    pub(crate) async fn first_session(&self) -> Result<Session> {
        let tried = |failed_rounds, error: &Error| failed_rounds > 0 && error.login_after().is_none();
        match timeout_at(self.deadline(), self.session_unless(tried)).await {
            Ok(session) => session,
            Err(_elapsed) => Err(self.timed_out("connection", self.last_failure())),
        }
    }

    /// The session, waiting for one until the deadline. A refused hello that time does not cure ends the wait at once.
    pub(crate) async fn session(&self, deadline: Instant) -> Result<Session> {
        let refused = |_rounds, error: &Error| error.is_refused_login() || error.status().is_some() && !error.is_retryable();
        match timeout_at(deadline, self.session_unless(refused)).await {
            Ok(session) => session,
            Err(_elapsed) => Err(self.timed_out("connection", self.last_failure())),
        }
    }

    async fn session_unless(&self, give_up: impl Fn(u64, &Error) -> bool) -> Result<Session> {
        let mut state = self.state.clone();
        loop {
            match &*state.borrow_and_update() {
                LinkState::Up(session) if session.failure().is_none() => return Ok(session.clone()),
                LinkState::Up(_) => {}
                LinkState::Connecting { last: Some(error), failed_rounds } if give_up(*failed_rounds, error) => {
                    return Err(error.clone());
                }
                LinkState::Connecting { .. } => {}
            }
            if state.changed().await.is_err() {
                return Err(self.over());
            }
        }
    }

    /// Why there will be no session any more: the login was refused, or the client is closed.
    pub(crate) fn over(&self) -> Error {
        self.last_failure().filter(Error::is_refused_login).unwrap_or(Error::Closed { what: "client" })
    }

    /// Ends the present session, if there is one, with a goodbye.
    pub(crate) async fn close(self) {
        let session = match &*self.state.borrow() {
            LinkState::Up(session) => Some(session.clone()),
            LinkState::Connecting { .. } => None,
        };
        let patience = self.config.connect_timeout;
        // First the last link, so that no other session is made.
        drop(self);
        if let Some(session) = session {
            session.close(patience).await;
        }
    }

    pub(crate) fn last_failure(&self) -> Option<Error> {
        match &*self.state.borrow() {
            LinkState::Connecting { last, .. } => last.clone(),
            LinkState::Up(session) => session.failure(),
        }
    }

    /// The address of the present session, for messages.
    pub(crate) fn server(&self) -> Arc<str> {
        match &*self.state.borrow() {
            LinkState::Up(session) => session.server().clone(),
            LinkState::Connecting { .. } => "the broker".into(),
        }
    }

    fn timed_out(&self, awaited: &'static str, source: Option<Error>) -> Error {
        Error::Timeout { awaited, after: self.config.request_timeout, source: source.map(Arc::new) }
    }

    /// Asks, again after broken connections and refusals that time may cure, until the request timeout has passed.
    pub(crate) async fn call<R: Request>(&self, request: &R, retry: Retry) -> Result<R::Response> {
        let deadline = self.deadline();
        let mut backoff = Backoff::new(self.config.backoff);
        let mut last = None;
        loop {
            let session = match self.session(deadline).await {
                Ok(session) => session,
                Err(Error::Timeout { source, .. }) => {
                    return Err(self.timed_out("answer", last.or_else(|| source.map(|source| (*source).clone()))));
                }
                Err(error) => return Err(error),
            };
            let error = match timeout_at(deadline, session.request(request)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_elapsed) => return Err(self.timed_out("answer", last)),
            };
            let again = if error.is_transport() { retry == Retry::Always } else { error.is_retryable() };
            if !again {
                return Err(error);
            }
            let wait = backoff.next();
            if Instant::now() + wait >= deadline {
                return Err(self.timed_out("answer", Some(error)));
            }
            tracing::debug!(operation = %R::OPERATION, %error, ?wait, "asking again");
            last = Some(error);
            sleep(wait).await;
        }
    }
}

/// Dials, waits for the session's end, and dials again, with waits in between, for as long as there is a [`Link`]. A login that is refused ends it: the
/// same words would be refused again, and count as an attack.
async fn keep_connected(config: Arc<ClientConfig>, state: watch::Sender<LinkState>) {
    let mut backoff = Backoff::new(config.backoff);
    let mut failed_rounds = 0;
    for number in 1.. {
        let dialled = tokio::select! {
            dialled = dial_any(&config, number) => dialled,
            () = state.closed() => return,
        };
        let error = match dialled {
            Ok(session) => {
                failed_rounds = 0;
                tracing::debug!(server = %session.server(), broker = %session.hello().broker, "connected");
                state.send_replace(LinkState::Up(session.clone()));
                let since = Instant::now();
                let error = tokio::select! {
                    error = session.ended() => error,
                    () = state.closed() => return session.close(config.connect_timeout).await,
                };
                tracing::warn!(%error, "the connection is lost; connecting again");
                // A broker that says hello and hangs up is no better than one that does not answer.
                if since.elapsed() > config.backoff.max {
                    backoff.reset();
                }
                error
            }
            Err(error) => {
                failed_rounds += 1;
                tracing::debug!(%error, failed_rounds, "not connected");
                error
            }
        };
        let refused = error.is_refused_login();
        if refused {
            tracing::error!(%error, "this client is not let in; it does not try again");
        }
        let wait = backoff.next().max(error.login_after().unwrap_or_default().min(LONGEST_LOGIN_WAIT));
        state.send_replace(LinkState::Connecting { last: Some(error), failed_rounds });
        if refused {
            return;
        }
        tokio::select! {
            () = sleep(wait) => {}
            () = state.closed() => return,
        }
    }
}

/// The first server that answers; the last one's error if none does, or that of one that answered and refused the login.
async fn dial_any(config: &ClientConfig, number: u64) -> Result<Session> {
    let mut last = Error::Closed { what: "client" };
    for server in &config.servers {
        match dial(config, server, number).await {
            Ok(session) => return Ok(session),
            Err(error) if !last.is_refused_login() => last = error,
            Err(error) => tracing::debug!(%error, "not connected"),
        }
    }
    Err(last)
}
