//! The user's text of a turn that failed or was stopped is still there in the next turn request.

use super::{compaction_phase, input, thread, turn, user_texts, window};
use crate::mask::{Masked, MaskedRequest};
use crate::scenario::quoted;

/// Longest part of a user text that is looked for, in bytes.
const HEAD_BYTES_MAX: usize = 64;

/// Checks every turn that did not complete.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let users = user_texts(masked);
    let mut found = Vec::new();
    let ended = masked
        .events
        .iter()
        .filter(|event| event["event"] == "turn_ended" && event["status"] != "completed");
    for id in ended.filter_map(|event| event["turn"].as_str()) {
        let of_turn = |request: &&MaskedRequest| turn(request) == Some(id);
        let mut asked = masked.wire.iter().filter(of_turn);
        let by_user = asked.any(|request| compaction_phase(request) != Some("standalone_turn"));
        let Some(last) = masked.wire.iter().rposition(|request| of_turn(&request)) else {
            continue;
        };
        if !by_user {
            continue;
        }
        let Some(texts) = users.get(id).filter(|texts| !texts.is_empty()) else {
            found.push(format!("turn {id}: what its user said was not taken up"));
            continue;
        };
        let next = masked.wire[last + 1..].iter().find(|request| {
            request.kind == "turn" && thread(request) == thread(&masked.wire[last])
        });
        let Some(next) = next.filter(|next| window(next) == window(&masked.wire[last])) else {
            continue;
        };
        for text in texts {
            let head = &text[..text.floor_char_boundary(HEAD_BYTES_MAX)];
            let mut sent = input(next).iter().flat_map(super::texts);
            if !sent.any(|text| text.starts_with(head)) {
                found.push(format!(
                    "turn {id}: the next turn request lacks {}",
                    quoted(head)
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{requests, shown};
    use super::*;
    use serde_json::json;

    fn recording(sent: &str, said: &[&str]) -> Masked {
        let item = json!({"type": "message", "role": "user", "content": [{"text": sent}]});
        let mut masked = requests(&[json!([]), json!([item])]);
        masked.wire[1].body["client_metadata"]["x-codex-turn-metadata"]["$json"]["turn_id"] =
            json!("<turn:2>");
        masked.events = shown("<turn:1>", said);
        let end = json!({"event": "turn_ended", "turn": "<turn:1>", "status": "failed"});
        masked.events.push(end);
        masked
    }

    #[test]
    fn a_kept_text_passes_and_a_lost_one_is_named() {
        assert_eq!(check(&recording("Do it", &["Do it"])), [""; 0]);
        assert_eq!(check(&recording("Other", &["Do it"])).len(), 1);
        assert_eq!(check(&recording("Other", &[])).len(), 1, "never taken up");
    }
}
