//! `golden/unmodelled.toml`: leaf fields of rollout records that only the real binary fills.
//!
//! They are taken out of both sides, for engine subjects only. What carries meaning may never be
//! listed: item payloads, replacement histories, messages, usage, windows, statuses, order.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::compare::Expanded;
use super::deviations::line_of;
use super::render::Stream;
use super::rollout::kind_of;
use super::versions::VERSIONS;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unmodelled {
    /// Version family, for instance `0.171`.
    pub profile: String,
    /// Kind of record, for instance `world_state`.
    pub kind: String,
    /// Pointer of the leaf in the record; `*` stands for every element of a list.
    pub pointer: String,
    /// Why our engine does not fill it.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    unmodelled: Vec<Spanned<Unmodelled>>,
}

/// The entries with their lines, and which of them were met.
#[derive(Debug, Default)]
pub struct UnmodelledFields {
    entries: Vec<(usize, Unmodelled)>,
    used: Mutex<BTreeSet<usize>>,
    wrong: Mutex<BTreeSet<String>>,
}

/// Names that carry meaning wherever they stand.
const FORBIDDEN: &[&str] = &[
    "replacement_history",
    "message",
    "usage",
    "info",
    "status",
    "window",
    "window_number",
    "window_id",
    "first_window_id",
    "previous_window_id",
    "context_window",
    "model_context_window",
    "last_token_usage",
    "total_token_usage",
    "turn_token_usage",
    "thread_token_usage",
    "ordinal",
    "type",
    "error",
];
/// The only field of an item's payload that is not the item.
const PASSTHROUGH: &str = "/payload/internal_chat_message_metadata_passthrough/";

fn forbidden(entry: &Unmodelled) -> Option<String> {
    let mut parts = entry.pointer.split('/').skip(1);
    if let Some(part) = parts.find(|part| FORBIDDEN.contains(part)) {
        return Some(format!("`{part}` carries meaning and is always compared"));
    }
    let item = entry.kind.starts_with("response_item");
    if item && entry.pointer.starts_with("/payload") && !entry.pointer.starts_with(PASSTHROUGH) {
        return Some("an item's payload is always compared".to_owned());
    }
    None
}

impl UnmodelledFields {
    /// Reads the file; errors begin with `unmodelled.toml:LINE:`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |s| line_of(text, s.start));
            format!("unmodelled.toml:{line}: {}", e.message())
        })?;
        let mut entries = Vec::new();
        for spanned in file.unmodelled {
            let line = line_of(text, spanned.span().start);
            let entry = spanned.into_inner();
            let wrong = if entry.reason.trim().is_empty() {
                Some("an unmodelled field needs a reason".to_owned())
            } else if !VERSIONS.iter().any(|v| v.name == entry.profile) {
                Some(format!("unknown profile `{}`", entry.profile))
            } else if !entry.pointer.starts_with('/') {
                Some("a pointer begins with `/`".to_owned())
            } else {
                forbidden(&entry)
            };
            if let Some(message) = wrong {
                return Err(format!("unmodelled.toml:{line}: {message}"));
            }
            entries.push((line, entry));
        }
        Ok(Self {
            entries,
            ..Self::default()
        })
    }

    /// Takes the fields of a profile out of one side.
    pub fn strip(&self, profile: &str, side: &mut Expanded, is_golden: bool) {
        if side.stream != Stream::Rollout {
            return;
        }
        let records = side
            .list
            .iter_mut()
            .filter_map(|file| file.get_mut("records"));
        for record in records.filter_map(Value::as_array_mut).flatten() {
            let Some(kind) = kind_of(record) else {
                continue;
            };
            for (index, (line, entry)) in self.entries.iter().enumerate() {
                if entry.profile != profile || entry.kind != kind {
                    continue;
                }
                let parts: Vec<&str> = entry.pointer.split('/').skip(1).collect();
                match remove(record, &parts) {
                    Removed::Nothing => {}
                    Removed::Leaf => {
                        if is_golden {
                            self.used.lock().insert(index);
                        }
                    }
                    Removed::NotLeaf => drop(self.wrong.lock().insert(format!(
                        "unmodelled.toml:{line}: {} of {kind} is not a leaf",
                        entry.pointer
                    ))),
                }
            }
        }
    }

    /// Entries that met nothing in any golden, and entries that met no leaf. Only meaningful after
    /// the whole suite of a profile ran.
    pub fn problems(&self, profiles: &[&str], whole_suite: bool) -> Vec<String> {
        let used = self.used.lock();
        let mut list: Vec<String> = self.wrong.lock().iter().cloned().collect();
        for (index, (line, entry)) in self.entries.iter().enumerate() {
            if whole_suite && !used.contains(&index) && profiles.contains(&entry.profile.as_str()) {
                list.push(format!(
                    "unmodelled.toml:{line}: {} of {} no longer occurs in {}: remove it",
                    entry.pointer, entry.kind, entry.profile
                ));
            }
        }
        list
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        self.entries.len()
    }
}

