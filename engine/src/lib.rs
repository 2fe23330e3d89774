//! The turn and compaction engine.

pub mod texts;
