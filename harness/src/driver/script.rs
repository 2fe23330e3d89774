//! What both drivers share: replies as the provider takes them, and its problems as findings.

use mock_provider::journal::Entry;
use mock_provider::script;

use super::codex::slug;
use crate::recording::{Answer, Finding};
use crate::scenario::plan::{Action, Answers, Ending, ModelSpec, PlanReply, PlanStep, ReplyBody};
use crate::texts::Calibration;

/// A reply as the provider takes it, with the real texts.
pub(crate) fn scripted(
    reply: &PlanReply,
    models: &[ModelSpec],
    calibration: &Calibration,
) -> script::ScriptedReply {
    let answers = match &reply.answers {
        Answers::Turn => script::Answers::Turn,
        Answers::Prewarm => script::Answers::Prewarm,
        Answers::Handshake => script::Answers::Handshake,
        Answers::Compaction {
            implementation,
            phase,
            reason,
            model,
        } => {
            let wire = |name: &String| {
                let known = models.iter().find(|model| model.name == *name);
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
                Ending::Close { code } => script::Ending::Close { code },
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
        ReplyBody::DropConnection => script::Body::DropConnection,
    };
    script::ScriptedReply {
        label: reply.label.clone(),
        answers,
        attempts: reply.attempts,
        body,
    }
}

/// The response that the provider keeps, if the client has read all of it.
pub(crate) fn answer(steps: &[PlanStep], entry: &Entry) -> Option<Answer> {
    let label = entry.reply.as_ref().filter(|_| !entry.client_left);
    let replies = steps.iter().flat_map(|step| &step.replies);
    let reply = replies
        .into_iter()
        .find(|reply| Some(&reply.label) == label)?;
    let gate = reply.gate.iter().flat_map(|gate| &gate.actions);
    if gate.into_iter().any(|action| *action == Action::Interrupt) {
        return None;
    }
    let ReplyBody::Stream {
        events,
        ending: Ending::Complete,
        ..
    } = &reply.body
    else {
        return None;
    };
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let completed = of("response.completed").next()?;
    Some(Answer {
        response_id: completed["response"]["id"].as_str()?.to_owned(),
        items: of("response.output_item.done")
            .map(|event| event["item"].clone())
            .collect(),
    })
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
