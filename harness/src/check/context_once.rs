//! Injected context stands once: never twice in a row with the same text, never lost later.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{at, input};
use crate::mask::Masked;

/// Beginnings of injected texts, by name.
const KINDS: &[(&str, &str)] = &[
    ("environment context", "<environment_context>"),
    ("permissions", "<permissions instructions>"),
    ("project instructions", "# AGENTS.md instructions"),
];

/// Checks every request, and every turn against the turns before it.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    let mut had: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (number, request) in masked.wire.iter().enumerate() {
        let mut last: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        for (index, text) in texts(input(request)) {
            let Some((kind, _)) = KINDS.iter().find(|(_, begin)| text.starts_with(begin)) else {
                continue;
            };
            if let Some((first, old)) = last.insert(kind, (index, text))
                && old == text
            {
                let place = at(number, index);
                found.push(format!(
                    "{place}: {kind} again, unchanged since item {first}"
                ));
            }
        }
        let thread = request.headers.iter().find(|(name, _)| name == "thread-id");
        let thread = thread.map_or("", |(_, id)| id.as_str());
        for (kind, _) in KINDS {
            if request.kind != "turn" {
                continue;
            }
            if last.contains_key(kind) {
                had.entry((thread, kind)).or_insert(number);
            } else if let Some(earlier) = had.get(&(thread, *kind)) {
                let (number, earlier) = (number + 1, earlier + 1);
                found.push(format!(
                    "request {number} lacks the {kind} that request {earlier} had"
                ));
            }
        }
    }
    found
}

/// Texts of user and developer messages with the index of their item.
fn texts(items: &[Value]) -> impl Iterator<Item = (usize, &str)> {
    items
        .iter()
        .enumerate()
        .filter(|(_, item)| item["role"] != "assistant")
        .flat_map(|(index, item)| {
            let parts = item
                .get("content")
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            parts
                .iter()
                .filter_map(move |part| Some((index, part.get("text")?.as_str()?)))
        })
}

#[cfg(test)]
mod tests {
    use super::super::tests::requests;
    use super::*;
    use serde_json::json;

    fn context(text: &str) -> Value {
        let text = format!("<environment_context>{text}");
        json!({"type": "message", "role": "user", "content": [{"text": text}]})
    }

    #[test]
    fn changed_context_passes() {
        let inputs = [
            json!([context("a")]),
            json!([context("a"), context("b"), context("a")]),
        ];
        assert_eq!(check(&requests(&inputs)), [""; 0]);
    }

    #[test]
    fn doubled_and_lost_context_is_named() {
        let doubled = check(&requests(&[json!([context("a"), context("a")])]));
        assert!(
            doubled[0].contains("environment context again"),
            "{doubled:?}"
        );
        let lost = check(&requests(&[
            json!([context("a")]),
            json!([{"role": "user"}]),
        ]));
        assert_eq!(
            lost,
            ["request 2 lacks the environment context that request 1 had"]
        );
    }
}
