//! The one race of the real binary, canonicalised under a happens-before rule.
//!
//! A client tool answers in its own time: in a paginated rollout (0.164+) the `item_completed` line
//! of a dynamic tool call may stand anywhere between the line of its call and the line of its
//! output, and two equal runs differ in where (seen on 0.164.0 and 0.171.0 with parallel calls).
//! What always holds: call before completion before output, and outputs in call order. A
//! completion that obeys this is written directly before its own output; one that does not is left
//! alone, so that the breach shows. Ordinals belong to positions, not to records, and stay.
//!
//! Client events have the same race: start and end of a tool call stand anywhere before the next
//! report of usage, and calls that run together start in any order (0.164+). They are gathered
//! there, in the order of their ids.

use serde_json::Value;

use crate::recording::ClientEvent;

/// For every position, which line stands there in the canonical order.
pub(crate) fn canonical(records: &[Option<Value>]) -> Vec<usize> {
    let racers: Vec<Option<Racer<'_>>> = records.iter().map(|r| racer(r.as_ref())).collect();
    let mut moved: Vec<Option<usize>> = vec![None; records.len()];
    for (at, found) in racers.iter().enumerate() {
        if let Some(Racer::Completed(call)) = found {
            moved[at] = own_output(&racers, at, call);
        }
    }
    let mut order = Vec::with_capacity(records.len());
    for at in 0..records.len() {
        if moved[at].is_some() {
            continue;
        }
        order.extend((0..at).filter(|from| moved[*from] == Some(at)));
        order.push(at);
    }
    order
}

