//! The races of the real binary with running tools, canonicalised under a happens-before rule.
//!
//! In a paginated rollout (0.164+) a dynamic tool call ends while other things go on: its
//! `item_completed` line may change places with the completions and outputs of other calls, and,
//! while the stream is still open, with the items that the stream still brings and its
//! `token_usage_record`. What always holds: a completion comes after its own call and before its own
//! output; outputs keep call order; the stream's records keep theirs. A group is a run of
//! neighbouring lines of these kinds; if it obeys the rule it is written as the stream's records,
//! then all completions in call order, then all outputs. A group that breaks the rule is left
//! alone, so that the breach shows. Ordinals belong to positions, not to records, and stay where
//! they are. Client events have the same race and no outputs: there completions move behind the
//! item events of their run, in the order of their starts.

use serde_json::Value;

use crate::recording::ClientEvent;

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

#[derive(Debug, Clone, Copy, PartialEq)]
enum Racer<'a> {
    /// A record of the open stream; the call id of a call.
    Stream(Option<&'a str>),
    Completed(&'a str),
    Output(&'a str),
}

fn racer(record: Option<&Value>) -> Option<Racer<'_>> {
    let record = record?;
    let payload = record.get("payload")?;
    let outer = record.get("type")?.as_str()?;
    if outer == "token_usage_record" {
        return Some(Racer::Stream(None));
    }
    let call = || payload.get("call_id").and_then(Value::as_str);
    match (outer, payload.get("type")?.as_str()?) {
        ("event_msg", "item_completed") => {
            let item = payload.get("item")?;
            match item.get("type")?.as_str()? {
                "DynamicToolCall" => Some(Racer::Completed(item.get("id")?.as_str()?)),
                "AgentMessage" | "Reasoning" => Some(Racer::Stream(None)),
                _ => None,
            }
        }
        ("response_item", "function_call_output") => Some(Racer::Output(call()?)),
        ("response_item", "function_call") => Some(Racer::Stream(call())),
        ("response_item", "reasoning") => Some(Racer::Stream(None)),
        ("response_item", "message") => {
            (payload.get("role")? == "assistant").then_some(Racer::Stream(None))
        }
        _ => None,
    }
}

fn sort_group(records: &[Option<Value>], group: &[usize]) -> Option<Vec<usize>> {
    let (mut stream, mut completed, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    let mut calls = Vec::new();
    for at in group {
        match racer(records[*at].as_ref())? {
            // The stream is over before the first output.
            Racer::Stream(_) if !outputs.is_empty() => return None,
            Racer::Stream(call) => {
                calls.extend(call.map(|call| (call, *at)));
                stream.push(*at);
            }
            Racer::Completed(call) => completed.push((call, *at)),
            Racer::Output(call) => outputs.push((call, *at)),
        }
    }
    let place = |list: &[(&str, usize)], call: &str| list.iter().position(|(c, _)| *c == call);
    let obeys = completed.iter().all(|(call, at)| {
        let own = place(&outputs, call).is_some_and(|i| outputs[i].1 > *at);
        own && place(&calls, call).is_none_or(|i| calls[i].1 < *at)
    });
    let unique = |list: &[(&str, usize)]| {
        list.iter()
            .enumerate()
            .all(|(i, (call, _))| place(&list[..i], call).is_none())
    };
    if completed.is_empty() || !obeys || !unique(&completed) || !unique(&outputs) {
        return None;
    }
    // Call order is the order of the outputs.
    completed.sort_by_key(|(call, _)| place(&outputs, call));
    let racers = completed.into_iter().chain(outputs).map(|(_, at)| at);
    Some(stream.into_iter().chain(racers).collect())
}

/// Client events in canonical order.
pub(crate) fn canonical_events(events: &[ClientEvent]) -> Vec<ClientEvent> {
    let mut out = Vec::with_capacity(events.len());
    let mut rest = events;
    while !rest.is_empty() {
        let length = rest.iter().take_while(|event| in_stream(event)).count();
        let (run, after) = rest.split_at(length);
        out.extend(sort_run(run));
        let (single, after) = after.split_at(after.len().min(1));
        out.extend_from_slice(single);
        rest = after;
    }
    out
}

const TOOL: &str = "dynamicToolCall";

fn in_stream(event: &ClientEvent) -> bool {
    match event {
        ClientEvent::ItemStarted { kind, .. } | ClientEvent::ItemCompleted { kind, .. } => {
            [TOOL, "agentMessage", "reasoning"].contains(&kind.as_str())
        }
        ClientEvent::TurnStarted { .. }
        | ClientEvent::TurnEnded { .. }
        | ClientEvent::TokenUsage { .. }
        | ClientEvent::Warning { .. }
        | ClientEvent::Error { .. } => false,
    }
}

fn sort_run(run: &[ClientEvent]) -> Vec<ClientEvent> {
    let mut started: Vec<&str> = Vec::new();
    let (mut first, mut ends) = (Vec::new(), Vec::new());
    for event in run {
        match event {
            ClientEvent::ItemCompleted { kind, id, .. } if kind == TOOL => {
                // A completion without its start is a breach: it has to show.
                let Some(at) = started.iter().position(|s| s == id) else {
                    return run.to_vec();
                };
                ends.push((at, event.clone()));
            }
            other => {
                if let ClientEvent::ItemStarted { id, .. } = other {
                    started.push(id);
                }
                first.push(other.clone());
            }
        }
    }
    ends.sort_by_key(|(at, _)| *at);
    first
        .into_iter()
        .chain(ends.into_iter().map(|(_, event)| event))
        .collect()
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

    #[expect(clippy::unnecessary_wraps, reason = "the shape of a parsed line")]
    fn call(id: &str) -> Option<Value> {
        Some(json!({"type": "response_item", "payload": {"type": "function_call", "call_id": id}}))
    }

    #[test]
    fn a_completion_may_stand_anywhere_in_the_open_stream() {
        let usage = Some(json!({"type": "token_usage_record", "payload": {}}));
        let wanted = [
            call("c1"),
            call("c2"),
            usage,
            completed("c1"),
            completed("c2"),
            output("c1"),
            output("c2"),
        ];
        for from in [3, 4] {
            for to in 1..=4 {
                let mut list = wanted.to_vec();
                let moved = list.remove(from);
                list.insert(to, moved);
                let breach = from == 4 && to == 1;
                let order = canonical(&list);
                let shown: Vec<_> = order.iter().map(|i| list[*i].clone()).collect();
                assert_eq!(shown == wanted, !breach, "{from} to {to}");
            }
        }
    }

    #[test]
    fn completions_of_events_follow_their_run() {
        let started = |id: &str| ClientEvent::ItemStarted {
            kind: TOOL.into(),
            id: id.into(),
        };
        let ended = |id: &str| ClientEvent::ItemCompleted {
            kind: TOOL.into(),
            id: id.into(),
            shown: Value::Null,
        };
        let wanted = [started("a"), started("b"), ended("a"), ended("b")];
        let early = [started("a"), ended("a"), started("b"), ended("b")];
        let late = [started("a"), started("b"), ended("b"), ended("a")];
        for list in [&early, &late, &wanted] {
            assert_eq!(canonical_events(list), wanted);
        }
        let breach = [ended("a"), started("a")];
        assert_eq!(canonical_events(&breach), breach);
    }
}
