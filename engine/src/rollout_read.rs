//! From rollout lines back to the state of a thread.
//!
//! Records are replayed in file order; a checkpoint replaces what was before it. Items of a
//! checkpoint are taken verbatim, later items are cut by the policy in force (history.md §0).

use serde_json::{Map, Value, json};

use crate::history::{History, admit};
use crate::images;
use crate::items::{self, Item, Malformed, Meta, Retained};
use crate::permissions;
use crate::profile::Profile;
use crate::rollout::TokenInfo;
use crate::session::{Counters, RetainedTexts, Window};
use crate::settings::Settings;
use crate::tokens::Usage;

/// What the lines say of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Thread id.
    pub thread: String,
    /// Id of the first window.
    pub first_window: String,
    /// Current window.
    pub window: Window,
    /// Live history.
    pub history: History,
    /// Token numbers.
    pub info: Option<TokenInfo>,
    /// Usage of the thread, compactions included.
    pub thread_usage: Usage,
    /// Running numbers.
    pub counters: Counters,
    /// Retained texts.
    pub retained: RetainedTexts,
    /// Working directory last recorded.
    pub cwd: Option<String>,
    /// Sandbox mode last recorded.
    pub sandbox: Option<String>,
    /// Folder that stays closed, see `Settings::closed_for_good`.
    pub closed_for_good: Option<String>,
    /// Approval policy last recorded.
    pub approval: Option<String>,
    /// Model of the newest turn.
    pub model: Option<String>,
    /// Model that the world state last named.
    pub told_model: Option<String>,
    /// Reasoning effort last recorded.
    pub effort: Option<String>,
    /// A turn context stands after the newest checkpoint.
    pub baseline_turn: bool,
    /// Next ordinal.
    pub next_ordinal: u64,
}

/// Replays the records.
pub fn read(lines: &[Value], profile: &Profile, settings: &Settings) -> Found {
    let mut found = Found {
        thread: String::new(),
        first_window: String::new(),
        window: Window {
            number: 0,
            id: String::new(),
            first: String::new(),
            previous: None,
        },
        history: History::default(),
        info: None,
        thread_usage: Usage::default(),
        counters: Counters::default(),
        retained: RetainedTexts::default(),
        cwd: None,
        sandbox: None,
        closed_for_good: None,
        approval: None,
        model: None,
        told_model: None,
        effort: None,
        baseline_turn: false,
        next_ordinal: 0,
    };
    for line in lines {
        if let Some(ordinal) = line["ordinal"].as_u64() {
            found.next_ordinal = ordinal + 1;
        }
        let payload = &line["payload"];
        match line["type"].as_str() {
            Some("session_meta") if found.thread.is_empty() => found.meta(payload),
            Some("response_item") => found.item(payload, &line["metadata"], profile, settings),
            Some("compacted") => found.compacted(payload, profile),
            Some("world_state") => {
                let model = payload["state"]["model"].as_str();
                found.told_model = model.map(str::to_owned).or(found.told_model.take());
            }
            Some("turn_context") => found.turn_context(payload),
            Some("token_usage_record") => {
                found.thread_usage = usage(&payload["thread_token_usage"]);
            }
            Some("event_msg") => found.event(payload),
            _ => {}
        }
    }
    found
}

impl Found {
    fn meta(&mut self, payload: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.thread = text(&payload["id"]);
        self.first_window = text(&payload["context_window"]["window_id"]);
        self.window.id.clone_from(&self.first_window);
        self.window.first.clone_from(&self.first_window);
        self.cwd = payload["cwd"].as_str().map(str::to_owned);
    }

    fn item(&mut self, payload: &Value, metadata: &Value, profile: &Profile, settings: &Settings) {
        let Some(mut item) = stored_item(payload, metadata, profile) else {
            return;
        };
        self.counters.history += 1;
        if profile.sequences {
            self.counters.history = item.meta.history_sequence.max(self.counters.history);
            self.counters.sampled = item.meta.sampled_through.max(self.counters.sampled);
        }
        if let Some(order) = item.meta.user_input_order {
            self.counters.order = self.counters.order.max(order + 1);
        }
        if let (Some(order), Some(source)) = (item.meta.user_input_order, &item.meta.retained) {
            self.retained.push(order, source.clone());
        }
        admit(&mut item, settings.truncation(), profile);
        self.history.push(item);
    }

