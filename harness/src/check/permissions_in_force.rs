//! The last permissions text of a request says the policy of its turn.

use std::collections::BTreeMap;

use super::{input, records, turn, word};
use crate::mask::Masked;

const OPENING: &str = "<permissions instructions>";

/// Checks every turn request against the turn context in the rollout.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut policies: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for payload in records(masked, "turn_context") {
        let sandbox = payload.pointer("/sandbox_policy/type");
        let sandbox = sandbox.and_then(serde_json::Value::as_str);
        let approval = word(payload, "approval_policy");
        if let (Some(turn), Some(sandbox), Some(approval)) =
            (word(payload, "turn_id"), sandbox, approval)
        {
            policies.insert(turn, (sandbox, approval));
        }
    }
    let mut found = Vec::new();
    for (number, request) in masked.wire.iter().enumerate() {
        let Some((sandbox, approval)) = turn(request).and_then(|turn| policies.get(turn)) else {
            continue;
        };
        let texts = input(request).iter().flat_map(super::texts);
        let Some(last) = texts.filter(|text| text.starts_with(OPENING)).last() else {
            continue;
        };
        if request.kind == "turn"
            && (!last.contains(&format!("`{sandbox}`")) || !last.contains(approval))
        {
            found.push(format!(
                "request {}: the policy is {sandbox}, {approval}; the last permissions text says \
                 another",
                number + 1
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{requests, with_records};
    use super::*;
    use serde_json::{Value, json};

    fn recording(words: &[&str], sandbox: &str) -> Masked {
        let items: Vec<Value> = words
            .iter()
            .map(|word| {
                let text = format!("{OPENING} mode `{word}`, approval never");
                json!({"type": "message", "role": "developer", "content": [{"text": text}]})
            })
            .collect();
        let context = json!({"type": "turn_context", "payload": {"turn_id": "<turn:1>",
            "approval_policy": "never", "sandbox_policy": {"type": sandbox}}});
        with_records(requests(&[json!(items)]), vec![context])
    }

    #[test]
    fn the_last_text_counts() {
        let both = ["danger-full-access", "read-only"];
        assert_eq!(check(&recording(&both, "read-only")), [""; 0]);
        assert_eq!(check(&recording(&both, "danger-full-access")).len(), 1);
        assert_eq!(check(&recording(&[], "read-only")), [""; 0], "switched off");
    }
}
