//! One seed: its session is played and held to every law, and what came of it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::Value;
use tokio::runtime::Runtime;

use super::coverage::Came;
use super::session::Session;
use super::twice::{Divergence, first_divergence};
use super::{Dice, Reach, Simulated, Unplayed, laws, on, panics};
use crate::driver::engine::EngineDriver;
use crate::golden::versions::{Arm, Subject};
use crate::recording::Finding;

/// The law that an engine does not panic.
pub(super) const PANICS: &str = "law.panics";

/// An engine that sessions are played on.
#[derive(Debug)]
pub struct Engine {
    /// As written, for instance `engine@0.171+fixed`.
    pub name: String,
    /// Its place in the table of versions.
    pub family: usize,
    pub(super) driver: EngineDriver,
}

impl Engine {
    /// The engine of a subject.
    pub fn new(subject: &Subject) -> Result<Self, String> {
        let name = subject.name.strip_prefix("engine@");
        let name = name.filter(|_| subject.arm == Arm::Engine);
        let driver = name.and_then(EngineDriver::new);
        let driver = driver.ok_or_else(|| {
            format!(
                "{} is no engine of ours: expected engine@V, engine@V+fixed or \
                 engine@V+planted:NAME",
                subject.name
            )
        })?;
        Ok(Self {
            name: subject.name.clone(),
            family: subject.version,
            driver,
        })
    }

    /// The drawn options of a seed, as they are printed; nothing is played.
    pub fn options(&self, reach: Reach, seed: u64) -> Result<String, Unplayed> {
        let (session, _) = self.session(reach, Dice::of_seed(seed), seed)?;
        Ok(session.swarm().to_string())
    }

    /// Plays a seed.
    pub fn play(&self, runtime: &Runtime, reach: Reach, seed: u64) -> Played {
        self.play_dice(runtime, reach, Dice::of_seed(seed), seed)
    }

    fn play_dice(&self, runtime: &Runtime, reach: Reach, dice: Dice, seed: u64) -> Played {
        let (session, plan) = match self.session(reach, dice, seed) {
            Ok(begun) => begun,
            Err(why) => return Played::Not(why),
        };
        let session = Rc::new(session);
        let run = || runtime.block_on(on(&self.driver, &session, plan));
        match panics::caught(run) {
            Ok(Ok(simulated)) => Played::ToItsEnd(Box::new(simulated)),
            Ok(Err(why)) => Played::Not(why),
            Err(said) => Played::Panicked {
                said,
                scenario: session.scenario().ok(),
            },
        }
    }

    fn session(
        &self,
        reach: Reach,
        dice: Dice,
        seed: u64,
    ) -> Result<(Session, crate::scenario::plan::Plan), Unplayed> {
        let name = format!("seed_{seed}");
        Session::new(dice, self.family, reach, &name).map_err(Unplayed::Generator)
    }

    /// Plays a seed and holds it to every law; twice, to see that it is the same session again.
    pub fn trial(&self, runtime: &Runtime, reach: Reach, seed: u64, twice: bool) -> Trial {
        let again = twice.then(|| Dice::of_seed(seed));
        self.trial_of(runtime, reach, seed, again)
    }

    /// The same, with the draws of the second time.
    pub(super) fn trial_of(
        &self,
        runtime: &Runtime,
        reach: Reach,
        seed: u64,
        again: Option<Dice>,
    ) -> Trial {
        let mut trial = Trial {
            seed,
            ..Trial::default()
        };
        let played = self.play(runtime, reach, seed);
        match &played {
            Played::Not(why) => trial.not_run = Some(why.to_string()),
            Played::Panicked { said, scenario } => {
                let finding = Finding {
                    id: PANICS.to_owned(),
                    message: format!("{said}\n    law: whatever it is given, an engine goes on"),
                };
                trial.unexplained.insert(PANICS.to_owned(), finding);
                trial.scenario.clone_from(scenario);
            }
            Played::ToItsEnd(simulated) => trial.take(simulated, self.family),
        }
        if let Some(dice) = again {
            let second = self.play_dice(runtime, reach, dice, seed);
            trial.divergence = match (&played, &second) {
                (Played::ToItsEnd(first), Played::ToItsEnd(second)) => {
                    first_divergence(first, second)
                }
                (first, second) => Divergence::of_ends(&first.end(), &second.end()),
            };
        }
        trial
    }
}

/// What playing a seed came to.
#[derive(Debug)]
pub enum Played {
    /// It was played to its end.
    ToItsEnd(Box<Simulated>),
    /// The engine panicked: what it said, and what was drawn by then.
    Panicked {
        /// Message and place.
        said: String,
        /// The scenario so far.
        scenario: Option<Value>,
    },
    /// It has no verdict.
    Not(Unplayed),
}

impl Played {
    /// How it ended, in a line.
    fn end(&self) -> String {
        match self {
            Self::ToItsEnd(_) => "played to its end".to_owned(),
            Self::Panicked { said, .. } => said.clone(),
            Self::Not(why) => why.to_string(),
        }
    }
}

/// What came of a seed.
#[derive(Debug, Default)]
pub struct Trial {
    /// The seed.
    pub seed: u64,
    /// Steps that were played.
    pub steps: usize,
    /// Requests that were sent.
    pub requests: usize,
    /// Draws that it took.
    pub draws: u64,
    /// What happened in it.
    pub came: Came,
    /// The first finding of each law that is broken without a known cause.
    pub unexplained: BTreeMap<String, Finding>,
    /// Broken laws, each with the rule that says so.
    pub explained: BTreeSet<(String, &'static str)>,
    /// The scenario, where something is broken without a known cause.
    pub scenario: Option<Value>,
    /// Where the second time was another session.
    pub divergence: Option<Divergence>,
    /// Why it has no verdict.
    pub not_run: Option<String>,
}

impl Trial {
    fn take(&mut self, simulated: &Simulated, family: usize) {
        let Simulated { plan, outcome, .. } = simulated;
        let verdict = laws::judge(plan, outcome, family);
        self.steps = plan.steps.len();
        self.requests = outcome.recording.journal.len();
        self.draws = simulated.draws;
        self.came = Came::of(plan, outcome);
        if !verdict.unexplained.is_empty() {
            self.scenario = Some(simulated.scenario.clone());
        }
        self.unexplained = verdict.unexplained;
        self.explained = verdict.explained;
    }
}

/// A runtime that plays sessions: nothing in it waits for the outside.
pub fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().build()
}
