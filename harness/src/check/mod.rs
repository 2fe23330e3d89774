//! Checkers: invariants that hold for every recording, one per file, each with an input that trips it.
//!
//! A checker reads a [`Masked`] recording and returns violations. None is ever switched off; what a
//! real version breaks is listed as a known violation in `golden/deviations.toml`.

mod append_only_prefix;
mod context_once;
mod delta_anchor;
mod item_ids;
mod ordinals;
mod pairing;

use mock_provider::script::FRAME_METHOD;
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
    &[
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
            id: DELTA_ANCHOR,
            law: "a delta and the response it stands on make the full request",
            run: delta_anchor::check,
        },
    ]
}

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

/// Input items of a request.
fn input(request: &MaskedRequest) -> &[Value] {
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
            body: json!({"model": "<model:main>", "input": input}),
        });
        Masked {
            wire: wire.collect(),
            ..Masked::default()
        }
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
