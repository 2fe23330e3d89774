//! Behind a compaction the model still knows its task: a text of the running turn's user, a summary
//! or a compaction item is in every turn request.

use std::collections::BTreeMap;

use engine::texts::SUMMARY_PREFIX;
use serde_json::Value;

use super::{input, turn, user_texts, window_number, word};
use crate::mask::Masked;

/// Longest part of a user text that is looked for, in bytes: a compaction may cut the rest.
const HEAD_BYTES_MAX: usize = 64;

/// Checks turn requests of every window but the first.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let users: BTreeMap<&str, Vec<String>> = user_texts(masked);
    let mut found = Vec::new();
    for (number, request) in masked.wire.iter().enumerate() {
        if request.kind != "turn" || window_number(request).is_none_or(|window| window == 0) {
            continue;
        }
        let tasks = turn(request).and_then(|turn| users.get(turn));
        let Some(tasks) = tasks.filter(|tasks| !tasks.is_empty()) else {
            continue;
        };
        let heads: Vec<&str> = tasks
            .iter()
            .map(|text| &text[..text.floor_char_boundary(HEAD_BYTES_MAX)])
            .collect();
        let knows = |item: &Value| {
            let opaque = word(item, "type").is_some_and(|kind| kind.contains("compaction"));
            opaque
                || super::texts(item).any(|text| {
                    text.starts_with(SUMMARY_PREFIX)
                        || heads.iter().any(|head| text.starts_with(head))
                })
        };
        if !input(request).iter().any(knows) {
            found.push(format!(
                "request {} holds neither a text of its turn's user nor a summary",
                number + 1
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{requests, shown};
    use super::*;
    use serde_json::json;

    fn recording(text: &str) -> Masked {
        let item = json!({"type": "message", "role": "user", "content": [{"text": text}]});
        let mut masked = requests(&[json!([item])]);
        masked.wire[0].headers[0].1 = "<thread:1>:1".into();
        masked.events = shown("<turn:1>", &["Build it"]);
        masked
    }

    #[test]
    fn the_task_or_a_summary_passes() {
        assert_eq!(check(&recording("Build it")), [""; 0]);
        assert_eq!(check(&recording(&format!("{SUMMARY_PREFIX}\nx"))), [""; 0]);
    }

    #[test]
    fn a_lost_task_is_named() {
        assert_eq!(check(&recording("Context only")).len(), 1);
        let mut first_window = recording("Context only");
        first_window.wire[0].headers[0].1 = "<thread:1>:0".into();
        assert_eq!(check(&first_window), [""; 0]);
    }
}
