//! Totals of usage are sums: each total is the one before plus the usage that came between.

use std::collections::BTreeMap;

use serde_json::Value;

use super::word;
use crate::mask::Masked;

/// Checks every rollout file.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    for (file, rollout) in masked.rollouts.iter().enumerate() {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        let mut counted: Option<(u64, u64)> = None;
        for (line, record) in rollout.records.iter().enumerate() {
            let place = format!("file {} record {line}", file + 1);
            let payload = &record["payload"];
            if record["type"] == "token_usage_record" {
                found.extend(sum(payload, &mut sums).map(|what| format!("{place}: {what}")));
            }
            if payload["type"] == "token_count" && payload["info"].is_object() {
                let total = tokens(&payload["info"]["total_token_usage"]);
                let last = tokens(&payload["info"]["last_token_usage"]);
                if let Some((before, was)) = counted
                    && total != before
                    && total != before + last
                {
                    found.push(format!(
                        "{place}: total {total} is neither {before} nor {before} + {last} (last \
                         {was})"
                    ));
                }
                counted = Some((total, last));
            }
        }
    }
    found
}

fn sum(payload: &Value, sums: &mut BTreeMap<String, u64>) -> Option<String> {
    let usage = tokens(&payload["usage"]);
    let mut wrong = None;
    for (scope, key) in [
        ("turn_token_usage", "turn_id"),
        ("thread_token_usage", "thread_id"),
    ] {
        let total = tokens(&payload[scope]);
        let name = format!("{scope} {}", word(payload, key).unwrap_or_default());
        if let Some(before) = sums.insert(name, total)
            && before + usage != total
        {
            wrong = Some(format!("{scope} {total} is not {before} + {usage}"));
        }
    }
    wrong
}

fn tokens(usage: &Value) -> u64 {
    usage["total_tokens"].as_u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_records;
    use super::*;
    use serde_json::json;

    fn usage(turn: &str, usage: u64, of_turn: u64, of_thread: u64) -> Value {
        json!({"type": "token_usage_record", "payload": {
            "turn_id": turn, "thread_id": "t",
            "usage": {"total_tokens": usage},
            "turn_token_usage": {"total_tokens": of_turn},
            "thread_token_usage": {"total_tokens": of_thread},
        }})
    }

    fn count(total: u64, last: u64) -> Value {
        json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
            "total_token_usage": {"total_tokens": total},
            "last_token_usage": {"total_tokens": last},
        }}})
    }

    #[test]
    fn sums_pass_and_a_recomputed_last_changes_no_total() {
        let records = vec![
            usage("a", 10, 10, 10),
            count(10, 10),
            usage("b", 5, 5, 15),
            usage("b", 5, 10, 20),
            count(15, 5),
            count(15, 99),
        ];
        assert_eq!(check(&with_records(Masked::default(), records)), [""; 0]);
    }

    #[test]
    fn wrong_sums_are_named() {
        let records = vec![usage("a", 10, 10, 10), usage("a", 5, 15, 14)];
        assert_eq!(check(&with_records(Masked::default(), records)).len(), 1);
        let records = vec![count(10, 10), count(30, 10)];
        assert_eq!(check(&with_records(Masked::default(), records)).len(), 1);
    }
}
