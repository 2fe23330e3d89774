//! Calls and outputs between two checkpoints: which of them lack the other, come twice or reversed.
//!
//! The law is that of `check::pairing`, on records instead of requests; what a version does with a
//! fault stands in history.md §1. Kinds are paired apart. What lies before the newest checkpoint is
//! judged too, but only as a note: no model sees it any more.

use std::collections::BTreeMap;

use engine::items::Item;
use serde_json::json;

use super::findings::{Findings, Severity};
use super::shown;
use crate::rollout_file::Place;

/// Calls and outputs that are remembered. Beyond, pairs that are in order are forgotten, so that an
/// id that is used again is not noticed.
const EVENTS_MAX: usize = 100_000;

/// Which outputs answer a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Function,
    Custom,
    Search,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Custom => "custom tool",
            Self::Search => "tool search",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    kind: Kind,
    id: Box<str>,
    is_call: bool,
    place: Place,
}

/// The calls and outputs of the history since the newest checkpoint.
#[derive(Debug, Default)]
pub struct Pairing {
    events: Vec<Event>,
    forgot: bool,
}

/// What is known of one call id.
#[derive(Debug, Default)]
struct Pair {
    calls: u32,
    outputs: u32,
    first_call: Place,
    first_output: Place,
    reversed: bool,
}

impl Pairing {
    /// Takes an item of the history.
    pub fn item(&mut self, item: &Item, place: Place) {
        let Some(id) = item.call_id() else { return };
        let (kind, is_call) = match item.kind() {
            "function_call" | "local_shell_call" => (Kind::Function, true),
            "function_call_output" => (Kind::Function, false),
            "custom_tool_call" => (Kind::Custom, true),
            "custom_tool_call_output" => (Kind::Custom, false),
            "tool_search_call" => (Kind::Search, true),
            // One of the server's own searches needs no call.
            "tool_search_output" if item.payload.get("execution") != Some(&json!("server")) => {
                (Kind::Search, false)
            }
            _ => return,
        };
        self.events.push(Event {
            kind,
            id: id.into(),
            is_call,
            place,
        });
        if self.events.len() > EVENTS_MAX {
            self.forget_pairs();
        }
    }

    /// Takes back what was recorded from this line on.
    pub fn roll_back(&mut self, line: u64) {
        self.events.retain(|event| event.place.line < line);
    }

    /// A checkpoint replaces the history: what was wrong with it is of the past.
    pub fn checkpoint(&mut self, into: &mut Findings) {
        self.judge(&mut |_, place, what| into.add("pairing.past", place, what));
        self.events.clear();
    }

    /// The history ends: this is what a resume reads. In a `partial` file the history begins in
    /// another one, where the call of an output may stand.
    pub fn finish(&self, partial: bool, into: &mut Findings) {
        self.judge(&mut |rule, place, what| {
            if partial && rule == "output.no_call" {
                into.add_as(Severity::Note, rule, place, what);
            } else {
                into.add(rule, place, what);
            }
        });
        if self.forgot {
            let what = format!("more than {EVENTS_MAX} calls and outputs without a checkpoint");
            into.add("pairing.bounded", Place::default(), what);
        }
    }

