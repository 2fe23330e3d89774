//! A compaction or a resume does not change the tools: turn requests of a thread to one model list
//! the same ones.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{input, thread, word};
use crate::mask::{Masked, MaskedRequest};

/// Checks every turn request against the thread's first to the same model.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    let mut first: BTreeMap<(&str, &str), (usize, &Value)> = BTreeMap::new();
    for (number, request) in masked.wire.iter().enumerate() {
        let (Some(thread), Some(model), Some(tools)) = (
            thread(request),
            word(&request.body, "model"),
            tools(request),
        ) else {
            continue;
        };
        if request.kind != "turn" {
            continue;
        }
        let (earlier, known) = *first.entry((thread, model)).or_insert((number, tools));
        if known != tools {
            let (number, earlier) = (number + 1, earlier + 1);
            found.push(format!(
                "request {number} lists other tools than request {earlier}"
            ));
        }
    }
    found
}

/// Tools of the body, or of the item that a lite model gets.
fn tools(request: &MaskedRequest) -> Option<&Value> {
    let listed = request.body.get("tools");
    listed.or_else(|| {
        let mut items = input(request).iter();
        let item = items.find(|item| item["type"] == "additional_tools")?;
        item.get("tools")
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::requests;
    use super::*;
    use serde_json::json;

    #[test]
    fn another_list_is_named_across_windows() {
        let mut masked = requests(&[json!([]), json!([])]);
        masked.wire[1].headers[0].1 = "<thread:1>:1".into();
        for request in &mut masked.wire {
            request.body["tools"] = json!([{"name": "a"}]);
        }
        assert_eq!(check(&masked), [""; 0]);
        masked.wire[1].body["tools"] = json!([]);
        assert_eq!(check(&masked).len(), 1);
        masked.wire[1].body["model"] = json!("<model:other>");
        assert_eq!(check(&masked), [""; 0], "another model");
    }
}
