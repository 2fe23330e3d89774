//! The base instructions of a thread stand exactly once in each of its requests.

use std::collections::BTreeMap;

use super::{input, records, thread, word};
use crate::mask::Masked;

/// Checks every turn and compaction request of a thread whose rollout names them.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let metas = records(masked, "session_meta").filter_map(|meta| {
        let text = meta.pointer("/base_instructions/text")?.as_str()?;
        Some((word(meta, "id")?, text))
    });
    let bases: BTreeMap<&str, &str> = metas.collect();
    let mut found = Vec::new();
    for (number, request) in masked.wire.iter().enumerate() {
        let base = thread(request).and_then(|thread| bases.get(thread));
        let Some(base) = base.filter(|base| !base.is_empty()) else {
            continue;
        };
        if !["turn", "compaction"].contains(&request.kind.as_str()) {
            continue;
        }
        let field = word(&request.body, "instructions") == Some(base);
        let items = input(request)
            .iter()
            .filter(|item| item["role"] == "developer" && super::texts(item).eq([*base]));
        let times = items.count() + usize::from(field);
        if times != 1 {
            let number = number + 1;
            found.push(format!(
                "request {number} holds the base instructions {times} times"
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

    fn recording(items: &[Value], instructions: &str) -> Masked {
        let meta = json!({"type": "session_meta", "payload": {"id": "<thread:1>",
            "base_instructions": {"text": "Be brief."}}});
        let mut masked = requests(&[json!(items)]);
        masked.wire[0].body["instructions"] = json!(instructions);
        with_records(masked, vec![meta])
    }

    #[test]
    fn once_as_field_or_as_item_passes() {
        let item = json!({"role": "developer", "content": [{"text": "Be brief."}]});
        assert_eq!(check(&recording(&[], "Be brief.")), [""; 0]);
        assert_eq!(check(&recording(&[item], "")), [""; 0]);
    }

    #[test]
    fn twice_and_never_are_named() {
        let item = json!({"role": "developer", "content": [{"text": "Be brief."}]});
        let twice = [item.clone(), item.clone()];
        assert_eq!(check(&recording(&twice, "")).len(), 1);
        assert_eq!(check(&recording(&[item], "Be brief.")).len(), 1);
        assert_eq!(check(&recording(&[], "")).len(), 1, "lost");
    }
}
