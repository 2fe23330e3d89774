//! An item id is unique in a request and names the same item in every request of a window.
//!
//! A compaction may cut the oldest message it keeps and leave its id as it was (0.164+): in a later
//! window the id names what is left of the item, of the same type and role.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{at, input, word};
use crate::mask::Masked;

/// Checks every request against all before it.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    let mut known: BTreeMap<&str, (usize, &str, Value)> = BTreeMap::new();
    for (number, request) in masked.wire.iter().enumerate() {
        let window = request
            .headers
            .iter()
            .find(|(name, _)| name == "x-codex-window-id");
        let window = window.map_or("", |(_, id)| id.as_str());
        let mut here: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, item) in input(request).iter().enumerate() {
            let Some(id) = word(item, "id") else { continue };
            if let Some(first) = here.insert(id, index) {
                found.push(format!(
                    "{}: id {id} again, first at {first}",
                    at(number, index)
                ));
                continue;
            }
            let mut bare = item.clone();
            if let Some(map) = bare.as_object_mut() {
                map.shift_remove("id");
            }
            match known.get(id) {
                Some((first, then, content)) if *content != bare => {
                    let cut = *then != window && same_kind(content, &bare);
                    if !cut {
                        let place = at(number, index);
                        let first = first + 1;
                        found.push(format!(
                            "{place}: id {id} named another item in request {first}"
                        ));
                    }
                    known.insert(id, (number, window, bare));
                }
                Some(_) => {}
                None => drop(known.insert(id, (number, window, bare))),
            }
        }
    }
    found
}

fn same_kind(a: &Value, b: &Value) -> bool {
    ["type", "role"].iter().all(|key| a.get(key) == b.get(key))
}

#[cfg(test)]
mod tests {
    use super::super::tests::requests;
    use super::*;
    use serde_json::json;

    fn item(id: &str, text: &str) -> Value {
        json!({"type": "message", "id": id, "text": text})
    }

    #[test]
    fn stable_ids_pass() {
        let inputs = [
            json!([item("m1", "a")]),
            json!([item("m1", "a"), item("m2", "a")]),
        ];
        assert_eq!(check(&requests(&inputs)), [""; 0]);
    }

    #[test]
    fn repeats_and_changes_are_named() {
        let twice = check(&requests(&[json!([item("m1", "a"), item("m1", "a")])]));
        assert_eq!(twice, ["request 1 input item 1: id m1 again, first at 0"]);
        let changed = check(&requests(&[
            json!([item("m1", "a")]),
            json!([item("m1", "b")]),
        ]));
        assert_eq!(
            changed,
            ["request 2 input item 0: id m1 named another item in request 1"]
        );
    }

    #[test]
    fn a_cut_message_keeps_its_id_only_in_a_later_window() {
        let mut two = requests(&[json!([item("m1", "long")]), json!([item("m1", "lo")])]);
        assert_eq!(check(&two).len(), 1, "the same window");
        two.wire[1].headers[0].1 = "<thread:1>:1".into();
        assert_eq!(check(&two), [""; 0]);
        two.wire[1].body["input"][0]["type"] = json!("reasoning");
        assert_eq!(check(&two).len(), 1, "another kind of item");
    }
}
