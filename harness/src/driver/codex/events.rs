//! From app-server notifications to the race-free subset that a recording keeps.

use serde_json::{Map, Value, json};

use crate::recording::ClientEvent;

/// The event of a notification; `None` for those that race, repeat others, or tell of no turn.
pub(crate) fn client_event(method: &str, params: &Value) -> Option<ClientEvent> {
    let text = |pointer: &str| {
        params
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    match method {
        "turn/started" => Some(ClientEvent::TurnStarted {
            turn: text("/turn/id"),
        }),
        "turn/completed" => Some(ClientEvent::TurnEnded {
            turn: text("/turn/id"),
            status: text("/turn/status"),
            error: params
                .pointer("/turn/error")
                .filter(|error| !error.is_null())
                .map(|error| {
                    let message = error["message"].as_str().unwrap_or_default().to_owned();
                    (message, error["codexErrorInfo"].clone())
                }),
        }),
        "item/started" => Some(ClientEvent::ItemStarted {
            kind: text("/item/type"),
            id: text("/item/id"),
        }),
        "item/completed" => Some(ClientEvent::ItemCompleted {
            kind: text("/item/type"),
            id: text("/item/id"),
            shown: shown(&params["item"]),
        }),
        "thread/tokenUsage/updated" => Some(ClientEvent::TokenUsage {
            total: params
                .pointer("/tokenUsage/total")
                .cloned()
                .unwrap_or(Value::Null),
            last: params
                .pointer("/tokenUsage/last")
                .cloned()
                .unwrap_or(Value::Null),
            window: params
                .pointer("/tokenUsage/modelContextWindow")
                .and_then(Value::as_i64),
        }),
        "model/rerouted" => Some(ClientEvent::ModelRerouted {
            from: text("/fromModel"),
            to: text("/toModel"),
            reason: text("/reason"),
        }),
        "hook/started" => Some(ClientEvent::HookStarted {
            hook: text("/run/eventName"),
        }),
        "hook/completed" => Some(ClientEvent::HookCompleted {
            hook: text("/run/eventName"),
            status: text("/run/status"),
            entries: params
                .pointer("/run/entries")
                .cloned()
                .unwrap_or(Value::Null),
            // The script knows it.
            input: Value::Null,
        }),
        "warning" => Some(ClientEvent::Warning {
            message: text("/message"),
        }),
        "error" => Some(ClientEvent::Error {
            message: text("/error/message"),
            will_retry: params["willRetry"].as_bool().unwrap_or_default(),
            code: params
                .pointer("/error/codexErrorInfo")
                .cloned()
                .unwrap_or(Value::Null),
        }),
        _ => None,
    }
}

/// What a user would see of an item.
fn shown(item: &Value) -> Value {
    let pick = |fields: &[&str]| {
        let picked: Map<String, Value> = fields
            .iter()
            .filter_map(|field| Some(((*field).to_owned(), item.get(*field)?.clone())))
            .filter(|(field, value)| field == "arguments" || !value.is_null())
            .collect();
        Value::Object(picked)
    };
    match item["type"].as_str().unwrap_or_default() {
        "agentMessage" => item["text"].clone(),
        "userMessage" => content(&item["content"]),
        "reasoning" => pick(&["summary", "content"]),
        "dynamicToolCall" => pick(&[
            "namespace",
            "tool",
            "arguments",
            "status",
            "contentItems",
            "success",
        ]),
        "contextCompaction" => Value::Null,
        _ => {
            let mut rest = item.clone();
            if let Value::Object(fields) = &mut rest {
                for hidden in ["type", "id", "durationMs", "startedAtMs", "completedAtMs"] {
                    fields.shift_remove(hidden);
                }
            }
            rest
        }
    }
}

/// A list with one text part is that text.
fn content(parts: &Value) -> Value {
    match parts.as_array().map(Vec::as_slice) {
        Some([part]) if part["type"] == json!("text") => part["text"].clone(),
        _ => parts.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_shown_without_ids_and_times() {
        let item = json!({"type": "dynamicToolCall", "id": "c", "namespace": null, "tool": "t",
            "arguments": {"a": 1}, "status": "completed", "contentItems": [], "success": true,
            "durationMs": 3});
        let event = client_event("item/completed", &json!({"item": item}));
        assert_eq!(
            event,
            Some(ClientEvent::ItemCompleted {
                kind: "dynamicToolCall".into(),
                id: "c".into(),
                shown: json!({"tool": "t", "arguments": {"a": 1}, "status": "completed",
                    "contentItems": [], "success": true}),
            })
        );
    }

    #[test]
    fn a_failed_turn_has_its_message_and_code() {
        let turn = json!({"id": "t", "status": "failed",
            "error": {"message": "m", "codexErrorInfo": "other", "additionalDetails": null}});
        assert_eq!(
            client_event("turn/completed", &json!({"turn": turn})),
            Some(ClientEvent::TurnEnded {
                turn: "t".into(),
                status: "failed".into(),
                error: Some(("m".into(), json!("other"))),
            })
        );
        assert_eq!(client_event("account/rateLimits/updated", &json!({})), None);
    }
}
