//! Items of the history: the payload as stored, and what the rollout says beside it.
//!
//! An item is raw JSON with the key order of the binary. What a model sends is re-written in that
//! order and stripped of unknown fields; which shapes there are stands in `shape.rs`.

use serde_json::{Map, Value, json};

use crate::profile::Profile;
use crate::shape;
pub use crate::shape::Malformed;

/// One item of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Stored payload without its passthrough.
    pub payload: Map<String, Value>,
    /// `internal_chat_message_metadata_passthrough`.
    pub passthrough: Map<String, Value>,
    /// `metadata` of the record (0.164+).
    pub meta: Meta,
}

/// Record metadata of an item; written by 0.164 and later.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meta {
    /// Running number of the item in the thread (0.171).
    pub history_sequence: u64,
    /// Number of the last item that a model had seen (0.171).
    pub sampled_through: u64,
    /// Revision id where the text is retained.
    pub retained: Option<Retained>,
    /// Order among inputs, calls and answers.
    pub user_input_order: Option<u64>,
    /// `mcp_attribution` is present.
    pub mcp_attribution: bool,
    /// Cut limit of a tool output in tokens.
    pub fallback_token_limit: Option<u64>,
    /// The thread began with supplied items: its attribution has no checkpoint (0.171).
    pub supplied_thread: bool,
    /// Client context in the shape of an output (0.171).
    pub context_output: bool,
    /// The opaque item of a remote compaction.
    pub opaque: bool,
    /// Catalogue hash of the model that made the opaque item.
    pub model_hash: Option<String>,
    /// The item came from a compaction answer.
    pub compaction_output: bool,
}

/// Where a retained text came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Retained {
    /// `retained_<uuid>`
    pub revision: String,
    /// Item id.
    pub message_id: String,
    /// Turn id.
    pub turn_id: String,
    /// `user` or `assistant`.
    pub role: &'static str,
    /// The whole text was seen when it was retained (not for injected items).
    pub complete: bool,
    /// Joined text.
    pub text: String,
}

impl Item {
    /// A new item.
    pub fn new(payload: Map<String, Value>) -> Self {
        Self {
            payload,
            passthrough: Map::new(),
            meta: Meta::default(),
        }
    }

