//! hermit-cli
fn main() {}
