//! From a plan to what the app-server and the provider take.

use mock_provider::script;
use serde_json::{Value, json};

use super::home::slug;
use crate::scenario::plan::{Answers, Ending, Plan, PlanReply, ReplyBody, ToolSpec};
use crate::texts::Calibration;

/// The tools as the app-server takes them: a namespace stands where its first tool stood.
pub(super) fn dynamic_tools(tools: &[ToolSpec]) -> Vec<Value> {
    let mut specs: Vec<Value> = Vec::new();
    for tool in tools {
        let mut spec = json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "inputSchema": tool.parameters,
        });
        if tool.defer_loading {
            spec["deferLoading"] = json!(true);
        }
        let Some(namespace) = &tool.namespace else {
            specs.push(spec);
            continue;
        };
        let known = specs
            .iter_mut()
            .find(|known| known["type"] == "namespace" && known["name"] == json!(namespace));
        match known.and_then(|known| known["tools"].as_array_mut()) {
            Some(tools) => tools.push(spec),
            None => specs.push(json!({
                "type": "namespace",
                "name": namespace,
                "description": namespace,
                "tools": [spec],
            })),
        }
    }
    specs
}

/// A reply as the provider takes it, with the real texts.
pub(super) fn scripted(
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
