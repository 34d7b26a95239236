//! The process `hermitd`: the allocator, and what the library does.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: hermitd::Allocator = hermitd::Allocator;

fn main() -> ExitCode {
    hermitd::run_process()
}
