//! Client tools of the scenario: those that the thread declared, and stand-ins for Codex's own.
//!
//! A client may not declare a tool by the name of one of Codex's own, so such a call goes to a tool
//! whose name has the same length. Nothing that was recorded is ever executed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::items::map;
use super::read::Entry;
use super::redact::Texts;

/// Names of a scenario's tools.
#[derive(Debug, Default)]
pub(super) struct Tools {
    declared: Map<String, Value>,
    /// Recorded names and the names of their stand-ins.
    renamed: BTreeMap<String, String>,
}

impl Tools {
    /// Tools of a thread and of the calls in it.
    pub(super) fn of(entries: &[Entry], texts: &Texts) -> Self {
        let mut tools = Self::default();
        let meta = entries.first().map(|entry| &entry.payload);
        let listed = meta.and_then(|meta| meta["dynamic_tools"].as_array());
        for tool in listed.into_iter().flatten() {
            tools.declare(tool, None, texts);
        }
        let unsupported: Vec<&str> = entries
            .iter()
            .filter(|entry| entry.inner() == "function_call_output")
            .filter_map(|entry| {
                entry.payload["output"]
                    .as_str()?
                    .strip_prefix("unsupported call: ")
            })
            .collect();
        for entry in entries
            .iter()
            .filter(|entry| entry.inner() == "function_call")
        {
            let Some(name) = entry.payload["name"].as_str() else {
                continue;
            };
            let namespace = entry.payload["namespace"].as_str().unwrap_or_default();
            let told = format!("{namespace}{name}");
            let unknown = unsupported
                .iter()
                .any(|said| *said == name || *said == told);
            if entry.kind == "response_item" && !tools.is_declared(name) && !unknown {
                tools.stand_in(name, &entry.payload["namespace"]);
            }
        }
        tools
    }

    fn declare(&mut self, tool: &Value, namespace: Option<&str>, texts: &Texts) {
        let Some(name) = tool["name"].as_str() else {
            return;
        };
        if let Some(inner) = tool["tools"].as_array() {
            for tool in inner {
                self.declare(tool, Some(name), texts);
            }
            return;
        }
        let schema = &tool["inputSchema"];
        let deferred = tool["deferLoading"] == true;
        let namespace = namespace.or(tool["namespace"].as_str());
        let described = tool["description"].as_str().filter(|text| *text != name);
        let short =
            short_form(schema).filter(|_| namespace.is_none() && !deferred && described.is_none());
        let spec = short.unwrap_or_else(|| {
            let mut long = map(json!({"parameters": described_anew(schema, texts)}));
            if let Some(text) = described {
                long.insert("description".to_owned(), json!(texts.plain(text)));
            }
            if let Some(namespace) = namespace {
                long.insert("namespace".to_owned(), json!(namespace));
            }
            if deferred {
                long.insert("defer_loading".to_owned(), json!(true));
            }
            long
        });
        self.declared.insert(name.to_owned(), Value::Object(spec));
    }

    fn stand_in(&mut self, name: &str, namespace: &Value) {
        let kept = name.len() - name.chars().next_back().map_or(0, char::len_utf8);
        // No client may declare an odd name, and a person's words may stand in it.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_odd = !name.chars().all(is_plain);
        let other = ('x'..='z')
            .chain('0'..='9')
            .filter(|_| !is_odd)
            .map(|last| format!("{}{last}", &name[..kept]))
            .chain((0..=self.declared.len()).map(|number| padded(number, name.len())))
            .find(|other| other != name && other.len() == name.len() && !self.is_declared(other))
            .unwrap_or_else(|| "x".repeat(name.len().max(1)));
        let mut spec = map(json!({"parameters": {"type": "object", "properties": {}}}));
        if namespace.is_string() {
            spec.insert("namespace".to_owned(), namespace.clone());
        }
        self.declared.insert(other.clone(), Value::Object(spec));
        self.renamed.insert(name.to_owned(), other);
    }

    /// Whether the client of the scenario answers calls of this name.
    pub(super) fn is_declared(&self, name: &str) -> bool {
        self.declared.contains_key(name) || self.renamed.contains_key(name)
    }

    /// The name in the scenario.
    pub(super) fn name<'a>(&'a self, name: &'a str) -> &'a str {
        self.renamed.get(name).map_or(name, String::as_str)
    }

    /// Recorded names and their stand-ins.
    pub(super) fn renamed(&self) -> impl Iterator<Item = (&String, &String)> {
        self.renamed.iter()
    }

    /// The `tools` of the scenario.
    pub(super) fn written(&self) -> &Map<String, Value> {
        &self.declared
    }
}

/// A name of so many bytes that no other number gives, for as long as they hold the number.
fn padded(number: usize, bytes: usize) -> String {
    let digits = number.to_string();
    let front = bytes.saturating_sub(digits.len());
    format!("{}{digits}", "x".repeat(front))
}

/// Parameters and their types, where the short form gives the same schema.
fn short_form(schema: &Value) -> Option<Map<String, Value>> {
    let properties = schema["properties"].as_object()?;
    let mut short = Map::new();
    for (name, property) in properties {
        let kind = property["type"].as_str()?;
        let plain = property.as_object()?.len() == 1;
        let known = ["string", "integer", "number", "boolean"].contains(&kind);
        if !plain || !known || name == "parameters" {
            return None;
        }
        short.insert(name.clone(), json!(kind));
    }
    let names: Vec<&String> = properties.keys().collect();
    let wanted = json!({"type": "object", "properties": properties, "required": names,
        "additionalProperties": false});
    (wanted == *schema).then_some(short)
}

/// A schema with other words where a person wrote some.
fn described_anew(schema: &Value, texts: &Texts) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match value {
                Value::String(text) if ["description", "title"].contains(&key.as_str()) => {
                    (key.clone(), json!(texts.plain(text)))
                }
                _ => (key.clone(), described_anew(value, texts)),
            })
            .collect(),
        Value::Array(list) => list
            .iter()
            .map(|value| described_anew(value, texts))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}
