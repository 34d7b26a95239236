//! A deterministic disk in memory, for tests.
