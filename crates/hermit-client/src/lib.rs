//! hermit-client
