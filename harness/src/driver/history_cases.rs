//! Recorded cases "rollout items → next request" of the real binaries, and how their short forms
//! are written out (`harness/tests/data/history-cases.json`).
//!
//! A case holds what was appended to a thread of one turn (`U1` answered by `A1`), and the input
//! of the request that followed. Versions with the same case share an entry. Short forms:
//!
//! - `{"msg": role, "c": text or parts}` is a message; a text is a part of its own, `output_text`
//!   for an assistant. Two names say that their input is another: [`RAW_CONTENT`], [`OUTPUT_TEXT`].
//! - `T(n)` is the first n bytes of `000000000.000000001.…`; `<head>…[n chars]…<tail>` in an input
//!   is the text of n bytes that [`REBUILT`] gives, in a result any longer text with these ends.
//! - `{head_bytes, marker, tail_bytes}` is the case's `T(n)` with its middle cut out.
//! - `<data:MIME PNG WxH rgb>` is a black image of that size; in a result the same label says that
//!   its bytes were kept, and `rgba` that it was made smaller. `<data:MIME nB b'…'>` are n bytes of
//!   text, `<data:audio/wav RIFF WAVE>` a sound.
//! - `<PREFIX>` is the request of the one turn and its answer. What stands before `task_complete`
//!   in a list of whole records is that turn, too.
//! - `_meta` in an item is the metadata of its record; a `config` record holds a setting.
//! - `fco_<uuid>` is any id with that prefix.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::scenario::png;

/// Cases in the file, versions counted one by one.
pub(crate) const CASES: usize = 479;
const FILE: &str = include_str!("../../tests/data/history-cases.json");
/// Its content is a text, not a list of parts.
const RAW_CONTENT: &str = "g1b/msg_string_content";
/// Its user message has a part `output_text`.
const OUTPUT_TEXT: &str = "g1b/msg_user_output_text";

/// One case of one version.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Name in the catalogue, `m-b100` for instance; `None` is 10,000 bytes, text and images.
    pub(crate) model: Option<String>,
    pub(crate) tool_output_token_limit: Option<u64>,
    /// Items with the metadata of their records.
    pub(crate) items: Vec<(Value, Value)>,
    /// Input behind the prefix, in short form.
    pub(crate) expected: Vec<Value>,
}

/// All cases of the file.
pub(crate) fn load() -> Vec<Case> {
    for_each_version(FILE, case)
}

/// A case of each entry of a file for each version that it was recorded from.
pub(crate) fn for_each_version<T>(file: &str, case: impl Fn(&Value, &str) -> T) -> Vec<T> {
    let entries: Vec<Value> = serde_json::from_str(file).expect("the file is JSON");
    let mut cases = Vec::new();
    for entry in &entries {
        for version in entry["versions"].as_array().expect("versions") {
            cases.push(case(entry, version.as_str().expect("a version")));
        }
    }
    cases
}

