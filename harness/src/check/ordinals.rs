//! Ordinals of a rollout file count up by one from the first record to the last. Records that the
//! scenario edited are not held to it, those that follow are.

use serde_json::Value;

use crate::mask::Masked;

/// Checks every file that has ordinals.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    for (file, rollout) in masked.rollouts.iter().enumerate() {
        let mut expected: Option<u64> = None;
        let edits = masked.edits.iter().filter(|edit| edit.file == Some(file));
        let begin = edits.map(|edit| edit.records).max().unwrap_or(0);
        let mut after_others = false;
        for (line, record) in rollout.records.iter().enumerate().skip(begin) {
            if record.get("$raw").is_some() || record.get("$no_newline").is_some() {
                continue;
            }
            let place = || format!("file {} record {line}", file + 1);
            match (record.get("ordinal").and_then(Value::as_u64), expected) {
                (None, None) => after_others = true,
                (None, Some(_)) => found.push(format!("{}: ordinal is missing", place())),
                (Some(n), Some(wanted)) if n != wanted => {
                    found.push(format!("{}: ordinal {n}, expected {wanted}", place()));
                    expected = Some(n + 1);
                }
                (Some(n), None) if after_others => {
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
    use crate::mask::{MaskedEdit, MaskedRollout};
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
    fn records_that_were_edited_are_passed_over() {
        let count = [
            json!({"ordinal": 4}),
            json!({"ordinal": 4}),
            json!({"ordinal": 5}),
        ];
        let mut masked = rollout(count.to_vec());
        masked.edits = vec![MaskedEdit {
            requests: 0,
            file: Some(0),
            records: 1,
        }];
        assert_eq!(check(&masked), [""; 0]);
        masked.rollouts[0].records[2] = json!({"ordinal": 7});
        assert_eq!(check(&masked).len(), 1);
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
