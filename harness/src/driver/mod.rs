//! How a subject is run. Only this folder knows that there is more than one engine.

pub mod codex;
pub mod engine;
#[cfg(test)]
mod history_cases;
mod open;
mod script;

pub use open::{binary_sha256, open, open_crash, remnants};

use crate::crash::{Crashed, Point};
use crate::recording::{Finding, Recording};
use crate::scenario::plan::{Plan, PlanStep};

/// What came of a run that could run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The raw capture.
    pub recording: Recording,
    /// Unscripted requests, unused replies, wrong kinds, failed request assertions, wrong endings.
    pub findings: Vec<Finding>,
}

/// Why a case has no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoVerdict {
    /// The machine lacks something: no binary, loopback denied, no npm.
    #[error("could not run: {0}")]
    CouldNotRun(String),
    /// The subject runs, but refuses what the scenario asks it to start with.
    #[error("refused: {0}")]
    Refused(String),
    /// A named deadline passed; silence is never a verdict.
    #[error("could not decide: {0}")]
    CouldNotDecide(String),
    /// The subject has no such ability (a step or fault of a later part).
    #[error("not supported by this subject: {0}")]
    NotSupported(String),
}

/// Runs plans on one subject.
#[async_trait::async_trait(?Send)]
pub trait Driver {
    /// The subject, for instance `engine@0.171` or `codex@0.171.0`.
    fn subject(&self) -> &str;
    /// Runs one plan.
    async fn run(&self, plan: &Plan) -> Result<Outcome, NoVerdict>;
}

/// Kills a subject at an append of its rollout.
#[async_trait::async_trait(?Send)]
pub trait CrashDriver {
    /// Whether a record can be torn at the kill.
    fn tears(&self) -> bool;
    /// Whether the subject names the lines that a resume leaves out.
    fn tells_skipped(&self) -> bool;
    /// Plays a plan up to the crash point, then the client's steps behind it; `None` where the plan
    /// has no such append.
    async fn crash(
        &self,
        plan: &Plan,
        point: Point,
        probe: &[PlanStep],
    ) -> Result<Option<Crashed>, NoVerdict>;
}
