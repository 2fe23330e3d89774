//! How long a resume of a long thread takes: our reader against the real binary, on one file.
//!
//! `long.rs` writes the file, `measure.rs` reads it once with each. It is run by
//! `cargo xtask bench resume`, which prints the numbers; nothing is judged here.

mod long;
mod measure;

use serde::Serialize;

pub use long::{Long, write};
pub(crate) use measure::peak_bytes;
pub use measure::{Opened, engine, open, real};

/// One reading of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// What read it.
    pub subject: String,
    /// What was measured.
    pub what: String,
    /// Seconds that it took.
    pub seconds: f64,
    /// Highest resident memory of the process in bytes, where the system tells it.
    pub peak_bytes: Option<u64>,
}
