//! Checkers: invariants that hold for every recording, one per file, each with an input that trips it.
//!
//! A checker reads a [`Masked`] recording and returns violations. None is ever switched off; what a
//! real version breaks is listed as a known violation in `golden/deviations.toml`.

mod append_only_prefix;
mod base_once;
mod call_order;
mod calls_run_once;
mod compaction_progress;
mod context_once;
mod counter_in_window;
mod delta_anchor;
mod fold;
mod images_gone;
mod item_ids;
mod live_task;
mod ordinals;
mod own_ciphertext;
mod pairing;
mod permissions_in_force;
mod replay;
mod rollout_append_only;
mod summary_source;
mod tools_stable;
mod usage_sums;
mod user_text_kept;

use mock_provider::script::FRAME_METHOD;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::mask::{Masked, MaskedRequest};
use crate::recording::Finding;

/// One invariant.
#[derive(Clone, Copy)]
pub struct Checker {
    /// Name, as in `checker.pairing`.
    pub id: &'static str,
    /// What it holds a recording to.
    pub law: &'static str,
    run: fn(&Masked) -> Vec<String>,
}

impl std::fmt::Debug for Checker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

/// The one checker that reads deltas as they were sent.
const DELTA_ANCHOR: &str = "delta_anchor";

/// All checkers. When adding one: a file, a row here, a test that trips it and one that passes.
pub fn all() -> &'static [Checker] {
    ALL
}

const ALL: &[Checker] = &[
    Checker {
        id: "pairing",
        law: "each call has one output after it, each output one call; call ids are unique",
        run: pairing::check,
    },
    Checker {
        id: "append_only_prefix",
        law: "inside a window a request begins with everything the one before sent",
        run: append_only_prefix::check,
    },
    Checker {
        id: "item_ids",
        law: "an item id is unique in a request and names the same item all through a window",
        run: item_ids::check,
    },
    Checker {
        id: "base_once",
        law: "the base instructions stand exactly once in a request",
        run: base_once::check,
    },
    Checker {
        id: "context_once",
        law: "injected context is never sent twice in a row and never lost",
        run: context_once::check,
    },
    Checker {
        id: "ordinals",
        law: "rollout ordinals have neither gap nor repeat",
        run: ordinals::check,
    },
    Checker {
        id: "rollout_append_only",
        law: "a rollout file only grows",
        run: rollout_append_only::check,
    },
    Checker {
        id: "call_order",
        law: "outputs of one response stand behind its calls, in call order",
        run: call_order::check,
    },
    Checker {
        id: "permissions_in_force",
        law: "the last permissions text says the policy of the turn",
        run: permissions_in_force::check,
    },
    Checker {
        id: "live_task",
        law: "behind a compaction a turn request holds the task: a user text, a summary or a compaction item",
        run: live_task::check,
    },
    Checker {
        id: "summary_source",
        law: "a summary is the text of a compaction answer",
        run: summary_source::check,
    },
    Checker {
        id: "compaction_progress",
        law: "a turn does not compact again and again with one sampling between",
        run: compaction_progress::check,
    },
    Checker {
        id: "user_text_kept",
        law: "the user text of a turn that did not complete is in the next turn request",
        run: user_text_kept::check,
    },
    Checker {
        id: "usage_sums",
        law: "totals of usage are sums of usages",
        run: usage_sums::check,
    },
    Checker {
        id: "counter_in_window",
        law: "nothing is sampled while the counter stands above the window",
        run: counter_in_window::check,
    },
    Checker {
        id: "images_gone",
        law: "an image older than a compaction is not sent",
        run: images_gone::check,
    },
    Checker {
        id: "own_ciphertext",
        law: "encrypted content was given by the provider or the client",
        run: own_ciphertext::check,
    },
    Checker {
        id: "tools_stable",
        law: "turn requests of a thread to one model list the same tools",
        run: tools_stable::check,
    },
    Checker {
        id: "replay",
        law: "a rollout read back gives the history of the last turn request",
        run: replay::check,
    },
    Checker {
        id: "fold",
        law: "a turn request is the fold of its rollout: the history of its window, from the first item on",
        run: fold::check,
    },
    Checker {
        id: "calls_run_once",
        law: "a call is run once in a turn",
        run: calls_run_once::check,
    },
    Checker {
        id: DELTA_ANCHOR,
        law: "a delta and the response it stands on make the full request",
        run: delta_anchor::check,
    },
];

