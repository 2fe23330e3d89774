//! The scenario's own expectations: what answered requests looked like, and counts of the whole.

use engine::texts::{COMPACTION_PROMPT, SUMMARY_PREFIX};
use serde_json::Value;

use crate::recording::{Finding, Recording};
use crate::scenario::plan::{
    Expect, ItemPattern, MatchMode, Plan, PlanReply, RequestAssertion, TextPattern,
};

/// Checks every `request:` and the `expect:` of a plan.
pub fn check(plan: &Plan, recording: &Recording) -> Vec<Finding> {
    let mut found = Vec::new();
    for (number, exchange) in recording.journal.iter().enumerate() {
        let replies = plan.steps.iter().flat_map(|step| &step.replies);
        let reply = exchange
            .reply
            .as_ref()
            .and_then(|label| replies.into_iter().find(|reply| reply.label == *label));
        let Some((reply, assertion)) = reply.and_then(|r| Some((r, r.request.as_ref()?))) else {
            continue;
        };
        if let Err(message) = request(plan, assertion, &exchange.body) {
            found.push(finding("assert.request", place(number, reply, &message)));
        }
    }
    expect(&plan.expect, recording, &mut found);
    found
}

fn place(number: usize, reply: &PlanReply, message: &str) -> String {
    format!(
        "request {} (answered by {}, line {}): {message}",
        number + 1,
        reply.label,
        reply.line
    )
}

fn finding(id: &str, message: String) -> Finding {
    Finding {
        id: id.to_owned(),
        message,
    }
}

fn request(plan: &Plan, assertion: &RequestAssertion, body: &[u8]) -> Result<(), String> {
    let body: Value = serde_json::from_slice(body).map_err(|e| format!("body is not JSON: {e}"))?;
    let items = body
        .get("input")
        .and_then(Value::as_array)
        .ok_or("body has no input list")?;
    let items = without_base(plan, &body, items);
    let matches = |pattern: &ItemPattern, item: &Value| item_matches(plan, pattern, item);
    let wanted = &assertion.input;
    let failed = match assertion.mode {
        MatchMode::Exact | MatchMode::Prefix => {
            let wrong = wanted
                .iter()
                .enumerate()
                .find(|(i, pattern)| items.get(*i).is_none_or(|item| !matches(pattern, item)));
            let longer = assertion.mode == MatchMode::Exact && items.len() > wanted.len();
            wrong
                .map(|(i, _)| i)
                .or_else(|| longer.then_some(wanted.len()))
        }
        MatchMode::Contains => {
            let mut rest = items.iter();
            wanted
                .iter()
                .position(|pattern| !rest.any(|item| matches(pattern, item)))
        }
    };
    match failed {
        None => Ok(()),
        Some(at) => Err(format!(
            "input item {at}: expected {}\n    input was:\n{}",
            wanted
                .get(at)
                .map_or("nothing more".to_owned(), ToString::to_string),
            around(items, at)
        )),
    }
}

/// Items printed in a finding.
const ITEMS_SHOWN_MAX: usize = 12;

/// The items around the place where one was missed.
fn around(items: &[Value], at: usize) -> String {
    let from = at.saturating_sub(ITEMS_SHOWN_MAX / 2);
    let from = from.min(items.len().saturating_sub(ITEMS_SHOWN_MAX));
    let mut lines = Vec::new();
    if from > 0 {
        lines.push(format!("    … {from} before these"));
    }
    let shown = items.iter().skip(from).take(ITEMS_SHOWN_MAX);
    lines.extend(shown.map(|item| format!("    {}", clip(item))));
    let behind = items.len().saturating_sub(from + ITEMS_SHOWN_MAX);
    if behind > 0 {
        lines.push(format!("    … {behind} behind these"));
    }
    lines.join("\n")
}

/// Longest item printed in a finding, in bytes.
const ITEM_BYTES_MAX: usize = 240;

fn clip(item: &Value) -> String {
    let text = item.to_string();
    let end = text.floor_char_boundary(ITEM_BYTES_MAX);
    if end < text.len() {
        format!("{}… ({} bytes)", &text[..end], text.len())
    } else {
        text
    }
}

/// Late versions send base instructions as the first input item.
fn without_base<'a>(plan: &Plan, body: &Value, items: &'a [Value]) -> &'a [Value] {
    let Some((first, rest)) = items.split_first() else {
        return items;
    };
    let text = first.pointer("/content/0/text").and_then(Value::as_str);
    let bases = plan.models.iter().map(|m| &m.base_instructions);
    let mut bases = bases.chain(&plan.config.base_instructions);
    let is_base = body.get("instructions").is_none()
        && first["role"] == "developer"
        && text.is_some_and(|t| bases.any(|base| base == t));
    if is_base { rest } else { items }
}

