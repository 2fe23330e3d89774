//! What is the same in every scenario of a version: headers, key order, constant fields, skeletons.
//!
//! An envelope is taken once, when a version is blessed, from a fixed list of scenarios; a new
//! scenario never changes it. For each kind of request and of rollout record it holds a template in
//! which everything that varied, and everything that is a scenario's own, is a hole (`fold.rs`).

use std::collections::BTreeMap;

use mock_provider::script::FRAME_METHOD;
use serde_json::{Map, Value, json};

use super::fold::{hole_value, same};
use super::{rollout, wire};
use crate::mask::{Masked, MaskedRequest};

/// Scenarios an envelope is taken from. When changing it: bless every envelope again.
pub const ENVELOPE_SCENARIOS: &[&str] = &[
    "turn/answers_a_plain_question",
    "turn/sends_the_output_of_a_call",
    "turn/sends_reasoning_back_before_its_call",
    "turn/records_an_interrupt_during_a_tool",
    "compaction/local/story_compacts_before_the_next_turn",
    "compaction/local/story_compacts_in_the_middle_of_the_turn",
    "compaction/local/story_compacts_when_the_user_asks",
    // Of these only the handshakes and the frames are taken.
    "transport/asks_over_a_websocket",
    "transport/websocket_reconnects_after_a_close",
    "transport/websocket_compacts_in_the_middle_of_a_turn",
];

/// Where a version puts base instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BasePlace {
    /// Field `instructions` (0.144).
    #[default]
    Instructions,
    /// First input item, a developer message (0.164+).
    Input,
}

/// Whether input items carry ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ItemIds {
    /// No item has one (0.144).
    #[default]
    None,
    /// They follow the rule of `itemids.rs` (0.164+).
    Canonical,
}

/// How the bodies of a version differ as a whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// Place of the base instructions.
    pub base: BasePlace,
    /// Ids of input items.
    pub item_ids: ItemIds,
    /// Built-in tools that stand before the scenario's, by kind of request.
    pub tools: BTreeMap<String, Vec<Value>>,
}

impl Policy {
    /// Built-in tools of a kind of request.
    pub fn tools(&self, kind: &str) -> &[Value] {
        // A prewarm lists what the turn will list.
        let kind = if kind == "prewarm" { "turn" } else { kind };
        self.tools.get(kind).map_or(&[], Vec::as_slice)
    }
}

/// The envelope of one version.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Envelope {
    /// How bodies differ as a whole.
    pub policy: Policy,
    /// Templates of requests by kind; those of frames under `websocket KIND`, of
    /// handshakes under `handshake KIND`, the kind being that of the request they are made for.
    pub wire: BTreeMap<String, Value>,
    /// Templates of rollout records by kind.
    pub rollout: BTreeMap<String, Value>,
}

/// Keys that are a scenario's own wherever they stand: always written.
const OWN: &[&str] = &[
    "arguments",
    "call_id",
    "content",
    "encrypted_content",
    "item",
    "last_agent_message",
    "last_token_usage",
    "message",
    "name",
    "output",
    "replacement_history",
    "summary_text",
    "text",
    "thread_token_usage",
    "total_token_usage",
    "turn_token_usage",
    "usage",
    "history_sequence",
    "sampled_through_sequence",
    "user_input_order",
    "window_number",
    "status",
    "response_id",
];

impl Envelope {
    /// Takes the envelope of a version from the recordings of [`ENVELOPE_SCENARIOS`].
    pub fn build(recordings: &[&Masked]) -> Self {
        let (framed, plain): (Vec<&Masked>, Vec<&Masked>) = recordings
            .iter()
            .partition(|m| m.wire.iter().any(|r| r.method == FRAME_METHOD));
        let mut envelope = Self {
            policy: policy(plain.iter().flat_map(|m| m.wire.iter())),
            ..Self::default()
        };
        for request in plain.iter().chain(&framed).flat_map(|m| m.wire.iter()) {
            if let Some(lifted) = wire::lift(request, &envelope) {
                let name = wire::template_name(&request.kind, &lifted);
                let known = envelope.wire.remove(&name);
                let merged = merge(known, &lifted.rest, false);
                envelope.wire.insert(name, merged);
            }
        }
        for file in plain.iter().flat_map(|m| &m.rollouts) {
            for (kind, record) in rollout::skeletons(file) {
                let known = envelope.rollout.remove(&kind);
                envelope.rollout.insert(kind, merge(known, &record, true));
            }
        }
        envelope
    }

