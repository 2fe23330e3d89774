//! Compares a masked recording with the golden that holds for its version.
//!
//! The rendered bytes decide; where they differ, both sides are expanded through the same envelope
//! and compared item by item, so that a difference names request, item and field of the real thing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::diff::{Change, changes, explain};
use super::envelope::Envelope;
use super::render::{self, Stream, read_events, read_rollouts, read_wire};
use super::rollout::kind_of;
use super::wire::value_of;

/// One difference between golden and recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Which golden.
    pub stream: Stream,
    /// `request 3 (turn), input item 2 (message user)`.
    pub place: String,
    /// The change; its pointer begins at the stream (`/wire/2/body/input/3/…`).
    pub change: Change,
}

impl Difference {
    /// Place, field and both values.
    pub fn explain(&self) -> String {
        let indented = explain(&self.change).replace('\n', "\n    ");
        let indented = format!("    {}\n", indented.trim_end());
        format!(
            "{}: {}\n    at {}\n{indented}",
            self.stream.name(),
            self.place,
            self.change.pointer
        )
    }
}

/// A document expanded: requests, records and events as they were masked.
#[derive(Debug, Clone, PartialEq)]
pub struct Expanded {
    /// Which golden.
    pub stream: Stream,
    /// Requests, files (`{name, records}`) or events.
    pub list: Vec<Value>,
}

/// Expands a document of a golden or of a recording.
pub fn expand(stream: Stream, doc: &Value, envelope: &Envelope) -> Option<Expanded> {
    let none = BTreeMap::new();
    let list = match stream {
        Stream::Wire => read_wire(doc, envelope, &none)?
            .iter()
            .map(named_request)
            .collect(),
        Stream::Rollout => read_rollouts(doc, envelope, &none)?
            .iter()
            .map(|f| json!({"name": f.name, "records": f.records}))
            .collect(),
        Stream::Events => read_events(doc, &none)?,
    };
    Some(Expanded { stream, list })
}

fn named_request(request: &crate::mask::MaskedRequest) -> Value {
    let mut value = json!({"kind": request.kind});
    if let (Some(out), Value::Object(rest)) = (value.as_object_mut(), value_of(request)) {
        out.extend(rest);
    }
    value
}

/// Differences of two expanded documents.
pub fn compare(golden: &Expanded, actual: &Expanded) -> Vec<Difference> {
    let stream = golden.stream;
    let prefix = format!("/{}", stream.name());
    changes(
        &Value::Array(golden.list.clone()),
        &Value::Array(actual.list.clone()),
    )
    .into_iter()
    .map(|mut change| {
        let side = if change.expected.is_some() {
            golden
        } else {
            actual
        };
        let place = place(side, &change.pointer);
        change.pointer.insert_str(0, &prefix);
        Difference {
            stream,
            place,
            change,
        }
    })
    .collect()
}

/// Compares two documents; `None` if the golden cannot be read with this envelope.
pub fn compare_docs(
    stream: Stream,
    golden: &Value,
    actual: &Value,
    envelope: &Envelope,
) -> Option<Vec<Difference>> {
    let actual = expand(stream, actual, envelope)?;
    let golden = expand(stream, golden, envelope)?;
    let mut list = compare(&golden, &actual);
    // Long texts are equal by hash; the expanded form says so too. What is left is form only.
    if list.is_empty() && !super::fold::same(&json!(golden.list), &json!(actual.list)) {
        list.push(Difference {
            stream,
            place: "the whole".into(),
            change: Change {
                pointer: String::new(),
                expected: None,
                actual: None,
            },
        });
    }
    Some(list)
}

fn place(side: &Expanded, pointer: &str) -> String {
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    let Some(index) = parts.first().and_then(|p| p.parse::<usize>().ok()) else {
        return "the whole".to_owned();
    };
    let value = side.list.get(index).unwrap_or(&Value::Null);
    let number = index + 1;
    match side.stream {
        Stream::Wire => {
            let kind = value.get("kind").and_then(Value::as_str).unwrap_or("other");
            let request = format!("request {number} ({kind})");
            match parts.get(1..4) {
                Some(["body", "input", item]) => {
                    let what = value.pointer(&format!("/body/input/{item}")).map(item_name);
                    format!(
                        "{request}, input item {item} ({})",
                        what.unwrap_or_default()
                    )
                }
                _ => match parts.get(1..).unwrap_or_default() {
                    [] => format!("{request}, whole request"),
                    ["headers", name, ..] => format!("{request}, header {name}"),
                    fields => format!("{request}, field {}", fields.join(".")),
                },
            }
        }
        Stream::Rollout => match parts.get(1..3) {
            Some(["records", record]) => {
                let kind = value
                    .pointer(&format!("/records/{record}"))
                    .and_then(kind_of);
                format!(
                    "file {number}, record {record} ({})",
                    kind.unwrap_or_default()
                )
            }
            _ => format!("file {number}"),
        },
        Stream::Events => {
            let name = value
                .get("event")
                .and_then(Value::as_str)
                .unwrap_or_default();
            format!("event {number} ({name})")
        }
    }
}

fn item_name(item: &Value) -> String {
    let word = |key: &str| item.get(key).and_then(Value::as_str);
    let second = word("role").or_else(|| word("call_id")).unwrap_or_default();
    format!("{} {second}", word("type").unwrap_or("item"))
        .trim_end()
        .to_owned()
}

/// Renders a stream as a document, ready for comparison.
pub fn actual(stream: Stream, masked: &crate::mask::Masked, envelope: &Envelope) -> Value {
    render::document(stream, masked, envelope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::mask::mask;

    fn differences(edit: impl Fn(&str) -> String) -> Vec<Difference> {
        let envelope = Envelope::default();
        let masked = mask(&fixture::recording(1));
        let doc = render::document(Stream::Wire, &masked, &envelope);
        let text = render::print(&doc);
        let golden = edit(&text);
        assert_ne!(golden, text, "the edit hits something");
        let golden: Value = serde_json::from_str(&golden).unwrap();
        compare_docs(Stream::Wire, &golden, &doc, &envelope).unwrap()
    }

    #[test]
    fn one_word_of_a_user_text_is_named() {
        let list = differences(|text| text.replacen("Create it", "Create that", 1));
        assert_eq!(
            list[0].place,
            "request 1 (turn), input item 1 (message user)"
        );
        assert!(
            list[0]
                .explain()
                .contains("/wire/0/body/input/1/content/0/text")
        );
        assert!(list[0].explain().contains("- expected \"Create that\""));
    }

    #[test]
    fn one_header_is_named() {
        let list = differences(|text| text.replacen("127.0.0.1:<port>", "localhost:<port>", 1));
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].place, "request 1 (turn), header host");
    }
}