fn case(entry: &Value, version: &str) -> Case {
    let name = entry["name"].as_str().expect("a name").to_owned();
    let records = entry["rollout_items"].as_array().expect("items");
    let first = records
        .iter()
        .position(|record| record == "task_complete")
        .map_or(0, |index| index + 1);
    let mut model = text(&entry["model"]);
    let mut limit = None;
    let mut items = Vec::new();
    for record in &records[..first] {
        model = text(&record["turn_context"]["model"]).or(model);
    }
    for record in &records[first..] {
        if let Some(config) = record["config"].as_str() {
            let (key, value) = config.split_once('=').expect("a setting");
            assert_eq!(key, "tool_output_token_limit", "{name}");
            limit = Some(value.parse().expect("a number"));
            model = text(&record["model"]).or(model);
        } else if record["change_between_record_and_resume"].is_null() {
            items.push(item(record, &name));
        }
    }
    let wire = entry["wire_input"].as_array().expect("an input");
    let prefix = usize::from(wire[0] == "<PREFIX>");
    assert_eq!(prefix, 1, "{name} {version}: begins with the prefix");
    Case {
        name,
        version: version.to_owned(),
        model: model.filter(|model| model.starts_with("m-")),
        tool_output_token_limit: limit,
        items,
        expected: wire[prefix..].to_vec(),
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// An item written out, and the metadata of its record.
fn item(short: &Value, name: &str) -> (Value, Value) {
    let mut object = short.as_object().expect("an item").clone();
    let meta = object.shift_remove("_meta").unwrap_or(Value::Null);
    if let Some(role) = object.shift_remove("msg") {
        let content = object.shift_remove("c").expect("content");
        let content = match content {
            Value::String(text) if name == RAW_CONTENT => json!(text),
            Value::String(text) => json!([part(&json!(text), &role, name)]),
            Value::Array(parts) => parts.iter().map(|p| part(p, &role, name)).collect(),
            other => panic!("{name}: {other}"),
        };
        let mut whole = Map::new();
        whole.insert("type".to_owned(), json!("message"));
        whole.insert("role".to_owned(), role);
        whole.insert("content".to_owned(), content);
        whole.extend(object);
        object = whole;
    }
    (written_out(&Value::Object(object)), meta)
}

fn part(short: &Value, role: &Value, name: &str) -> Value {
    let Some(text) = short.as_str() else {
        return short.clone();
    };
    let output = role == "assistant" || name == OUTPUT_TEXT;
    let kind = if output { "output_text" } else { "input_text" };
    json!({"type": kind, "text": text})
}

fn written_out(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(long_text(text)),
        Value::Array(list) => list.iter().map(written_out).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), written_out(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// `000000000.000000001.…`, that many bytes of it.
fn numbered(bytes: usize) -> String {
    let mut text = String::new();
    for number in 0..=bytes / 10 {
        let _ = write!(text, "{number:09}.");
    }
    text.truncate(bytes);
    text
}

/// Texts that a shortened input can stand for, given its number of bytes.
const REBUILT: &[fn(usize) -> String] = &[
    numbered,
    |bytes| {
        format!(
            "{{\"cmd\": \"{}\"}}",
            numbered(bytes - "{\"cmd\": \"\"}".len())
        )
    },
    |bytes| {
        let mut text = numbered(bytes).into_bytes();
        for end in text.iter_mut().skip(49).step_by(50) {
            *end = b'\n';
        }
        String::from_utf8(text).expect("ASCII")
    },
];

fn long_text(short: &str) -> String {
    if let Some(bytes) = short.strip_prefix("T(").and_then(|t| t.strip_suffix(')')) {
        return numbered(bytes.parse().expect("a number"));
    }
    if let Some((head, count, tail)) = shortened(short) {
        return REBUILT
            .iter()
            .map(|make| make(count))
            .find(|text| text.starts_with(head) && text.ends_with(tail))
            .unwrap_or_else(|| panic!("nothing gives {short}"));
    }
    match short
        .strip_prefix("<data:")
        .and_then(|t| t.strip_suffix('>'))
    {
        Some(data) => data_url(data),
        None => short.to_owned(),
    }
}

/// Head, number and tail of `head…[n chars]…tail`.
fn shortened(text: &str) -> Option<(&str, usize, &str)> {
    let (head, rest) = text.split_once("…[")?;
    let (count, tail) = rest.split_once(" chars]…")?;
    Some((head, count.parse().ok()?, tail))
}

fn data_url(data: &str) -> String {
    if data == "audio/wav RIFF WAVE" {
        let sound = b"RIFF\x24\0\0\0WAVE";
        return format!("data:audio/wav;base64,{}", STANDARD.encode(sound));
    }
    let (mime, rest) = data.split_once(' ').expect("a type");
    if let Some(bytes) = rest
        .split_once("b'")
        .and_then(|(_, t)| t.strip_suffix('\''))
    {
        return format!("data:{mime};base64,{}", STANDARD.encode(bytes));
    }
    let size = rest.split(' ').nth(1).expect("a size");
    let url = png::data_url(size).expect("an image");
    match mime {
        // The bare bytes of a generated image.
        "x" => url.replace("data:image/png;base64,", ""),
        _ => url.replace("image/png", mime),
    }
}

/// Whether an input item is the one that the case shows in short form.
pub(crate) fn shows(expected: &Value, actual: &Value, case: &Case) -> bool {
    if let Some(role) = expected.get("msg") {
        let short = message(actual);
        return short.get("msg") == Some(role) && same(expected, &short, case);
    }
    same(expected, actual, case)
}

/// A message in short form.
fn message(item: &Value) -> Value {
    let mut short = Map::new();
    let part = |part: &Value| match part["type"].as_str() {
        Some("input_text" | "output_text") if part.as_object().is_some_and(|p| p.len() == 2) => {
            part["text"].clone()
        }
        _ => part.clone(),
    };
    let parts: Vec<Value> = item["content"]
        .as_array()
        .map(|parts| parts.iter().map(part).collect())
        .unwrap_or_default();
    let content = match &parts[..] {
        [Value::String(text)] => json!(text),
        _ => json!(parts),
    };
    short.insert("msg".to_owned(), item["role"].clone());
    short.insert("c".to_owned(), content);
    for key in ["id", "phase", "status"] {
        if let Some(value) = item.get(key) {
            short.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(short)
}

fn same(expected: &Value, actual: &Value, case: &Case) -> bool {
    match (expected, actual) {
        (Value::Object(cut), Value::String(text)) if cut.contains_key("head_bytes") => {
            *text == cut_text(cut, case)
        }
        (Value::Object(expected), Value::Object(actual)) => {
            expected.len() == actual.len()
                && expected.iter().all(|(key, value)| {
                    actual
                        .get(key)
                        .is_some_and(|found| same(value, found, case))
                })
        }
        (Value::Array(expected), Value::Array(actual)) => {
            expected.len() == actual.len()
                && expected.iter().zip(actual).all(|(e, a)| same(e, a, case))
        }
        (Value::String(expected), Value::String(actual)) => same_text(expected, actual),
        _ => expected == actual,
    }
}

fn same_text(expected: &str, actual: &str) -> bool {
    if let Some(prefix) = expected.strip_suffix("<uuid>") {
        return actual
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.len() == 36);
    }
    if let Some((head, _, tail)) = shortened(expected) {
        return actual.len() > head.len() + tail.len()
            && actual.starts_with(head)
            && actual.ends_with(tail);
    }
    if let Some(label) = expected.strip_suffix(" rgba>") {
        return crate::mask::image_size(actual)
            .is_some_and(|size| label == format!("<data:image/png PNG {size}"));
    }
    long_text(expected) == actual
}

/// The long text of the case with its middle cut out.
fn cut_text(cut: &Map<String, Value>, case: &Case) -> String {
    let number = |key: &str| cut[key].as_u64().expect("a number") as usize;
    let source = case
        .items
        .iter()
        .find_map(|(item, _)| item["output"].as_str())
        .expect("a long text");
    format!(
        "{}{}{}",
        &source[..number("head_bytes")],
        cut["marker"].as_str().expect("a marker"),
        &source[source.len() - number("tail_bytes")..]
    )
}

/// Tells how many cases a real binary answered as they were recorded: the gate counts this line.
#[expect(clippy::print_stdout, reason = "`cargo xtask ci` reads it")]
pub(crate) fn count(compared: usize, wrong: usize) {
    println!("{} passed, {wrong} failed, 0 skipped", compared - wrong);
}
