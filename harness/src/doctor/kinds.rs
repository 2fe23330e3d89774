//! Counts records by kind, with the bytes they take.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::shown;
use crate::rollout_file::Record;

/// Kinds that are told apart; records of further ones count as [`OTHER`].
const KINDS_MAX: usize = 200;
const OTHER: &str = "(other)";
/// Lines that hold no record.
const BROKEN: &str = "(no record)";

/// Records of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// `response_item/message/user`, for instance.
    pub kind: String,
    /// Records.
    pub count: u64,
    /// Bytes of their lines.
    pub bytes: u64,
}

/// Counts by kind.
#[derive(Debug, Default)]
pub struct Kinds {
    counts: BTreeMap<String, (u64, u64)>,
}

impl Kinds {
    /// Counts a line; `None` is one without a record.
    pub fn count(&mut self, record: Option<&Record>, bytes: u64) {
        let mut name = record.map_or_else(|| BROKEN.to_owned(), kind);
        if !self.counts.contains_key(&name) && self.counts.len() >= KINDS_MAX {
            OTHER.clone_into(&mut name);
        }
        let (count, sum) = self.counts.entry(name).or_default();
        *count += 1;
        *sum += bytes;
    }

    /// The kinds with the most bytes first.
    pub fn finish(self) -> Vec<Kind> {
        let kinds = self.counts.into_iter();
        let mut kinds: Vec<Kind> = kinds
            .map(|(kind, (count, bytes))| Kind { kind, count, bytes })
            .collect();
        kinds.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.kind.cmp(&b.kind)));
        kinds
    }
}

/// Type of the record, of its payload, and what tells payloads of a type apart.
pub fn kind(record: &Record) -> String {
    let mut parts = vec![shown(&record.kind)];
    if ["event_msg", "response_item"].contains(&record.kind.as_str()) {
        parts.push(shown(record.inner()));
        let third = match record.inner() {
            "message" => &record.payload["role"],
            "item_completed" | "item_started" => &record.payload["item"]["type"],
            _ => &Value::Null,
        };
        parts.extend(third.as_str().map(shown));
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(kind: &str, payload: Value) -> Record {
        Record {
            kind: kind.to_owned(),
            ordinal: None,
            payload,
            metadata: Value::Null,
        }
    }

    #[test]
    fn the_largest_kind_comes_first() {
        let mut kinds = Kinds::default();
        let user = record("response_item", json!({"type": "message", "role": "user"}));
        kinds.count(Some(&user), 10);
        kinds.count(Some(&user), 20);
        kinds.count(Some(&record("compacted", json!({}))), 31);
        kinds.count(None, 1);
        let found: Vec<_> = kinds
            .finish()
            .into_iter()
            .map(|k| (k.kind, k.count, k.bytes))
            .collect();
        assert_eq!(
            found,
            [
                ("compacted".into(), 1, 31),
                ("response_item/message/user".into(), 2, 30),
                ("(no record)".into(), 1, 1),
            ]
        );
    }

    #[test]
    fn a_flood_of_kinds_is_bounded_and_no_text_is_a_kind() {
        let mut kinds = Kinds::default();
        for number in 0..1000 {
            kinds.count(Some(&record(&format!("kind_{number}"), json!({}))), 1);
        }
        let found = kinds.finish();
        assert_eq!(found.len(), KINDS_MAX + 1);
        assert_eq!((found[0].kind.as_str(), found[0].count), (OTHER, 800));
        let secret = record("a secret\u{1b}[0m", json!({}));
        assert_eq!(kind(&secret), "(not a word)");
    }
}
