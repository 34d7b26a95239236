//! hermitd
fn main() {}
