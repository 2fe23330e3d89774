//! Checkpoints: what a `compacted` record holds, and whether a resume takes it.

use std::collections::BTreeMap;

use engine::items::Item;
use engine::profile::Profile;
use serde::Serialize;
use serde_json::Value;

use super::findings::Findings;
use super::images::Found;
use super::live::stored;
use super::shown;
use crate::rollout_file::Line;

/// Checkpoints that are kept; further ones are counted.
pub const CHECKPOINTS_MAX: usize = 10_000;

/// Kinds of items that are told apart in one.
const KINDS_MAX: usize = 40;

/// One checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checkpoint {
    /// Where it stands.
    pub line: u64,
    /// Where it stands.
    pub offset: u64,
    /// Bytes of its line.
    pub bytes: u64,
    /// `local`, `remote`, `new window`, `legacy`, or `malformed`: no resume takes it.
    pub kind: &'static str,
    /// Number of the window that it begins.
    pub window: u64,
    /// The record says that number; otherwise checkpoints were counted.
    pub window_recorded: bool,
    /// Items of the replacement history.
    pub items: u64,
    /// The same by kind.
    pub items_by_kind: BTreeMap<String, u64>,
    /// Data URLs in it.
    pub images: u64,
    /// Their bytes.
    pub image_bytes: u64,
    /// Our estimate of the context before it.
    pub estimated_before: i64,
    /// Our estimate of the context behind it.
    pub estimated_after: i64,
    /// Usage recorded last before it.
    pub recorded_before: Option<i64>,
    /// Usage recorded next behind it.
    pub recorded_after: Option<i64>,
    /// The beginning of the summary, if texts are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What a record gives besides its [`Checkpoint`].
#[derive(Debug)]
pub struct Opened {
    /// The checkpoint, its estimates not filled in.
    pub checkpoint: Checkpoint,
    /// Its items; `None` where the history is not replaced by what it holds.
    pub items: Option<Vec<Item>>,
}

/// Characters of a summary that are shown to a reader who asked for texts.
const TEXT_CHARS: usize = 80;

/// Reads a `compacted` record. `before` is the number of the window it ends.
pub fn open(
    payload: &Value,
    line: &Line,
    images: Found,
    before: u64,
    profile: &Profile,
    into: &mut Findings,
) -> Opened {
    let problem = problem(payload, profile);
    let list = payload["replacement_history"].as_array();
    let mut by_kind: BTreeMap<String, u64> = BTreeMap::new();
    for item in list.into_iter().flatten() {
        let mut kind = item["type"].as_str().map_or_else(String::new, shown);
        if by_kind.len() >= KINDS_MAX && !by_kind.contains_key(&kind) {
            "(other)".clone_into(&mut kind);
        }
        *by_kind.entry(kind).or_default() += 1;
    }
    let kind = match (&problem, list) {
        (Some(_), _) => "malformed",
        (None, None) => "legacy",
        (None, Some(list)) => made_by(payload, list),
    };
    if let Some(what) = problem {
        into.add("checkpoint.malformed", line.place, what);
    } else if list.is_none() {
        into.add("checkpoint.legacy", line.place, "no replacement history");
    }
    // An older record says the number in `window_id` (history.md §5).
    let said = payload["window_number"]
        .as_u64()
        .or_else(|| payload["window_id"].as_u64());
    if let Some(number) = said.filter(|number| *number != before + 1 && kind != "malformed") {
        let what = format!("window {number} follows window {before}");
        into.add("checkpoint.window_number", line.place, what);
    }
    let window = match kind {
        "malformed" => before,
        _ => said.unwrap_or(before + 1),
    };
    let items = list.filter(|_| kind != "malformed").map(|list| {
        let parsed = list.iter().filter_map(|item| stored(item, profile).ok());
        parsed.flatten().collect()
    });
    for item in list.into_iter().flatten().filter(|_| kind != "malformed") {
        let named = item["type"].as_str().unwrap_or_default();
        if matches!(stored(item, profile), Ok(None)) && !super::is_dropped(named) {
            let what = format!(
                "an item of type {} in the replacement history",
                shown(named)
            );
            into.add("item.unknown_type", line.place, what);
        }
    }
    let checkpoint = Checkpoint {
        line: line.place.line,
        offset: line.place.offset,
        bytes: line.bytes,
        kind,
        window,
        window_recorded: said.is_some(),
        items: list.map_or(0, Vec::len) as u64,
        items_by_kind: by_kind,
        images: images.count,
        image_bytes: images.bytes,
        estimated_before: 0,
        estimated_after: 0,
        recorded_before: None,
        recorded_after: None,
        text: None,
    };
    Opened { checkpoint, items }
}

/// The beginning of the summary.
pub fn text(payload: &Value) -> Option<String> {
    let message = payload["message"]
        .as_str()
        .filter(|text| !text.is_empty())?;
    let head: String = message.chars().take(TEXT_CHARS).collect();
    Some(head.escape_debug().to_string())
}

