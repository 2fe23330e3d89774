//! What happened in the sessions: steps, faults and compactions, counted together.
//!
//! It is read from the plan that was played, where a reply is made by the request that it answers. So
//! a fault that was drawn and had no place, or a compaction that nobody asked for, counts nowhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::reach::{Group, Reach};
use super::swarm::{Branch, FaultKind, Kind as _, Set, StepKind};
use crate::driver::Outcome;
use crate::scenario::plan::{
    Answers, Ending, Plan, PlanReply, PlanStep, ReplyBody, ResumeStep, StepAction,
};

/// Fewest sessions of a cell where no other number is asked for.
pub const CELL_SESSIONS_MIN: u64 = 1;
/// Code of a request that is too long for the window.
const TOO_LONG: &str = "context_length_exceeded";
/// Status of too many requests.
const TOO_MANY: u16 = 429;

/// What happened in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Came {
    steps: Set<StepKind>,
    faults: Set<FaultKind>,
    branches: Set<Branch>,
}

impl Came {
    /// Reads what was played.
    pub(super) fn of(plan: &Plan, outcome: &Outcome) -> Self {
        let mut came = Self::default();
        let mut ids = outcome.findings.iter().map(|finding| finding.id.as_str());
        let failed = !ids.any(|id| id == "storage.not_reached");
        let mut before: Option<&StepAction> = None;
        for PlanStep {
            action, replies, ..
        } in &plan.steps
        {
            if let Some(kind) = kind(action, before, failed) {
                came.steps.add(kind);
            }
            before = Some(action);
            for reply in replies {
                came.faults.add(fault(reply));
                if let Answers::Compaction {
                    implementation,
                    phase,
                    ..
                } = &reply.answers
                {
                    came.branches
                        .add(Branch::of(implementation, phase.as_deref()));
                }
            }
        }
        if came.branches == Set::default() {
            came.branches.add(Branch::None);
        }
        came
    }
}

/// What a client did; `None` where it is a part of the step before.
fn kind(action: &StepAction, before: Option<&StepAction>, failed: bool) -> Option<StepKind> {
    Some(match action {
        StepAction::User(_) => StepKind::User,
        StepAction::Compact => StepKind::Compact,
        StepAction::Settings(_) => StepKind::Settings,
        StepAction::Inject(_) | StepAction::Resume(ResumeStep::History(_)) => StepKind::Inject,
        StepAction::Resume(ResumeStep::Id | ResumeStep::Path) => match before {
            // The process is gone: it was stopped, or killed before its storage works again.
            Some(StepAction::Stop(_) | StepAction::Storage(_)) => StepKind::Restart,
            _ => StepKind::ResumeLive,
        },
        StepAction::Fork(_) => StepKind::Fork,
        StepAction::Rollback(_) | StepAction::Revert(_) => StepKind::Back,
        StepAction::Storage(storage) if storage.fault.is_some() && failed => StepKind::Storage,
        StepAction::Stop(_) | StepAction::EditRollout(_) | StepAction::Storage(_) => return None,
    })
}

/// What went wrong with an answer.
fn fault(reply: &PlanReply) -> FaultKind {
    let (events, ending) = match &reply.body {
        ReplyBody::Http { body, .. } if body.contains(TOO_LONG) => return FaultKind::Window,
        ReplyBody::Http {
            status: TOO_MANY, ..
        } => return FaultKind::RateLimit,
        // The answer of remote compaction v1 is a body, and no fault.
        ReplyBody::Http { status: 200, .. } => return FaultKind::None,
        ReplyBody::Http { .. } => return FaultKind::Http,
        ReplyBody::DropConnection => return FaultKind::Drop,
        ReplyBody::Stream { events, ending, .. } => (events, ending),
    };
    let last = events.last().unwrap_or(&Value::Null);
    let code = last["response"]["error"]["code"].as_str();
    match (ending, last["type"].as_str()) {
        (Ending::Cut { .. }, _) => FaultKind::Cut,
        _ if events.iter().any(Value::is_string) => FaultKind::Malformed,
        _ if events.windows(2).any(|pair| pair[0] == pair[1]) => FaultKind::Duplicate,
        (_, Some("response.failed")) if code == Some(TOO_LONG) => FaultKind::Window,
        (_, Some("response.failed")) => FaultKind::Failed,
        (_, Some("response.incomplete")) => FaultKind::Incomplete,
        (_, Some("response.completed")) => FaultKind::None,
        _ => FaultKind::NoCompleted,
    }
}