    fn compacted(&mut self, payload: &Value, profile: &Profile) {
        let Some(history) = payload["replacement_history"].as_array() else {
            return;
        };
        let none = Vec::new();
        let metadata = payload["replacement_history_metadata"]
            .as_array()
            .unwrap_or(&none);
        let kept: Result<Vec<Item>, Malformed> = history
            .iter()
            .enumerate()
            .map(|(index, value)| {
                checkpoint_item(value, metadata.get(index).unwrap_or(&Value::Null), profile)
            })
            .collect();
        // One item that does not parse loses the whole record.
        let Ok(kept) = kept else { return };
        let newest = kept
            .iter()
            .map(|item| item.meta.history_sequence)
            .max()
            .unwrap_or(0);
        self.counters.history = self.counters.history.max(newest);
        self.history = History::new(kept);
        self.window.number = payload["window_number"]
            .as_u64()
            .unwrap_or(self.window.number + 1);
        if let Some(id) = payload["window_id"].as_str() {
            id.clone_into(&mut self.window.id);
            self.window.previous = payload["previous_window_id"].as_str().map(str::to_owned);
        }
        self.baseline_turn = false;
    }

    fn turn_context(&mut self, payload: &Value) {
        self.baseline_turn = true;
        self.model = payload["model"].as_str().map(str::to_owned);
        self.cwd = payload["cwd"]
            .as_str()
            .map(str::to_owned)
            .or(self.cwd.take());
        self.sandbox = payload["sandbox_policy"]["type"]
            .as_str()
            .map(str::to_owned);
        self.closed_for_good = permissions::recorded_closed_for_good(payload);
        self.approval = payload["approval_policy"].as_str().map(str::to_owned);
        self.effort = payload["effort"].as_str().map(str::to_owned);
    }

    fn event(&mut self, payload: &Value) {
        match payload["type"].as_str() {
            Some("token_count") if payload["info"].is_object() => {
                let info = &payload["info"];
                self.info = Some(TokenInfo {
                    total: usage(&info["total_token_usage"]),
                    window: info["model_context_window"].as_i64(),
                    last: usage(&info["last_token_usage"]),
                    includes_reasoning: info["last_usage_includes_reasoning"].as_bool(),
                });
                self.history.mark_covered();
            }
            Some("thread_settings_applied") => {
                let settings = &payload["thread_settings"];
                self.effort = settings["reasoning_effort"].as_str().map(str::to_owned);
            }
            _ => {}
        }
    }
}

fn usage(record: &Value) -> Usage {
    let number = |key: &str| record[key].as_i64().unwrap_or(0);
    Usage {
        input: number("input_tokens"),
        cached: number("cached_input_tokens"),
        cache_write: number("cache_write_input_tokens"),
        output: number("output_tokens"),
        reasoning: number("reasoning_output_tokens"),
        total: number("total_tokens"),
    }
}

/// An item of a checkpoint: nothing is filtered, an unknown kind is sent as `other`.
fn checkpoint_item(
    payload: &Value,
    metadata: &Value,
    profile: &Profile,
) -> Result<Item, Malformed> {
    let known = items::parse(payload, profile)?;
    let mut item = known.unwrap_or_else(|| {
        let mut other = Map::new();
        other.insert("type".to_owned(), json!("other"));
        Item::new(other)
    });
    recorded(&mut item, payload, metadata);
    images::prepare(&mut item);
    Ok(item)
}

fn stored_item(payload: &Value, metadata: &Value, profile: &Profile) -> Option<Item> {
    let mut item = items::from_json(payload, profile)?;
    recorded(&mut item, payload, metadata);
    Some(item)
}

/// Takes over what the record says beside the item.
fn recorded(item: &mut Item, payload: &Value, metadata: &Value) {
    if let Some(passthrough) = payload["internal_chat_message_metadata_passthrough"].as_object() {
        item.passthrough.clone_from(passthrough);
    }
    item.meta = Meta {
        history_sequence: metadata["history_sequence"].as_u64().unwrap_or(0),
        sampled_through: metadata["sampled_through_sequence"].as_u64().unwrap_or(0),
        retained: retained(&metadata["retained_source"], item),
        user_input_order: metadata["user_input_order"].as_u64(),
        mcp_attribution: metadata["mcp_attribution"].is_object(),
        fallback_token_limit: metadata["fallback_token_limit_override"].as_u64(),
        supplied_thread: false,
        context_output: metadata["additional_context_tool_output"] == Value::Bool(true),
        opaque: item.kind() == "compaction",
        model_hash: metadata["compaction_model_hash"]
            .as_str()
            .map(str::to_owned),
        compaction_output: metadata["compaction_output"] == Value::Bool(true),
    };
}

fn retained(source: &Value, item: &Item) -> Option<Retained> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(Retained {
        revision: text(&source["revision"])?,
        message_id: text(&source["id"]["message_id"])?,
        turn_id: text(&source["id"]["turn_id"])?,
        role: if source["id"]["role"] == "user" {
            "user"
        } else {
            "assistant"
        },
        complete: source["complete"] == Value::Bool(true),
        text: item.texts().concat(),
    })
}