/// Runs every checker.
pub fn run_all(masked: &Masked) -> Vec<Finding> {
    all()
        .iter()
        .flat_map(|checker| run(checker, masked))
        .collect()
}

/// Runs one checker.
pub fn run(checker: &Checker, masked: &Masked) -> Vec<Finding> {
    violations(checker, masked)
        .into_iter()
        .map(|message| Finding {
            id: format!("checker.{}", checker.id),
            message: format!("{message}\n    law: {}", checker.law),
        })
        .collect()
}

/// What a checker says; all but one see every request in full.
fn violations(checker: &Checker, masked: &Masked) -> Vec<String> {
    let framed = masked
        .wire
        .iter()
        .any(|request| request.method == FRAME_METHOD);
    if framed && checker.id != DELTA_ANCHOR {
        (checker.run)(&delta_anchor::whole(masked))
    } else {
        (checker.run)(masked)
    }
}

/// Whether the named checker fires.
pub fn fires(id: &str, masked: &Masked) -> bool {
    all()
        .iter()
        .any(|checker| checker.id == id && !violations(checker, masked).is_empty())
}

/// Items of the completed answer to a request; none where no answer was kept.
fn answered(masked: &Masked, number: usize) -> &[Value] {
    let answer = masked.answers.get(number).and_then(Option::as_ref);
    answer.map_or(&[], |answer| answer.items.as_slice())
}

/// Payloads of all records of a type, oldest file first.
fn records<'a>(masked: &'a Masked, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let lines = masked.rollouts.iter().flat_map(|file| &file.records);
    lines
        .filter(move |record| record["type"] == kind)
        .map(|record| &record["payload"])
}

/// What the user said in each turn, as the client shows it.
fn user_texts(masked: &Masked) -> BTreeMap<&str, Vec<String>> {
    let mut said: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut turn = "";
    for event in &masked.events {
        match word(event, "event") {
            Some("turn_started") => turn = word(event, "turn").unwrap_or_default(),
            Some("item_completed") if event["item"] == "userMessage" => {
                let shown = &event["shown"];
                let parts = shown.as_array().into_iter().flatten();
                let parts = parts.filter_map(|part| word(part, "text"));
                let texts = shown.as_str().into_iter().chain(parts);
                said.entry(turn)
                    .or_default()
                    .extend(texts.map(str::to_owned));
            }
            _ => {}
        }
    }
    said
}

fn header<'a>(request: &'a MaskedRequest, name: &str) -> Option<&'a str> {
    let found = request.headers.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

/// Window of a request: thread and number.
fn window(request: &MaskedRequest) -> Option<&str> {
    header(request, "x-codex-window-id")
}

/// Number of a request's window.
pub(crate) fn window_number(request: &MaskedRequest) -> Option<u64> {
    window(request)?.rsplit_once(':')?.1.parse().ok()
}

/// Thread of a request.
pub(crate) fn thread(request: &MaskedRequest) -> Option<&str> {
    Some(window(request)?.rsplit_once(':')?.0)
}

fn metadata<'a>(request: &'a MaskedRequest, pointer: &str) -> Option<&'a str> {
    let metadata = request
        .body
        .pointer("/client_metadata/x-codex-turn-metadata/$json")?;
    metadata.pointer(pointer)?.as_str()
}

/// Turn of a request.
pub(crate) fn turn(request: &MaskedRequest) -> Option<&str> {
    metadata(request, "/turn_id")
}