/// Who made the replacement history: the server leaves an opaque item, the model a summary.
fn made_by(payload: &Value, list: &[Value]) -> &'static str {
    let opaque = ["compaction", "context_compaction", "compaction_summary"];
    let is_opaque = |item: &Value| {
        item["type"]
            .as_str()
            .is_some_and(|kind| opaque.contains(&kind))
    };
    if list.iter().any(is_opaque) {
        "remote"
    } else if payload["message"].as_str().is_some_and(str::is_empty) {
        "new window"
    } else {
        "local"
    }
}

/// Why a resume drops the record (history.md §5).
fn problem(payload: &Value, profile: &Profile) -> Option<String> {
    if !payload["message"].is_string() {
        return Some("no `message`".to_owned());
    }
    let number = &payload["window_number"];
    if !number.is_null() && number.as_u64().is_none() {
        return Some("`window_number` is no whole number".to_owned());
    }
    let list = match &payload["replacement_history"] {
        Value::Null => return None,
        Value::Array(list) => list,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return Some("`replacement_history` is no list".to_owned());
        }
    };
    let bad = list.iter().position(|item| stored(item, profile).is_err());
    if let Some(index) = bad {
        return Some(format!("item {} of {} is malformed", index + 1, list.len()));
    }
    if !profile.usage_records {
        return None;
    }
    match &payload["replacement_history_metadata"] {
        Value::Null => None,
        Value::Array(metadata) if metadata.len() == list.len() => None,
        Value::Array(metadata) => Some(format!(
            "{} items and metadata of {}",
            list.len(),
            metadata.len()
        )),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Some("`replacement_history_metadata` is no list".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::profile::Version;
    use serde_json::json;

    fn opened(payload: &Value, version: Version) -> (Checkpoint, Option<usize>, Vec<&'static str>) {
        let mut findings = Findings::default();
        let profile = Profile::of(version);
        let found = open(
            payload,
            &Line::default(),
            Found::default(),
            0,
            &profile,
            &mut findings,
        );
        let (kept, _) = findings.finish();
        let rules = kept.iter().map(|finding| finding.rule).collect();
        (
            found.checkpoint,
            found.items.map(|items| items.len()),
            rules,
        )
    }

    fn user() -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]})
    }

    #[test]
    fn who_made_it_is_told_apart() {
        let opaque = json!({"type": "compaction", "encrypted_content": "x"});
        for (payload, kind, rules) in [
            (
                json!({"message": "S", "replacement_history": [user()]}),
                "local",
                vec![],
            ),
            (
                json!({"message": "", "replacement_history": [user()]}),
                "new window",
                vec![],
            ),
            (
                json!({"message": "", "replacement_history": [user(), opaque]}),
                "remote",
                vec![],
            ),
            (json!({"message": "S"}), "legacy", vec!["checkpoint.legacy"]),
        ] {
            let (checkpoint, items, found) = opened(&payload, Version::V171);
            assert_eq!((checkpoint.kind, found), (kind, rules), "{payload}");
            assert_eq!(items.is_none(), kind == "legacy");
            assert_eq!((checkpoint.window, checkpoint.window_recorded), (1, false));
        }
    }

    #[test]
    fn what_a_resume_drops_is_malformed() {
        for (payload, word) in [
            (json!({"replacement_history": []}), "message"),
            (
                json!({"message": "S", "window_number": -1, "replacement_history": []}),
                "window",
            ),
            (json!({"message": "S", "replacement_history": "x"}), "list"),
            (
                json!({"message": "S", "replacement_history": [user(), {"type": "message"}]}),
                "item",
            ),
        ] {
            let (checkpoint, items, rules) = opened(&payload, Version::V144);
            assert_eq!((checkpoint.kind, items), ("malformed", None), "{word}");
            assert_eq!(rules, ["checkpoint.malformed"], "{word}");
            assert_eq!(checkpoint.window, 0, "{word}");
        }
        let odd = json!({"message": "S", "replacement_history": [user()],
            "replacement_history_metadata": []});
        assert_eq!(opened(&odd, Version::V164).0.kind, "malformed");
        assert_eq!(
            opened(&odd, Version::V144).0.kind,
            "local",
            "0.144 does not look at it"
        );
    }

    #[test]
    fn windows_count_up_by_one() {
        let next = json!({"message": "S", "replacement_history": [], "window_number": 1});
        assert_eq!(opened(&next, Version::V171).2, [""; 0]);
        let jump = json!({"message": "S", "replacement_history": [], "window_number": 4});
        let (checkpoint, _, rules) = opened(&jump, Version::V171);
        assert_eq!(
            (checkpoint.window, rules),
            (4, vec!["checkpoint.window_number"])
        );
        let odd = json!({"message": "S", "replacement_history": [{"type": "mystery"}]});
        assert_eq!(opened(&odd, Version::V171).2, ["item.unknown_type"]);
    }
}