    fn judge(&self, found: &mut dyn FnMut(&'static str, Place, String)) {
        let mut pairs: BTreeMap<(Kind, &str), Pair> = BTreeMap::new();
        for event in &self.events {
            let pair = pairs.entry((event.kind, &event.id)).or_default();
            let (kind, id) = (event.kind.word(), shown(&event.id));
            if event.is_call {
                pair.calls += 1;
                if pair.calls == 1 {
                    pair.first_call = event.place;
                    pair.reversed = pair.outputs > 0;
                } else {
                    let what = format!("{kind} call {id} again, first at {}", pair.first_call);
                    found("call.duplicate", event.place, what);
                }
            } else {
                pair.outputs += 1;
                if pair.outputs == 1 {
                    pair.first_output = event.place;
                } else {
                    let first = pair.first_output;
                    let what = format!("{kind} output of {id} again, first at {first}");
                    found("output.duplicate", event.place, what);
                }
            }
        }
        for ((kind, id), pair) in pairs {
            let (kind, id) = (kind.word(), shown(id));
            if pair.outputs == 0 {
                found(
                    "call.no_output",
                    pair.first_call,
                    format!("{kind} call {id} has no output"),
                );
            } else if pair.calls == 0 {
                let what = format!("{kind} output of {id} has no call");
                found("output.no_call", pair.first_output, what);
            } else if pair.reversed {
                let what = format!("{kind} output of {id} stands before its call");
                found("output.before_call", pair.first_output, what);
            }
        }
    }

    /// Forgets the calls that have one output behind them. If all the rest is faulty it stays: a
    /// file of nothing but faults is bounded by forgetting the oldest half of them.
    fn forget_pairs(&mut self) {
        self.forgot = true;
        let mut counts: BTreeMap<(Kind, &str), (u32, u32, bool)> = BTreeMap::new();
        for event in &self.events {
            let (calls, outputs, reversed) = counts.entry((event.kind, &event.id)).or_default();
            if event.is_call {
                *reversed |= *outputs > 0;
                *calls += 1;
            } else {
                *outputs += 1;
            }
        }
        let keep: Vec<bool> = self
            .events
            .iter()
            .map(|event| counts[&(event.kind, &*event.id)] != (1, 1, false))
            .collect();
        let mut keep = keep.into_iter();
        self.events.retain(|_| keep.next().unwrap_or(true));
        if self.events.len() > EVENTS_MAX / 2 {
            self.events.drain(..EVENTS_MAX / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::items::output;
    use serde_json::Map;

    fn call(kind: &str, id: &str) -> Item {
        let mut map = Map::new();
        map.insert("type".into(), json!(kind));
        map.insert("call_id".into(), json!(id));
        Item::new(map)
    }

    fn out(id: &str) -> Item {
        output("function_call_output", None, id, json!("o"))
    }

    fn pairing(items: &[Item]) -> Pairing {
        let mut pairing = Pairing::default();
        for (line, item) in (1..).zip(items) {
            pairing.item(item, Place { line, offset: 0 });
        }
        pairing
    }

    /// `rule line` of each finding.
    fn rules(findings: Findings) -> Vec<String> {
        let (kept, _) = findings.finish();
        kept.iter()
            .map(|f| format!("{} {}", f.rule, f.line))
            .collect()
    }

    fn found(items: &[Item]) -> Vec<String> {
        let mut findings = Findings::default();
        pairing(items).finish(false, &mut findings);
        rules(findings)
    }

    #[test]
    fn pairs_and_outputs_from_outside_pass() {
        let c = |id| call("function_call", id);
        assert_eq!(found(&[c("a"), c("b"), out("b"), out("a")]), [""; 0]);
        let mut outside = out("x");
        outside.payload.shift_remove("call_id");
        let mut server = call("tool_search_output", "s");
        server.payload.insert("execution".into(), json!("server"));
        assert_eq!(
            found(&[outside, server, call("web_search_call", "w")]),
            [""; 0]
        );
    }

    #[test]
    fn every_fault_is_named_at_its_place() {
        let c = |id| call("function_call", id);
        assert_eq!(found(&[c("a")]), ["call.no_output 1"]);
        assert_eq!(found(&[out("a")]), ["output.no_call 1"]);
        assert_eq!(found(&[out("a"), c("a")]), ["output.before_call 1"]);
        assert_eq!(found(&[c("a"), c("a"), out("a")]), ["call.duplicate 2"]);
        assert_eq!(found(&[c("a"), out("a"), out("a")]), ["output.duplicate 3"]);
        assert_eq!(
            found(&[call("custom_tool_call", "a"), out("a")]),
            ["output.no_call 2", "call.no_output 1"],
            "kinds do not cross"
        );
    }

    #[test]
    fn a_checkpoint_makes_a_fault_a_note_and_a_rollback_takes_it_away() {
        let mut findings = Findings::default();
        let mut state = pairing(&[call("function_call", "a")]);
        state.checkpoint(&mut findings);
        state.item(&call("function_call", "b"), Place { line: 9, offset: 0 });
        state.roll_back(9);
        state.finish(false, &mut findings);
        assert_eq!(rules(findings), ["pairing.past 1"]);
    }

    #[test]
    fn a_long_history_is_bounded_and_says_so() {
        let mut state = Pairing::default();
        state.item(&call("function_call", "lost"), Place { line: 1, offset: 0 });
        for number in 0..EVENTS_MAX as u64 {
            let id = format!("c{number}");
            let place = Place {
                line: 2 + number,
                offset: 0,
            };
            state.item(&call("function_call", &id), place);
            state.item(&out(&id), place);
        }
        assert!(state.events.len() <= EVENTS_MAX);
        let mut findings = Findings::default();
        state.finish(false, &mut findings);
        assert_eq!(rules(findings), ["call.no_output 1", "pairing.bounded 0"]);
    }
}
