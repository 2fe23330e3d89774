//! Client events as objects, one line each in a golden.

use serde_json::{Value, json};

use super::{Part, Site, State, walk};
use crate::recording::ClientEvent;

/// Masks one event.
pub(crate) fn event(event: &ClientEvent, state: &mut State) -> Value {
    let site = Site {
        part: Part::Event,
        kind: "",
        parent: "",
        key: "",
        free: false,
    };
    walk(object(event), site, state)
}

fn object(event: &ClientEvent) -> Value {
    match event {
        ClientEvent::TurnStarted { turn } => json!({"event": "turn_started", "turn": turn}),
        ClientEvent::TurnEnded {
            turn,
            status,
            error: None,
        } => {
            json!({"event": "turn_ended", "turn": turn, "status": status})
        }
        ClientEvent::TurnEnded {
            turn,
            status,
            error: Some((message, code)),
        } => json!({
            "event": "turn_ended", "turn": turn, "status": status,
            "message": message, "code": code,
        }),
        ClientEvent::ItemStarted { kind, id } => {
            json!({"event": "item_started", "item": kind, "id": id})
        }
        ClientEvent::ItemCompleted { kind, id, shown } => {
            json!({"event": "item_completed", "item": kind, "id": id, "shown": shown})
        }
        ClientEvent::TokenUsage {
            total,
            last,
            window,
        } => {
            json!({"event": "token_usage", "total": total, "last": last, "window": window})
        }
        ClientEvent::ModelRerouted { from, to, reason } => json!({
            "event": "model_rerouted", "model": from, "to": to, "reason": reason,
        }),
        ClientEvent::HookStarted { hook } => json!({"event": "hook_started", "hook": hook}),
        ClientEvent::HookCompleted {
            hook,
            status,
            entries,
            input,
        } => json!({
            "event": "hook_completed", "hook": hook, "status": status, "entries": entries,
            "input": input,
        }),
        ClientEvent::Warning { message } => json!({"event": "warning", "message": message}),
        ClientEvent::Error {
            message,
            will_retry,
            code,
        } => {
            json!({"event": "error", "message": message, "will_retry": will_retry, "code": code})
        }
    }
}
