//! Users that come and go on the side, with passwords, tokens and rules. An answer is final: what it says is compared with what the broker lists, and with who is
//! let in and may do what, at once and after whatever befalls the broker. Where no answer comes, the change is asked for until one does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{AccessOperations, AccessResource, Admin, Client, Error, NamePattern, Status};
use hermit_proto::{Secret, TopicId};
use tokio::sync::watch;
use tokio::time::sleep;

use super::ledger::{Counts, Known, Ledger};
use super::visit::{self, HIDDEN};
use super::{rule, secret};
use crate::workload::{Login, Recorder, Target};

const AWAY: Duration = Duration::from_millis(100);
/// Between two changes of a user, at most: kills fall into that.
const REST: Duration = Duration::from_millis(1500);
/// Topics that some of them may read.
const OPEN: [&str; 2] = ["events", "recent"];
const LABEL: &str = "visits";

/// All of them, and who makes them.
#[derive(Debug, Clone)]
pub struct Guests {
    admin: Target,
    recorder: Recorder,
    ledger: Arc<Mutex<Ledger>>,
    random: fastrand::Rng,
}

impl Guests {
    /// None yet.
    #[must_use]
    pub fn new(admin: Target, recorder: Recorder, random: fastrand::Rng) -> Self {
        Self { admin, recorder, ledger: Arc::default(), random }
    }

