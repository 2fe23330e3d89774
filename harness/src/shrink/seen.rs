//! What the model sees of two recordings, and the kind of their first difference.
//!
//! Two versions send the same conversation in different dress: ids, headers, where the base
//! instructions stand. Between versions only this is compared: the requests with their kind, their
//! input items by type, role, texts, names, arguments and outputs, and how turns ended.

use serde_json::{Value, json};

use crate::golden::compare::Difference;
use crate::golden::render::Stream;
use crate::golden::unmodelled::UnmodelledFields;
use crate::mask::Masked;
use crate::perturb::differences;
use crate::scenario::plan::Plan;

/// Fields of an item that the model reads. A call id comes from the script and joins a call with its
/// output; the client's own ids are left out.
const READ: &[&str] = &[
    "type",
    "role",
    "phase",
    "name",
    "namespace",
    "call_id",
    "arguments",
    "input",
    "encrypted_content",
    "tools",
];
/// Fields that hold texts and images, in either of two shapes.
const PARTS: &[&str] = &["content", "output", "summary"];
/// Roles of messages; the second word of an item in a place, where it is no call id.
const ROLES: &[&str] = &["user", "assistant", "developer", "system"];

/// The kind of the first difference between two versions, as words without numbers.
pub(super) fn first_between_versions(
    one: (&Plan, &Masked),
    other: (&Plan, &Masked),
) -> Option<String> {
    let (one_requests, other_requests) = (requests(one), requests(other));
    let most = one_requests.len().max(other_requests.len());
    for number in 0..most {
        let (one, other) = match (one_requests.get(number), other_requests.get(number)) {
            (Some(one), Some(other)) => (one, other),
            (Some((kind, _)), None) | (None, Some((kind, _))) => {
                return Some(format!("wire: request ({kind})"));
            }
            (None, None) => return None,
        };
        if one.0 != other.0 {
            return Some(format!("wire: request ({})", one.0));
        }
        let items = one.1.len().max(other.1.len());
        let differs = (0..items).find(|item| one.1.get(*item) != other.1.get(*item));
        if let Some(item) = differs {
            let item = one.1.get(item).or_else(|| other.1.get(item));
            let name = item.map(item_kind).unwrap_or_default();
            return Some(format!("wire: request ({}), input item ({name})", one.0));
        }
    }
    let (one, other) = (ends(one.1), ends(other.1));
    (one != other).then(|| "events: turn_ended".to_owned())
}

/// The kind of the first difference of one version's streams: wire, rollout, events.
pub(super) fn first_in_streams(
    one: &Masked,
    other: &Masked,
    profile: &str,
    unmodelled: &UnmodelledFields,
) -> Option<String> {
    if one == other {
        return None;
    }
    Stream::ALL.into_iter().find_map(|stream| {
        match differences(stream, one, other, profile, unmodelled) {
            Some(list) => list.first().map(kind_of),
            None => Some(format!("{}: does not read back", stream.name())),
        }
    })
}

/// Stream and place without numbers and call ids: `wire: request (turn), input item (message user)`.
fn kind_of(difference: &Difference) -> String {
    let words = difference.place.split(' ').filter_map(|word| {
        let core = word.trim_matches(|c| matches!(c, '(' | ')' | ','));
        let is_number = !core.is_empty() && core.chars().all(|c| c.is_ascii_digit());
        // Behind an item's type stands its role or its call id; a call id is no kind.
        let is_id = word.ends_with(')') && !word.starts_with('(') && !ROLES.contains(&core);
        if is_number {
            word.ends_with(',').then_some(",")
        } else if is_id {
            Some(")")
        } else {
            Some(word)
        }
    });
    let text = words.collect::<Vec<_>>().join(" ");
    let text = text.replace(" ,", ",").replace(" )", ")");
    format!("{}: {text}", difference.stream.name())
}

