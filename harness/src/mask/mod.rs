//! Masks: the only place that may remove information from a recording.
//!
//! [`mask`] turns a [`Recording`] into a [`Masked`]: what differs between two equal runs becomes a
//! placeholder that keeps identity (`<thread:1>`, `<item:3>`), everything else stays. Masks never
//! delete and never reorder, with two named exceptions in [`STRUCTURAL`]. Literal text that looks
//! like a placeholder is escaped (`<~cwd>`), so no text can pass for a mask.
//!
//! When adding a mask: add a row to [`MASKS`], a placeholder name to `text::NAMES` if it is a new
//! word, and a test that shows it does not hide a neighbour.

mod damaged;
mod events;
mod ids;
mod order;
mod rollout;
pub(crate) mod text;
mod values;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

#[cfg(test)]
pub(crate) use self::values::image_size;

use crate::recording::{Answer, Edited, Places, Recording, Rewrite};

/// A masked recording: what goldens hold and checkers read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Masked {
    /// Requests in order of arrival.
    pub wire: Vec<MaskedRequest>,
    /// Rollout files in order of creation.
    pub rollouts: Vec<MaskedRollout>,
    /// Client events, one object each.
    pub events: Vec<Value>,
    /// Rollout files that did not only grow; no golden holds them.
    pub rewrites: Vec<Rewrite>,
    /// Edits that the scenario made of rollout files; no golden holds them.
    pub edits: Vec<MaskedEdit>,
    /// The completed responses to the requests, one for each of `wire`; no golden holds them.
    pub answers: Vec<Option<Answer>>,
}

/// An edit that the scenario made of a rollout file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedEdit {
    /// Requests that were sent before.
    pub requests: usize,
    /// Place of the file among the rollouts; `None` where it is gone.
    pub file: Option<usize>,
    /// Records of the file behind the edit.
    pub records: usize,
}

/// One masked request.
#[derive(Debug, Clone, PartialEq)]
pub struct MaskedRequest {
    /// `turn`, `compaction`, `prewarm` … as the request says; `other` when it does not.
    pub kind: String,
    /// HTTP method; `WS` for a frame of a WebSocket.
    pub method: String,
    /// Path below the base URL.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `{"$raw": text}` when it is not a JSON object in serde's compact form.
    pub body: Value,
}

/// One masked rollout file.
#[derive(Debug, Clone, PartialEq)]
pub struct MaskedRollout {
    /// File name.
    pub name: String,
    /// One value per line; `{"$raw": line}` for a line that is not compact JSON, and a final
    /// `{"$no_newline": true}` when the file does not end with one.
    pub records: Vec<Value>,
}

/// Which part of a recording a value stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A request header; the key is its name.
    Header,
    /// A request body.
    Body,
    /// A rollout record.
    Rollout,
    /// A client event.
    Event,
}

/// Where a leaf stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site<'a> {
    /// Part of the recording.
    pub(crate) part: Part,
    /// `type` of the rollout record, empty elsewhere.
    pub(crate) kind: &'a str,
    /// Key of the object around the value's own object.
    pub(crate) parent: &'a str,
    /// The value's key; array elements keep the key of their array.
    pub(crate) key: &'a str,
    /// Inside texts, arguments and schemas: nothing but places is replaced there.
    pub(crate) free: bool,
}

