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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::trial::runtime;

    /// Seeds that these faults are found in; the others, and how many have to be found, are a step of
    /// the gate.
    const SEEDS: u64 = 20;

    #[test]
    fn a_fault_is_found_and_an_engine_without_one_is_not_blamed() {
        let subject = Subject::parse("engine@0.171+fixed").expect("a subject");
        let runtime = runtime().expect("a runtime");
        for fault in [
            Planted::OutputTwice,
            Planted::UsageDoubled,
            Planted::WaitsForEver,
        ] {
            let pair = Pair::new(&subject, fault).expect("two engines");
            let found = (0..SEEDS).find_map(|seed| pair.look(&runtime, Reach::ENGINE, seed));
            assert!(found.is_some(), "{} is not found", fault.name());
        }
        let sane = || Engine::new(&subject).expect("an engine");
        let pair = Pair {
            sane: sane(),
            ill: sane(),
        };
        for seed in 0..SEEDS {
            assert_eq!(
                pair.look(&runtime, Reach::ENGINE, seed),
                None,
                "seed {seed}"
            );
        }
    }
}
