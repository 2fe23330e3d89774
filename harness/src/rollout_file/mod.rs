//! Reads a rollout file as it lies on a disk: record by record, with places and defects.
//!
//! ```text
//! path ─► open::open ─► Source (plain or zstd) ─► line::LineReader ─► Line
//!                                                     │ long: condense::Condenser
//!                                                     ▼
//!                                               record::read ─► Record + Defects
//! ```
//!
//! Memory is bounded whatever the file holds: a line is kept whole up to
//! [`line::LINE_BYTES_WHOLE_MAX`], a longer one with its long texts cut short, and one of more than
//! [`value::VALUES_OF_A_LINE_MAX`] values is not parsed. Nothing is written,
//! and no defect ends the reading.

pub mod bytes;
pub mod condense;
pub mod line;
pub mod open;
pub mod record;
pub mod regular;
pub mod value;
pub mod zstd;

pub use line::{Line, LineReader};
pub use open::{Source, open};
pub use record::{Defect, Record};

/// Where a line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Line, counted from 1.
    pub line: u64,
    /// Bytes of the (decompressed) file before it.
    pub offset: u64,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.offset)
    }
}
