//! The `turnproof` command.

fn main() {}