    /// The envelope as the body of its golden.
    pub fn to_value(&self) -> Value {
        json!({
            "policy": {
                "base": match self.policy.base {
                    BasePlace::Instructions => "instructions",
                    BasePlace::Input => "input",
                },
                "item_ids": match self.policy.item_ids {
                    ItemIds::None => "none",
                    ItemIds::Canonical => "canonical",
                },
                "tools": self.policy.tools,
            },
            "wire": self.wire,
            "rollout": self.rollout,
        })
    }

    /// The inverse of [`Self::to_value`].
    pub fn from_value(value: &Value) -> Option<Self> {
        let map = |v: &Value| -> Option<BTreeMap<String, Value>> {
            Some(
                v.as_object()?
                    .iter()
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect(),
            )
        };
        let policy = value.get("policy")?;
        let mut tools = BTreeMap::new();
        for (kind, list) in policy.get("tools")?.as_object()? {
            tools.insert(kind.clone(), list.as_array()?.clone());
        }
        Some(Self {
            policy: Policy {
                base: match policy.get("base")?.as_str()? {
                    "instructions" => BasePlace::Instructions,
                    "input" => BasePlace::Input,
                    _ => return None,
                },
                item_ids: match policy.get("item_ids")?.as_str()? {
                    "none" => ItemIds::None,
                    "canonical" => ItemIds::Canonical,
                    _ => return None,
                },
                tools,
            },
            wire: map(value.get("wire")?)?,
            rollout: map(value.get("rollout")?)?,
        })
    }
}

fn policy<'a>(requests: impl Iterator<Item = &'a MaskedRequest>) -> Policy {
    let mut policy = Policy::default();
    for request in requests {
        let Some(input) = request.body.get("input").and_then(Value::as_array) else {
            continue;
        };
        if input.iter().any(|item| item.get("id").is_some()) {
            policy.item_ids = ItemIds::Canonical;
            if request.body.get("instructions").is_none() {
                policy.base = BasePlace::Input;
            }
        }
        // The common beginning of all lists; one envelope scenario has no tools of its own.
        let Some(tools) = request.body.get("tools").and_then(Value::as_array) else {
            continue;
        };
        let shared = policy
            .tools
            .entry(request.kind.clone())
            .or_insert_with(|| tools.clone());
        let length = shared
            .iter()
            .zip(tools)
            .take_while(|(a, b)| same(a, b))
            .count();
        shared.truncate(length);
    }
    policy
}

/// Makes a template say only what both it and a value say.
fn merge(template: Option<Value>, value: &Value, own: bool) -> Value {
    let Some(template) = template else {
        return first(value, own);
    };
    if template.get("$hole").is_some() {
        return template;
    }
    let (Value::Object(known), Value::Object(new)) = (&template, value) else {
        return if same(&template, value) {
            template
        } else {
            hole_value(false)
        };
    };
    let mut out = Map::new();
    for (key, old) in known {
        let merged = match new.get(key) {
            Some(now) => merge(Some(old.clone()), now, own),
            None => hole_value(true),
        };
        out.insert(key.clone(), merged);
    }
    let mut after = 0;
    for key in new.keys() {
        if let Some(at) = out.keys().position(|k| k == key) {
            after = at + 1;
        } else {
            out.shift_insert(after, key.clone(), hole_value(true));
            after += 1;
        }
    }
    Value::Object(out)
}

/// The template of a kind that was seen once.
fn first(value: &Value, own: bool) -> Value {
    let Value::Object(map) = value else {
        return value.clone();
    };
    let fields = map.iter().map(|(key, child)| {
        let hole = own && OWN.contains(&key.as_str());
        (
            key.clone(),
            if hole {
                hole_value(false)
            } else {
                first(child, own)
            },
        )
    });
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_all_say_and_makes_holes_of_the_rest() {
        let a = json!({"type": "x", "n": 1, "usage": {"t": 3}, "c": true});
        let b = json!({"type": "x", "n": 2, "extra": 1, "usage": {"t": 3}});
        let merged = merge(Some(merge(None, &a, true)), &b, true);
        assert_eq!(
            merged.to_string(),
            r#"{"type":"x","n":{"$hole":"always"},"extra":{"$hole":"optional"},"#.to_owned()
                + r#""usage":{"$hole":"always"},"c":{"$hole":"optional"}}"#
        );
    }
}
