//! Turnproof's harness: scenarios × subjects → recordings → masks → goldens.
//!
//! ```text
//! scenario (YAML) ─► scenario::plan::Plan ─► driver::Driver ─► recording::Recording
//!        ─► mask::Masked ─► golden (render, compare) and check (invariants) ─► Findings
//! ```

pub mod check;
pub mod driver;
#[cfg(test)]
mod fixture;
pub mod golden;
pub mod mask;
pub mod recording;
pub mod scenario;
