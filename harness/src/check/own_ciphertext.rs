//! Ciphertext on the wire is the provider's own: it stood in an answer, or in what the client gave.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{answered, at, input, records, word};
use crate::mask::Masked;

/// Checks every request of a recording that holds answers.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    // What a stream brought before it broke, and what a client supplied, stands in the rollout only.
    known.extend(records(masked, "response_item").filter_map(ciphertext));
    for checkpoint in records(masked, "compacted") {
        let kept = checkpoint["replacement_history"].as_array();
        known.extend(kept.into_iter().flatten().filter_map(ciphertext));
    }
    for number in 0..masked.wire.len() {
        known.extend(answered(masked, number).iter().filter_map(ciphertext));
    }
    let mut found = Vec::new();
    for (number, request) in masked.wire.iter().enumerate() {
        for (index, item) in input(request).iter().enumerate() {
            if ciphertext(item).is_some_and(|text| !known.contains(text)) {
                let place = at(number, index);
                found.push(format!("{place}: nobody gave this encrypted content"));
            }
        }
    }
    found
}

fn ciphertext(item: &Value) -> Option<&str> {
    word(item, "encrypted_content")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, requests};
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_was_given_passes() {
        let item = |text: &str| json!({"type": "reasoning", "encrypted_content": text});
        let mut masked = requests(&[json!([]), json!([item("abc")])]);
        assert_eq!(check(&masked).len(), 1);
        masked.answers = vec![Some(answer(vec![item("abc")])), None];
        assert_eq!(check(&masked), [""; 0]);
        masked.answers = vec![Some(answer(vec![item("ab")])), None];
        assert_eq!(check(&masked).len(), 1, "another text");
    }
}
