//! The shape of each item kind: which keys it has, in stored order, and which values they take.
//!
//! An item that does not fit its kind is malformed: a rollout line with it is lost, a request that
//! supplies it is refused. Keys that the kind does not know are dropped. Seen by giving each kind
//! each key absent, null and of every type (history.md §1, docs/rules.md `history.shape.*`).

use serde_json::{Map, Value, json};

/// What a value of a key has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Anything, null too.
    Any,
    Text,
    /// A list of anything.
    List,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A list of parts, each of one of these types.
    Parts(&'static [Part]),
    /// A text, or a list of parts.
    Output,
    /// Parts of a reasoning; without a `reasoning_text` the key is left out.
    Reasoning,
    /// Action of a local shell call.
    Exec,
    /// Action of a web search; an unknown type becomes `other`.
    Search,
}

/// What becomes of a key that an item lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// The item is malformed.
    Needed,
    /// The key is left out; null counts as absent.
    IfSet,
    /// The key is written as null.
    Always,
}

/// Which profiles know a key or a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Everywhere,
    /// Only where items are wide (0.164+).
    Wide,
}

use Known::{Everywhere, Wide};
use Presence::{Always, IfSet, Needed};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key(&'static str, Presence, Shape, Known);

/// A content part: its type, its keys behind `type`, and who knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part(&'static str, &'static [Key], Known);

/// The item does not fit its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

const ID: Key = Key("id", IfSet, Shape::Text, Everywhere);
const STATUS: Key = Key("status", IfSet, Shape::Text, Everywhere);
const STATUS_NEEDED: Key = Key("status", Needed, Shape::Text, Everywhere);
/// 0.144.6 does not even look at it.
const STATUS_WIDE: Key = Key("status", IfSet, Shape::Text, Wide);
const CALL_ID: Key = Key("call_id", Needed, Shape::Text, Everywhere);
const CALL_ID_OR_NULL: Key = Key("call_id", Always, Shape::Text, Everywhere);
const NAME: Key = Key("name", Needed, Shape::Text, Everywhere);
const NAMESPACE: Key = Key("namespace", IfSet, Shape::Text, Everywhere);
const EXECUTION: Key = Key("execution", Needed, Shape::Text, Everywhere);
const TOOLS: Key = Key("tools", Needed, Shape::List, Everywhere);
const OUTPUT: Key = Key("output", Needed, Shape::Output, Everywhere);
const TEXT: Key = Key("text", Needed, Shape::Text, Everywhere);
const DETAIL: Key = Key(
    "detail",
    IfSet,
    Shape::OneOf(&["auto", "low", "high", "original"]),
    Everywhere,
);

const INPUT_TEXT: Part = Part("input_text", &[TEXT], Everywhere);
const OUTPUT_TEXT: Part = Part(
    "output_text",
    &[
        TEXT,
        Key("annotations", IfSet, Shape::List, Wide),
        Key("logprobs", IfSet, Shape::List, Wide),
    ],
    Everywhere,
);
const IMAGE: Part = Part(
    "input_image",
    &[Key("image_url", Needed, Shape::Text, Everywhere), DETAIL],
    Everywhere,
);
/// Tried where an image has no URL.
const IMAGE_FILE: Part = Part(
    "input_image",
    &[Key("file_id", Needed, Shape::Text, Wide), DETAIL],
    Wide,
);
const AUDIO: Part = Part(
    "input_audio",
    &[Key("audio_url", Needed, Shape::Text, Wide)],
    Wide,
);
const ENCRYPTED: Part = Part(
    "encrypted_content",
    &[Key("encrypted_content", Needed, Shape::Text, Everywhere)],
    Everywhere,
);
const OUTPUT_PARTS: &[Part] = &[INPUT_TEXT, IMAGE, IMAGE_FILE, AUDIO, ENCRYPTED];
const REASONING_PARTS: &[Part] = &[
    Part("reasoning_text", &[TEXT], Everywhere),
    Part("text", &[TEXT], Everywhere),
];

const MESSAGE: &[Key] = &[
    STATUS_WIDE,
    ID,
    Key("role", Needed, Shape::Text, Everywhere),
    Key(
        "content",
        Needed,
        Shape::Parts(&[INPUT_TEXT, IMAGE, IMAGE_FILE, AUDIO, OUTPUT_TEXT]),
        Everywhere,
    ),
    Key(
        "phase",
        IfSet,
        Shape::OneOf(&["commentary", "final_answer"]),
        Everywhere,
    ),
];
const REASONING: &[Key] = &[
    ID,
    Key(
        "summary",
        Needed,
        Shape::Parts(&[Part("summary_text", &[TEXT], Everywhere)]),
        Everywhere,
    ),
    Key("content", Always, Shape::Reasoning, Everywhere),
    Key("encrypted_content", Always, Shape::Text, Everywhere),
];
const FUNCTION_CALL: &[Key] = &[
    // Stored, never sent.
    Key("encrypted_content", IfSet, Shape::Text, Wide),
    STATUS_WIDE,
    ID,
    NAME,
    NAMESPACE,
    Key("arguments", Needed, Shape::Text, Everywhere),
    // Stored, never sent.
    Key("encrypted_function_args", IfSet, Shape::List, Wide),
    CALL_ID,
];
const FUNCTION_OUTPUT: &[Key] = &[ID, CALL_ID, OUTPUT];
/// An output without a call id comes from outside.
const FUNCTION_OUTPUT_WIDE: &[Key] = &[
    ID,
    Key("call_id", IfSet, Shape::Text, Wide),
    Key("name", IfSet, Shape::Text, Wide),
    Key("namespace", IfSet, Shape::Text, Wide),
    OUTPUT,
];
const CUSTOM_CALL: &[Key] = &[
    ID,
    STATUS,
    CALL_ID,
    NAME,
    NAMESPACE,
    Key("input", Needed, Shape::Text, Everywhere),
];
const CUSTOM_OUTPUT: &[Key] = &[
    ID,
    CALL_ID,
    Key("name", IfSet, Shape::Text, Everywhere),
    OUTPUT,
];
const LOCAL_SHELL: &[Key] = &[
    ID,
    CALL_ID_OR_NULL,
    Key(
        "status",
        Needed,
        Shape::OneOf(&["completed", "in_progress", "incomplete"]),
        Everywhere,
    ),
    Key("action", Needed, Shape::Exec, Everywhere),
];
const SEARCH_CALL: &[Key] = &[
    ID,
    CALL_ID_OR_NULL,
    STATUS,
    EXECUTION,
    Key("arguments", Needed, Shape::Any, Everywhere),
];
const SEARCH_OUTPUT: &[Key] = &[ID, CALL_ID_OR_NULL, STATUS_NEEDED, EXECUTION, TOOLS];
const WEB_SEARCH: &[Key] = &[ID, STATUS, Key("action", IfSet, Shape::Search, Everywhere)];
const IMAGE_GENERATION: &[Key] = &[
    ID,
    STATUS_NEEDED,
    Key("revised_prompt", IfSet, Shape::Text, Everywhere),
    Key("result", Needed, Shape::Text, Everywhere),
];
const ADDITIONAL_TOOLS: &[Key] = &[ID, Key("role", Needed, Shape::Text, Everywhere), TOOLS];
const COMPACTION: &[Key] = &[
    ID,
    Key("encrypted_content", Needed, Shape::Text, Everywhere),
];
const CONTEXT_COMPACTION: &[Key] = &[ID, Key("encrypted_content", IfSet, Shape::Text, Everywhere)];
const AGENT_MESSAGE: &[Key] = &[
    ID,
    Key("author", Needed, Shape::Text, Everywhere),
    Key("recipient", Needed, Shape::Text, Everywhere),
    Key(
        "content",
        Needed,
        Shape::Parts(&[INPUT_TEXT, ENCRYPTED]),
        Everywhere,
    ),
];

fn keys(kind: &str, wide: bool) -> Option<&'static [Key]> {
    Some(match kind {
        "message" => MESSAGE,
        "reasoning" => REASONING,
        "function_call" => FUNCTION_CALL,
        "function_call_output" if wide => FUNCTION_OUTPUT_WIDE,
        "function_call_output" => FUNCTION_OUTPUT,
        "custom_tool_call" => CUSTOM_CALL,
        "custom_tool_call_output" => CUSTOM_OUTPUT,
        "local_shell_call" => LOCAL_SHELL,
        "tool_search_call" => SEARCH_CALL,
        "tool_search_output" => SEARCH_OUTPUT,
        "web_search_call" => WEB_SEARCH,
        "image_generation_call" => IMAGE_GENERATION,
        "additional_tools" => ADDITIONAL_TOOLS,
        "compaction" => COMPACTION,
        "context_compaction" => CONTEXT_COMPACTION,
        "agent_message" => AGENT_MESSAGE,
        _ => return None,
    })
}

