//! Ordinals of a rollout file count up by one from the first record to the last.

use serde_json::Value;

use crate::mask::Masked;

/// Checks every file that has ordinals.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    for (file, rollout) in masked.rollouts.iter().enumerate() {
        let mut expected: Option<u64> = None;
        for (line, record) in rollout.records.iter().enumerate() {
            if record.get("$raw").is_some() || record.get("$no_newline").is_some() {
                continue;
            }
            let place = || format!("file {} record {line}", file + 1);
            match (record.get("ordinal").and_then(Value::as_u64), expected) {
                (None, None) => {}
                (None, Some(_)) => found.push(format!("{}: ordinal is missing", place())),
                (Some(n), Some(wanted)) if n != wanted => {
                    found.push(format!("{}: ordinal {n}, expected {wanted}", place()));
                    expected = Some(n + 1);
                }
                (Some(n), None) if line > 0 => {
                    found.push(format!("{}: ordinal {n} after records without", place()));
                    expected = Some(n + 1);
                }
                (Some(n), _) => expected = Some(n + 1),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::MaskedRollout;
    use serde_json::json;

    fn rollout(records: Vec<Value>) -> Masked {
        let file = MaskedRollout {
            name: "x".into(),
            records,
        };
        Masked {
            rollouts: vec![file],
            ..Masked::default()
        }
    }

    #[test]
    fn counting_and_none_pass() {
        let count = vec![
            json!({"ordinal": 0}),
            json!({"$raw": "torn"}),
            json!({"ordinal": 1}),
        ];
        assert_eq!(check(&rollout(count)), [""; 0]);
        assert_eq!(check(&rollout(vec![json!({}), json!({})])), [""; 0]);
    }

    #[test]
    fn gap_repeat_and_absence_are_named() {
        for second in [json!({"ordinal": 2}), json!({"ordinal": 0}), json!({})] {
            assert_eq!(
                check(&rollout(vec![json!({"ordinal": 0}), second])).len(),
                1
            );
        }
        assert_eq!(
            check(&rollout(vec![json!({}), json!({"ordinal": 1})])).len(),
            1
        );
    }
}
