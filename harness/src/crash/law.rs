//! What has to hold behind a crash.

use serde_json::Value;

use super::Crashed;

/// Says what is broken; `named` where a torn line has to be named.
pub fn broken(crashed: &Crashed, named: bool) -> Vec<String> {
    let mut found = crashed.failed.clone();
    if found.is_empty() && (crashed.inputs.len() < 2 || crashed.inputs.iter().any(Vec::is_empty)) {
        found.push("a turn behind a resume sent nothing".to_owned());
    }
    let items = history(&crashed.acknowledged);
    for (number, input) in crashed.inputs.iter().enumerate() {
        let lost = missing(&items, input);
        for item in lost {
            found.push(format!("resume {} lost {}", number + 1, short(item)));
        }
        if number == 0 && input.iter().any(is_compaction_prompt) {
            // What follows stands on the summary that was just made.
            break;
        }
    }
    let records = crashed.acknowledged.iter().chain(&crashed.later);
    for record in records.filter(|record| !crashed.left.contains(record)) {
        found.push(format!("the file lost {}", short(record)));
    }
    if crashed.torn && named && crashed.warnings.is_empty() {
        found.push("a torn line was left out without a word".to_owned());
    }
    found
}

/// Items that a thread holds behind these records: the newest checkpoint and what follows it.
fn history(records: &[Value]) -> Vec<&Value> {
    let mut items: Vec<&Value> = Vec::new();
    for record in records {
        let payload = &record["payload"];
        match record["type"].as_str() {
            Some("compacted") => {
                let kept = payload["replacement_history"].as_array();
                items = kept.into_iter().flatten().collect();
            }
            Some("response_item") => items.push(payload),
            _ => {}
        }
    }
    items
}

/// Items that do not stand in an input, in their order.
fn missing<'a>(items: &[&'a Value], input: &[Value]) -> Vec<&'a Value> {
    let mut rest = input.iter();
    let mut lost = Vec::new();
    for item in items {
        let wanted = told(item);
        let mut ahead = rest.clone();
        if ahead.any(|sent| told(sent) == wanted) {
            rest = ahead;
        } else {
            lost.push(*item);
        }
    }
    lost
}

/// What an item tells the model; ids and metadata are the client's own.
fn told(item: &Value) -> Vec<String> {
    let mut told: Vec<String> = [
        "type",
        "role",
        "call_id",
        "name",
        "arguments",
        "input",
        "output",
        "encrypted_content",
    ]
    .iter()
    .map(|key| item[*key].to_string())
    .collect();
    let parts = item["content"].as_array().into_iter().flatten();
    told.extend(parts.filter_map(|part| Some(part["text"].as_str()?.to_owned())));
    told
}

fn is_compaction_prompt(item: &Value) -> bool {
    let text = &item["content"][0]["text"];
    text == engine::texts::COMPACTION_PROMPT || item["type"] == "compaction_trigger"
}

fn short(value: &Value) -> String {
    const CHARS_MAX: usize = 160;
    let text = value.to_string();
    text.chars().take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(text: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    }

    fn record(text: &str) -> Value {
        json!({"type": "response_item", "payload": item(text)})
    }

    fn crashed(acknowledged: &[Value], input: &[Value]) -> Crashed {
        Crashed {
            acknowledged: acknowledged.to_vec(),
            inputs: vec![input.to_vec(), input.to_vec()],
            left: acknowledged.to_vec(),
            ..Crashed::default()
        }
    }

    #[test]
    fn an_acknowledged_item_has_to_be_sent_in_its_place() {
        let records = [record("a"), record("b")];
        let whole = crashed(&records, &[item("x"), item("a"), item("b")]);
        assert_eq!(broken(&whole, true), [""; 0]);
        let lost = crashed(&records, &[item("b")]);
        assert_eq!(broken(&lost, true).len(), 2);
        let swapped = crashed(&records, &[item("b"), item("a")]);
        assert_eq!(broken(&swapped, true).len(), 2);
    }

    #[test]
    fn a_checkpoint_replaces_what_stood_before_it() {
        let checkpoint =
            json!({"type": "compacted", "payload": {"replacement_history": [item("s")]}});
        let records = [record("a"), checkpoint, record("b")];
        assert_eq!(
            broken(&crashed(&records, &[item("s"), item("b")]), true),
            [""; 0]
        );
        assert_eq!(broken(&crashed(&records, &[item("b")]), true).len(), 2);
    }

    #[test]
    fn a_record_has_to_stay_in_the_file_and_a_torn_line_to_be_named() {
        let mut gone = crashed(&[record("a")], &[item("a")]);
        gone.left.clear();
        assert_eq!(broken(&gone, true).len(), 1);
        let mut later = crashed(&[record("a")], &[item("a")]);
        later.later.push(record("b"));
        assert_eq!(broken(&later, true).len(), 1);
        let mut torn = crashed(&[record("a")], &[item("a")]);
        torn.torn = true;
        assert_eq!(broken(&torn, true).len(), 1);
        assert_eq!(broken(&torn, false), [""; 0]);
        torn.warnings.push("line 2".to_owned());
        assert_eq!(broken(&torn, true), [""; 0]);
    }
}
