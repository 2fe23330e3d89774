//! A finding as a small scenario.

use serde_json::Value;
use tokio::runtime::Runtime;

use super::laws;
use crate::driver::Driver as _;
use crate::driver::engine::EngineDriver;
use crate::golden::versions::VERSIONS;
use crate::scenario::plain::Tree;
use crate::scenario::{Loaded, Resolved};
use crate::shrink::{Shrunk, shrink};

/// Shrinks a scenario as long as it breaks a law on a driver.
pub fn smallest(
    runtime: &Runtime,
    driver: &EngineDriver,
    family: usize,
    scenario: &Value,
    law: &str,
    runs_max: u64,
) -> Shrunk {
    let tree = Tree::from(scenario);
    let mut shows = |candidate: &Loaded| breaks(runtime, driver, family, candidate, law);
    shrink(tree, runs_max, &mut shows, &mut |_, _| {})
}

/// Whether a scenario breaks a law, and leaves its script only if that is the law.
fn breaks(
    runtime: &Runtime,
    driver: &EngineDriver,
    family: usize,
    candidate: &Loaded,
    law: &str,
) -> bool {
    let Ok(version) = VERSIONS[family].real.parse() else {
        return false;
    };
    let Ok(Resolved::Applicable(plan)) = candidate.plan(&version) else {
        return false;
    };
    let Ok(outcome) = runtime.block_on(driver.run(&plan)) else {
        return false;
    };
    let found = laws::unexplained(&plan, &outcome, family);
    let leaves = |id: &&String| id.starts_with("script.") || id.starts_with("step.");
    found.contains_key(law) && !found.keys().any(|id| leaves(&id) && id != law)
}