/// An item in stored form; `None` for a kind that is accepted and not kept.
pub(crate) fn read(value: &Value, wide: bool) -> Result<Option<Map<String, Value>>, Malformed> {
    let object = value.as_object().ok_or(Malformed)?;
    let said = object
        .get("type")
        .and_then(Value::as_str)
        .ok_or(Malformed)?;
    let kind = if said == "compaction_summary" {
        "compaction"
    } else {
        said
    };
    match keys(kind, wide) {
        Some(keys) => fit(object, kind, keys, wide).map(Some),
        None if kind == "configuration_update" && wide && !object.contains_key("reasoning") => {
            Err(Malformed)
        }
        None => Ok(None),
    }
}

/// The keys of `object` in stored order behind its type.
fn fit(
    object: &Map<String, Value>,
    kind: &str,
    keys: &[Key],
    wide: bool,
) -> Result<Map<String, Value>, Malformed> {
    let mut map = Map::new();
    map.insert("type".to_owned(), json!(kind));
    for Key(name, presence, shape, known) in keys {
        if *known == Wide && !wide {
            continue;
        }
        let found = object
            .get(*name)
            .filter(|value| !value.is_null() || *shape == Shape::Any);
        let fitted = match (found, presence) {
            (Some(value), _) => shaped(value, *shape, wide)?,
            (None, Needed) => return Err(Malformed),
            (None, IfSet) => None,
            (None, Always) => Some(Value::Null),
        };
        if let Some(value) = fitted {
            map.insert((*name).to_owned(), value);
        }
    }
    Ok(map)
}

