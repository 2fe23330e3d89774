//! A finding as a small scenario.

use serde_json::Value;
use tokio::runtime::Runtime;

use super::trial::{Engine, PANICS};
use super::{laws, panics};
use crate::driver::Driver as _;
use crate::golden::versions::VERSIONS;
use crate::scenario::plain::Tree;
use crate::scenario::{Loaded, Resolved};
use crate::shrink::{Shrunk, shrink};

/// Shrinks a scenario as long as it breaks a law on an engine. `None` where the scenario as it is
/// written does not: what is broken hangs on how it was drawn.
pub fn smallest(
    runtime: &Runtime,
    engine: &Engine,
    scenario: &Value,
    law: &str,
    runs_max: u64,
    tell: &mut dyn FnMut(u64),
) -> Option<Shrunk> {
    let tree = Tree::from(scenario);
    let shows = |candidate: &Loaded| breaks(runtime, engine, candidate, law);
    let loaded = crate::shrink::load(&tree)?;
    shows(&loaded).then(|| shrink(tree, runs_max, &mut { shows }, &mut |runs, _| tell(runs)))
}

/// Whether a scenario breaks a law, and leaves its script only if that is the law.
fn breaks(runtime: &Runtime, engine: &Engine, candidate: &Loaded, law: &str) -> bool {
    let Ok(version) = VERSIONS[engine.family].real.parse() else {
        return false;
    };
    let Ok(Resolved::Applicable(plan)) = candidate.plan(&version) else {
        return false;
    };
    let outcome = match panics::caught(|| runtime.block_on(engine.driver.run(&plan))) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => return false,
        Err(_) => return law == PANICS,
    };
    let found = laws::judge(&plan, &outcome, engine.family).unexplained;
    let leaves = |id: &String| id.starts_with("script.") || id.starts_with("step.");
    found.contains_key(law) && !found.keys().any(|id| leaves(id) && id != law)
}
