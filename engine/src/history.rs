//! The history of a thread and the prompt made of it.
//!
//! The history is never changed by making a prompt: synthesised outputs and dropped orphans exist
//! in the request only (history.md §0, step 5).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::items::{Item, output};
use crate::profile::{Profile, UncoveredFrom};
use crate::tokens::estimate;

/// Output of a call that has none.
const ABORTED: &str = "aborted";
/// Stands for an image that the model cannot see.
const NO_IMAGE: &str = "image content omitted because you do not support image input";

/// The live history of one thread.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    items: Vec<Item>,
    /// Number of leading items that the last recorded usage covers.
    covered: usize,
}

impl History {
    /// A history of these items, all of them covered by the last usage.
    pub fn new(items: Vec<Item>) -> Self {
        let covered = items.len();
        Self { items, covered }
    }

    /// All items, oldest first.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Appends an item.
    pub fn push(&mut self, item: Item) {
        self.items.push(item);
    }

    /// Says that the server has counted everything up to here.
    pub fn mark_covered(&mut self) {
        self.covered = self.items.len();
    }

    /// Estimated tokens of all items.
    pub fn estimate_all(&self, profile: &Profile) -> i64 {
        self.items.iter().map(|item| estimate(item, profile)).sum()
    }

    /// Estimated tokens of the items that no server usage covers.
    pub fn estimate_uncovered(&self, profile: &Profile) -> i64 {
        let start = match profile.uncovered {
            UncoveredFrom::LastUsage => self.covered.min(self.items.len()),
            UncoveredFrom::LastModelOutput => self
                .items
                .iter()
                .rposition(Item::is_model_output)
                .map_or(self.items.len(), |index| index + 1),
        };
        self.items[start..]
            .iter()
            .map(|item| estimate(item, profile))
            .sum()
    }

    /// Estimated tokens of reasoning items before the last user turn.
    pub fn estimate_old_reasoning(&self, profile: &Profile) -> i64 {
        let Some(last_user) = self
            .items
            .iter()
            .rposition(|item| item.kind() == "message" && item.role() == "user")
        else {
            return 0;
        };
        self.items[..last_user]
            .iter()
            .filter(|item| item.kind() == "reasoning")
            .map(|item| estimate(item, profile))
            .sum()
    }

    /// The items as a model sees them: each call with an output, no output without its call.
    pub fn for_prompt(&self, modalities: &[String]) -> Vec<Item> {
        let mut prompt = pair(&self.items);
        if !modalities.iter().any(|modality| modality == "image") {
            prompt.iter_mut().for_each(strip_images);
        }
        prompt
    }

    /// Removes the oldest item and what belongs to it; `false` when nothing is left.
    pub fn drop_oldest(&mut self) -> bool {
        if self.items.is_empty() {
            return false;
        }
        let oldest = self.items.remove(0);
        if let (Some(kind), Some(id)) = (output_kind(oldest.kind()), oldest.call_id()) {
            let answers = |item: &Item| item.kind() == kind && item.call_id() == Some(id);
            if let Some(index) = self.items.iter().position(answers) {
                self.items.remove(index);
            }
        }
        true
    }
}

/// Kind of the output of a call kind.
fn output_kind(call: &str) -> Option<&'static str> {
    match call {
        "function_call" | "local_shell_call" => Some("function_call_output"),
        "custom_tool_call" => Some("custom_tool_call_output"),
        _ => None,
    }
}

/// Pairs by set membership of call ids per kind; nothing is moved (history.md §1).
fn pair(items: &[Item]) -> Vec<Item> {
    let ids = |kinds: &[&str]| -> BTreeSet<String> {
        items
            .iter()
            .filter(|item| kinds.contains(&item.kind()))
            .filter_map(|item| item.call_id().map(str::to_owned))
            .collect()
    };
    let function_calls = ids(&["function_call", "local_shell_call"]);
    let custom_calls = ids(&["custom_tool_call"]);
    let function_outputs = ids(&["function_call_output"]);
    let custom_outputs = ids(&["custom_tool_call_output"]);
    let mut prompt = Vec::with_capacity(items.len());
    for item in items {
        let id = item.call_id().unwrap_or_default();
        match item.kind() {
            "function_call_output" if !function_calls.contains(id) => continue,
            "custom_tool_call_output" if !custom_calls.contains(id) => continue,
            _ => prompt.push(item.clone()),
        }
        let answered = match item.kind() {
            "function_call" | "local_shell_call" => function_outputs.contains(id),
            "custom_tool_call" => custom_outputs.contains(id),
            _ => true,
        };
        if !answered {
            let kind = output_kind(item.kind()).unwrap_or("function_call_output");
            prompt.push(output(kind, synthesised_id(item, kind), id, json!(ABORTED)));
        }
    }
    prompt
}

