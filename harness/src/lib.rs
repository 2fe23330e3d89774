//! Turnproof's harness: scenarios × subjects → recordings → masks → goldens.
//!
//! ```text
//! scenario (YAML) ─► scenario::plan::Plan ─► driver::Driver ─► recording::Recording
//!        ─► mask::Masked ─► golden (render, compare) and check (invariants) ─► Findings
//! ```

pub mod assert;
pub mod cases;
pub mod check;
pub mod cli;
pub mod driver;
#[cfg(test)]
mod fixture;
pub mod golden;
pub mod mask;
pub mod perturb;
pub mod recording;
pub mod report;
pub mod scenario;
pub mod texts;
pub mod verify;
