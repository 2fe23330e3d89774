//! One request: headers, body, kind.

use serde_json::{Map, Value};

use super::ids::is_uuid;
use super::{MaskedRequest, Part, Site, State, exact_object, leaf, text, walk};
use crate::recording::{Answer, Exchange};

/// Stands for a window that two equal runs name differently.
const WINDOW_BY_CHANCE: &str = "<window by chance>";

/// Masks one request.
pub(crate) fn request(exchange: &Exchange, state: &mut State) -> MaskedRequest {
    let parsed = exact_object(&exchange.body).map(sort_client_metadata);
    state.body_bytes = exchange.body.len();
    state.body_metadata = parsed
        .as_ref()
        .and_then(|b| b.pointer("/client_metadata/x-codex-turn-metadata"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let headers = exchange
        .headers
        .iter()
        .map(|(name, value)| {
            let by_chance = exchange
                .is_handshake()
                .then(|| window_by_chance(name, value));
            header(name, by_chance.flatten().as_deref().unwrap_or(value), state)
        })
        .collect();
    let site = Site {
        part: Part::Body,
        kind: "",
        parent: "",
        key: "",
        free: false,
    };
    let body = match parsed {
        Some(value) => walk(value, site, state),
        None => raw(&String::from_utf8_lossy(&exchange.body), state),
    };
    MaskedRequest {
        kind: if exchange.is_handshake() {
            "handshake".to_owned()
        } else {
            kind(&body, &exchange.path)
        },
        method: exchange.method.clone(),
        path: text::plain(&exchange.path, &state.places),
        headers,
        body,
    }
}

/// Masks a response as if it were a part of the next request.
pub(crate) fn answer(answer: &Answer, state: &mut State) -> Answer {
    let site = Site {
        part: Part::Body,
        kind: "",
        parent: "",
        key: "input",
        free: false,
    };
    let items = answer.items.iter();
    Answer {
        response_id: answer.response_id.clone(),
        items: items.map(|item| walk(item.clone(), site, state)).collect(),
    }
}

/// Text that is not compact JSON.
pub(crate) fn raw(line: &str, state: &State) -> Value {
    let mut out = Map::new();
    out.insert("$raw".into(), text::plain(line, &state.places).into());
    Value::Object(out)
}

/// Metadata of a handshake without the window of a history that was loaded: it is that window or a
/// fresh one, as the two come to pass (upstream finding 14); the request behind it tells.
fn window_by_chance(name: &str, value: &str) -> Option<String> {
    if name != "x-codex-turn-metadata" {
        return None;
    }
    let mut metadata: Value = serde_json::from_str(value).ok()?;
    let began = metadata.get("history_initialization")?.as_str()?;
    if !["cold_resume", "warm_fork"].contains(&began) {
        return None;
    }
    let window = metadata.get_mut("context_window_id")?;
    if !window.as_str().is_some_and(is_uuid) {
        return None;
    }
    *window = WINDOW_BY_CHANCE.into();
    Some(metadata.to_string())
}

fn header(name: &str, value: &str, state: &mut State) -> (String, String) {
    let site = Site {
        part: Part::Header,
        kind: "",
        parent: "",
        key: name,
        free: false,
    };
    let masked = match leaf(Value::String(value.to_owned()), &site, state) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    (name.to_owned(), masked)
}

/// Only this object's order is random in the real binary.
fn sort_client_metadata(mut body: Value) -> Value {
    if let Some(Value::Object(map)) = body.get_mut("client_metadata") {
        let mut entries: Vec<_> = std::mem::take(map).into_iter().collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        map.extend(entries);
    }
    body
}

fn kind(body: &Value, path: &str) -> String {
    let said = body
        .pointer("/client_metadata/x-codex-turn-metadata/$json/request_kind")
        .and_then(Value::as_str);
    match said {
        Some(kind) => kind.to_owned(),
        None if path.ends_with("/responses/compact") => "compaction".to_owned(),
        None => "other".to_owned(),
    }
}
