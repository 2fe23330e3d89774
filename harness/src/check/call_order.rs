//! Outputs of the calls of one response stand behind all of these calls and in their order.

use std::collections::BTreeMap;

use super::{answered, at, input, word};
use crate::mask::Masked;

/// Checks every request against the responses before it.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    for (number, request) in masked.wire.iter().enumerate() {
        let items = input(request);
        let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
        let mut outputs: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            let (Some(kind), Some(id)) = (word(item, "type"), word(item, "call_id")) else {
                continue;
            };
            let places = if kind.ends_with("_output") {
                &mut outputs
            } else {
                &mut calls
            };
            places.entry(id).or_insert(index);
        }
        for earlier in 0..number {
            let block = answered(masked, earlier);
            let ids = block.iter().filter_map(|item| word(item, "call_id"));
            let ids: Vec<&str> = ids.filter(|id| calls.contains_key(id)).collect();
            let last_call = ids.iter().map(|id| calls[id]).max();
            let mut previous = last_call;
            for place in ids.iter().filter_map(|id| outputs.get(id)) {
                if previous.is_some_and(|before| *place < before) {
                    let request = earlier + 1;
                    found.push(format!(
                        "{}: this output stands before a call or an output of the response to \
                         request {request} that came first",
                        at(number, *place)
                    ));
                }
                previous = previous.max(Some(*place));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, requests};
    use super::*;
    use serde_json::{Value, json};

    fn item(kind: &str, id: &str) -> Value {
        json!({"type": kind, "call_id": id})
    }

    fn recording(second: Value) -> Masked {
        let mut masked = requests(&[json!([]), second]);
        let calls = vec![item("function_call", "a"), item("function_call", "b")];
        masked.answers = vec![Some(answer(calls)), None];
        masked
    }

    #[test]
    fn outputs_in_call_order_pass() {
        let [a, b] = ["a", "b"].map(|id| item("function_call", id));
        let [c, d] = ["a", "b"].map(|id| item("function_call_output", id));
        assert_eq!(check(&recording(json!([a, b, c, d]))), [""; 0]);
    }

    #[test]
    fn swapped_and_interleaved_outputs_are_named() {
        let [a, b] = ["a", "b"].map(|id| item("function_call", id));
        let [c, d] = ["a", "b"].map(|id| item("function_call_output", id));
        assert_eq!(check(&recording(json!([a, b, d, c]))).len(), 1, "swapped");
        assert_eq!(
            check(&recording(json!([a, c, b, d]))).len(),
            1,
            "interleaved"
        );
    }
}