/// The value as it is stored; `None` leaves the key out.
fn shaped(value: &Value, shape: Shape, wide: bool) -> Result<Option<Value>, Malformed> {
    let holds = |ok: bool| {
        if ok {
            Ok(Some(value.clone()))
        } else {
            Err(Malformed)
        }
    };
    match shape {
        Shape::Any => holds(true),
        Shape::Text => holds(value.is_string()),
        Shape::List => holds(value.is_array()),
        Shape::OneOf(words) => holds(value.as_str().is_some_and(|text| words.contains(&text))),
        Shape::Parts(known) => parts(value, known, wide).map(Some),
        Shape::Output if value.is_string() => holds(true),
        Shape::Output => parts(value, OUTPUT_PARTS, wide).map(Some),
        Shape::Reasoning => {
            let kept = parts(value, REASONING_PARTS, wide)?;
            let telling = kept
                .as_array()
                .is_some_and(|parts| parts.iter().any(|part| part["type"] == "reasoning_text"));
            Ok(telling.then_some(kept))
        }
        Shape::Exec => exec(value).map(Some),
        Shape::Search => search(value, wide).map(Some),
    }
}

fn parts(value: &Value, known: &[Part], wide: bool) -> Result<Value, Malformed> {
    let list = value.as_array().ok_or(Malformed)?;
    list.iter()
        .map(|part| one_part(part, known, wide))
        .collect::<Result<_, _>>()
        .map(Value::Array)
}

fn one_part(value: &Value, known: &[Part], wide: bool) -> Result<Value, Malformed> {
    let object = value.as_object().ok_or(Malformed)?;
    known
        .iter()
        .filter(|Part(kind, _, known)| value["type"] == *kind && (wide || *known == Everywhere))
        .find_map(|Part(kind, keys, _)| fit(object, kind, keys, wide).ok())
        .map(Value::Object)
        .ok_or(Malformed)
}

fn exec(value: &Value) -> Result<Value, Malformed> {
    let texts = |value: &Value| {
        value
            .as_array()
            .is_some_and(|list| list.iter().all(Value::is_string))
    };
    let variables = |value: &Value| {
        value
            .as_object()
            .is_some_and(|map| map.values().all(Value::is_string))
    };
    let or_null = |key: &str, ok: &dyn Fn(&Value) -> bool| value[key].is_null() || ok(&value[key]);
    let valid = value["type"] == "exec"
        && texts(&value["command"])
        && or_null("timeout_ms", &Value::is_u64)
        && or_null("working_directory", &Value::is_string)
        && or_null("env", &variables)
        && or_null("user", &Value::is_string);
    if !valid {
        return Err(Malformed);
    }
    let mut map = Map::new();
    for key in [
        "type",
        "command",
        "timeout_ms",
        "working_directory",
        "env",
        "user",
    ] {
        map.insert(key.to_owned(), value[key].clone());
    }
    Ok(Value::Object(map))
}

