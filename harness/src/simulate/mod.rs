//! Deterministic simulation: sessions drawn from a seed, played on our engine while they are drawn,
//! and held to every law.
//!
//! The generator is asked for each step and for each reply while the engine runs, so every request
//! has an answer, whatever the engine does. What was drawn is an ordinary scenario: it plays again
//! as one, on any subject, and a finding is one that was shrunk.

pub mod against;
pub mod canaries;
pub mod coverage;
mod dice;
mod facts;
pub mod find;
mod head;
pub mod laws;
mod panics;
pub mod range;
mod reach;
mod replies;
mod session;
mod swarm;
pub mod trial;
pub mod twice;

use std::rc::Rc;

use serde_json::Value;

pub use self::dice::Dice;
pub use self::reach::{Faults, Group, Reach};

use self::session::Session;
use crate::driver::engine::EngineDriver;
use crate::driver::engine::play::{Mark, Player};
use crate::driver::{NoVerdict, Outcome};
use crate::scenario::plan::{Plan, PlanStep};

/// A session that was played.
#[derive(Debug)]
pub struct Simulated {
    /// The drawn options, as they are printed.
    pub options: String,
    /// Draws that it took.
    pub draws: u64,
    /// Draws before each step, and at the end.
    draws_by_step: Vec<u64>,
    /// How far it was behind each step.
    marks: Vec<Mark>,
    /// The scenario.
    pub scenario: Value,
    /// The plan that was played.
    pub plan: Plan,
    /// What was captured.
    pub outcome: Outcome,
}

/// Why a session was not played to its end.
#[derive(Debug, thiserror::Error)]
pub enum Unplayed {
    /// The generator drew what does not fit together: a fault of the generator.
    #[error("the generator made what is no scenario: {0}")]
    Generator(String),
    /// The engine has no verdict on this scenario.
    #[error("{0}")]
    NoVerdict(NoVerdict, Box<Value>),
}

/// Plays the session of some draws on a driver.
pub async fn play(
    driver: &EngineDriver,
    family: usize,
    reach: Reach,
    dice: Dice,
    name: &str,
) -> Result<Simulated, Unplayed> {
    let (session, plan) = Session::new(dice, family, reach, name).map_err(Unplayed::Generator)?;
    on(driver, &Rc::new(session), plan).await
}

/// Plays a session that was begun; whoever holds it can see how far it came.
async fn on(
    driver: &EngineDriver,
    session: &Rc<Session>,
    mut plan: Plan,
) -> Result<Simulated, Unplayed> {
    let maker: Rc<dyn Player> = session.clone();
    let played = driver.play(&plan, &maker).await;
    let scenario = session.scenario().map_err(Unplayed::Generator)?;
    let played = played.map_err(|why| Unplayed::NoVerdict(why, Box::new(scenario.clone())))?;
    plan.steps = played.steps.into_iter().map(asserted).collect();
    Ok(Simulated {
        options: session.swarm().to_string(),
        draws: session.draws(),
        draws_by_step: session.draws_by_step(),
        marks: played.marks,
        scenario,
        plan,
        outcome: played.outcome,
    })
}

/// How a turn has to end, as the scenario says it: without a message.
fn asserted(mut step: PlanStep) -> PlanStep {
    if let Some(ends) = &mut step.ends {
        ends.message = None;
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver as _;
    use crate::driver::engine::reread::READ_BACK;
    use crate::golden::versions::VERSIONS;
    use crate::scenario::plain::Tree;
    use crate::scenario::write::write;
    use crate::scenario::{Resolved, load_bytes};

    /// Otherwise nothing that is found could be shown again.
    #[tokio::test(flavor = "current_thread")]
    async fn what_was_drawn_is_a_scenario_that_plays_the_same() {
        for (family, version) in VERSIONS.iter().enumerate() {
            let driver = EngineDriver::new(&format!("{}+fixed", version.name)).expect("a family");
            let release = version.real.parse().expect("a version");
            for faults in [Faults::ALL.without(Group::Storage), Faults::ALL] {
                let reach = Reach {
                    faults,
                    repeatable: false,
                };
                for seed in 0..60 {
                    let name = format!("seed_{seed}");
                    let dice = Dice::of_seed(seed);
                    let played = play(&driver, family, reach, dice, &name).await;
                    let played = played.unwrap_or_else(|why| panic!("{name}: {why}"));
                    let text = write(&Tree::from(&played.scenario));
                    let loaded = load_bytes("drawn", &name, text.as_bytes(), None)
                        .unwrap_or_else(|found| panic!("{name}: {found:?}\n{text}"));
                    let Ok(Resolved::Applicable(plan)) = loaded.plan(&release) else {
                        panic!("{name} does not resolve")
                    };
                    let again = driver.run(&plan).await.expect("runs");
                    assert!(
                        again.recording == played.outcome.recording,
                        "{}: {name} plays otherwise\n{text}",
                        version.name
                    );
                }
            }
        }
    }

    /// Live and read again are the same after each turn, the faults of each release included.
    #[tokio::test(flavor = "current_thread")]
    async fn a_drawn_session_is_read_back_as_it_is_live() {
        let reach = Reach {
            faults: Faults::ALL.without(Group::Storage),
            repeatable: false,
        };
        let mut wrong = Vec::new();
        for (family, version) in VERSIONS.iter().enumerate() {
            for name in [version.name.to_owned(), format!("{}+fixed", version.name)] {
                let driver = EngineDriver::new(&name).expect("a family");
                for seed in 0..60 {
                    let label = format!("{name} seed {seed}");
                    let dice = Dice::of_seed(seed);
                    let played = play(&driver, family, reach, dice, &format!("seed_{seed}")).await;
                    let played = played.unwrap_or_else(|why| panic!("{label}: {why}"));
                    let findings = played.outcome.findings.iter();
                    let read_back = findings.filter(|finding| finding.id == READ_BACK);
                    let first = read_back.map(|finding| finding.message.as_str()).next();
                    let text = || write(&Tree::from(&played.scenario));
                    wrong.extend(first.map(|what| format!("{label}: {what}\n{}", text())));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} differ\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }
}
