//! Turnproof's harness: scenarios × subjects → recordings → masks → goldens.
//!
//! The loop of one case, with the type at each arrow. [`verify::run_all`] is this loop in code.
//!
//! ```text
//! scenarios/AREA/NAME.yaml
//!    │ bytes                      scenario::load_file    tree → decode → validate
//!    ▼
//! scenario::Loaded                Loaded::plan           defaults, ids, generators of one version
//!    │ plan::Plan
//!    ▼
//! driver::Driver                  Driver::run            engine: Session over ports in memory
//!    │                                                   codex: app-server, provider over HTTP
//!    │ driver::Outcome = recording::Recording + Findings of the script
//!    │       Exchange (a request) · RolloutFile · ClientEvent · Places
//!    ├──────────────────────────► assert::check          `request:` and `expect:` → Findings
//!    ▼
//! mask::mask                      what differs between two equal runs becomes a placeholder
//!    │ mask::Masked
//!    ├──────────────────────────► check::run_all         invariants → Findings
//!    ▼
//! golden::gate::Gate::judge       render::document       lifted, folded against the Envelope
//!    │ serde_json::Value          render::print          the text of wire, rollout, events
//!    │ compare::Difference        chain::resolve         the golden that holds for the version
//!    ▼
//! recording::Finding ─► verify::Verdict ─► report (text, JSON, JUnit) ─► exit code
//! ```
//!
//! Data flows one way: no module calls back into the one that called it. Only [`driver`] knows that
//! there is more than one engine, only [`mask`] removes information, only [`golden`] writes goldens.

#![warn(clippy::print_stdout)]

pub mod assert;
pub mod cases;
pub mod check;
pub mod cli;
pub mod coverage;
pub mod crash;
pub mod doctor;
pub mod driver;
#[cfg(test)]
mod fixture;
pub mod fuzz;
pub mod golden;
pub mod import;
pub mod interrupt;
pub mod mask;
pub mod perturb;
pub mod recording;
pub mod report;
pub mod resume_bench;
pub mod rollout_edit;
pub mod rollout_file;
pub mod scenario;
pub mod shrink;
pub mod simulate;
pub mod texts;
pub mod verify;
