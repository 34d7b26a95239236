//! hermit-broker
