//! Nothing is sampled while the counter stands above the window: first it is compacted or estimated
//! anew.

use serde_json::Value;

use super::word;
use crate::mask::Masked;

/// Checks every rollout file.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    for (file, rollout) in masked.rollouts.iter().enumerate() {
        let mut above: Option<(usize, i64, i64)> = None;
        for (line, record) in rollout.records.iter().enumerate() {
            let payload = &record["payload"];
            let info = &payload["info"];
            match (word(record, "type"), word(payload, "type")) {
                (_, Some("token_count")) if info.is_object() => {
                    let total = info.pointer("/last_token_usage/total_tokens");
                    let total = total.and_then(Value::as_i64).unwrap_or_default();
                    let window = info["model_context_window"].as_i64();
                    above = window
                        .filter(|window| total > *window)
                        .map(|window| (line, total, window));
                }
                (Some("compacted"), _) => above = None,
                (Some("response_item"), Some(_)) if sampled(record) => {
                    if let Some((since, total, window)) = above.take() {
                        found.push(format!(
                            "file {} record {line}: sampled with {total} tokens in a window of \
                             {window} (record {since})",
                            file + 1
                        ));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// An item that a turn request brought.
fn sampled(record: &Value) -> bool {
    let payload = &record["payload"];
    let kind = word(payload, "type").unwrap_or_default();
    let of_model = payload["role"] == "assistant" || kind.ends_with("_call");
    of_model && record.pointer("/metadata/compaction_output").is_none()
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_records;
    use super::*;
    use serde_json::json;

    fn count(total: i64) -> Value {
        json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
            "last_token_usage": {"total_tokens": total}, "model_context_window": 100}}})
    }

    fn said() -> Value {
        json!({"type": "response_item", "payload": {"type": "message", "role": "assistant"}})
    }

    #[test]
    fn a_compaction_or_an_estimate_comes_first() {
        let compacted = json!({"type": "compacted", "payload": {}});
        let records = vec![count(101), compacted, said(), count(100), said()];
        assert_eq!(check(&with_records(Masked::default(), records)), [""; 0]);
        let estimated = vec![count(101), count(50), said()];
        assert_eq!(check(&with_records(Masked::default(), estimated)), [""; 0]);
    }

    #[test]
    fn sampling_above_the_window_is_named() {
        let records = vec![count(101), said()];
        assert_eq!(check(&with_records(Masked::default(), records)).len(), 1);
    }
}