#[derive(PartialEq)]
enum Removed {
    Nothing,
    Leaf,
    NotLeaf,
}

fn remove(value: &mut Value, parts: &[&str]) -> Removed {
    let Some((first, rest)) = parts.split_first() else {
        return Removed::Nothing;
    };
    match value {
        Value::Array(list) if *first == "*" => {
            let mut result = Removed::Nothing;
            for child in list {
                match remove(child, rest) {
                    Removed::Nothing => {}
                    other => result = other,
                }
            }
            result
        }
        Value::Object(map) if rest.is_empty() => match map.get(*first) {
            None => Removed::Nothing,
            Some(Value::Object(child)) if !child.is_empty() => Removed::NotLeaf,
            Some(Value::Array(child)) if child.iter().any(Value::is_object) => Removed::NotLeaf,
            Some(_) => {
                map.shift_remove(*first);
                Removed::Leaf
            }
        },
        Value::Object(map) => map
            .get_mut(*first)
            .map_or(Removed::Nothing, |c| remove(c, rest)),
        _ => Removed::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(kind: &str, pointer: &str) -> String {
        format!(
            "[[unmodelled]]\nprofile = \"0.171\"\nkind = \"{kind}\"\npointer = \"{pointer}\"\n\
             reason = \"r\"\n"
        )
    }

    fn side() -> Expanded {
        let record = json!({"type": "world_state", "payload": {"state": {"a": 1, "b": {"c": 2}}}});
        Expanded {
            stream: Stream::Rollout,
            list: vec![json!({"name": "x", "records": [record]})],
        }
    }

    #[test]
    fn takes_out_exactly_the_leaf() {
        let fields = UnmodelledFields::parse(&entry("world_state", "/payload/state/a")).unwrap();
        assert_eq!(fields.problems(&["0.171"], true).len(), 1, "not met yet");
        let mut golden = side();
        fields.strip("0.171", &mut golden, true);
        let state = golden.list[0].pointer("/records/0/payload/state");
        assert_eq!(state, Some(&json!({"b": {"c": 2}})));
        assert_eq!(fields.problems(&["0.171"], true), [""; 0]);
        let mut other = side();
        fields.strip("0.164", &mut other, true);
        assert_eq!(other, side());
    }

    #[test]
    fn refuses_branches_and_what_carries_meaning() {
        let fields = UnmodelledFields::parse(&entry("world_state", "/payload/state/b")).unwrap();
        fields.strip("0.171", &mut side(), true);
        assert!(fields.problems(&[], false)[0].contains("is not a leaf"));
        for (kind, pointer) in [
            ("compacted", "/payload/replacement_history/*/content"),
            ("response_item/message/user", "/payload/content"),
            ("event_msg/token_count", "/payload/info/x"),
            ("compacted", "/payload/message"),
        ] {
            let error = UnmodelledFields::parse(&entry(kind, pointer)).unwrap_err();
            assert!(error.starts_with("unmodelled.toml:1:"), "{error}");
        }
    }
}
