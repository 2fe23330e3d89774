//! An item id is unique in a request and names the same item in every request.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{at, input, word};
use crate::mask::Masked;

/// Checks every request against all before it.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    let mut known: BTreeMap<&str, (usize, Value)> = BTreeMap::new();
    for (number, request) in masked.wire.iter().enumerate() {
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
                Some((first, content)) if *content != bare => found.push(format!(
                    "{}: id {id} named another item in request {}",
                    at(number, index),
                    first + 1
                )),
                Some(_) => {}
                None => drop(known.insert(id, (number, bare))),
            }
        }
    }
    found
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
}