/// Where the output of a completion stands, if its call stands before and no turn ends between.
fn own_output(racers: &[Option<Racer<'_>>], at: usize, call: &str) -> Option<usize> {
    let before = racers[..at].iter().rev().flatten();
    let called = before
        .take_while(|racer| **racer != Racer::Boundary)
        .find_map(|racer| match racer {
            Racer::Called(id) if *id == call => Some(true),
            Racer::Output(id) if *id == call => Some(false),
            _ => None,
        });
    if called != Some(true) {
        return None;
    }
    for (place, racer) in racers.iter().enumerate().skip(at + 1) {
        match racer {
            Some(Racer::Output(id)) if *id == call => return Some(place),
            Some(Racer::Boundary) => return None,
            _ => {}
        }
    }
    None
}

/// The record of one line with the ordinal of the line whose place it takes.
pub(crate) fn with_ordinal(mut record: Value, ordinal: Option<Value>) -> Value {
    if let (Some(ordinal), Some(own)) = (ordinal, record.get_mut("ordinal")) {
        *own = ordinal;
    }
    record
}

#[derive(PartialEq)]
enum Racer<'a> {
    Called(&'a str),
    Completed(&'a str),
    Output(&'a str),
    /// A turn begins or ends.
    Boundary,
}

fn racer(record: Option<&Value>) -> Option<Racer<'_>> {
    let record = record?;
    let payload = record.get("payload")?;
    let kind = payload.get("type")?.as_str()?;
    match (record.get("type")?.as_str()?, kind) {
        ("event_msg", "item_completed") => {
            let item = payload.get("item")?;
            (item.get("type")?.as_str()? == "DynamicToolCall")
                .then_some(Racer::Completed(item.get("id")?.as_str()?))
        }
        ("event_msg", "task_started" | "task_complete" | "turn_aborted") => Some(Racer::Boundary),
        ("response_item", "function_call") => {
            Some(Racer::Called(payload.get("call_id")?.as_str()?))
        }
        ("response_item", "function_call_output") => {
            Some(Racer::Output(payload.get("call_id")?.as_str()?))
        }
        _ => None,
    }
}

/// Events with the starts and ends of tool calls gathered before the next report of usage.
pub(crate) fn canonical_events(events: &[ClientEvent]) -> Vec<&ClientEvent> {
    let mut out = Vec::with_capacity(events.len());
    let mut held: Vec<(&str, &ClientEvent)> = Vec::new();
    for event in events {
        match event {
            ClientEvent::ItemStarted { kind, id } | ClientEvent::ItemCompleted { kind, id, .. }
                if kind == "dynamicToolCall" =>
            {
                held.push((id, event));
            }
            ClientEvent::TokenUsage { .. } | ClientEvent::TurnEnded { .. } => {
                out.extend(by_call(std::mem::take(&mut held)));
                out.push(event);
            }
            ClientEvent::TurnStarted { .. }
            | ClientEvent::ItemStarted { .. }
            | ClientEvent::ItemCompleted { .. }
            | ClientEvent::ModelRerouted { .. }
            | ClientEvent::HookStarted { .. }
            | ClientEvent::HookCompleted { .. }
            | ClientEvent::Warning { .. }
            | ClientEvent::Error { .. } => out.push(event),
        }
    }
    out.extend(by_call(held));
    out
}

/// The same events, those of one call together, calls in the order of their ids.
fn by_call<'a>(mut held: Vec<(&'a str, &'a ClientEvent)>) -> Vec<&'a ClientEvent> {
    held.sort_by_key(|(id, _)| *id);
    held.into_iter().map(|(_, event)| event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(kind: &str, call: &str) -> Value {
        json!({"type": "response_item", "payload": {"type": kind, "call_id": call}})
    }

    fn called(call: &str) -> Value {
        item("function_call", call)
    }

    fn output(call: &str) -> Value {
        item("function_call_output", call)
    }

    fn completed(call: &str) -> Value {
        json!({"type": "event_msg",
            "payload": {"type": "item_completed", "item": {"type": "DynamicToolCall", "id": call}}})
    }

    fn event(kind: &str) -> Value {
        json!({"type": "event_msg", "payload": {"type": kind}})
    }

    fn shown(list: &[Value]) -> Vec<Value> {
        let lines: Vec<Option<Value>> = list.iter().cloned().map(Some).collect();
        canonical(&lines)
            .into_iter()
            .map(|at| list[at].clone())
            .collect()
    }

    #[test]
    fn every_order_of_the_race_becomes_one() {
        let usage = || json!({"type": "token_usage_record", "payload": {}});
        let (c1, c2) = (called("c1"), called("c2"));
        let (d1, d2) = (completed("c1"), completed("c2"));
        let (o1, o2) = (output("c1"), output("c2"));
        let wanted = [&c1, &c2, &usage(), &d1, &o1, &d2, &o2]
            .map(Clone::clone)
            .to_vec();
        for list in [
            [&c1, &c2, &usage(), &d2, &d1, &o1, &o2],
            [&c1, &d1, &c2, &usage(), &o1, &d2, &o2],
            [&c1, &c2, &d1, &d2, &usage(), &o1, &o2],
        ] {
            assert_eq!(shown(&list.map(Clone::clone)), wanted);
        }
    }

    #[test]
    fn a_breach_is_left_as_it_is() {
        for list in [
            vec![called("c1"), output("c1"), completed("c1")],
            vec![completed("c1"), called("c1"), output("c1")],
            vec![
                called("c1"),
                completed("c1"),
                event("turn_aborted"),
                output("c1"),
            ],
        ] {
            assert_eq!(shown(&list), list);
        }
    }

    #[test]
    fn the_order_of_outputs_and_of_other_lines_is_never_touched() {
        let list = [
            called("c1"),
            called("c2"),
            event("token_count"),
            output("c2"),
            output("c1"),
        ];
        assert_eq!(shown(&list), list);
    }

    #[test]
    fn events_of_calls_are_gathered_before_the_usage() {
        let started = |id: &str| ClientEvent::ItemStarted {
            kind: "dynamicToolCall".into(),
            id: id.into(),
        };
        let ended = |id: &str| ClientEvent::ItemCompleted {
            kind: "dynamicToolCall".into(),
            id: id.into(),
            shown: Value::Null,
        };
        let warning = ClientEvent::Warning {
            message: "w".into(),
        };
        let usage = ClientEvent::TokenUsage {
            total: Value::Null,
            last: Value::Null,
            window: None,
        };
        let list = [
            started("b"),
            started("a"),
            ended("b"),
            warning.clone(),
            ended("a"),
            usage.clone(),
        ];
        let wanted = [
            warning,
            started("a"),
            ended("a"),
            started("b"),
            ended("b"),
            usage,
        ];
        assert_eq!(canonical_events(&list), wanted.iter().collect::<Vec<_>>());
    }
}
