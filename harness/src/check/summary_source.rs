//! A checkpoint's summary is the text of a compaction answer, its compaction item that answer's item.

use engine::texts::SUMMARY_PREFIX;
use serde_json::Value;

use super::{answered, records, word};
use crate::mask::Masked;

/// Checks every checkpoint of a recording that holds answers.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let asked = masked.wire.iter().enumerate();
    let asked = asked.filter(|(_, request)| request.kind == "compaction");
    let answers: Vec<&Value> = asked
        .flat_map(|(number, _)| answered(masked, number))
        .collect();
    if answers.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, payload) in records(masked, "compacted").enumerate() {
        let message = word(payload, "message").unwrap_or_default();
        let summary = message
            .strip_prefix(SUMMARY_PREFIX)
            .and_then(|rest| rest.strip_prefix('\n'));
        if let Some(summary) = summary {
            let said = answers.iter().any(|item| joined(item) == summary);
            if !said {
                let number = number + 1;
                found.push(format!(
                    "checkpoint {number}: its summary is in no compaction answer"
                ));
            }
        }
    }
    found
}

fn joined(item: &Value) -> String {
    super::texts(item).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, requests, with_records};
    use super::*;
    use serde_json::json;

    fn recording(summary: &str) -> Masked {
        let mut masked = requests(&[json!([])]);
        masked.wire[0].kind = "compaction".into();
        let said =
            json!({"type": "message", "role": "assistant", "content": [{"text": "In short"}]});
        masked.answers = vec![Some(answer(vec![said]))];
        let message = format!("{SUMMARY_PREFIX}\n{summary}");
        with_records(
            masked,
            vec![json!({"type": "compacted", "payload": {"message": message}})],
        )
    }

    #[test]
    fn only_the_answer_is_the_summary() {
        assert_eq!(check(&recording("In short")), [""; 0]);
        assert_eq!(check(&recording("An old answer")).len(), 1);
        assert_eq!(check(&recording("")).len(), 1);
    }
}
