//! Development tasks: the crate graph check and documentation.
fn main() {}
