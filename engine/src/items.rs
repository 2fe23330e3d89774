//! Items of the history: the payload as stored, and what the rollout says beside it.
//!
//! An item is raw JSON with the key order of the binary. What a model sends is re-written in that
//! order and stripped of unknown fields (history.md §1); what has no valid shape is dropped.

use serde_json::{Map, Value, json};

use crate::profile::Profile;

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

    /// The payload as it goes on the wire.
    pub fn wire(&self, profile: &Profile) -> Value {
        let mut map = self.payload.clone();
        let keep = profile.item_ids
            && map
                .get("id")
                .and_then(Value::as_str)
                .is_some_and(|id| has_own_prefix(self.kind(), id));
        if !keep {
            map.shift_remove("id");
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

/// A server id goes on the wire only with the prefix of its kind.
fn has_own_prefix(kind: &str, id: &str) -> bool {
    id.starts_with(id_prefix(kind))
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

/// Keys of a kind in stored order: name, and whether a missing key is written as null.
fn keys(kind: &str) -> Option<&'static [(&'static str, Presence)]> {
    use Presence::{Always, IfSet, Needed};
    Some(match kind {
        "message" => &[
            ("type", Needed),
            ("id", IfSet),
            ("role", Needed),
            ("content", Needed),
            ("phase", IfSet),
        ],
        "reasoning" => &[
            ("type", Needed),
            ("id", IfSet),
            ("summary", Needed),
            ("content", Always),
            ("encrypted_content", Always),
        ],
        "function_call" => &[
            ("type", Needed),
            ("id", IfSet),
            ("name", Needed),
            ("namespace", IfSet),
            ("arguments", Needed),
            ("call_id", Needed),
        ],
        "function_call_output" => &[
            ("type", Needed),
            ("id", IfSet),
            ("call_id", Needed),
            ("output", Needed),
        ],
        "custom_tool_call" => &[
            ("type", Needed),
            ("id", IfSet),
            ("status", IfSet),
            ("call_id", Needed),
            ("name", Needed),
            ("namespace", IfSet),
            ("input", Needed),
        ],
        "custom_tool_call_output" => &[
            ("type", Needed),
            ("id", IfSet),
            ("call_id", Needed),
            ("name", IfSet),
            ("output", Needed),
        ],
        "web_search_call" => &[
            ("type", Needed),
            ("id", IfSet),
            ("status", IfSet),
            ("action", IfSet),
        ],
        "additional_tools" => &[
            ("type", Needed),
            ("id", IfSet),
            ("role", Needed),
            ("tools", Needed),
        ],
        "compaction" | "context_compaction" => &[
            ("type", Needed),
            ("id", IfSet),
            ("encrypted_content", IfSet),
        ],
        _ => return None,
    })
}

/// What becomes of a key that an item lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// The item is dropped.
    Needed,
    /// The key is left out.
    IfSet,
    /// The key is written as null.
    Always,
}

/// An item as the binary stores it, or `None` where it stores nothing.
pub fn from_json(value: &Value, profile: &Profile) -> Option<Item> {
    let object = value.as_object()?;
    let mut kind = object.get("type")?.as_str()?;
    if kind == "compaction_summary" {
        kind = "compaction";
    }
    let mut map = Map::new();
    for &(key, presence) in keys(kind)? {
        let found = object.get(key).filter(|value| !value.is_null());
        match (found, presence) {
            (Some(_), _) if key == "type" => {
                map.insert(key.to_owned(), json!(kind));
            }
            (Some(value), _) => {
                map.insert(key.to_owned(), value.clone());
            }
            (None, Presence::Needed) => return None,
            (None, Presence::IfSet) => {}
            (None, Presence::Always) => {
                map.insert(key.to_owned(), Value::Null);
            }
        }
    }
    if kind == "message" {
        if !valid_message(&map) {
            return None;
        }
        if !profile.keeps_part_extras {
            strip_parts(&mut map);
        }
    }
    Some(Item::new(map))
}

/// Leaves only what 0.144.6 knows of a content part.
fn strip_parts(map: &mut Map<String, Value>) {
    let parts = map.get_mut("content").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten().filter_map(Value::as_object_mut) {
        part.retain(|key, _| ["type", "text", "image_url", "detail"].contains(&key.as_str()));
    }
}

/// Roles other than `system` with parts of known types.
fn valid_message(map: &Map<String, Value>) -> bool {
    let known = |part: &Value| {
        matches!(
            part["type"].as_str(),
            Some("input_text" | "output_text" | "input_image")
        )
    };
    map["role"].as_str().is_some_and(|role| role != "system")
        && map["content"]
            .as_array()
            .is_some_and(|parts| parts.iter().all(known))
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
            r#"{"type":"function_call","id":"fc_1","name":"n","arguments":"{}","call_id":"c"}"#
        );
    }

    #[test]
    fn a_system_message_and_an_unknown_type_are_dropped() {
        let system = json!({"type": "message", "role": "system", "content": []});
        assert_eq!(wire(Version::V144, &system), None);
        assert_eq!(wire(Version::V144, &json!({"type": "mcp_call"})), None);
    }
}
