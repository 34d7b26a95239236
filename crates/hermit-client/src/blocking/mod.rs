//! The SDK for programs without an async runtime: the same names, whose calls wait.
//!
//! [`Client::connect`] starts one thread with a runtime of its own, on which the connection, the producers' batches and the consumers' prefetch live; it
//! ends when the client and all that was made from it are gone. The calls wait in the caller's thread, several of them at a time if there are several threads.
//! They must not be called from within an async runtime, whose thread they would hold up: there they answer [`Error::WithinRuntime`](crate::Error::WithinRuntime).
//!
//! ```no_run
//! use hermit_client::blocking::Client;
//! use hermit_client::ProducerRecord;
//!
//! fn main() -> hermit_client::Result<()> {
//!     let client = Client::connect("127.0.0.1:9092")?;
//!     let producer = client.producer().build()?;
//!     let stored = producer.send("flights", ProducerRecord::new("on time").key("UA"))?;
//!     println!("partition {}, offset {:?}", stored.partition, stored.offset);
//!     producer.close()?;
//!
//!     let mut consumer = client.consumer().group("billing").build()?;
//!     consumer.subscribe("flights")?;
//!     while let Some(record) = consumer.recv()? {
//!         println!("{} {:?}", record.offset, record.value);
//!         consumer.commit_through(&record)?;
//!     }
//!     Ok(())
//! }
//! ```

mod admin;
mod client;
mod consumer;
mod producer;
mod runtime;

pub use admin::Admin;
pub use client::{Client, ClientBuilder};
pub use consumer::{Consumer, ConsumerBuilder};
pub use producer::{BatchDelivery, Delivery, Producer, ProducerBuilder};

use runtime::Runtime;

/// Settings that are those of the async builder, under the same names.
macro_rules! settings {
    ($builder:ident of $inner:ident: $($name:ident($($argument:ident: $kind:ty),+)),+ $(,)?) => {
        impl $builder {
            $(
                #[doc = concat!("See [`", stringify!($inner), "::", stringify!($name), "`](crate::", stringify!($inner), "::", stringify!($name), ").")]
                #[must_use]
                pub fn $name(mut self, $($argument: $kind),+) -> Self {
                    self.inner = self.inner.$name($($argument),+);
                    self
                }
            )+
        }
    };
}
use settings;
