//! A call runs once: no retry and no resume asks the client for a call that it was asked for before.

use std::collections::BTreeMap;

use super::word;
use crate::mask::Masked;

/// Checks the client's events.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    let mut started: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut turn = "";
    for (number, event) in masked.events.iter().enumerate() {
        match word(event, "event") {
            Some("turn_started") => turn = word(event, "turn").unwrap_or_default(),
            Some("item_started") if event["item"] == "dynamicToolCall" => {
                let id = word(event, "id").unwrap_or_default();
                if let Some(first) = started.insert((turn, id), number) {
                    let (number, first) = (number + 1, first + 1);
                    found.push(format!(
                        "event {number}: call {id} runs again, first at event {first}"
                    ));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_second_start_is_named() {
        let start = json!({"event": "item_started", "item": "dynamicToolCall", "id": "call_1"});
        let turn = |id: &str| json!({"event": "turn_started", "turn": id});
        let mut masked = Masked {
            events: vec![turn("a"), start.clone(), turn("b"), start.clone()],
            ..Masked::default()
        };
        assert_eq!(check(&masked), [""; 0], "another turn's call");
        masked.events.push(start);
        assert_eq!(check(&masked).len(), 1);
    }
}
