//! Plays a session that is made while it runs: steps one by one, a reply for each request.
//!
//! What was made is handed back as the steps of a plan. Played again by the ordinary driver, they
//! give the same recording.

use std::rc::Rc;

use mock_provider::journal::Request;
use mock_provider::script::Answers;

use super::{EngineDriver, Run, stall, supported, waits};
use crate::driver::{NoVerdict, Outcome};
use crate::scenario::plan::{Ends, Plan, PlanReply, PlanStep};

/// Makes a session. It is asked while the engine runs, so it keeps its state behind a cell.
pub(crate) trait Player {
    /// The next step, without replies; `None` ends the session.
    fn step(&self, so_far: &SoFar) -> Option<PlanStep>;

    /// The reply to a request; `None` leaves it unscripted, or accepts a handshake.
    fn reply(&self, kind: &Answers, request: &Request) -> Option<PlanReply>;
}

/// What a player may know of the session so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SoFar {
    /// Turns that the thread holds.
    pub turns: usize,
    /// How the turn of the last step ended; `None` where it had none.
    pub ended: Option<Ends>,
    /// The process was killed in the last step.
    pub killed: bool,
    /// What a client was refused in the last step.
    pub refused: bool,
}

/// How far a session was behind a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Requests that were sent.
    pub requests: usize,
    /// Bytes of each rollout file.
    pub rollouts: Vec<usize>,
    /// Events that the client saw.
    pub events: usize,
}

/// A session that was played.
#[derive(Debug)]
pub(crate) struct Played {
    /// How far it was behind each step.
    pub marks: Vec<Mark>,
    /// Its steps, with the replies that were made.
    pub steps: Vec<PlanStep>,
    /// What was captured.
    pub outcome: Outcome,
}

impl EngineDriver {
    /// Plays a session on the settings of a plan; its steps are not looked at.
    pub(crate) async fn play(
        &self,
        plan: &Plan,
        player: &Rc<dyn Player>,
    ) -> Result<Played, NoVerdict> {
        supported(plan)?;
        let mut run = Run::new(self.profile.clone(), plan);
        run.notes_ends = true;
        let maker = Rc::clone(player);
        let provider = (*run.provider).clone();
        run.provider = Rc::new(provider.made_by(maker, Rc::clone(&run.tools)));
        let (mut steps, mut marks) = (Vec::new(), Vec::new());
        let mut so_far = SoFar::default();
        while let Some(mut step) = player.step(&so_far) {
            run.ended = None;
            let before = run.findings.len();
            let done = Box::pin(stall::run(run.step(&step))).await;
            if let Some(result) = done {
                result?;
            } else {
                run.findings.push(waits(&step));
            }
            step.replies = run.provider.replies();
            step.ends = run.ended.take();
            let found = &run.findings[before..];
            so_far = SoFar {
                turns: run.turns.len(),
                ended: step.ends.clone(),
                killed: run.life.is_dead(),
                refused: found.iter().any(|finding| finding.id == "client.refused"),
            };
            let is_stuck = found.iter().any(|finding| finding.id == "step.waits");
            steps.push(step);
            marks.push(Mark {
                requests: run.provider.requests(),
                rollouts: run.files.lengths(),
                events: run.seen.count(),
            });
            if is_stuck {
                break;
            }
        }
        let outcome = run.finish(&steps);
        Ok(Played {
            marks,
            steps,
            outcome,
        })
    }
}