/// Kind and items of every request, base instructions left out.
fn requests((plan, masked): (&Plan, &Masked)) -> Vec<(String, Vec<Value>)> {
    let requests = masked.wire.iter().map(|request| {
        let input = request.body.get("input").and_then(Value::as_array);
        let items = input.map_or(&[][..], Vec::as_slice);
        let items = match items.split_first() {
            Some((first, rest)) if is_base(plan, first) => rest,
            _ => items,
        };
        (request.kind.clone(), items.iter().map(read).collect())
    });
    requests.collect()
}

fn is_base(plan: &Plan, item: &Value) -> bool {
    let text = item.pointer("/content/0/text").and_then(Value::as_str);
    let models = plan.models.iter().map(|model| &model.base_instructions);
    let mut bases = models.chain(&plan.config.base_instructions);
    item.get("role") == Some(&json!("developer")) && bases.any(|base| Some(base.as_str()) == text)
}

fn read(item: &Value) -> Value {
    let mut out = serde_json::Map::new();
    for key in READ {
        if let Some(value) = item.get(*key) {
            out.insert((*key).to_owned(), value.clone());
        }
    }
    for key in PARTS {
        if let Some(value) = item.get(*key) {
            out.insert((*key).to_owned(), parts(value));
        }
    }
    Value::Object(out)
}

/// Texts and images of a list of parts; a text by itself is one part.
fn parts(value: &Value) -> Value {
    let part = |part: &Value| {
        let shown = ["text", "image_url", "audio_url", "file_id"];
        let shown = shown.iter().find_map(|key| part.get(*key));
        let detail = part.get("detail").filter(|detail| !detail.is_null());
        json!([shown.unwrap_or(part), detail])
    };
    match value {
        Value::Array(list) => list.iter().map(part).collect(),
        one => json!([[one, null]]),
    }
}

fn item_kind(item: &Value) -> String {
    let word = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", word("type"), word("role"))
        .trim()
        .to_owned()
}

/// How the turns ended, in order.
fn ends(masked: &Masked) -> Vec<&Value> {
    let ended = masked
        .events
        .iter()
        .filter(|event| event["event"] == "turn_ended");
    ended.map(|event| &event["status"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::diff::Change;

    fn kind(stream: Stream, place: &str) -> String {
        kind_of(&Difference {
            stream,
            place: place.to_owned(),
            change: Change {
                pointer: String::new(),
                expected: None,
                actual: None,
            },
        })
    }

    #[test]
    fn a_kind_has_neither_numbers_nor_call_ids() {
        for (place, wanted) in [
            (
                "request 3 (turn), input item 12 (message user)",
                "wire: request (turn), input item (message user)",
            ),
            (
                "request 3 (turn), input item 2 (function_call call_7)",
                "wire: request (turn), input item (function_call)",
            ),
            (
                "request 1 (compaction), header x-y",
                "wire: request (compaction), header x-y",
            ),
            (
                "request 9 (turn), field reasoning.effort",
                "wire: request (turn), field reasoning.effort",
            ),
        ] {
            assert_eq!(kind(Stream::Wire, place), wanted);
        }
        assert_eq!(
            kind(Stream::Rollout, "file 1, record 20 (event_msg/token_count)"),
            "rollout: file, record (event_msg/token_count)"
        );
        assert_eq!(
            kind(Stream::Events, "event 4 (warning)"),
            "events: event (warning)"
        );
    }

    #[test]
    fn a_text_and_a_list_of_one_text_read_alike() {
        let text = json!({"type": "function_call_output", "id": "fc_1", "output": "a"});
        let list = json!({"type": "function_call_output", "output": [{"type": "input_text", "text": "a"}]});
        assert_eq!(read(&text), read(&list));
        let image = |detail: Value| json!({"content": [{"image_url": "u", "detail": detail}]});
        assert_eq!(
            read(&image(Value::Null)),
            read(&json!({"content": [{"image_url": "u"}]}))
        );
        assert_ne!(read(&image(Value::Null)), read(&image(json!("high"))));
    }
}
