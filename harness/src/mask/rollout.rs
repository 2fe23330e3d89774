//! One rollout file: its name and its lines.

use serde_json::{Value, json};

use super::{MaskedRollout, Part, Site, State, damaged, exact_object, ids, order, text, walk};
use crate::recording::RolloutFile;

/// Masks one file.
pub(crate) fn file(file: &RolloutFile, state: &mut State) -> MaskedRollout {
    let whole = file.text.is_empty() || file.text.ends_with('\n');
    let body = file.text.strip_suffix('\n').unwrap_or(&file.text);
    let lines: Vec<&str> = if body.is_empty() && file.text.is_empty() {
        Vec::new()
    } else {
        body.split('\n').collect()
    };
    let name = name(&file.name, state);
    let mut parsed: Vec<Option<Value>> = lines.iter().map(|l| exact_object(l.as_bytes())).collect();
    // Ids are numbered in the canonical order, so the race is settled before the walk.
    let places = order::canonical(&parsed);
    let ordinals: Vec<Option<Value>> = parsed.iter().map(|r| ordinal(r.as_ref())).collect();
    let mut records = Vec::with_capacity(lines.len() + 1);
    for (from, ordinal) in places.into_iter().zip(ordinals) {
        records.push(match parsed[from].take() {
            Some(record) => line(order::with_ordinal(record, ordinal), state),
            None => damaged::line(lines[from], state),
        });
    }
    if !whole {
        records.push(json!({"$no_newline": true}));
    }
    let mut bytes = 0;
    for line in file.text.split_inclusive('\n') {
        bytes += line.len() as u64;
        state.line_ends.insert(bytes);
    }
    MaskedRollout { name, records }
}

fn ordinal(record: Option<&Value>) -> Option<Value> {
    record?.get("ordinal").cloned()
}

fn line(record: Value, state: &mut State) -> Value {
    let kind = record
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let site = Site {
        part: Part::Rollout,
        kind: &kind,
        parent: "",
        key: "",
        free: false,
    };
    walk(record, site, state)
}

/// `rollout-2026-11-30T23-25-37-<uuid>[_<uuid>].jsonl`
fn name(name: &str, state: &mut State) -> String {
    masked_name(name, state).unwrap_or_else(|| text::plain(name, &state.places))
}

fn masked_name(name: &str, state: &mut State) -> Option<String> {
    let stem = name.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    let (stamp, rest) = stem.split_at_checked(20)?;
    let is_stamp = stamp.bytes().enumerate().all(|(i, b)| match i {
        4 | 7 | 13 | 16 | 19 => b == b'-',
        10 => b == b'T',
        _ => b.is_ascii_digit(),
    });
    let (thread, segment) = rest.split_at_checked(36)?;
    if !is_stamp || !ids::is_uuid(thread) {
        return None;
    }
    let thread = state.ids.name(thread, "thread");
    let segment = match segment.strip_prefix('_') {
        None if segment.is_empty() => String::new(),
        Some(id) if ids::is_uuid(id) => format!("_{}", state.ids.name(id, "uuid")),
        _ => return None,
    };
    Some(format!("rollout-<time>-{thread}{segment}.jsonl"))
}
