//! Inside a window every request begins with all the items of the one before: the prompt cache holds.
//! The first request behind a rollback or a revert begins anew.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{at, input, thread, turn, turns_that_go_back};
use crate::golden::fold::same;
use crate::mask::Masked;

/// Fields whose change breaks the cache as well.
const FIXED: &[&str] = &["instructions", "tools", "prompt_cache_key"];

/// Checks neighbours of the same window.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    let mut before: BTreeMap<&str, (usize, &[Value])> = BTreeMap::new();
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    let mut goes_back = turns_that_go_back(masked);
    for (number, request) in masked.wire.iter().enumerate() {
        if masked.edits.iter().any(|edit| edit.requests == number) {
            // The scenario changed what the thread holds.
            before.clear();
        }
        let window = request
            .headers
            .iter()
            .find(|(name, _)| name == "x-codex-window-id");
        let Some((_, window)) = window else { continue };
        let mut items = input(request);
        let compaction = request.kind == "compaction";
        if compaction {
            // The prompt at the end is not part of the history.
            items = items.split_last().map_or(items, |(_, rest)| rest);
        } else if request.kind != "turn" {
            continue;
        }
        if turn(request).is_some_and(|turn| goes_back.remove(turn)) {
            // The windows behind that point are opened anew, too.
            let thread = thread(request);
            before.retain(|window, _| window.rsplit_once(':').map(|it| it.0) != thread);
        }
        if let Some((earlier, old)) = before.get(window.as_str()) {
            let broken = old
                .iter()
                .enumerate()
                .find(|(i, item)| items.get(*i).is_none_or(|now| !same(item, now)));
            // A compaction request may drop the oldest items when it does not fit.
            if let Some((index, _)) = broken.filter(|_| !compaction) {
                let place = at(number, index);
                found.push(format!(
                    "{place} breaks the prefix of request {}",
                    earlier + 1
                ));
            }
        }
        if !compaction {
            if let Some(earlier) = turns.insert(window, number) {
                let old = &masked.wire[earlier].body;
                for field in FIXED
                    .iter()
                    .filter(|f| old.get(**f) != request.body.get(**f))
                {
                    let number = number + 1;
                    found.push(format!(
                        "request {number} changes `{field}` inside a window"
                    ));
                }
            }
            before.insert(window, (number, items));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{requests, with_records};
    use super::*;
    use crate::mask::MaskedEdit;
    use serde_json::json;

    #[test]
    fn growing_requests_pass() {
        assert_eq!(
            check(&requests(&[json!([1]), json!([1, 2]), json!([1, 2, 3])])),
            [""; 0]
        );
    }

    #[test]
    fn the_first_broken_item_is_named() {
        let found = check(&requests(&[json!([1, 2]), json!([1, 3, 2])]));
        assert_eq!(
            found,
            ["request 2 input item 1 breaks the prefix of request 1"]
        );
        assert_eq!(
            check(&requests(&[json!([1, 2]), json!([1])])).len(),
            1,
            "a shorter request"
        );
    }

    /// A rollback goes back once; what follows it has to grow again.
    #[test]
    fn only_the_first_request_behind_a_rollback_goes_back() {
        let records = |marker: &str| {
            vec![
                json!({"payload": {"type": marker}}),
                json!({"payload": {"type": "task_started", "turn_id": "<turn:2>"}}),
            ]
        };
        let mut back = requests(&[json!([1, 2]), json!([1]), json!([2])]);
        back.wire[1].body["client_metadata"]["x-codex-turn-metadata"]["$json"]["turn_id"] =
            json!("<turn:2>");
        let found = check(&with_records(back.clone(), records("thread_rolled_back")));
        assert_eq!(
            found,
            ["request 3 input item 0 breaks the prefix of request 2"]
        );
        assert_eq!(check(&with_records(back, records("token_count"))).len(), 2);
    }

    #[test]
    fn behind_an_edit_of_the_rollout_it_starts_anew() {
        let inputs = [json!([1, 2]), json!([1]), json!([2])];
        let mut masked = requests(&inputs);
        masked.edits = vec![MaskedEdit {
            requests: 1,
            file: Some(0),
            records: 1,
        }];
        let found = check(&masked);
        assert_eq!(
            found,
            ["request 3 input item 0 breaks the prefix of request 2"]
        );
    }

    #[test]
    fn a_new_window_starts_anew_and_fields_are_fixed() {
        let mut two = requests(&[json!([1, 2]), json!([3])]);
        two.wire[1].headers[0].1 = "<thread:1>:1".into();
        assert_eq!(check(&two), [""; 0]);
        let mut tools = requests(&[json!([1]), json!([1])]);
        tools.wire[1].body["tools"] = json!([{}]);
        assert_eq!(check(&tools), ["request 2 changes `tools` inside a window"]);
    }
}
