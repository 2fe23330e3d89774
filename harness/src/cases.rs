//! What the commands need of scenarios: which there are, and the plan of each for a version.

use std::path::Path;

use crate::golden::versions::VERSIONS;
use crate::scenario::plan::Plan;

/// One scenario file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Path below `scenarios/` without `.yaml`.
    pub id: String,
    /// The scenario's sentence.
    pub description: String,
    /// It says `only: engine`.
    pub only_engine: bool,
}

impl Case {
    /// Its id without the last part.
    pub fn area(&self) -> &str {
        self.id.rsplit_once('/').map_or("", |(area, _)| area)
    }

    /// Whether it is one that must fail.
    pub fn is_canary(&self) -> bool {
        self.id.starts_with("canary/")
    }
}

/// A plan, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanFor {
    /// What a driver runs.
    Applicable(Box<Plan>),
    /// Why the version is left out.
    NotApplicable(String),
}

/// Why scenarios cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CasesError {
    /// Wrong pattern or invalid scenario: exit 2.
    #[error("{0}")]
    Invalid(String),
    /// No checkout, unreadable files: exit 3.
    #[error("{0}")]
    Unreadable(String),
}

/// The scenarios of a checkout.
pub trait Cases {
    /// Scenarios whose ids match one of the patterns; all without a pattern. A pattern that selects
    /// nothing is an error.
    fn select(&self, patterns: &[String]) -> Result<Vec<Case>, CasesError>;
    /// The plan of a scenario for a real version (`0.144.6`).
    fn plan(&self, id: &str, version: &str) -> Result<PlanFor, CasesError>;

    /// The oldest version of the table that a scenario applies to.
    fn first_version(&self, id: &str) -> usize {
        let applies = |v: &&str| matches!(self.plan(id, v), Ok(PlanFor::Applicable(_)));
        let reals: Vec<&str> = VERSIONS.iter().map(|v| v.real).collect();
        reals.iter().position(|v| applies(&v)).unwrap_or(0)
    }
}

/// Opens the scenarios of the checkout at or above a folder.
pub fn open(start: &Path) -> Result<Box<dyn Cases>, CasesError> {
    Err(CasesError::Unreadable(format!(
        "no scenario loader is linked in (at {})",
        start.display()
    )))
}
