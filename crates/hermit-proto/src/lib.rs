//! hermit-proto
