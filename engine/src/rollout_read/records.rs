//! The records of a rollout as the reader takes them: what does not parse is no record.
//!
//! A line that is not what its type says is dropped whole and nothing is said of it
//! (history.md §0, step 1): it counts for nothing, not even for the segment that it stands in.

use serde_json::{Map, Value, json};

use super::stored;
use crate::items::{self, Item};
use crate::profile::Profile;
use crate::settings::Permissions;

/// Keys without which session metadata are none.
const META_KEYS: [&str; 5] = ["id", "timestamp", "cwd", "originator", "cli_version"];

/// One record.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Record<'a> {
    /// `session_meta`
    Meta(&'a Value),
    /// `response_item`, or a message between agents, which becomes an item.
    Item(Box<Item>),
    /// `compacted`
    Checkpoint(Checkpoint<'a>),
    /// `world_state`: the whole of it, or a merge patch.
    WorldState {
        full: bool,
        state: &'a Map<String, Value>,
    },
    /// `turn_context`
    TurnContext(TurnContext<'a>),
    /// `token_usage_record`
    Usage(&'a Value),
    /// `event_msg` that begins a turn.
    TurnStarted(Option<&'a str>),
    /// `event_msg` that ends a turn, whole or aborted.
    TurnEnded(Option<&'a str>),
    /// `event_msg` that takes back this many turns of the user.
    RolledBack(u64),
    /// Another `event_msg`.
    Event(&'a Value),
    /// A type that is not known, or an item of a kind that is not kept.
    Other,
}

/// A replaced history.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Checkpoint<'a> {
    /// The summary as it was written.
    pub(super) message: &'a str,
    /// What the history was replaced with; the oldest releases did not write it down.
    pub(super) replacement: Option<Vec<Item>>,
    /// Number of the window that it opened.
    pub(super) window_number: Option<u64>,
    /// Id of that window.
    pub(super) window_id: Option<&'a str>,
    /// Id of the window before.
    pub(super) previous_window_id: Option<&'a str>,
    /// Newest turn that the user had begun.
    pub(super) attributed_turn: Option<&'a str>,
    /// Texts that were retained then.
    pub(super) retained_context: Option<&'a Value>,
}

/// What a turn was run with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TurnContext<'a> {
    /// Its turn; older releases did not say it.
    pub(super) turn: Option<&'a str>,
    pub(super) model: &'a str,
    pub(super) cwd: &'a str,
    pub(super) permissions: Permissions,
    pub(super) effort: Option<&'a str>,
}

impl<'a> Record<'a> {
    /// The record of a line; `None` where it does not parse.
    pub(super) fn of(line: &'a Value, profile: &Profile) -> Option<Self> {
        let payload = line.get("payload").filter(|payload| payload.is_object())?;
        match line["type"].as_str()? {
            "session_meta" => {
                let mut needed = META_KEYS.iter();
                needed
                    .all(|key| payload[*key].is_string())
                    .then_some(Self::Meta(payload))
            }
            "response_item" => Self::item(payload, &line["metadata"], profile),
            "inter_agent_communication" => {
                let item = items::from_json(&between_agents(payload)?, profile)?;
                Some(Self::Item(Box::new(item)))
            }
            "compacted" => Checkpoint::of(payload, profile).map(Self::Checkpoint),
            "world_state" => Some(Self::WorldState {
                full: payload["full"].as_bool()?,
                state: payload["state"].as_object()?,
            }),
            "turn_context" => TurnContext::of(payload, profile).map(Self::TurnContext),
            "token_usage_record" => Some(Self::Usage(payload)),
            "event_msg" => Self::event(payload),
            _ => Some(Self::Other),
        }
    }

    fn item(payload: &Value, metadata: &Value, profile: &Profile) -> Option<Self> {
        let readable = metadata.is_object() || metadata.is_null() || !profile.usage_records;
        let item = items::parse(payload, profile).ok().filter(|_| readable)?;
        let Some(mut item) = item.filter(Item::reaches_history) else {
            return Some(Self::Other);
        };
        stored::read(&mut item, payload, metadata);
        Some(Self::Item(Box::new(item)))
    }

    fn event(payload: &'a Value) -> Option<Self> {
        Some(match payload["type"].as_str()? {
            "task_started" => Self::TurnStarted(payload["turn_id"].as_str()),
            "task_complete" | "turn_aborted" => Self::TurnEnded(payload["turn_id"].as_str()),
            "thread_rolled_back" => Self::RolledBack(payload["num_turns"].as_u64()?),
            _ => Self::Event(payload),
        })
    }
}

impl<'a> Checkpoint<'a> {
    fn of(payload: &'a Value, profile: &Profile) -> Option<Self> {
        let message = payload["message"].as_str()?;
        let replacement = match &payload["replacement_history"] {
            Value::Null => None,
            Value::Array(history) => {
                let metadata = &payload["replacement_history_metadata"];
                Some(replacement(history, metadata, profile)?)
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => return None,
        };
        // A window had a number for its id before it had both.
        let older = payload["window_id"].as_u64();
        let window_number = match &payload["window_number"] {
            Value::Null => older,
            number => Some(number.as_u64()?),
        };
        let window_id = &payload["window_id"];
        if !(window_id.is_null() || window_id.is_string() || older.is_some()) {
            return None;
        }
        Some(Self {
            message,
            replacement,
            window_number,
            window_id: window_id.as_str(),
            previous_window_id: payload["previous_window_id"].as_str(),
            attributed_turn: payload["resume_metadata"]["turn_attribution"]["turn_id"].as_str(),
            retained_context: payload.get("retained_context").filter(|it| it.is_object()),
        })
    }
}

/// Items of a checkpoint: nothing is filtered, and one that does not parse loses the record. So
/// does metadata that is not one object for each.
fn replacement(history: &[Value], metadata: &Value, profile: &Profile) -> Option<Vec<Item>> {
    let metadata = match metadata {
        Value::Array(list) if list.len() == history.len() => Some(list),
        Value::Null => None,
        _ if profile.usage_records => return None,
        _ => None,
    };
    let item = |(index, value): (usize, &Value)| {
        let beside = metadata.map_or(&Value::Null, |list| &list[index]);
        checkpoint_item(value, beside, profile)
    };
    history.iter().enumerate().map(item).collect()
}

/// An unknown kind is sent as `other`.
fn checkpoint_item(payload: &Value, metadata: &Value, profile: &Profile) -> Option<Item> {
    let mut item = items::parse(payload, profile).ok()?.unwrap_or_else(|| {
        let mut other = Map::new();
        other.insert("type".to_owned(), json!("other"));
        Item::new(other)
    });
    stored::read(&mut item, payload, metadata);
    Some(item)
}

impl<'a> TurnContext<'a> {
    fn of(payload: &'a Value, profile: &Profile) -> Option<Self> {
        let mut needed = profile.turn_context_keys.iter();
        if needed.any(|key| payload[*key].is_null()) {
            return None;
        }
        let turn = &payload["turn_id"];
        if !(turn.is_null() || turn.is_string()) {
            return None;
        }
        let approval = match &payload["approval_policy"] {
            Value::String(policy) => policy.clone(),
            Value::Object(granular) => json!(granular).to_string(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
        };
        Some(Self {
            turn: turn.as_str(),
            model: payload["model"].as_str()?,
            cwd: payload["cwd"].as_str()?,
            permissions: Permissions {
                sandbox: sandbox(&payload["sandbox_policy"])?,
                approval,
                rules: payload.get("permission_profile").cloned(),
            },
            effort: payload["effort"].as_str(),
        })
    }
}

/// Mode of a sandbox policy; newer releases may leave the policy out, and do not ask for it.
fn sandbox(policy: &Value) -> Option<String> {
    match policy {
        Value::Null => Some(String::new()),
        policy => policy["type"].as_str().map(str::to_owned),
    }
}

/// A message between agents as an item.
fn between_agents(payload: &Value) -> Option<Value> {
    payload["trigger_turn"].as_bool()?;
    let part = match payload["encrypted_content"].as_str() {
        Some(text) => json!({"type": "encrypted_content", "encrypted_content": text}),
        None => json!({"type": "input_text", "text": payload["content"].as_str()?}),
    };
    Some(json!({
        "type": "agent_message",
        "author": payload["author"],
        "recipient": payload["recipient"],
        "content": [part],
    }))
}
