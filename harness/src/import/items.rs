//! Items of a response as the format writes them, with ids left out where the format numbers alike.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::redact::Texts;
use super::tools::Tools;

/// What the client answered to a call.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// With this output.
    Output(Value),
    /// With this output, as a failure.
    Failure(Value),
    /// Not at all: the turn was interrupted first.
    None,
}

/// Keys of a call that the format has.
const CALL_KEYS: [&str; 6] = ["type", "id", "call_id", "name", "namespace", "arguments"];

/// Keys of a call of a client tool that are not carried.
pub(super) fn keys_of_call_left_out(item: &Value, tools: &Tools) -> Vec<String> {
    let is_call = item["type"] == "function_call";
    let name = item["name"]
        .as_str()
        .filter(|_| is_call)
        .unwrap_or_default();
    let item = bare(item);
    let keys = item.as_object().filter(|_| tools.is_declared(name));
    let keys = keys.into_iter().flat_map(Map::keys);
    keys.filter(|key| !CALL_KEYS.contains(&key.as_str()))
        .map(|key| crate::doctor::shown(key))
        .collect()
}

/// Writes items; numbers run through the whole scenario, as in the format.
#[derive(Debug, Default)]
pub(super) struct Items {
    given: BTreeMap<&'static str, usize>,
}

impl Items {
    /// The written id, or nothing where the format gives the same one.
    fn id(&mut self, prefix: &'static str, recorded: &Value) -> Option<Value> {
        let Some(id) = recorded.as_str() else {
            return Some(Value::Null);
        };
        let number = self.given.get(prefix).copied().unwrap_or_default() + 1;
        if id == format!("{prefix}_{number}") {
            self.given.insert(prefix, number);
            return None;
        }
        Some(json!(id))
    }

    /// One item. `answer` is asked for the output of a call.
    pub(super) fn item(
        &mut self,
        item: &Value,
        texts: &Texts,
        tools: &Tools,
        answer: &dyn Fn(&str) -> Answer,
    ) -> Map<String, Value> {
        let item = bare(item);
        let kind = item["type"].as_str().unwrap_or_default();
        let made = match kind {
            "message" => self.message(&item, texts),
            "function_call" => self.call(&item, texts, tools, answer),
            "custom_tool_call" => self.custom(&item, texts),
            "reasoning" => self.reasoning(&item, texts),
            "compaction" => self.compaction(&item, texts),
            _ => None,
        };
        made.unwrap_or_else(|| map(json!({"raw": texts.value(&item)})))
    }

    fn message(&mut self, item: &Value, texts: &Texts) -> Option<Map<String, Value>> {
        only(item, &["type", "id", "role", "content", "phase"])?;
        let [part] = item["content"].as_array()?.as_slice() else {
            return None;
        };
        only(part, &["type", "text"])?;
        let plain = item["role"] == "assistant" && part["type"] == "output_text";
        let text = part["text"].as_str().filter(|_| plain)?;
        let mut out = map(json!({"say": texts.text(text)}));
        if let Some(phase) = item.get("phase") {
            out.insert("phase".to_owned(), phase.clone());
        }
        self.put_id(&mut out, "msg", item);
        Some(out)
    }

    fn call(
        &mut self,
        item: &Value,
        texts: &Texts,
        tools: &Tools,
        answer: &dyn Fn(&str) -> Answer,
    ) -> Option<Map<String, Value>> {
        let name = item["name"].as_str()?;
        // The client can only answer a call that is written as one.
        if !tools.is_declared(name) {
            only(item, &CALL_KEYS)?;
        }
        let (call_id, arguments) = (item["call_id"].as_str()?, item["arguments"].as_str()?);
        let mut out = map(json!({"tool": tools.name(name)}));
        if let Some(namespace) = item.get("namespace") {
            out.insert("namespace".to_owned(), namespace.clone());
        }
        let parsed = serde_json::from_str::<Value>(arguments);
        let valid = parsed.is_ok();
        let compact = parsed.as_ref().map(Value::to_string).unwrap_or_default();
        match parsed {
            Ok(Value::Object(parsed)) if compact == arguments => {
                if !parsed.is_empty() {
                    out.insert("arguments".to_owned(), texts.arguments(&parsed));
                }
            }
            _ => {
                let text = texts.json_text(arguments);
                out.insert("arguments_text".to_owned(), json!(text));
            }
        }
        if let Some(id) = self.id("call", &item["call_id"]) {
            out.insert("call_id".to_owned(), id);
        }
        self.put_id(&mut out, "fc", item);
        if tools.is_declared(name) {
            match answer(call_id) {
                // Codex itself answers arguments that it cannot read.
                Answer::Output(_) | Answer::Failure(_) if !valid => {}
                Answer::Output(output) => {
                    out.insert("output".to_owned(), parts(&output, texts));
                }
                Answer::Failure(output) => {
                    let output = json!({"fail": parts(&output, texts)});
                    out.insert("output".to_owned(), output);
                }
                Answer::None => {}
            }
        }
        Some(map(json!({"call": out})))
    }

