//! An image that is older than a compaction is not sent again.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{input, thread, turn, window};
use crate::mask::Masked;

/// Checks turn requests against those of earlier turns in earlier windows of the thread.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    // Image → (thread, window, turn) of the first request that held it.
    let mut known: BTreeMap<&str, (&str, &str, &str)> = BTreeMap::new();
    for (number, request) in masked.wire.iter().enumerate() {
        if request.kind != "turn" {
            continue;
        }
        let here = (
            thread(request).unwrap_or_default(),
            window(request).unwrap_or_default(),
            turn(request).unwrap_or_default(),
        );
        for image in input(request).iter().flat_map(images) {
            let first = *known.entry(image).or_insert(here);
            if first.0 == here.0 && first.1 != here.1 && first.2 != here.2 {
                found.push(format!(
                    "request {} holds an image of turn {}, which a compaction lies behind",
                    number + 1,
                    first.2
                ));
            }
        }
    }
    found
}

fn images(item: &Value) -> Vec<&str> {
    ["content", "output"]
        .iter()
        .filter_map(|key| item[*key].as_array())
        .flatten()
        .filter_map(|part| part["image_url"].as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::requests;
    use super::*;
    use serde_json::json;

    fn recording(window: &str, turn: &str) -> Masked {
        let part = json!({"type": "input_image", "image_url": "data:image/png;base64,A"});
        let item = json!({"type": "message", "role": "user", "content": [part]});
        let mut masked = requests(&[json!([item]), json!([item])]);
        masked.wire[1].headers[0].1 = window.into();
        masked.wire[1].body["client_metadata"]["x-codex-turn-metadata"]["$json"]["turn_id"] =
            json!(turn);
        masked
    }

    #[test]
    fn an_image_of_the_window_or_of_the_turn_passes() {
        assert_eq!(check(&recording("<thread:1>:0", "<turn:2>")), [""; 0]);
        assert_eq!(check(&recording("<thread:1>:1", "<turn:1>")), [""; 0]);
    }

    #[test]
    fn an_image_behind_a_compaction_is_named() {
        assert_eq!(check(&recording("<thread:1>:1", "<turn:2>")).len(), 1);
    }
}
