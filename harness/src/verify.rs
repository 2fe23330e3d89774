//! Runs cases on one subject and judges what came of them.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use rayon::prelude::*;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use crate::assert;
use crate::cases::{Case, Cases, CasesError, PlanFor};
use crate::driver::{Driver, NoVerdict};
use crate::golden::gate::{CaseInfo, Gate};
use crate::golden::versions::{Arm, Subject};
use crate::mask::{Masked, mask};
use crate::recording::Finding;
use crate::scenario::plan::Plan;

/// What came of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything holds.
    Passed,
    /// Something does not.
    Failed(Vec<Finding>),
    /// The scenario does not apply to this subject; why.
    NotApplicable(String),
    /// No verdict; why.
    NotRun(String),
}

/// One case and its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// Scenario id.
    pub case: String,
    /// Subject.
    pub subject: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Pending goldens it left, below `golden/`.
    pub pending: Vec<String>,
}

impl CaseResult {
    /// The one command that repeats it.
    pub fn rerun(&self) -> String {
        format!(
            "cargo turnproof check {} --subject {}",
            self.case, self.subject
        )
    }
}

/// A case with its plan, or the reason it has none.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The scenario.
    pub case: Case,
    /// What the gate needs.
    pub info: CaseInfo,
    /// The plan for the subject's version.
    pub plan: PlanFor,
}

/// Resolves scenarios for a subject.
pub fn plan_all(
    cases: &dyn Cases,
    list: &[Case],
    subject: &Subject,
) -> Result<Vec<Planned>, CasesError> {
    list.iter()
        .map(|case| {
            let plan = if case.only_engine && subject.arm == Arm::Codex {
                PlanFor::NotApplicable("only: engine".to_owned())
            } else {
                cases.plan(&case.id, subject.family().real)?
            };
            let info = CaseInfo {
                id: case.id.clone(),
                description: case.description.clone(),
                only_engine: case.only_engine,
                first_version: cases.first_version(&case.id),
            };
            Ok(Planned {
                case: case.clone(),
                info,
                plan,
            })
        })
        .collect()
}

/// Gives a driver for a subject, which will run these plans.
pub type Open = dyn for<'a> Fn(&'a str, &[&Plan]) -> LocalBoxFuture<'a, Result<Box<dyn Driver>, NoVerdict>>
    + Sync;

/// Runs all planned cases, up to `jobs` at once, and judges them. Results come in the order of the
/// cases; `keep` sees every masked recording in the same order.
pub async fn run_all(
    open: &Open,
    subject: &Subject,
    planned: &[Planned],
    gate: &Gate,
    jobs: usize,
    keep: &mut dyn FnMut(&Planned, &Masked),
) -> Vec<CaseResult> {
    let outcomes = match subject.arm {
        // This thread drives a runtime already.
        Arm::Engine => std::thread::scope(|scope| {
            let run = scope.spawn(|| on_threads(open, subject, planned, jobs));
            Ok(run
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        }),
        Arm::Codex => in_one_driver(open, subject, planned, jobs).await,
    };
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(reason) => {
            return planned
                .iter()
                .map(|p| result(p, subject, no_verdict(p, &reason)))
                .collect();
        }
    };
    let judged: Vec<(CaseResult, Option<Masked>)> = planned
        .par_iter()
        .zip(outcomes)
        .map(|(one, outcome)| match (&one.plan, outcome) {
            (PlanFor::Applicable(plan), Some(Ok(outcome))) => {
                let masked = mask(&outcome.recording);
                let mut found = outcome.findings;
                found.extend(assert::check(plan, &outcome.recording));
                (judge(one, subject, gate, &masked, found), Some(masked))
            }
            (PlanFor::Applicable(_), Some(Err(reason))) => {
                (result(one, subject, no_verdict(one, &reason)), None)
            }
            (PlanFor::Applicable(_), None) => {
                let verdict = Verdict::NotRun("the run ended without an outcome".into());
                (result(one, subject, verdict), None)
            }
            (PlanFor::NotApplicable(why), _) => {
                let verdict = Verdict::NotApplicable(why.clone());
                (result(one, subject, verdict), None)
            }
        })
        .collect();
    let kept = planned.iter().zip(judged).map(|(one, (result, masked))| {
        if let Some(masked) = masked {
            keep(one, &masked);
        }
        result
    });
    kept.collect()
}