fn item_matches(plan: &Plan, pattern: &ItemPattern, item: &Value) -> bool {
    let prompt = plan.config.prompt().unwrap_or(COMPACTION_PROMPT);
    match pattern {
        ItemPattern::Message { role, text } => {
            item["type"] == "message"
                && item["role"] == role.as_str()
                && text_matches(text.as_ref(), item)
        }
        ItemPattern::Summary(summary) => {
            let whole = TextPattern::Is(format!("{SUMMARY_PREFIX}\n{summary}"));
            item["role"] == "user" && text_matches(Some(&whole), item)
        }
        ItemPattern::CompactionPrompt => {
            item["role"] == "user" && text_matches(Some(&TextPattern::Is(prompt.to_owned())), item)
        }
        ItemPattern::Item {
            kind,
            call_id,
            text,
        } => {
            item["type"] == kind.as_str()
                && call_id
                    .as_ref()
                    .is_none_or(|id| item["call_id"] == id.as_str())
                && text_matches(text.as_ref(), item)
        }
    }
}

fn text_matches(pattern: Option<&TextPattern>, item: &Value) -> bool {
    let Some(pattern) = pattern else { return true };
    let text = text_of(item);
    match pattern {
        TextPattern::Is(whole) => text == *whole,
        TextPattern::Prefix(start) => text.starts_with(start.as_str()),
        TextPattern::Contains(part) => text.contains(part.as_str()),
    }
}

/// The text of an item: its parts joined, its arguments or its output.
fn text_of(item: &Value) -> String {
    for key in ["content", "output", "arguments", "input", "summary"] {
        match item.get(key) {
            Some(Value::String(text)) => return text.clone(),
            Some(Value::Array(parts)) => {
                return parts
                    .iter()
                    .filter_map(|p| p.get("text")?.as_str())
                    .collect();
            }
            _ => {}
        }
    }
    String::new()
}

fn expect(expect: &Expect, recording: &Recording, found: &mut Vec<Finding>) {
    let mut compare = |what: &str, wanted: usize, actual: usize| {
        if wanted != actual {
            found.push(finding(
                "assert.expect",
                format!("{what}: expected {wanted}, got {actual}"),
            ));
        }
    };
    if let Some(wanted) = expect.requests {
        let requests = recording.journal.iter();
        let asked = requests.filter(|exchange| !exchange.is_handshake()).count();
        compare("requests", wanted, asked);
    }
    let records: Vec<Value> = recording
        .rollouts
        .iter()
        .flat_map(|file| file.text.lines())
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let count = |kind: &str| {
        let (outer, inner) = kind
            .split_once('/')
            .map_or((kind, None), |(a, b)| (a, Some(b)));
        let hit = |record: &&Value| {
            record["type"] == outer && inner.is_none_or(|i| record["payload"]["type"] == i)
        };
        records.iter().filter(hit).count()
    };
    if let Some(wanted) = expect.compacted {
        compare("compacted records", wanted, count("compacted"));
    }
    for (kind, wanted) in &expect.rollout {
        compare(&format!("{kind} records"), *wanted, count(kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(role: &str, text: &str) -> Value {
        json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})
    }

    fn run(mode: MatchMode, input: Vec<ItemPattern>, items: &[Value]) -> Result<(), String> {
        let plan = crate::fixture::plan();
        let body = json!({"input": items}).to_string();
        request(&plan, &RequestAssertion { mode, input }, body.as_bytes())
    }

    fn user(text: &str) -> ItemPattern {
        ItemPattern::Message {
            role: "user".into(),
            text: Some(TextPattern::Is(text.to_owned())),
        }
    }

    #[test]
    fn modes_differ_in_what_may_follow() {
        let items = [
            message("developer", "Be brief."),
            message("user", "a"),
            message("user", "b"),
        ];
        assert_eq!(
            run(MatchMode::Exact, vec![user("a"), user("b")], &items),
            Ok(())
        );
        assert!(
            run(MatchMode::Exact, vec![user("a")], &items)
                .unwrap_err()
                .contains("nothing more")
        );
        assert_eq!(run(MatchMode::Prefix, vec![user("a")], &items), Ok(()));
        assert_eq!(run(MatchMode::Contains, vec![user("b")], &items), Ok(()));
        let order = run(MatchMode::Contains, vec![user("b"), user("a")], &items).unwrap_err();
        assert!(order.starts_with("input item 1"), "{order}");
    }

    #[test]
    fn summaries_and_items_are_recognised() {
        let summary = message("user", &format!("{SUMMARY_PREFIX}\nshort"));
        let call = json!({"type": "function_call", "call_id": "c", "arguments": "{}"});
        let patterns = vec![
            ItemPattern::Summary("short".into()),
            ItemPattern::Item {
                kind: "function_call".into(),
                call_id: Some("c".into()),
                text: Some(TextPattern::Contains("{".into())),
            },
            ItemPattern::CompactionPrompt,
        ];
        let items = [summary, call, message("user", COMPACTION_PROMPT)];
        assert_eq!(run(MatchMode::Exact, patterns, &items), Ok(()));
    }

    #[test]
    fn counts_are_of_the_whole_recording() {
        let mut found = Vec::new();
        let wanted = Expect {
            requests: Some(4),
            compacted: Some(2),
            rollout: vec![("event_msg/token_count".into(), 1)],
        };
        expect(&wanted, &crate::fixture::recording(1), &mut found);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "compacted records: expected 2, got 1");
    }
}
