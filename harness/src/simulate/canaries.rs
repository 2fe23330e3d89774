//! Planted faults as canaries: simulation has to find each within so many seeds.
//!
//! A law that also breaks on the engine without the fault, at the same seed, finds nothing.

use engine::planted::Planted;
use tokio::runtime::Runtime;

use super::Reach;
use super::trial::Engine;
use crate::golden::versions::{PLANTED, Subject};

/// A planted fault that a law found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The first seed that shows it.
    pub seed: u64,
    /// The law that it breaks there.
    pub law: String,
}

/// An engine with a fault, and the same without it.
#[derive(Debug)]
pub struct Pair {
    sane: Engine,
    ill: Engine,
}

impl Pair {
    /// Plants a fault in the engine of a subject.
    pub fn new(subject: &Subject, fault: Planted) -> Result<Self, String> {
        let name = format!("{}{PLANTED}{}", subject.name, fault.name());
        Ok(Self {
            sane: Engine::new(subject)?,
            ill: Engine::new(&Subject::parse(&name)?)?,
        })
    }

    /// Looks at one seed.
    pub fn look(&self, runtime: &Runtime, reach: Reach, seed: u64) -> Option<Found> {
        let ill = self.ill.trial(runtime, reach, seed, false);
        if ill.unexplained.is_empty() {
            return None;
        }
        let sane = self.sane.trial(runtime, reach, seed, false);
        let mut laws = ill.unexplained.into_keys();
        let law = laws.find(|law| !sane.unexplained.contains_key(law))?;
        Some(Found { seed, law })
    }
}