type RunOutcome = Result<crate::driver::Outcome, NoVerdict>;

/// Runs the cases of our engine on every core: they share nothing.
fn on_threads(
    open: &Open,
    subject: &Subject,
    planned: &[Planned],
    jobs: usize,
) -> Vec<Option<RunOutcome>> {
    let run = |plan: &Plan| {
        if let Some(interrupt) = crate::interrupt::came() {
            let why = format!("interrupted by {}", interrupt.name);
            return Err(NoVerdict::CouldNotRun(why));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| NoVerdict::CouldNotRun(error.to_string()))?;
        runtime.block_on(async { open(&subject.name, &[plan]).await?.run(plan).await })
    };
    let chunk = planned.len().div_ceil(jobs.max(1)).max(1);
    planned
        .par_iter()
        .with_min_len(chunk)
        .map(|one| match &one.plan {
            PlanFor::Applicable(plan) => Some(run(plan)),
            PlanFor::NotApplicable(_) => None,
        })
        .collect()
}

/// Runs the cases of a real binary in the processes of one driver.
async fn in_one_driver(
    open: &Open,
    subject: &Subject,
    planned: &[Planned],
    jobs: usize,
) -> Result<Vec<Option<RunOutcome>>, NoVerdict> {
    let plans: Vec<&Plan> = planned
        .iter()
        .filter_map(|p| match &p.plan {
            PlanFor::Applicable(plan) => Some(&**plan),
            PlanFor::NotApplicable(_) => None,
        })
        .collect();
    let driver: Rc<dyn Driver> = Rc::from(open(&subject.name, &plans).await?);
    let local = LocalSet::new();
    let slots: Rc<RefCell<Vec<Option<RunOutcome>>>> =
        Rc::new(RefCell::new(vec![None; planned.len()]));
    let permits = Rc::new(Semaphore::new(jobs.max(1)));
    for (index, one) in planned.iter().enumerate() {
        let PlanFor::Applicable(plan) = &one.plan else {
            continue;
        };
        let (driver, slots, permits) = (driver.clone(), slots.clone(), permits.clone());
        let plan = plan.clone();
        local.spawn_local(async move {
            // The semaphore is never closed.
            let Ok(_permit) = permits.acquire().await else {
                return;
            };
            let outcome = driver.run(&plan).await;
            slots.borrow_mut()[index] = Some(outcome);
        });
    }
    local.await;
    Ok(slots.take())
}

fn judge(
    one: &Planned,
    subject: &Subject,
    gate: &Gate,
    masked: &Masked,
    mut found: Vec<Finding>,
) -> CaseResult {
    // A canary shows that findings are seen; goldens of what must fail would prove nothing.
    if one.case.is_canary() {
        found.extend(crate::check::run_all(masked));
        let verdict = if found.is_empty() {
            Verdict::Failed(vec![Finding {
                id: "canary".to_owned(),
                message: "a scenario that must fail passed: the harness is blind".to_owned(),
            }])
        } else {
            Verdict::Passed
        };
        return result(one, subject, verdict);
    }
    let judgement = gate.judge(&one.info, subject, masked);
    found.extend(judgement.findings);
    let verdict = if found.is_empty() {
        Verdict::Passed
    } else {
        Verdict::Failed(found)
    };
    CaseResult {
        pending: judgement.pending,
        ..result(one, subject, verdict)
    }
}

fn no_verdict(one: &Planned, reason: &NoVerdict) -> Verdict {
    match &one.plan {
        PlanFor::NotApplicable(why) => Verdict::NotApplicable(why.clone()),
        // The machine is well: it is the scenario that has to be mended.
        PlanFor::Applicable(_) if matches!(reason, NoVerdict::Refused(_)) => {
            Verdict::Failed(vec![Finding {
                id: "subject.refused".to_owned(),
                message: reason.to_string(),
            }])
        }
        PlanFor::Applicable(_) => Verdict::NotRun(reason.to_string()),
    }
}

fn result(one: &Planned, subject: &Subject, verdict: Verdict) -> CaseResult {
    CaseResult {
        case: one.case.id.clone(),
        subject: subject.name.clone(),
        verdict,
        pending: Vec::new(),
    }
}