/// One normalisation rule for leaves.
pub struct Mask {
    /// Stable name.
    pub id: &'static str,
    /// Why it is needed.
    pub reason: &'static str,
    apply: fn(&Site<'_>, &Value, &mut State) -> Option<Value>,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Masks of leaves; the first that answers wins.
pub const MASKS: &[Mask] = &[
    Mask {
        id: "turn_metadata",
        reason: "JSON in a string holds ids",
        apply: values::metadata,
    },
    Mask {
        id: "window_text",
        reason: "the context names thread and windows where there is a token budget",
        apply: ids::window_text,
    },
    Mask {
        id: "content_length",
        reason: "follows from the body",
        apply: values::content_length,
    },
    Mask {
        id: "host",
        reason: "the port is chosen by the system",
        apply: values::host,
    },
    Mask {
        id: "websocket_key",
        reason: "random per handshake",
        apply: values::websocket_key,
    },
    Mask {
        id: "user_agent",
        reason: "holds version and system",
        apply: values::user_agent,
    },
    Mask {
        id: "installation",
        reason: "an id of the run",
        apply: values::installation,
    },
    Mask {
        id: "window_name",
        reason: "a thread id and a number",
        apply: ids::window_name,
    },
    Mask {
        id: "thread",
        reason: "random per run",
        apply: ids::thread,
    },
    Mask {
        id: "turn",
        reason: "random per run",
        apply: ids::turn,
    },
    Mask {
        id: "window",
        reason: "random per run",
        apply: ids::window,
    },
    Mask {
        id: "item",
        reason: "random per run, or scripted",
        apply: ids::item,
    },
    Mask {
        id: "uuid",
        reason: "random per run",
        apply: ids::uuid,
    },
    Mask {
        id: "not_dispatched",
        reason: "how far a call got before a used up budget ended its turn depends on the load",
        apply: values::not_dispatched,
    },
    Mask {
        id: "time",
        reason: "wall clock",
        apply: values::time,
    },
    Mask {
        id: "version",
        reason: "named by the golden's header",
        apply: values::version,
    },
    Mask {
        id: "catalog",
        reason: "grows with the suite",
        apply: values::catalog,
    },
    Mask {
        id: "permissions",
        reason: "a hash of the real permissions text",
        apply: values::permissions,
    },
    Mask {
        id: "instructions",
        reason: "a hash of a text that the binary makes of the catalogue entry",
        apply: values::instructions,
    },
    Mask {
        id: "model",
        reason: "a hash of the model's spec",
        apply: values::model,
    },
    Mask {
        id: "date",
        reason: "wall clock",
        apply: values::date,
    },
    Mask {
        id: "resized_image",
        reason: "the bytes of a resized PNG are its encoder's; its size stays",
        apply: values::resized_image,
    },
    Mask {
        id: "base_bytes",
        reason: "where a record of an older file ends depends on how many digits times have",
        apply: values::base_bytes,
    },
    Mask {
        id: "seconds",
        reason: "0.144.6 prints how long a call ran",
        apply: values::seconds,
    },
];

/// Masks of whole structures, by name and reason.
pub const STRUCTURAL: &[(&str, &str)] = &[
    (
        "client_metadata_order",
        "the key order of client_metadata is random in every request",
    ),
    (
        "same_as_body",
        "the metadata header repeats the body's string",
    ),
    (
        "window_by_chance",
        "the handshake of a loaded history names its window or a fresh one",
    ),
    ("rollout_name", "holds the start time and the thread id"),
    (
        "parallel_completion_order",
        "paginated rollouts: completions race with outputs",
    ),
    (
        "places",
        "workspace, home and provider lie anywhere; replaced in every text",
    ),
];

/// What masks remember over one recording.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) ids: ids::Registry,
    pub(crate) places: Places,
    /// Bytes of the body of the request being masked.
    pub(crate) body_bytes: usize,
    /// The metadata string in the body of the request being masked.
    pub(crate) body_metadata: Option<String>,
    /// Bytes before each line end of the rollout files that were masked.
    pub(crate) line_ends: BTreeSet<u64>,
}

/// Masks one recording. Placeholders are numbered by first appearance: wire, rollouts, events.
pub fn mask(recording: &Recording) -> Masked {
    let mut state = State {
        places: recording.places.clone(),
        ..State::default()
    };
    let wire = recording
        .journal
        .iter()
        .map(|e| wire::request(e, &mut state))
        .collect();
    let rollouts = recording
        .rollouts
        .iter()
        .map(|f| rollout::file(f, &mut state))
        .collect();
    let events = order::canonical_events(&recording.events)
        .into_iter()
        .map(|e| events::event(e, &mut state))
        .collect();
    // Last, so that what only they hold is numbered behind everything that a golden shows.
    let answers = recording
        .journal
        .iter()
        .map(|e| Some(wire::answer(e.answer.as_ref()?, &mut state)))
        .collect();
    Masked {
        wire,
        rollouts,
        events,
        rewrites: recording.rewrites.clone(),
        edits: edits(recording),
        answers,
    }
}

fn edits(recording: &Recording) -> Vec<MaskedEdit> {
    let edit = |edit: &Edited| MaskedEdit {
        requests: edit.requests,
        file: recording
            .rollouts
            .iter()
            .position(|file| file.name == edit.file),
        records: edit.lines,
    };
    recording.edits.iter().map(edit).collect()
}

/// Keys whose value is text, or JSON, of the user, the model or a tool.
const FREE: &[&str] = &[
    "arguments",
    "call_id",
    "content_items",
    "description",
    "encrypted_content",
    "image_url",
    "inputSchema",
    "instructions",
    "last_agent_message",
    "message",
    "name",
    "output",
    "parameters",
    "schema",
    "shown",
    "text",
    "tool",
    "tools",
    "url",
];

/// Keys that masks themselves introduce; a literal one gets one more `$`.
const RESERVED: &[&str] = &["json", "raw", "no_newline"];

/// Masks a value and everything below it.
pub(crate) fn walk(value: Value, site: Site<'_>, state: &mut State) -> Value {
    match value {
        Value::Object(mut map) => {
            for (key, child) in &mut map {
                let below = Site {
                    parent: site.key,
                    key,
                    free: site.free || FREE.contains(&key.as_str()),
                    ..site
                };
                *child = walk(std::mem::take(child), below, state);
            }
            if map.keys().any(|key| key.starts_with('$')) {
                let escaped =
                    |(key, child): (String, Value)| (text::escape_key(&key, RESERVED), child);
                map = map.into_iter().map(escaped).collect();
            }
            Value::Object(map)
        }
        Value::Array(mut list) => {
            for child in &mut list {
                *child = walk(std::mem::take(child), site, state);
            }
            Value::Array(list)
        }
        Value::Null | Value::Bool(_) => value,
        Value::String(_) | Value::Number(_) => leaf(value, &site, state),
    }
}

/// Masks one string or number.
pub(crate) fn leaf(value: Value, site: &Site<'_>, state: &mut State) -> Value {
    for mask in MASKS {
        if let Some(masked) = (mask.apply)(site, &value, state) {
            return masked;
        }
    }
    match value {
        Value::String(text) => Value::String(text::plain_owned(text, &state.places)),
        other => other,
    }
}

/// Parses JSON that serde writes back byte for byte; everything else is kept as text.
pub(crate) fn exact_object(bytes: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    (value.is_object() && serde_json::to_vec(&value).ok()? == bytes).then_some(value)
}

/// The same of a text in which only ASCII stands as written, as the metadata of a turn.
pub(crate) fn exact_ascii_object(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    (value.is_object() && engine::request::ascii_json(&value) == text).then_some(value)
}
