//! Golden texts: documents printed as JSON, one input item, record or event per line, and back.
//!
//! This is the one place where bytes become a hash: a text over [`LONG_BYTES_MIN`] is written as
//! `{"$long": {bytes, sha256, head, tail}}`. Comparison is made on this form.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::envelope::Envelope;
use super::{rollout, wire};
use crate::mask::text::{escape_key, unescape_key};
use crate::mask::{Masked, MaskedRequest, MaskedRollout};

/// Texts of more bytes than this are kept as a hash.
pub const LONG_BYTES_MIN: usize = 4096;
/// Characters of a long text shown at each end.
const LONG_SHOWN_CHARS: usize = 60;
const RESERVED: &[&str] = &["long"];

/// The three goldens of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Requests.
    Wire,
    /// Rollout files.
    Rollout,
    /// Client events.
    Events,
}

impl Stream {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Wire, Self::Rollout, Self::Events];

    /// First part of the file name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Rollout => "rollout",
            Self::Events => "events",
        }
    }
}

/// Prints one stream of a recording.
pub fn render(stream: Stream, masked: &Masked, envelope: &Envelope) -> String {
    print(&document(stream, masked, envelope))
}

/// One stream of a recording as a document.
pub fn document(stream: Stream, masked: &Masked, envelope: &Envelope) -> Value {
    let doc = match stream {
        Stream::Wire => {
            let mut memory = wire::Memory::default();
            let list = masked
                .wire
                .iter()
                .map(|r| wire::document(r, envelope, &mut memory));
            json!({"requests": list.collect::<Vec<_>>()})
        }
        Stream::Rollout => {
            let files: Vec<_> = masked
                .rollouts
                .iter()
                .map(|f| rollout::document(f, envelope))
                .collect();
            json!({"files": files})
        }
        Stream::Events => json!({"events": masked.events}),
    };
    shorten(doc)
}

/// Reads a wire document; `texts` holds long texts by hash.
pub fn read_wire(
    doc: &Value,
    envelope: &Envelope,
    texts: &BTreeMap<String, String>,
) -> Option<Vec<MaskedRequest>> {
    let doc = lengthen(doc, texts);
    let mut memory = wire::Memory::default();
    let list = doc.get("requests")?.as_array()?;
    list.iter()
        .map(|request| wire::read(request, envelope, &mut memory))
        .collect()
}

/// Reads a rollout document.
pub fn read_rollouts(
    doc: &Value,
    envelope: &Envelope,
    texts: &BTreeMap<String, String>,
) -> Option<Vec<MaskedRollout>> {
    let doc = lengthen(doc, texts);
    doc.get("files")?
        .as_array()?
        .iter()
        .map(|file| rollout::read(file, envelope))
        .collect()
}

/// Reads an events document.
pub fn read_events(doc: &Value, texts: &BTreeMap<String, String>) -> Option<Vec<Value>> {
    Some(lengthen(doc, texts).get("events")?.as_array()?.clone())
}

/// SHA-256 in lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

fn shorten(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > LONG_BYTES_MIN => {
            let head: String = text.chars().take(LONG_SHOWN_CHARS).collect();
            let skip = text.chars().count().saturating_sub(LONG_SHOWN_CHARS);
            let tail: String = text.chars().skip(skip).collect();
            json!({"$long": {
                "bytes": text.len(), "sha256": sha256(text.as_bytes()), "head": head, "tail": tail,
            }})
        }
        Value::Array(list) => Value::Array(list.into_iter().map(shorten).collect()),
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(k, v)| (escape_key(&k, RESERVED), shorten(v)))
                .collect(),
        ),
        other => other,
    }
}

/// The inverse of [`shorten`]; a long text that is not given becomes `<long:HASH>`.
fn lengthen(value: &Value, texts: &BTreeMap<String, String>) -> Value {
    match value {
        Value::Object(map) => {
            if let Some(long) = map.get("$long") {
                let hash = long
                    .get("sha256")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let text = texts.get(hash).cloned();
                return text.unwrap_or_else(|| format!("<long:{hash}>")).into();
            }
            let pairs = map.iter().map(|(k, v)| {
                (
                    unescape_key(k, RESERVED).unwrap_or_else(|| k.clone()),
                    lengthen(v, texts),
                )
            });
            Value::Object(pairs.collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(|v| lengthen(v, texts)).collect()),
        other => other.clone(),
    }
}

/// Lists whose elements have a line each.
const LISTS: &[&str] = &["requests", "files", "events", "records", "input", "tools"];
/// Lists whose elements are spread over lines themselves.
const NESTED: &[&str] = &["requests", "files"];

/// Prints a golden document. The form is canonical: `print(parse(text)) == text`.
pub fn print(doc: &Value) -> String {
    let mut out = String::new();
    match doc {
        Value::Object(map) => block(map, 0, &mut out),
        other => out.push_str(&other.to_string()),
    }
    out.push('\n');
    out
}

fn block(map: &Map<String, Value>, depth: usize, out: &mut String) {
    let pad = "  ".repeat(depth);
    if map.is_empty() {
        out.push_str("{}");
        return;
    }
    out.push_str("{\n");
    for (at, (key, value)) in map.iter().enumerate() {
        let _ = write!(out, "{pad}  {}: ", Value::String(key.clone()));
        match value {
            Value::Array(list) if LISTS.contains(&key.as_str()) && !list.is_empty() => {
                lines(key, list, depth + 1, out);
            }
            // The envelope's own maps.
            Value::Object(inner) if depth == 0 => block(inner, depth + 1, out),
            other => out.push_str(&other.to_string()),
        }
        out.push_str(if at + 1 < map.len() { ",\n" } else { "\n" });
    }
    let _ = write!(out, "{pad}}}");
}

fn lines(key: &str, list: &[Value], depth: usize, out: &mut String) {
    let pad = "  ".repeat(depth);
    out.push_str("[\n");
    for (at, value) in list.iter().enumerate() {
        let _ = write!(out, "{pad}  ");
        match value {
            Value::Object(map) if NESTED.contains(&key) => block(map, depth + 1, out),
            other => out.push_str(&other.to_string()),
        }
        out.push_str(if at + 1 < list.len() { ",\n" } else { "\n" });
    }
    let _ = write!(out, "{pad}]");
}
