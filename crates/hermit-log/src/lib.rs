//! hermit-log
