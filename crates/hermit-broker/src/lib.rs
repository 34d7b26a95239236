//! The HermitMQ broker, embeddable.
//!
//! [`Broker::open`] gives a broker on a directory; from then on topics can be created, written and read in process, and
//! [`Broker::serve`] serves both native protocols over TCP, version 1 and version 2, on one port.

mod access;
mod address;
mod broker;
mod client_name;
mod config;
mod directories;
mod env;
mod error;
mod events;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod groups;
mod hooks;
mod ids;
pub mod import;
mod layout;
mod limits;
mod maintenance;
mod manifest;
mod memory;
pub mod metrics;
pub mod offline;
mod offsets;
mod partition;
mod producers;
mod progress;
mod record_sets;
mod registry;
mod reserve;
mod roster;
mod scrub;
mod server;
mod signal;
mod start;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
mod topic;

pub use access::{AccessConfig, AccessDamage, Caller, FirstAdministrator, LoginRefused, PasswordHashing, Shown};
pub use broker::{Broker, Position, SearchTurn, StopHold};
pub use config::BrokerConfig;
pub use error::{BrokerError, Counted};
pub use events::Event;
pub use hooks::{AppendContext, Client, Hooks, Rejection};
pub use limits::{LimitError, Limits};
pub use manifest::{Damage, FORMAT_VERSION, RecordError};
pub use memory::Loan;
pub use metrics::BrokerMetrics;
pub use offsets::{Committed, OFFSETS_TOPIC, ReplayReport};
pub use partition::{Partition, Ticket};
pub use roster::{ConnectionInfo, ConnectionProtocol, ListedConnection};
pub use server::ConnectionCounts;
#[cfg(feature = "tls")]
pub use server::{TlsPort, TlsStream};
pub use signal::Signal;
pub use start::{ManifestRepair, OpenReport, PartitionReport, StartProgress};
pub use tls::{TlsConfig, TlsReport};
pub use topic::{AS_BROKER, Inherited, MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES, NEVER, Topic, TopicMeta, TopicSettings};

pub use hermit_log as log;
pub use hermit_proto as proto;
pub use hermit_proto::session::{Durability, ScrubFigures, TopicConfig};