/// Turns that are the first behind a rollback or a revert: their request goes back.
fn turns_that_go_back(masked: &Masked) -> BTreeSet<&str> {
    let mut turns = BTreeSet::new();
    for rollout in &masked.rollouts {
        // The file of a revert has an id of its own behind that of the thread.
        let mut back = rollout.name.contains('_');
        for record in &rollout.records {
            let payload = &record["payload"];
            back |= payload["type"] == "thread_rolled_back";
            if back && payload["type"] == "task_started" {
                turns.extend(word(payload, "turn_id"));
                back = false;
            }
        }
    }
    turns
}

/// Phase of a compaction request.
fn compaction_phase(request: &MaskedRequest) -> Option<&str> {
    metadata(request, "/compaction/phase")
}

/// Texts of an item's content.
pub(crate) fn texts(item: &Value) -> impl Iterator<Item = &str> {
    let parts = item.get("content").and_then(Value::as_array);
    parts
        .into_iter()
        .flatten()
        .filter_map(|part| word(part, "text"))
}

/// Input items of a request.
pub(crate) fn input(request: &MaskedRequest) -> &[Value] {
    request
        .body
        .get("input")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// A string field of an item.
fn word<'a>(item: &'a Value, key: &str) -> Option<&'a str> {
    item.get(key).and_then(Value::as_str)
}

/// `request 3 input item 2`, counted as differences count them.
fn at(request: usize, item: usize) -> String {
    format!("request {} input item {item}", request + 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fixture;
    use crate::mask::mask;
    use serde_json::json;

    /// A recording of turn requests with these inputs, all in one window.
    pub(crate) fn requests(inputs: &[Value]) -> Masked {
        let wire = inputs.iter().map(|input| MaskedRequest {
            kind: "turn".into(),
            method: "POST".into(),
            path: "/responses".into(),
            headers: vec![("x-codex-window-id".into(), "<thread:1>:0".into())],
            body: json!({"model": "<model:main>", "input": input, "client_metadata": {
                "x-codex-turn-metadata": {"$json": {"turn_id": "<turn:1>"}}}}),
        });
        Masked {
            wire: wire.collect(),
            ..Masked::default()
        }
    }

    /// The recording with one rollout file of these records.
    pub(crate) fn with_records(masked: Masked, records: Vec<Value>) -> Masked {
        let file = crate::mask::MaskedRollout {
            name: "rollout-<time>-<thread:1>.jsonl".into(),
            records,
        };
        Masked {
            rollouts: vec![file],
            ..masked
        }
    }

    /// A message of the user.
    pub(crate) fn said(text: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [{"text": text}]})
    }

    /// Requests with these inputs, and a rollout of these items behind its `session_meta`.
    pub(crate) fn told(inputs: &[Value], items: &[Value]) -> Masked {
        let meta = json!({"type": "session_meta", "payload": {"id": "<thread:1>",
            "base_instructions": {"text": "Be brief."}}});
        let items = items.iter();
        let items = items.map(|item| json!({"type": "response_item", "payload": item}));
        with_records(
            requests(inputs),
            std::iter::once(meta).chain(items).collect(),
        )
    }

    /// A completed response of these items.
    pub(crate) fn answer(items: Vec<Value>) -> crate::recording::Answer {
        crate::recording::Answer {
            response_id: "resp_1".into(),
            items,
        }
    }

    /// Events of a turn whose user said this.
    pub(crate) fn shown(turn: &str, texts: &[&str]) -> Vec<Value> {
        let start = json!({"event": "turn_started", "turn": turn});
        let said = texts.iter().map(|text| {
            json!({"event": "item_completed", "item": "userMessage", "id": "<item:1>",
                "shown": text})
        });
        std::iter::once(start).chain(said).collect()
    }

    #[test]
    fn a_healthy_recording_passes_all() {
        assert_eq!(run_all(&mask(&fixture::recording(1))), []);
    }

    #[test]
    fn findings_name_checker_and_law() {
        let broken = requests(&[json!([{"type": "function_call", "call_id": "c"}])]);
        let found = run_all(&broken);
        assert_eq!(found[0].id, "checker.pairing");
        assert!(found[0].message.contains("law:"));
        assert!(fires("pairing", &broken) && !fires("ordinals", &broken));
    }
}