fn search(value: &Value, wide: bool) -> Result<Value, Malformed> {
    let object = value.as_object().ok_or(Malformed)?;
    let text = |name: &'static str| Key(name, IfSet, Shape::Text, Everywhere);
    let kind = object.get("type").ok_or(Malformed)?.as_str();
    match kind {
        Some("search") => {
            let texts = |list: &Vec<Value>| list.iter().all(Value::is_string);
            match object.get("queries") {
                None | Some(Value::Null) => {}
                Some(Value::Array(list)) if texts(list) => {}
                Some(_) => return Err(Malformed),
            }
            let queries = Key("queries", IfSet, Shape::List, Everywhere);
            fit(object, "search", &[text("query"), queries], wide)
        }
        Some("open_page") => fit(object, "open_page", &[text("url")], wide),
        Some("find_in_page") => fit(
            object,
            "find_in_page",
            &[text("url"), text("pattern")],
            wide,
        ),
        Some(_) | None => fit(object, "other", &[], wide),
    }
    .map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(value: &Value, wide: bool) -> Option<String> {
        read(value, wide)
            .ok()
            .flatten()
            .map(|map| Value::Object(map).to_string())
    }

    #[test]
    fn keys_come_in_stored_order_and_unknown_ones_go() {
        let call = json!({"zz": 1, "call_id": "c", "status": "completed", "arguments": "{}",
            "name": "n", "type": "function_call", "id": "fc_1"});
        assert_eq!(
            kept(&call, true).as_deref(),
            Some(
                r#"{"type":"function_call","status":"completed","id":"fc_1","name":"n","arguments":"{}","call_id":"c"}"#
            )
        );
        assert!(!kept(&call, false).expect("stored").contains("status"));
    }

    #[test]
    fn a_value_of_another_type_is_malformed_unless_nobody_reads_it() {
        let message = |key: &str, value: Value| {
            let mut item = json!({"type": "message", "role": "user", "content": []});
            item[key] = value;
            item
        };
        assert_eq!(read(&message("status", json!(5)), true), Err(Malformed));
        assert!(kept(&message("status", json!(5)), false).is_some());
        assert_eq!(read(&message("content", json!("x")), true), Err(Malformed));
        assert_eq!(read(&message("phase", json!("x")), true), Err(Malformed));
        assert!(kept(&message("phase", Value::Null), true).is_some());
    }

    #[test]
    fn an_image_has_a_url_or_a_file_where_files_are_known() {
        let item = |part: Value| json!({"type": "message", "role": "user", "content": [part]});
        let both = item(json!({"type": "input_image", "file_id": "f", "image_url": "u"}));
        assert!(!kept(&both, true).expect("stored").contains("file_id"));
        let file = item(json!({"type": "input_image", "file_id": "f"}));
        assert!(kept(&file, true).is_some());
        assert_eq!(read(&file, false), Err(Malformed));
    }

    #[test]
    fn reasoning_content_without_a_reasoning_text_is_left_out() {
        let item = |content: Value| {
            kept(
                &json!({"type": "reasoning", "summary": [], "content": content}),
                true,
            )
        };
        let text = json!({"type": "text", "text": "t"});
        assert_eq!(
            item(json!([text])).as_deref(),
            Some(r#"{"type":"reasoning","summary":[],"encrypted_content":null}"#)
        );
        assert!(
            item(Value::Null)
                .expect("stored")
                .contains(r#""content":null"#)
        );
    }

    #[test]
    fn an_unknown_kind_is_accepted_and_not_kept() {
        for kind in ["ghost_snapshot", "compaction_trigger", "mcp_call", "other"] {
            assert_eq!(read(&json!({"type": kind}), true), Ok(None));
        }
        assert_eq!(read(&json!({"role": "user"}), true), Err(Malformed));
    }

    #[test]
    fn an_unknown_search_action_becomes_other() {
        let item = |action: Value| {
            read(&json!({"type": "web_search_call", "action": action}), true)
                .map(|map| map.expect("kept")["action"].clone())
        };
        assert_eq!(item(json!({"type": "weird"})), Ok(json!({"type": "other"})));
        assert_eq!(item(json!({"query": "q"})), Err(Malformed));
        assert_eq!(
            item(json!({"queries": ["b"], "query": "q", "type": "search"})),
            Ok(json!({"type": "search", "query": "q", "queries": ["b"]}))
        );
    }
}
