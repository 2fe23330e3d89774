//! The same drawn sessions on our engine and on a real binary.
//!
//! The engine's run makes the script; the binary has to follow it and to record the same.

use futures_util::stream::{self, StreamExt as _};
use serde_json::Value;

use super::trial::Engine;
use super::{Dice, Faults, Group, Reach, Unplayed, play};
use crate::driver::{Driver, NoVerdict, Outcome};
use crate::golden::unmodelled::UnmodelledFields;
use crate::golden::versions::VERSIONS;
use crate::perturb::compare_live;
use crate::recording::Finding;
use crate::scenario::plan::Plan;

/// What a generator draws for a real binary.
pub const REACH: Reach = Reach {
    faults: Faults::ALL.without(Group::Storage),
    repeatable: true,
};

/// A session that our engine played.
#[derive(Debug)]
pub struct Drawn {
    /// Its seed.
    pub seed: u64,
    /// The scenario.
    pub scenario: Value,
    /// The plan of it.
    pub plan: Plan,
    /// What our engine recorded.
    pub ours: Outcome,
}

/// Draws the session of a seed.
pub async fn draw(engine: &Engine, reach: Reach, seed: u64) -> Result<Drawn, Unplayed> {
    let name = format!("seed_{seed}");
    let played = play(
        &engine.driver,
        engine.family,
        reach,
        Dice::of_seed(seed),
        &name,
    )
    .await?;
    Ok(Drawn {
        seed,
        scenario: played.scenario,
        plan: played.plan,
        ours: played.outcome,
    })
}

/// What a real binary makes of a session: what differs, or why there is no verdict.
pub type Compared = Result<Vec<Finding>, NoVerdict>;

/// Runs sessions on a binary, so many at once, and tells of each as it ends.
pub async fn compare(
    real: &dyn Driver,
    sessions: &[Drawn],
    family: usize,
    unmodelled: &UnmodelledFields,
    jobs: usize,
    tell: &mut dyn FnMut(&Drawn, Compared),
) {
    let runs = sessions.iter().map(|session| async move {
        let theirs = real.run(&session.plan).await;
        (session, theirs)
    });
    let mut runs = stream::iter(runs).buffer_unordered(jobs);
    while let Some((session, theirs)) = runs.next().await {
        let profile = VERSIONS[family].name;
        let compared =
            theirs.map(|theirs| compare_live(&session.ours, &theirs, profile, unmodelled));
        tell(session, compared);
    }
}
