//! Masked rollout files ⇄ golden documents: one line per record, `[kind, what differs]`.
//!
//! A record is folded against the envelope's template of its kind. What repeats inside a file is
//! replaced by holes first: the running turn (`<turn>`, named where a turn starts), the record's own
//! item id (`<self>`) and an ordinal that follows the one before (`<next>`). A record the short form
//! would not give back exactly stands verbatim.

use serde_json::{Map, Value, json};

use super::envelope::Envelope;
use super::fold::{NOTHING, fold, same, unfold};
use crate::mask::MaskedRollout;

/// What is remembered from line to line.
#[derive(Debug, Default, Clone)]
struct Memory {
    turn: Option<String>,
    next: u64,
    /// Whether this file's records have ordinals.
    ordinals: bool,
}

/// `event_msg/token_count`, `response_item/message/user`, `compacted` …
pub fn kind_of(record: &Value) -> Option<String> {
    let mut kind = record.get("type")?.as_str()?.to_owned();
    let payload = record.get("payload");
    let word = |key: &str| payload.and_then(|p| p.get(key)).and_then(Value::as_str);
    if ["event_msg", "response_item"].contains(&kind.as_str()) {
        kind = format!("{kind}/{}", word("type")?);
        if let Some(role) = word("role") {
            kind = format!("{kind}/{role}");
        }
        let item = payload
            .and_then(|p| p.pointer("/item/type"))
            .and_then(Value::as_str);
        if let (Some("item_completed"), Some(item)) = (word("type"), item) {
            kind = format!("{kind}/{item}");
        }
    }
    Some(kind)
}

/// Every record of a file with its kind, prepared for folding.
pub(crate) fn skeletons(file: &MaskedRollout) -> Vec<(String, Value)> {
    let mut memory = Memory::of(file);
    let mut out = Vec::new();
    for record in &file.records {
        if let Some(kind) = kind_of(record) {
            out.push((kind, memory.take(record).0));
        }
    }
    out
}

/// Writes one file.
pub(crate) fn document(file: &MaskedRollout, envelope: &Envelope) -> Value {
    let mut memory = Memory::of(file);
    let mut lines = Vec::new();
    for record in &file.records {
        let before = memory.clone();
        let short = kind_of(record).map(|kind| {
            let (taken, turn) = memory.take(record);
            let template = envelope.rollout.get(&kind).unwrap_or(&NOTHING);
            let mut line = vec![json!(kind), fold(&taken, template)];
            if let Some(turn) = turn {
                line.push(json!({"turn": turn}));
            }
            Value::Array(line)
        });
        let exact = short.and_then(|line| {
            let mut after = before.clone();
            let back = after.read(&line, envelope)?;
            same(&back, record).then_some((line, after))
        });
        let (line, after) = exact.unwrap_or_else(|| {
            let line = json!(["verbatim", record]);
            let mut after = before;
            let back = after.read(&line, envelope);
            debug_assert!(back.is_some(), "a line can be read back");
            (line, after)
        });
        memory = after;
        lines.push(line);
    }
    json!({"name": file.name, "ordinals": memory.ordinals, "records": lines})
}

/// Reads one file. The inverse of [`document`].
pub(crate) fn read(doc: &Value, envelope: &Envelope) -> Option<MaskedRollout> {
    let ordinals = doc.get("ordinals")?.as_bool()?;
    let mut memory = Memory {
        ordinals,
        ..Memory::default()
    };
    let lines = doc.get("records")?.as_array()?;
    let records = lines
        .iter()
        .map(|line| memory.read(line, envelope))
        .collect::<Option<_>>()?;
    Some(MaskedRollout {
        name: doc.get("name")?.as_str()?.to_owned(),
        records,
    })
}

impl Memory {
    fn of(file: &MaskedRollout) -> Self {
        let ordinals = file
            .records
            .first()
            .is_some_and(|r| r.get("ordinal").is_some());
        Self {
            ordinals,
            ..Self::default()
        }
    }

    /// The record with holes, and the turn it starts.
    fn take(&mut self, record: &Value) -> (Value, Option<String>) {
        let mut out = record.clone();
        let started = started_turn(record);
        if started.is_some() {
            self.turn.clone_from(&started);
        }
        if let Some(map) = out.as_object_mut() {
            let next = self.next;
            match map.get_mut("ordinal") {
                Some(ordinal) => {
                    self.next = ordinal.as_u64().unwrap_or(next) + 1;
                    if *ordinal == json!(next) {
                        *ordinal = "<next>".into();
                    }
                }
                None if !self.ordinals => {
                    map.shift_insert(1.min(map.len()), "ordinal".into(), "<next>".into());
                }
                None => {}
            }
        }
        self.swap(&mut out, false);
        (out, started)
    }

    fn swap(&self, record: &mut Value, back: bool) {
        let own = record
            .pointer("/payload/id")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let mut pairs = Vec::new();
        if let Some(turn) = &self.turn {
            pairs.push((turn.clone(), "<turn>".to_owned()));
        }
        if let Some(own) = own.filter(|id| id.contains("<item:")) {
            pairs.push((own, "<self>".to_owned()));
        }
        if back {
            pairs = pairs.into_iter().map(|(a, b)| (b, a)).collect();
        }
        let Some(map) = record.as_object_mut() else {
            return;
        };
        for (key, child) in map.iter_mut() {
            replace(child, &pairs, key == "payload");
        }
    }

    fn read(&mut self, line: &Value, envelope: &Envelope) -> Option<Value> {
        let line = line.as_array()?;
        let kind = line.first()?.as_str()?;
        if kind == "verbatim" {
            let record = line.get(1)?.clone();
            self.take(&record);
            return Some(record);
        }
        let template = envelope.rollout.get(kind).unwrap_or(&NOTHING);
        let mut record = unfold(line.get(1)?, template)?;
        if let Some(turn) = line.get(2) {
            self.turn = Some(turn.get("turn")?.as_str()?.to_owned());
        }
        if let Some(map) = record.as_object_mut() {
            let next = self.next;
            let implied = map.get("ordinal") == Some(&json!("<next>"));
            if implied && !self.ordinals {
                map.shift_remove("ordinal");
            } else if implied {
                map.insert("ordinal".into(), next.into());
            }
            if let Some(ordinal) = map.get("ordinal") {
                self.next = ordinal.as_u64().unwrap_or(next) + 1;
            }
        }
        self.swap(&mut record, true);
        Some(record)
    }
}

fn started_turn(record: &Value) -> Option<String> {
    let payload = record.get("payload")?;
    (payload.get("type")? == "task_started").then(|| {
        payload
            .get("turn_id")
            .and_then(Value::as_str)
            .map(str::to_owned)
    })?
}

/// Replaces whole strings, except the payload's own `id`.
fn replace(value: &mut Value, pairs: &[(String, String)], payload: bool) {
    match value {
        Value::Object(map) => {
            let map: &mut Map<String, Value> = map;
            for (key, child) in map.iter_mut() {
                if !(payload && key == "id") {
                    replace(child, pairs, false);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|v| replace(v, pairs, false)),
        Value::String(text) => {
            if let Some((_, to)) = pairs.iter().find(|(from, _)| from == text) {
                text.clone_from(to);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