    /// How much was done.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.ledger().counts
    }

    /// Lets them come and go until told to stop.
    ///
    /// # Errors
    /// When there is no client.
    pub(crate) async fn run(mut self, stop: watch::Receiver<bool>) -> Result<()> {
        let client = self.admin.client()?;
        let mut number = 0;
        while !*stop.borrow() {
            self.live(&client, number).await?;
            self.compare(&client).await;
            number += 1;
        }
        client.close().await;
        Ok(())
    }

    /// Compares everything once more: every user that is known, and every one that was removed. For a broker that serves.
    ///
    /// # Errors
    /// When there is no client.
    pub(crate) async fn conclude(&self) -> Result<()> {
        let client = self.admin.client()?;
        self.compare(&client).await;
        let (known, gone) = {
            let ledger = self.ledger();
            (ledger.known.clone(), ledger.gone.clone())
        };
        for (name, known) in &known {
            self.visits(&client, name, known).await?;
        }
        for (name, gone) in &gone {
            self.comes(name, gone, Login::Password(name.clone(), gone.password.clone()), false).await;
        }
        client.close().await;
        Ok(())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an answered change.
    fn answered(&self, name: &str, change: impl FnOnce(&mut Known)) {
        let mut ledger = self.ledger();
        ledger.counts.changes += 1;
        if let Some(known) = ledger.known.get_mut(name) {
            change(known);
        }
    }

    async fn rest(&mut self) {
        sleep(REST.mul_f64(self.random.f64())).await;
    }

    /// The life of one, or its first part: some stay.
    async fn live(&mut self, client: &Client, number: u32) -> Result<()> {
        let (name, password) = (format!("guest-{number}"), secret(&mut self.random));
        let admin = client.admin();
        let exists = Some(Status::UserExists);
        if self.insist(&name, exists, || admin.create_user(&name, Some(password.expose()))).await.is_none() {
            return Ok(());
        }
        {
            let mut ledger = self.ledger();
            ledger.counts.made += 1;
            ledger.known.insert(name.clone(), Known::new(number, password));
        }
        self.answered(&name, |_known| {});
        self.look_at(client, &name).await?;
        for _ in 0..self.random.u8(1..5) {
            self.rest().await;
            self.change(&admin, &name).await;
            if self.random.bool() {
                self.rest().await;
            }
            self.compare(client).await;
            self.look_at(client, &name).await?;
        }
        if self.random.u8(0..4) > 0 {
            self.remove(&admin, &name).await;
        }
        Ok(())
    }

    async fn change(&mut self, admin: &Admin, name: &str) {
        let Some(known) = self.ledger().known.get(name).cloned() else { return };
        match self.random.u8(0..5) {
            0 => {
                let new = secret(&mut self.random);
                if self.insist(name, None, || admin.set_password(name, new.expose())).await.is_some() {
                    self.answered(name, |known| known.old_password = Some(std::mem::replace(&mut known.password, new)));
                }
            }
            1 if known.tokens.is_empty() => {
                let exists = Some(Status::TokenExists);
                if let Some(token) = self.insist(name, exists, || admin.create_token(name, LABEL)).await {
                    self.answered(name, |known| drop(known.tokens.insert(LABEL.into(), token)));
                }
            }
            1 => {
                let unknown = Some(Status::UnknownToken);
                if self.insist(name, unknown, || admin.delete_token(name, LABEL)).await.is_some() {
                    self.answered(name, |known| known.tokens.clear());
                    for token in known.tokens.into_values().flatten() {
                        self.comes(name, &Known::new(known.number, Secret::default()), Login::Token(token), false).await;
                    }
                }
            }
            2 => {
                let enabled = !known.enabled;
                if self.insist(name, None, || admin.enable_user(name, enabled)).await.is_some() {
                    self.answered(name, |known| known.enabled = enabled);
                }
            }
            _ => self.change_rules(admin, name, &known).await,
        }
    }

    /// Adds some where there are none, and takes them back where there are.
    async fn change_rules(&mut self, admin: &Admin, name: &str, known: &Known) {
        if known.rules.is_empty() {
            let topics = OPEN.iter().take(self.random.usize(1..=OPEN.len()));
            let rules = topics
                .map(|topic| rule(name, AccessResource::Topic(NamePattern::Exact((*topic).into())), AccessOperations::CONSUME));
            let rules: Vec<_> = rules.collect();
            if self.insist(name, None, || admin.add_rules(rules.clone())).await.is_some() {
                self.answered(name, |known| known.rules.extend(rules));
            }
        } else {
            let rules: Vec<_> = known.rules.iter().cloned().collect();
            if self.insist(name, None, || admin.delete_rules(rules.clone())).await.is_some() {
                self.answered(name, |known| known.rules.clear());
            }
        }
    }

    async fn remove(&mut self, admin: &Admin, name: &str) {
        let unknown = Some(Status::UnknownUser);
        if self.insist(name, unknown, || admin.delete_user(name)).await.is_none() {
            return;
        }
        let gone = {
            let mut ledger = self.ledger();
            ledger.counts.removed += 1;
            ledger.counts.changes += 1;
            let Some(known) = ledger.known.remove(name) else { return };
            ledger.gone.insert(name.to_owned(), known.clone());
            known
        };
        self.comes(name, &gone, Login::Password(name.to_owned(), gone.password.clone()), false).await;
        for token in gone.tokens.values().flatten() {
            self.comes(name, &gone, Login::Token(token.clone()), false).await;
        }
    }

    /// Asks until there is an answer. `before`: the answer that says that an attempt without one was done. `Some(None)`: that.
    async fn insist<T, F>(&self, name: &str, before: Option<Status>, ask: impl Fn() -> F) -> Option<Option<T>>
    where
        F: Future<Output = hermit_client::Result<T>>,
    {
        let mut was_lost = false;
        loop {
            match ask().await {
                Ok(answer) => return Some(Some(answer)),
                Err(error) if was_lost && before.is_some() && error.status() == before => return Some(None),
                Err(error) if error.is_retryable() || matches!(error, Error::OutcomeUnknown { .. }) => {
                    was_lost = true;
                    sleep(AWAY).await;
                }
                Err(error) => {
                    self.recorder.problem(format!("{name} cannot be changed: {error}"));
                    return None;
                }
            }
        }
    }

    /// Compares all users and rules with what was answered.
    async fn compare(&self, client: &Client) {
        let admin = client.admin();
        let Some(Some(users)) = self.insist("the list", None, || admin.list_users()).await else { return };
        let Some(Some(rules)) = self.insist("the list", None, || admin.list_rules(None)).await else { return };
        let mut ledger = self.ledger();
        ledger.counts.comparisons += 1;
        let differences = ledger.differences(&users, &rules);
        drop(ledger);
        differences.into_iter().for_each(|difference| self.recorder.problem(difference));
    }

    async fn look_at(&self, client: &Client, name: &str) -> Result<()> {
        let known = self.ledger().known.get(name).cloned().context("a guest is not known")?;
        self.visits(client, name, &known).await
    }

    /// Comes by all that the user has for a login, and looks around.
    async fn visits(&self, client: &Client, name: &str, known: &Known) -> Result<()> {
        let admin = client.admin();
        let hidden = self.insist(name, None, || admin.describe_topic(HIDDEN)).await.flatten();
        let Some(hidden) = hidden.map(|found| found.topic) else { return Ok(()) };
        let password = Login::Password(name.to_owned(), known.password.clone());
        let tokens = known.tokens.values().flatten().cloned().map(Login::Token);
        for login in [password].into_iter().chain(tokens) {
            self.comes(name, known, login.clone(), known.enabled).await;
            if known.enabled {
                self.looks_around(name, known, &login, hidden).await;
            }
        }
        if let Some(old) = &known.old_password {
            self.comes(name, known, Login::Password(name.to_owned(), old.clone()), false).await;
        }
        Ok(())
    }

    /// Whether a login is taken as it has to be.
    async fn comes(&self, name: &str, known: &Known, login: Login, must: bool) {
        let is_in = loop {
            match visit::enter(self.admin.address(), known.number, &login).await {
                Ok(session) => break session.is_some(),
                Err(_away) => sleep(AWAY).await,
            }
        };
        if is_in == must {
            let mut ledger = self.ledger();
            let counts = &mut ledger.counts;
            *(if must { &mut counts.let_in } else { &mut counts.refused }) += 1;
        } else {
            let how = if matches!(login, Login::Token(_)) { "by token" } else { "by password" };
            self.recorder.problem(format!("{name} came {how} and was let in: {is_in}, though it had to be {must}"));
        }
    }

    async fn looks_around(&self, name: &str, known: &Known, login: &Login, hidden: TopicId) {
        let may_see = visit::visible(known);
        loop {
            // The login was looked at before; who is away is away here, too.
            if let Ok(Some(mut session)) = visit::enter(self.admin.address(), known.number, login).await
                && let Ok((wrong, refused)) = visit::look_around(&mut session, hidden, &may_see).await
            {
                self.ledger().counts.not_allowed += refused;
                wrong.into_iter().for_each(|wrong| self.recorder.problem(format!("{name} {wrong}")));
                return;
            }
            sleep(AWAY).await;
        }
    }
}