/// Id of a synthesised output: stable for its call's item id. The value is masked in goldens by its
/// place, since the namespace that the binary uses is not known.
fn synthesised_id(call: &Item, kind: &str) -> Option<String> {
    let id = call.payload.get("id").and_then(Value::as_str)?;
    let prefix = crate::items::id_prefix(kind);
    let uuid = uuid::Uuid::new_v5(
        &uuid::Uuid::NAMESPACE_OID,
        format!("{prefix}{id}").as_bytes(),
    );
    Some(format!("{prefix}{uuid}"))
}

fn strip_images(item: &mut Item) {
    for key in ["content", "output"] {
        let Some(Value::Array(parts)) = item.payload.get_mut(key) else {
            continue;
        };
        for part in parts
            .iter_mut()
            .filter(|part| part["type"] == "input_image")
        {
            *part = json!({"type": "input_text", "text": NO_IMAGE});
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::from_json;

    fn history(values: &[Value]) -> History {
        History::new({
            let profile = crate::profile::Profile::of(crate::profile::Version::V171);
            values
                .iter()
                .filter_map(|value| from_json(value, &profile))
                .collect()
        })
    }

    fn shape(history: &History) -> Vec<String> {
        history
            .for_prompt(&[])
            .iter()
            .map(|item| format!("{} {}", item.kind(), item.call_id().unwrap_or("-")))
            .collect()
    }

    fn call(id: &str) -> Value {
        json!({"type": "function_call", "name": "t", "arguments": "{}", "call_id": id})
    }

    fn out(id: &str) -> Value {
        json!({"type": "function_call_output", "call_id": id, "output": "o"})
    }

    #[test]
    fn a_call_without_output_gets_one_right_after_it() {
        assert_eq!(
            shape(&history(&[call("c1"), call("c2"), out("c1")])),
            [
                "function_call c1",
                "function_call c2",
                "function_call_output c2",
                "function_call_output c1"
            ]
        );
    }

    #[test]
    fn an_orphan_is_dropped_and_kinds_do_not_cross() {
        let custom = json!({"type": "custom_tool_call", "call_id": "c1", "name": "t", "input": ""});
        assert_eq!(
            shape(&history(&[custom, out("c1"), out("c9")])),
            ["custom_tool_call c1", "custom_tool_call_output c1"]
        );
    }

    #[test]
    fn the_oldest_call_goes_with_its_output() {
        let mut trimmed = history(&[call("c1"), call("c2"), out("c1"), out("c2")]);
        assert!(trimmed.drop_oldest());
        assert_eq!(
            shape(&trimmed),
            ["function_call c2", "function_call_output c2"]
        );
    }

    proptest::proptest! {
        #[test]
        fn a_prompt_pairs_every_call_and_is_stable(
            kinds in proptest::collection::vec((0_usize..5, 0_u8..4), 0..12),
        ) {
            let values: Vec<Value> = kinds
                .iter()
                .map(|(kind, id)| {
                    let id = format!("c{id}");
                    match kind {
                        0 => call(&id),
                        1 => out(&id),
                        2 => json!({"type": "custom_tool_call", "call_id": id, "name": "t",
                            "input": ""}),
                        3 => json!({"type": "custom_tool_call_output", "call_id": id,
                            "output": "o"}),
                        _ => json!({"type": "message", "role": "user", "content": []}),
                    }
                })
                .collect();
            let prompt = history(&values).for_prompt(&[]);
            for (calls, outputs) in [
                ("function_call", "function_call_output"),
                ("custom_tool_call", "custom_tool_call_output"),
            ] {
                let ids = |kind: &str| -> BTreeSet<&str> {
                    prompt.iter().filter(|i| i.kind() == kind).filter_map(Item::call_id).collect()
                };
                proptest::prop_assert_eq!(ids(calls), ids(outputs));
            }
            proptest::prop_assert_eq!(History::new(prompt.clone()).for_prompt(&[]), prompt);
        }
    }
}