    fn custom(&mut self, item: &Value, texts: &Texts) -> Option<Map<String, Value>> {
        only(item, &["type", "id", "call_id", "name", "input"])?;
        let (name, input) = (item["name"].as_str()?, item["input"].as_str()?);
        item["call_id"].as_str()?;
        let mut out = map(json!({"tool": name, "input": texts.text(input)}));
        if let Some(id) = self.id("call", &item["call_id"]) {
            out.insert("call_id".to_owned(), id);
        }
        self.put_id(&mut out, "ctc", item);
        Some(map(json!({"custom_call": out})))
    }

    fn reasoning(&mut self, item: &Value, texts: &Texts) -> Option<Map<String, Value>> {
        only(
            item,
            &["type", "id", "summary", "content", "encrypted_content"],
        )?;
        let mut out = Map::new();
        for (key, kind) in [("summary", "summary_text"), ("content", "reasoning_text")] {
            let Some(list) = item.get(key) else { continue };
            let list = list.as_array()?.iter().map(|part| {
                only(part, &["type", "text"])?;
                let text = part["text"].as_str().filter(|_| part["type"] == kind)?;
                Some(texts.text(text))
            });
            let list = list.collect::<Option<Vec<Value>>>()?;
            if key == "content" || !list.is_empty() {
                out.insert(key.to_owned(), json!(list));
            }
        }
        if let Some(encrypted) = item.get("encrypted_content") {
            let text = texts.text(encrypted.as_str()?);
            out.insert("encrypted_content".to_owned(), text);
        }
        self.put_id(&mut out, "rs", item);
        Some(map(json!({"reasoning": out})))
    }

    fn compaction(&mut self, item: &Value, texts: &Texts) -> Option<Map<String, Value>> {
        only(item, &["type", "id", "encrypted_content"])?;
        let text = texts.text(item["encrypted_content"].as_str()?);
        let mut out = map(json!({"encrypted_content": text}));
        self.put_id(&mut out, "cmp", item);
        Some(map(json!({"compaction": out})))
    }

    fn put_id(&mut self, out: &mut Map<String, Value>, prefix: &'static str, item: &Value) {
        if let Some(id) = self.id(prefix, &item["id"]) {
            out.insert("item_id".to_owned(), id);
        }
    }
}

/// An item without what Codex adds for itself.
pub(super) fn bare(item: &Value) -> Value {
    let Value::Object(map) = item else {
        return item.clone();
    };
    let own = |key: &str| key == "internal_chat_message_metadata_passthrough" || key == "metadata";
    map.iter()
        .filter(|(key, value)| !own(key) && !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// An item of a supplied or injected history: an id that Codex made is made anew.
pub(super) fn supplied(item: &Value, texts: &Texts) -> Value {
    let mut item = bare(item);
    let made = |id: &Value| {
        let id = id.as_str().unwrap_or_default();
        id.split_once('_')
            .is_some_and(|(_, id)| id.len() == 36 && id.matches('-').count() == 4)
    };
    if let Some(map) = item.as_object_mut()
        && map.get("id").is_some_and(made)
    {
        map.shift_remove("id");
    }
    texts.value(&item)
}

/// Parts of a message or of an output.
pub(super) fn parts(content: &Value, texts: &Texts) -> Value {
    let one = |part: &Value| -> Option<Value> {
        match part["type"].as_str()? {
            "input_text" | "output_text" => Some(texts.text(part["text"].as_str()?)),
            "input_image" => {
                let mut out = map(json!({"image": texts.image(part["image_url"].as_str()?)}));
                if let Some(detail) = part.get("detail").filter(|detail| detail.is_string()) {
                    out.insert("detail".to_owned(), detail.clone());
                }
                Some(Value::Object(out))
            }
            _ => None,
        }
    };
    match content {
        Value::String(text) => texts.text(text),
        Value::Array(list) => {
            // Codex writes a tag around an image that the client sent.
            let tag = |part: &Value| {
                let text = part["text"].as_str().unwrap_or_default();
                text == "<image>" || text == "</image>"
            };
            let list = list.iter().filter(|part| !tag(part));
            let list: Vec<Value> = list.filter_map(one).collect();
            match list.as_slice() {
                [text] if text.is_string() => text.clone(),
                _ => json!(list),
            }
        }
        _ => json!([]),
    }
}

fn only(item: &Value, keys: &[&str]) -> Option<()> {
    let mut found = item.as_object()?.keys();
    found.all(|key| keys.contains(&key.as_str())).then_some(())
}

/// A literal mapping.
pub(super) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