/// Compactions that a family has.
fn branches(family: usize) -> impl Iterator<Item = Branch> {
    let of_family = move |branch: &Branch| match branch {
        Branch::RemoteV1PreTurn | Branch::RemoteV1MidTurn | Branch::RemoteV1Standalone => {
            family == super::head::OLDEST
        }
        // An older binary compacts behind no turn.
        Branch::LocalPostTurn | Branch::RemoteV2PostTurn => family != super::head::OLDEST,
        Branch::None
        | Branch::LocalPreTurn
        | Branch::LocalMidTurn
        | Branch::LocalStandalone
        | Branch::RemoteV2PreTurn
        | Branch::RemoteV2MidTurn
        | Branch::RemoteV2Standalone => true,
    };
    Branch::ALL.iter().copied().filter(of_family)
}

/// A step, a fault and a compaction that came up in one session.
type Cell = (Branch, StepKind, FaultKind);

/// Sessions in which a step, a fault and a compaction came up together.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    sessions: u64,
    cells: BTreeMap<Cell, u64>,
}

impl Coverage {
    /// Counts a session.
    pub fn add(&mut self, came: &Came) {
        self.sessions += 1;
        for branch in came.branches.kinds() {
            for step in came.steps.kinds() {
                for fault in came.faults.kinds() {
                    *self.cells.entry((branch, step, fault)).or_default() += 1;
                }
            }
        }
    }

    /// A table for each compaction that a family has, and how many cells have too few sessions.
    pub fn table(&self, family: usize, reach: Reach, fewest: u64) -> (String, usize) {
        let storage = reach.faults.has(Group::Storage);
        let steps = StepKind::ALL
            .iter()
            .copied()
            .filter(|step| storage || *step != StepKind::Storage);
        let steps: Vec<StepKind> = steps.collect();
        let faults = FaultKind::ALL.iter().copied();
        let faults: Vec<FaultKind> = faults.filter(|fault| reach.allows(*fault)).collect();
        let mut low = 0;
        let mut out = format!(
            "coverage of {} sessions: those in which compaction, step and fault came up together, \
             `<` where they are fewer than {fewest}\n",
            self.sessions
        );
        for branch in branches(family) {
            let _ = write!(out, "{:<19}", format!("{branch:?}"));
            for fault in &faults {
                let _ = write!(out, "{:>12}", format!("{fault:?}"));
            }
            out.push('\n');
            for step in &steps {
                let _ = write!(out, "  {:<17}", format!("{step:?}"));
                for fault in &faults {
                    let cell = self.cells.get(&(branch, *step, *fault));
                    let count = cell.copied().unwrap_or_default();
                    let mark = if count < fewest { "<" } else { "" };
                    low += usize::from(count < fewest);
                    let _ = write!(out, "{:>12}", format!("{mark}{count}"));
                }
                out.push('\n');
            }
        }
        let _ = write!(out, "{low} cells have fewer than {fewest} sessions");
        (out, low)
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Engine, runtime};
    use super::*;
    use crate::golden::versions::Subject;

    /// Sessions of a family that the table is held to.
    const SESSIONS: u64 = 60;

    /// What is counted is what the recording shows, and not what was drawn.
    #[test]
    fn what_is_counted_stands_in_the_recording() {
        let subject = Subject::parse("engine@0.171+fixed").expect("a subject");
        let engine = Engine::new(&subject).expect("an engine");
        let runtime = runtime().expect("a runtime");
        let mut coverage = Coverage::default();
        let mut compacted = 0;
        for seed in 0..SESSIONS {
            let super::super::trial::Played::ToItsEnd(played) =
                engine.play(&runtime, Reach::ENGINE, seed)
            else {
                panic!("seed {seed} was not played")
            };
            let came = Came::of(&played.plan, &played.outcome);
            let asked = played.outcome.recording.journal.iter();
            let asked = asked.filter(|request| {
                String::from_utf8_lossy(&request.body).contains("\"compaction\"")
                    || request.path.contains("compact")
            });
            compacted += u64::from(asked.count() > 0);
            if came.branches.has(Branch::None) {
                assert!(!came.branches.has(Branch::LocalPreTurn));
            }
            coverage.add(&came);
        }
        assert!(compacted > 0);
        let (table, low) = coverage.table(engine.family, Reach::ENGINE, CELL_SESSIONS_MIN);
        assert!(
            table.contains("LocalPreTurn") && !table.contains("RemoteV1"),
            "{table}"
        );
        assert!(low > 0 && table.ends_with("fewer than 1 sessions"), "{low}");
        assert_eq!(coverage.table(engine.family, Reach::ENGINE, 0).1, 0);
    }
}
