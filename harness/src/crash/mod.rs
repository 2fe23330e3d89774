//! Crash points: a process is killed at an append of its rollout, the thread is resumed, and what
//! was acknowledged has to be there.
//!
//! A crash point is a scenario, a number of an append, and how much of that append is on disk. The
//! law of `engine@V+fixed`: the resume works, one more turn completes, no acknowledged record is
//! lost, and a torn line is named. It is held against what the next request sends and against the
//! file that is left, so it knows nothing of how a rollout is read beyond lines of JSON.

mod law;

use std::fmt;

use serde_json::Value;

use crate::driver::{CrashDriver, NoVerdict};
use crate::scenario::plan::{Answers, Plan, PlanReply, PlanStep};
use crate::scenario::{Resolved, load_bytes};

pub use self::law::broken;

/// Scenarios whose every append is a crash point: calls, interrupts, resumes, and both kinds of
/// compaction before, in and between turns.
pub const SCENARIOS: [&str; 10] = [
    "compaction/local/replaces_the_summary_in_a_second_compaction",
    "compaction/local/resumes_after_a_manual_compaction",
    "compaction/local/resumes_after_a_mid_turn_compaction",
    "compaction/local/resumes_after_a_pre_turn_compaction",
    "compaction/remote_v2/resumes_with_the_opaque_item",
    "compaction/remote_v2/story_compacts_in_the_middle_of_the_turn",
    "compaction/remote_v2/story_compacts_when_the_user_asks",
    "rollout/resumes_after_a_kill",
    "turn/puts_parallel_outputs_in_call_order",
    "turn/records_an_interrupt_during_a_tool",
];

/// Scenarios that are run on the real binaries, too. None of their turns ends over its limit, so no
/// compaction comes before the turn behind the resume.
pub const REAL_SCENARIOS: [&str; 2] = [
    "compaction/local/resumes_after_a_manual_compaction",
    "turn/puts_parallel_outputs_in_call_order",
];

/// Most appends of a scenario.
const APPENDS_MAX: usize = 500;

/// What a client does behind the crash.
const PROBE: &str = "description: The client comes back.\nsteps:\n  - {user: Before.}\n  - stop: eof\n  \
    - {resume: {by: id}}\n  - {user: Is it all there?, replies: [{say: It is.}]}\n  - stop: eof\n  \
    - {resume: {by: id}}\n  - {user: And now?, replies: [{say: Still.}]}\n";
/// Steps of it that only make it a scenario.
const PROBE_HEAD: usize = 2;

/// One crash point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The append at which the process dies, from 1.
    pub append: usize,
    /// Its first half is on disk.
    pub torn: bool,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.torn { "torn" } else { "absent" };
        write!(f, "append {} {how}", self.append)
    }
}

/// What was left behind a crash, and what came of the thread.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Crashed {
    /// Records that were on disk as whole lines when the process died.
    pub acknowledged: Vec<Value>,
    /// Records that were acknowledged behind the crash, where the subject says so.
    pub later: Vec<Value>,
    /// Why a step of the client failed.
    pub failed: Vec<String>,
    /// Inputs of the first request behind each resume.
    pub inputs: Vec<Vec<Value>>,
    /// The file ends inside a line.
    pub torn: bool,
    /// Warnings that the client saw.
    pub warnings: Vec<String>,
    /// Lines of the file at the end that are JSON.
    pub left: Vec<Value>,
}

/// What came of the crash points of one scenario.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Points that were tried.
    pub points: usize,
    /// Points with what is broken there.
    pub broken: Vec<(Point, Vec<String>)>,
}

/// Tries every crash point of a plan.
pub async fn points(driver: &dyn CrashDriver, plan: &Plan) -> Result<Summary, NoVerdict> {
    let mut summary = Summary::default();
    for append in 1..=APPENDS_MAX {
        for torn in [false, true] {
            if torn && !driver.tears() {
                continue;
            }
            let point = Point { append, torn };
            let Some(crashed) = one(driver, plan, point).await? else {
                return Ok(summary);
            };
            summary.points += 1;
            let found = broken(&crashed, driver.tells_skipped());
            if !found.is_empty() {
                summary.broken.push((point, found));
            }
        }
    }
    Err(NoVerdict::CouldNotDecide(format!(
        "{}: more than {APPENDS_MAX} appends",
        plan.id
    )))
}

/// One crash point; `None` where the plan has no such append.
async fn one(
    driver: &dyn CrashDriver,
    plan: &Plan,
    point: Point,
) -> Result<Option<Crashed>, NoVerdict> {
    let alone = probe(plan, None)?;
    let Some(crashed) = driver.crash(plan, point, &alone).await? else {
        return Ok(None);
    };
    // A thread that died over its limit compacts before the turn: then it is asked for that.
    let mut replies = plan.steps.iter().flat_map(|step| &step.replies);
    let compaction = replies.find(|reply| matches!(reply.answers, Answers::Compaction { .. }));
    match compaction {
        Some(reply) if !crashed.failed.is_empty() => {
            let compacts = probe(plan, Some(reply))?;
            let again = driver.crash(plan, point, &compacts).await?;
            Ok(again
                .filter(|again| again.failed.is_empty())
                .or(Some(crashed)))
        }
        _ => Ok(Some(crashed)),
    }
}

/// The client's steps behind a crash; the turn compacts first where there is an answer for that.
fn probe(plan: &Plan, compaction: Option<&PlanReply>) -> Result<Vec<PlanStep>, NoVerdict> {
    let wrong = |why: String| NoVerdict::CouldNotRun(why);
    let loaded = load_bytes("probe", "the probe", PROBE.as_bytes(), None)
        .map_err(|errors| wrong(errors.iter().map(ToString::to_string).collect()))?;
    let newest = &crate::scenario::VERSIONS[crate::scenario::VERSIONS.len() - 1];
    let resolved = loaded
        .plan(newest)
        .map_err(|error| wrong(error.to_string()))?;
    let Resolved::Applicable(probe) = resolved else {
        return Err(wrong("the probe does not apply".to_owned()));
    };
    let mut steps = probe.steps;
    steps.drain(..PROBE_HEAD);
    let behind = plan.steps.len();
    for (index, step) in steps.iter_mut().enumerate() {
        step.number = behind + index + 1;
    }
    if let Some(reply) = compaction {
        let mut reply = reply.clone();
        reply.request = None;
        if let Answers::Compaction { phase, reason, .. } = &mut reply.answers {
            *phase = None;
            *reason = None;
        }
        steps[1].replies.insert(0, reply);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests;
