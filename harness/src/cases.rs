//! What the commands need of scenarios: which there are, and the plan of each for a version.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use crate::golden::versions::VERSIONS;
use crate::scenario::plan::Plan;
use crate::scenario::{Loaded, Resolved, ScenarioError, Suite, SuiteError};

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
        reals.iter().position(applies).unwrap_or(0)
    }
}

/// Opens the scenarios of the checkout at or above a folder.
pub fn open(start: &Path) -> Result<Box<dyn Cases>, CasesError> {
    let suite = Suite::find(start).map_err(|error| from_suite(&error))?;
    Ok(Box::new(SuiteCases {
        suite,
        loaded: RefCell::default(),
    }))
}

/// Scenario files of a checkout.
struct SuiteCases {
    suite: Suite,
    /// Files that were read, by id: each is read once a command.
    loaded: RefCell<BTreeMap<String, Rc<Loaded>>>,
}

impl SuiteCases {
    fn load(&self, id: &str) -> Result<Rc<Loaded>, CasesError> {
        if let Some(known) = self.loaded.borrow().get(id) {
            return Ok(Rc::clone(known));
        }
        let loaded = Rc::new(self.read(id)?);
        self.loaded
            .borrow_mut()
            .insert(id.to_owned(), Rc::clone(&loaded));
        Ok(loaded)
    }

    fn read(&self, id: &str) -> Result<Loaded, CasesError> {
        let exact = [id.to_owned()];
        let files = self
            .suite
            .select(&exact)
            .map_err(|error| from_suite(&error))?;
        let file = files.iter().find(|file| file.id == id);
        let file = file.ok_or_else(|| CasesError::Invalid(format!("no scenario `{id}`")))?;
        self.suite
            .load(file)
            .map_err(|errors| from_scenario(&errors))
    }
}

impl Cases for SuiteCases {
    fn select(&self, patterns: &[String]) -> Result<Vec<Case>, CasesError> {
        let files = self
            .suite
            .select(patterns)
            .map_err(|error| from_suite(&error))?;
        let mut cases = Vec::with_capacity(files.len());
        let mut errors = Vec::new();
        for file in files {
            match self.suite.load(file) {
                Ok(loaded) => {
                    cases.push(Case {
                        id: loaded.id.clone(),
                        description: loaded.scenario.description.clone(),
                        only_engine: loaded.scenario.only.is_some(),
                    });
                    let known = Rc::new(loaded);
                    self.loaded.borrow_mut().insert(known.id.clone(), known);
                }
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() {
            Ok(cases)
        } else {
            Err(from_scenario(&errors))
        }
    }

    fn plan(&self, id: &str, version: &str) -> Result<PlanFor, CasesError> {
        let version = semver::Version::parse(version)
            .map_err(|error| CasesError::Invalid(format!("version `{version}`: {error}")))?;
        match self.load(id)?.plan(&version) {
            Ok(Resolved::Applicable(plan)) => Ok(PlanFor::Applicable(plan)),
            Ok(Resolved::NotApplicable(reason)) => Ok(PlanFor::NotApplicable(reason)),
            Err(error) => Err(from_scenario(&[*error])),
        }
    }
}

fn from_suite(error: &SuiteError) -> CasesError {
    if error.is_usage() {
        CasesError::Invalid(error.to_string())
    } else {
        CasesError::Unreadable(error.to_string())
    }
}

fn from_scenario(errors: &[ScenarioError]) -> CasesError {
    let texts: Vec<String> = errors.iter().map(ScenarioError::render).collect();
    CasesError::Invalid(texts.join("\n"))
}
