//! Who may do what: users, rules, and how a client shows who it is.
//!
//! [`state`] (users and rules), [`rights`] (what rules come to), [`throttle`] and [`known`] are pure. [`store`] keeps the state in one file of the
//! data directory. [`Access`] holds it all together: decisions are made on a [`Snapshot`] that never changes; a change makes another one, and raises the
//! *epoch*, which is all that whoever has decided something looks at until then.

mod authority;
mod caller;
mod change;
mod config;
mod file;
mod first;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod known;
mod login;
mod logins;
mod password;
mod rights;
mod state;
mod store;
mod throttle;
mod token;
mod watch;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use hermit_log::Clock;
use hermit_log::disk::Disk;
use hermit_proto::UserName;
use parking_lot::{Mutex, RwLock};
use subtle::ConstantTimeEq as _;

pub(crate) use authority::{Authority, Principal, check};
pub use caller::{Caller, LoginRefused, Shown};
pub(crate) use change::{Asker, Change};
pub use config::{AccessConfig, FirstAdministrator, PasswordHashing};
pub(crate) use login::{Attempt, Began, Credential, Login, LoginError};
pub(crate) use logins::Slot;
pub use store::AccessDamage;
pub(crate) use throttle::Origin;
pub(crate) use watch::Watch;

use self::known::Known;
use self::logins::Logins;
use self::rights::Rights;
use self::state::State;
use self::store::Store;
use self::throttle::Throttle;
use self::watch::Watchers;
use crate::error::BrokerError;
use crate::groups::AllPatterns;
use crate::ids::Ids;
use crate::limits::Limits;

/// Users and rules at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) state: State,
    pub(crate) rights: Rights,
    /// Who has a token whose hash begins so.
    tokens: HashMap<[u8; 8], Vec<UserName>>,
}

impl Snapshot {
    fn new(state: State, rights: Rights) -> Self {
        let mut tokens = HashMap::<_, Vec<_>>::new();
        for (name, user) in &state.users {
            for token in user.tokens.values() {
                tokens.entry(beginning(&token.hash)).or_default().push(name.clone());
            }
        }
        Self { state, rights, tokens }
    }

    /// The user who has the token with this hash, and may log in.
    fn owner_of(&self, hash: &[u8; 32]) -> Option<&UserName> {
        let has = |name: &&UserName| {
            let user = self.state.users.get(*name).filter(|user| user.enabled);
            user.is_some_and(|user| user.tokens.values().any(|token| bool::from(token.hash.ct_eq(hash))))
        };
        self.tokens.get(&beginning(hash))?.iter().find(has)
    }
}

fn beginning(hash: &[u8; 32]) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h, ..] = *hash;
    [a, b, c, d, e, f, g, h]
}

/// Users, rules and logins of a broker.
#[derive(Debug)]
pub(crate) struct Access {
    config: AccessConfig,
    limits: RwLock<Arc<Limits>>,
    ids: Ids,
    clock: Arc<dyn Clock>,
    patterns: AllPatterns,
    /// Rises with each change, after `current`: who sees it risen finds the new snapshot.
    epoch: AtomicU64,
    current: RwLock<Arc<Snapshot>>,
    /// One change at a time.
    store: Mutex<Store>,
    /// One new password at a time is hashed.
    hashing: Mutex<()>,
    /// The hash of the token of who may make the first administrator.
    first_token: Mutex<Option<[u8; 32]>>,
    known: Mutex<Known>,
    throttle: Mutex<Throttle>,
    logins: OnceLock<Logins>,
    watchers: Arc<Watchers>,
    /// How many passwords were checked the long way.
    checks: AtomicU64,
}

impl Access {
    /// Makes sure that what a start after an unclean stop has read is on the disk.
    pub(crate) fn write_anew(&self) {
        self.store.lock().write_anew();
    }

    /// Reads users and rules, and sees to it that somebody can make more of them.
    pub(crate) fn open(
        config: AccessConfig,
        limits: Limits,
        disk: Arc<dyn Disk>,
        dir: &Path,
        clock: Arc<dyn Clock>,
        ids: Ids,
    ) -> Result<(Arc<Self>, Option<AccessDamage>), BrokerError> {
        let (store, state, damage) = Store::open(disk, dir, config.enabled)?;
        if let Some(damage) = &damage {
            let kept = damage.kept.as_ref().map_or_else(|| "nowhere".to_owned(), |path| path.display().to_string());
            tracing::error!(what = %damage.what, %kept, "the file of users and rules is damaged: there are none now, and nobody is let in before there are");
        }
        let patterns = AllPatterns::default();
        let rights = rights_of_file(&state, &limits, &patterns);
        let known = Known::new(config.max_known_logins, &ids)?;
        let access = Self {
            config,
            limits: RwLock::new(Arc::new(limits)),
            ids,
            clock,
            patterns,
            epoch: AtomicU64::new(1),
            current: RwLock::new(Arc::new(Snapshot::new(state, rights))),
            store: Mutex::new(store),
            hashing: Mutex::new(()),
            first_token: Mutex::new(None),
            known: Mutex::new(known),
            throttle: Mutex::default(),
            logins: OnceLock::new(),
            watchers: Arc::default(),
            checks: AtomicU64::new(0),
        };
        access.see_to_first_administrator()?;
        Ok((Arc::new(access), damage))
    }

    /// Whether clients have to log in, and may do only what rules allow.
    pub(crate) const fn is_enabled(&self) -> bool {
        self.config.enabled
    }

    pub(crate) const fn config(&self) -> &AccessConfig {
        &self.config
    }

    /// Rises with each change.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read())
    }

    /// Has `signal` woken with `token` at each change, until what this gives is dropped.
    pub(crate) fn watch(&self, signal: &Arc<crate::signal::Signal>, token: u64) -> Watch {
        Watchers::add(&self.watchers, signal, token)
    }

    /// Passwords that were checked the long way, for tests.
    pub(crate) fn checks(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn monotonic(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Rules that the file holds and that cannot be made ready allow nothing, and are told.
impl Access {
    /// From now on these hold, for rules that are made.
    pub(crate) fn set_limits(&self, limits: &Arc<Limits>) {
        *self.limits.write() = Arc::clone(limits);
    }
}

fn rights_of_file(state: &State, limits: &Limits, patterns: &AllPatterns) -> Rights {
    let mut rights = Rights::default();
    for (key, operations) in &state.rules {
        if let Err(error) = rights.grant(key, *operations, limits, patterns) {
            tracing::error!(principal = ?key.principal, error = %crate::error::line(&error), "a rule cannot be used, and allows nothing");
        }
    }
    rights
}

/// Whether an address is this machine's own.
pub(crate) fn is_local(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
