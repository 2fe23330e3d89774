//! Each call has exactly one output after it, each output exactly one call before it.

use std::collections::BTreeMap;

use super::{at, input, word};
use crate::mask::Masked;

/// Checks every request.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    for (number, request) in masked.wire.iter().enumerate() {
        // Kind of output and call id → (place of the call, outputs seen). Kinds are paired apart.
        let mut calls: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
        for (index, item) in input(request).iter().enumerate() {
            let (Some(kind), Some(call)) = (word(item, "type"), word(item, "call_id")) else {
                continue;
            };
            let place = at(number, index);
            let wanted = match kind {
                "function_call" | "local_shell_call" => Some("function_call_output"),
                "custom_tool_call" => Some("custom_tool_call_output"),
                _ => None,
            };
            if let Some(wanted) = wanted {
                if let Some((first, _)) = calls.insert((wanted, call), (index, 0)) {
                    found.push(format!("{place}: call {call} again, first at {first}"));
                }
            } else if ["function_call_output", "custom_tool_call_output"].contains(&kind) {
                match calls.get_mut(&(kind, call)) {
                    None => found.push(format!("{place}: {kind} of {call} without a call before")),
                    Some((_, seen)) => {
                        *seen += 1;
                        if *seen > 1 {
                            found.push(format!("{place}: second output of {call}"));
                        }
                    }
                }
            }
        }
        for ((_, call), (index, seen)) in calls {
            if seen == 0 {
                found.push(format!("{}: call {call} has no output", at(number, index)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::requests;
    use super::*;
    use serde_json::{Value, json};

    fn call(id: &str) -> Value {
        json!({"type": "function_call", "call_id": id})
    }

    fn output(id: &str) -> Value {
        json!({"type": "function_call_output", "call_id": id})
    }

    #[test]
    fn pairs_pass() {
        let calls = json!([call("a"), call("b"), output("b"), output("a")]);
        assert_eq!(check(&requests(&[calls])), [""; 0]);
    }

    #[test]
    fn every_broken_pair_is_named() {
        for (input, word) in [
            (json!([call("a")]), "no output"),
            (json!([output("a"), call("a")]), "without a call before"),
            (
                json!([call("a"), output("a"), output("a")]),
                "second output",
            ),
            (
                json!([call("a"), output("a"), call("a"), output("a")]),
                "again",
            ),
            (
                json!([call("a"), {"type": "custom_tool_call_output", "call_id": "a"}]),
                "without a call before",
            ),
        ] {
            let found = check(&requests(&[input]));
            assert!(found.iter().any(|f| f.contains(word)), "{word}: {found:?}");
        }
    }
}
