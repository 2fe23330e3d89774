//! What both drivers share: replies as the provider takes them, and its problems as findings.

use mock_provider::script;

use super::codex::slug;
use crate::recording::Finding;
use crate::scenario::plan::{Answers, Ending, Plan, PlanReply, PlanStep, ReplyBody};
use crate::texts::Calibration;

/// A reply as the provider takes it, with the real texts.
pub(crate) fn scripted(
    reply: &PlanReply,
    plan: &Plan,
    calibration: &Calibration,
) -> script::ScriptedReply {
    let answers = match &reply.answers {
        Answers::Turn => script::Answers::Turn,
        Answers::Prewarm => script::Answers::Prewarm,
        Answers::Compaction {
            implementation,
            phase,
            reason,
            model,
        } => {
            let wire = |name: &String| {
                let known = plan.models.iter().find(|model| model.name == *name);
                known.map_or_else(|| name.clone(), slug)
            };
            script::Answers::Compaction {
                implementation: implementation.clone(),
                phase: phase.clone(),
                reason: reason.clone(),
                model: model.as_ref().map(wire),
            }
        }
    };
    let body = match &reply.body {
        ReplyBody::Stream {
            headers,
            events,
            ending,
        } => script::Body::Stream {
            headers: headers.clone(),
            events: events
                .iter()
                .map(|event| calibration.to_real_value(event))
                .collect(),
            ending: match *ending {
                Ending::Complete => script::Ending::Complete,
                Ending::Cut { after_events } => script::Ending::Cut { after_events },
                Ending::Stall { after_events } => script::Ending::Stall { after_events },
            },
            gate_after_events: reply.gate.as_ref().map(|gate| gate.after_events),
        },
        ReplyBody::Http {
            status,
            headers,
            body,
        } => script::Body::Http {
            status: *status,
            headers: headers.clone(),
            body: calibration.to_real(body),
        },
        // Such a plan is refused before it runs.
        ReplyBody::DropConnection | ReplyBody::Later(_) => script::Body::DropConnection,
    };
    script::ScriptedReply {
        label: reply.label.clone(),
        answers,
        attempts: reply.attempts,
        body,
    }
}

/// A problem of the script as a finding of a step.
pub(crate) fn problem_finding(step: &PlanStep, problem: &script::Problem) -> Finding {
    let id = match problem {
        script::Problem::Unscripted { .. } => "script.unscripted_request",
        script::Problem::WrongKind { .. } => "script.wrong_kind",
        script::Problem::UnusedReply { .. } => "script.unused_reply",
        script::Problem::UnknownRoute { .. } => "script.unknown_route",
    };
    Finding {
        id: id.to_owned(),
        message: format!("step {} (line {}): {problem}", step.number, step.line),
    }
}
