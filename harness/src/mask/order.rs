//! The one race of the real binary's rollouts, canonicalised under a happens-before rule.
//!
//! With parallel calls in a paginated rollout (0.164+), `item_completed` of one dynamic tool call
//! and the `function_call_output` of another may swap between two equal runs. What always holds:
//! an output comes after the completion of its own call, and outputs keep call order. A group is a
//! run of neighbouring lines of these two kinds with at least two calls; if it obeys the rule, it
//! is written as all completions in call order, then all outputs in call order. A group that
//! breaks the rule is left alone, so that the breach shows. Ordinals belong to positions, not to
//! records, and stay where they are.

use serde_json::Value;

/// For every position, which line stands there in the canonical order.
pub(crate) fn canonical(records: &[Option<Value>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    let mut start = 0;
    while start < records.len() {
        let length = records[start..]
            .iter()
            .take_while(|r| racer(r.as_ref()).is_some())
            .count();
        if length > 1 {
            let group: Vec<usize> = (start..start + length).collect();
            if let Some(sorted) = sort_group(records, &group) {
                order[start..start + length].copy_from_slice(&sorted);
            }
        }
        start += length.max(1);
    }
    order
}

/// The record of one line with the ordinal of the line whose place it takes.
pub(crate) fn with_ordinal_of(record: &Value, place: Option<&Value>) -> Value {
    let mut out = record.clone();
    if let (Some(ordinal), Some(own)) =
        (place.and_then(|p| p.get("ordinal")), out.get_mut("ordinal"))
    {
        *own = ordinal.clone();
    }
    out
}

#[derive(PartialEq)]
enum Racer<'a> {
    Completed(&'a str),
    Output(&'a str),
}

fn racer(record: Option<&Value>) -> Option<Racer<'_>> {
    let record = record?;
    let payload = record.get("payload")?;
    let kind = payload.get("type")?.as_str()?;
    match record.get("type")?.as_str()? {
        "event_msg" if kind == "item_completed" => {
            let item = payload.get("item")?;
            (item.get("type")?.as_str()? == "DynamicToolCall")
                .then_some(Racer::Completed(item.get("id")?.as_str()?))
        }
        "response_item" if kind == "function_call_output" => {
            Some(Racer::Output(payload.get("call_id")?.as_str()?))
        }
        _ => None,
    }
}

fn sort_group(records: &[Option<Value>], group: &[usize]) -> Option<Vec<usize>> {
    let mut completed: Vec<(&str, usize)> = Vec::new();
    let mut outputs: Vec<(&str, usize)> = Vec::new();
    for at in group {
        match racer(records[*at].as_ref())? {
            Racer::Completed(call) => completed.push((call, *at)),
            Racer::Output(call) => outputs.push((call, *at)),
        }
    }
    let output_of = |call: &str| outputs.iter().position(|(c, _)| *c == call);
    let own_first = completed
        .iter()
        .all(|(call, at)| output_of(call).is_none_or(|i| outputs[i].1 > *at));
    let unique = |list: &[(&str, usize)]| {
        list.iter()
            .enumerate()
            .all(|(i, (call, _))| list[..i].iter().all(|(c, _)| c != call))
    };
    if completed.len() < 2 || !own_first || !unique(&completed) || !unique(&outputs) {
        return None;
    }
    // Call order is the order of the outputs; a completion without an output here keeps its place
    // after them.
    completed.sort_by_key(|(call, _)| output_of(call).unwrap_or(usize::MAX));
    Some(
        completed
            .into_iter()
            .chain(outputs)
            .map(|(_, at)| at)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::unnecessary_wraps, reason = "the shape of a parsed line")]
    fn completed(call: &str) -> Option<Value> {
        Some(json!({"type": "event_msg",
            "payload": {"type": "item_completed", "item": {"type": "DynamicToolCall", "id": call}}}))
    }

    #[expect(clippy::unnecessary_wraps, reason = "the shape of a parsed line")]
    fn output(call: &str) -> Option<Value> {
        Some(json!({"type": "response_item",
            "payload": {"type": "function_call_output", "call_id": call}}))
    }

    #[test]
    fn both_orders_of_the_race_become_one() {
        let a = [completed("c1"), output("c1"), completed("c2"), output("c2")];
        let b = [completed("c1"), completed("c2"), output("c1"), output("c2")];
        let c = [completed("c2"), completed("c1"), output("c1"), output("c2")];
        let show = |list: &[Option<Value>]| -> Vec<Option<Value>> {
            canonical(list)
                .into_iter()
                .map(|i| list[i].clone())
                .collect()
        };
        assert_eq!(show(&a), show(&b));
        assert_eq!(show(&b), show(&c));
    }

    #[test]
    fn a_breach_is_left_as_it_is() {
        let list = [output("c1"), completed("c1"), completed("c2"), output("c2")];
        assert_eq!(canonical(&list), [0, 1, 2, 3]);
    }

    #[test]
    fn neighbours_and_single_calls_stay() {
        let other = Some(json!({"type": "event_msg", "payload": {"type": "token_count"}}));
        let list = [other.clone(), completed("c1"), output("c1"), other];
        assert_eq!(canonical(&list), [0, 1, 2, 3]);
        let swapped_outputs = [completed("c1"), completed("c2"), output("c2"), output("c1")];
        let order = canonical(&swapped_outputs);
        assert_eq!(
            &order[2..],
            &[2, 3],
            "the order of outputs is never touched"
        );
    }
}