    /// `type`
    pub fn kind(&self) -> &str {
        self.payload
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// `role` of a message.
    pub fn role(&self) -> &str {
        self.payload
            .get("role")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// `call_id`
    pub fn call_id(&self) -> Option<&str> {
        self.payload.get("call_id").and_then(Value::as_str)
    }

    /// Text parts of a message.
    pub fn texts(&self) -> Vec<&str> {
        content_texts(self.payload.get("content"))
    }

    /// Whether the model made it (compaction.md §2.2).
    pub fn is_model_output(&self) -> bool {
        match self.kind() {
            "message" => self.role() == "assistant",
            "reasoning"
            | "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "web_search_call"
            | "tool_search_call"
            | "image_generation_call"
            | "compaction"
            | "context_compaction" => true,
            _ => false,
        }
    }

    /// The payload with its passthrough last, as in a rollout.
    pub fn stored(&self) -> Value {
        let mut map = self.payload.clone();
        if !self.passthrough.is_empty() {
            map.insert(
                "internal_chat_message_metadata_passthrough".to_owned(),
                Value::Object(self.passthrough.clone()),
            );
        }
        Value::Object(map)
    }

    /// Whether it is part of the history; a message of the system is only written down.
    pub fn reaches_history(&self) -> bool {
        self.kind() != "message" || self.role() != "system"
    }

    /// Its own id.
    pub(crate) fn id(&self) -> Option<&str> {
        self.payload.get("id")?.as_str()
    }

    /// Says of each part of a message that nothing is known of it.
    pub(crate) fn name_unknown_parts(&mut self) {
        let content = self.payload.get("content").and_then(Value::as_array);
        let parts = content.map_or(0, Vec::len);
        let unknown = json!(vec!["unknown"; parts]);
        self.passthrough
            .insert("content_item_kinds".to_owned(), unknown);
    }

    /// Gives an id, unless the item has one; an empty id is none.
    pub fn give_id(&mut self, make: impl FnOnce(&str) -> String) {
        let id = self.payload.get("id").and_then(Value::as_str);
        if id.is_some_and(|id| !id.is_empty()) {
            return;
        }
        let id = json!(make(id_prefix(self.kind())));
        let before: &[&str] = match self.kind() {
            "message" | "function_call" => &["type", "encrypted_content", "status"],
            _ => &["type"],
        };
        let place = self
            .payload
            .keys()
            .take_while(|key| before.contains(&key.as_str()))
            .count();
        self.payload.shift_remove("id");
        self.payload.shift_insert(place, "id".to_owned(), id);
    }

    /// The payload as it goes on the wire.
    pub fn wire(&self, profile: &Profile) -> Value {
        let mut map = self.payload.clone();
        let keep = profile.item_ids
            && map
                .get("id")
                .and_then(Value::as_str)
                .is_some_and(has_prefix);
        if !keep {
            map.shift_remove("id");
        }
        if self.kind() == "function_call" {
            map.shift_remove("encrypted_content");
            map.shift_remove("encrypted_function_args");
        }
        Value::Object(map)
    }
}

/// Text of every text part.
pub(crate) fn content_texts(content: Option<&Value>) -> Vec<&str> {
    content
        .and_then(Value::as_array)
        .map(|parts| {
            parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect()
        })
        .unwrap_or_default()
}

/// Id prefix of an item kind (appserver.md §6).
pub fn id_prefix(kind: &str) -> &'static str {
    match kind {
        "reasoning" => "rs_",
        "function_call" => "fc_",
        "function_call_output" => "fco_",
        "custom_tool_call" => "ctc_",
        "custom_tool_call_output" => "ctco_",
        "local_shell_call" => "lsh_",
        "web_search_call" => "ws_",
        "tool_search_call" => "tsc_",
        "tool_search_output" => "tso_",
        "image_generation_call" => "ig_",
        "additional_tools" => "at_",
        "compaction" | "context_compaction" => "cmp_",
        "agent_message" => "amsg_",
        _ => "msg_",
    }
}

/// An id goes on the wire only with a prefix, whichever it is: `ls_abc` does, `m1`, `_abc` and
/// `msg_` do not.
fn has_prefix(id: &str) -> bool {
    id.split_once('_')
        .is_some_and(|(prefix, rest)| !prefix.is_empty() && !rest.is_empty())
}

/// A message.
pub fn message(role: &str, id: Option<String>, content: Vec<Value>) -> Item {
    let mut map = Map::new();
    map.insert("type".to_owned(), json!("message"));
    if let Some(id) = id {
        map.insert("id".to_owned(), json!(id));
    }
    map.insert("role".to_owned(), json!(role));
    map.insert("content".to_owned(), Value::Array(content));
    Item::new(map)
}

/// Last input item of a remote compaction request.
pub fn trigger() -> Item {
    let mut map = Map::new();
    map.insert("type".to_owned(), json!("compaction_trigger"));
    Item::new(map)
}

/// The tools that a search of the client found.
pub fn search_output(call_id: &str, tools: Value) -> Item {
    let mut map = Map::new();
    map.insert("type".to_owned(), json!("tool_search_output"));
    map.insert("call_id".to_owned(), json!(call_id));
    map.insert("status".to_owned(), json!("completed"));
    map.insert("execution".to_owned(), json!("client"));
    map.insert("tools".to_owned(), tools);
    Item::new(map)
}

/// A tool output of `kind`.
pub fn output(kind: &str, id: Option<String>, call_id: &str, output: Value) -> Item {
    let mut map = Map::new();
    map.insert("type".to_owned(), json!(kind));
    if let Some(id) = id {
        map.insert("id".to_owned(), json!(id));
    }
    map.insert("call_id".to_owned(), json!(call_id));
    map.insert("output".to_owned(), output);
    Item::new(map)
}

/// An item as the binary stores it; `None` for a kind that is accepted and not kept.
pub fn parse(value: &Value, profile: &Profile) -> Result<Option<Item>, Malformed> {
    Ok(shape::read(value, profile.wide_items)?.map(Item::new))
}

/// An item as it enters the history, or `None` where nothing does.
pub fn from_json(value: &Value, profile: &Profile) -> Option<Item> {
    parse(value, profile)
        .ok()
        .flatten()
        .filter(Item::reaches_history)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Version;

    fn wire(version: Version, value: &Value) -> Option<Value> {
        from_json(value, &Profile::of(version)).map(|item| item.wire(&Profile::of(version)))
    }

    #[test]
    fn a_foreign_id_stays_off_the_wire() {
        let call = json!({"type": "function_call", "call_id": "c", "id": "weird9",
            "name": "lookup", "arguments": "{}"});
        let expected = json!({"type": "function_call", "name": "lookup", "arguments": "{}",
            "call_id": "c"});
        assert_eq!(wire(Version::V171, &call), Some(expected));
    }

    #[test]
    fn keys_are_written_in_stored_order_and_unknown_ones_dropped() {
        let call = json!({"call_id": "c", "status": "completed", "arguments": "{}", "name": "n",
            "type": "function_call", "id": "fc_1"});
        assert_eq!(
            wire(Version::V171, &call).expect("stored").to_string(),
            r#"{"type":"function_call","status":"completed","id":"fc_1","name":"n","arguments":"{}","call_id":"c"}"#
        );
    }

    #[test]
    fn an_id_needs_a_prefix_and_it_may_be_any() {
        let message = |id: &str| {
            let item = json!({"type": "message", "role": "user", "id": id, "content": []});
            wire(Version::V171, &item).expect("kept")["id"].clone()
        };
        for id in ["ls_abc", "fc_1", "msg_1/2", "a_b c"] {
            assert_eq!(message(id), id);
        }
        for id in ["m1", "_abc", "msg_", "msg-abc", ""] {
            assert_eq!(message(id), Value::Null, "{id}");
        }
    }

    #[test]
    fn an_id_is_given_behind_the_status_of_a_message() {
        let profile = Profile::of(Version::V171);
        let value = json!({"type": "message", "status": "s", "id": "", "role": "user",
            "content": []});
        let mut item = from_json(&value, &profile).expect("kept");
        item.give_id(|prefix| format!("{prefix}9"));
        assert_eq!(
            item.wire(&profile).to_string(),
            r#"{"type":"message","status":"s","id":"msg_9","role":"user","content":[]}"#
        );
        item.give_id(|_| unreachable!("it has one"));
    }

    #[test]
    fn a_system_message_and_an_unknown_type_are_dropped() {
        let system = json!({"type": "message", "role": "system", "content": []});
        assert_eq!(wire(Version::V144, &system), None);
        assert_eq!(wire(Version::V144, &json!({"type": "mcp_call"})), None);
    }
}
