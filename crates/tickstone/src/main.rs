//! The `tickstone` program: command line over the embedded database.
fn main() {}
