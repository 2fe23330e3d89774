//! The history of a thread and the prompt made of it.
//!
//! The history is never changed by making a prompt: synthesised outputs and dropped orphans exist
//! in the request only (history.md §0, step 5).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::images;
use crate::items::{Item, output};
use crate::planted::Planted;
use crate::profile::{Profile, UncoveredFrom};
use crate::settings::{Model, Truncation};
use crate::tokens::estimate;
use crate::truncate::{self, Budget};

/// Output of a call that has none.
const ABORTED: &str = "aborted";
/// Stands for an image that the model cannot see.
const NO_IMAGE: &str = "image content omitted because you do not support image input";
/// Stands for a sound that the model cannot hear.
const NO_AUDIO: &str = "audio content omitted because you do not support audio input";

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

    /// All items, to say more of them; none is added or taken away.
    pub(crate) fn items_mut(&mut self) -> &mut [Item] {
        &mut self.items
    }

    /// Appends an item.
    pub fn push(&mut self, item: Item) {
        self.items.push(item);
    }

    /// Drops all items from this one on.
    pub(crate) fn truncate(&mut self, end: usize) {
        self.items.truncate(end);
        self.covered = self.covered.min(end);
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
    pub fn for_prompt(&self, model: &Model, profile: &Profile) -> Vec<Item> {
        let sight = Sight::of(model, profile);
        let mut prompt = pair(&self.items, profile);
        for item in &mut prompt {
            sight.adapt(item);
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

/// What happens to an item that enters the history, whichever way it comes: images are prepared,
/// outputs are cut by the policy in force (history.md §0, step 3). Of parts that nobody named nothing
/// is known (`history.supplied.kinds`).
pub(crate) fn admit(item: &mut Item, policy: Truncation, profile: &Profile) {
    cut_output(item, policy, profile);
    let unknown = item.kind() == "message" && !item.passthrough.contains_key("content_item_kinds");
    if unknown && profile.usage_records {
        item.name_unknown_parts();
    }
    // Not before the cut: a text that stands for an image takes nothing of the budget.
    let failed = images::prepare(item);
    images::mark_failed(item, &failed);
}

/// Cuts a tool output: by its own limit, else by the policy in force (history.md §3).
pub(crate) fn cut_output(item: &mut Item, policy: Truncation, profile: &Profile) {
    if !matches!(
        item.kind(),
        "function_call_output" | "custom_tool_call_output"
    ) || profile.plants(Planted::OutputUncut)
    {
        return;
    }
    let own = item
        .meta
        .fallback_token_limit
        .filter(|_| profile.output_limit_override);
    let budget = own.map_or_else(|| Budget::of_policy(policy), Budget::of_tokens);
    if let Some(output) = item.payload.get_mut("output") {
        if let (true, Value::Array(parts)) = (profile.drops_empty_output_texts, &mut *output) {
            parts.retain(|part| part["text"] != "");
        }
        *output = truncate::tool_output(output, budget);
    }
}

/// Kind of the output of a call kind.
fn output_kind(call: &str) -> Option<&'static str> {
    match call {
        "function_call" | "local_shell_call" => Some("function_call_output"),
        "custom_tool_call" => Some("custom_tool_call_output"),
        "tool_search_call" => Some("tool_search_output"),
        _ => None,
    }
}

/// Pairs by set membership of call ids per kind of output; nothing is moved (history.md §1).
fn pair(items: &[Item], profile: &Profile) -> Vec<Item> {
    let mut called = BTreeSet::new();
    let mut answered = BTreeSet::new();
    for item in items {
        let Some(id) = item.call_id() else { continue };
        match output_kind(item.kind()) {
            Some(kind) => called.insert((kind, id)),
            None => answered.insert((item.kind(), id)),
        };
    }
    let mut prompt = Vec::with_capacity(items.len());
    let mut behind = Vec::new();
    let (keeps_lone, leaves_open) = (
        profile.plants(Planted::LoneOutputKept),
        profile.plants(Planted::CallLeftOpen),
    );
    for item in items {
        let id = item.call_id();
        let is_lone =
            needs_its_call(item) && !id.is_some_and(|id| called.contains(&(item.kind(), id)));
        if is_lone && !keeps_lone {
            continue;
        }
        prompt.push(item.clone());
        if let (Some(kind), Some(id)) = (output_kind(item.kind()), id)
            && !answered.contains(&(kind, id))
            && !leaves_open
        {
            let place = if profile.plants(Planted::OutputAtEnd) {
                &mut behind
            } else {
                &mut prompt
            };
            place.push(synthesised(item, kind, id));
        }
    }
    prompt.append(&mut behind);
    prompt
}

/// An output without a call id came from outside; one of the server's searches needs no call.
fn needs_its_call(item: &Item) -> bool {
    match item.kind() {
        "function_call_output" | "custom_tool_call_output" => item.call_id().is_some(),
        "tool_search_output" => {
            item.call_id().is_some() && item.payload.get("execution") != Some(&json!("server"))
        }
        _ => false,
    }
}

/// The output that a call is given in the prompt.
fn synthesised(call: &Item, kind: &str, call_id: &str) -> Item {
    let mut item = output(kind, synthesised_id(call, kind), call_id, json!(ABORTED));
    if kind == "tool_search_output" {
        item.payload.shift_remove("output");
        for (key, value) in [
            ("status", json!("completed")),
            ("execution", json!("client")),
            ("tools", json!([])),
        ] {
            item.payload.insert(key.to_owned(), value);
        }
    }
    item
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

/// What a model can take in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sight {
    images: bool,
    audio: bool,
    /// `detail: original` is sent as it stands.
    original: bool,
}

impl Sight {
    fn of(model: &Model, profile: &Profile) -> Self {
        let takes = |kind: &str| model.input_modalities.iter().any(|name| name == kind);
        Self {
            images: takes("image") || profile.plants(Planted::ImagesToBlind),
            audio: takes("audio"),
            original: model.image_detail_original || !profile.lowers_original_detail,
        }
    }

    fn adapt(self, item: &mut Item) {
        if !self.images && item.kind() == "image_generation_call" {
            item.payload.insert("result".to_owned(), json!(""));
        }
        for key in ["content", "output"] {
            let parts = item.payload.get_mut(key).and_then(Value::as_array_mut);
            for (place, part) in parts.into_iter().flatten().enumerate() {
                let absent = match part["type"].as_str() {
                    Some("input_image") if !self.images => NO_IMAGE,
                    Some("input_audio") if !self.audio => NO_AUDIO,
                    Some("input_image") if !self.original && part["detail"] == "original" => {
                        part["detail"] = json!("high");
                        continue;
                    }
                    _ => continue,
                };
                *part = json!({"type": "input_text", "text": absent});
                if key == "content" && absent == NO_IMAGE {
                    tell_unsupported(&mut item.passthrough, place);
                }
            }
        }
    }
}

/// Says of a part that the client put it there in place of an image (history.image.unsupported).
fn tell_unsupported(passthrough: &mut Map<String, Value>, place: usize) {
    let harness = json!({"provenance": {"type": "harness", "hook": false}});
    for (key, told) in [
        ("content_item_kinds", json!("images.unsupported")),
        ("content_item_metadata", harness),
    ] {
        let known = passthrough
            .get_mut(key)
            .and_then(|list| list.get_mut(place));
        if let Some(known) = known {
            *known = told;
        }
    }
}

/// An item as a model takes it in.
pub(crate) fn seen_by(item: &Item, model: &Model, profile: &Profile) -> Item {
    let mut item = item.clone();
    Sight::of(model, profile).adapt(&mut item);
    item
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

    fn prompt_of(history: &History) -> Vec<Item> {
        let profile = crate::profile::Profile::of(crate::profile::Version::V171);
        history.for_prompt(&text_model(), &profile)
    }

    fn text_model() -> Model {
        Model {
            slug: String::new(),
            context_window: None,
            max_context_window: None,
            effective_percent: 95,
            auto_compact_token_limit: None,
            base_instructions: String::new(),
            truncation: crate::settings::Truncation::Bytes(100),
            input_modalities: vec!["text".to_owned()],
            image_detail_original: false,
            comp_hash: None,
            parallel_tool_calls: false,
            reasoning_summaries: false,
            default_effort: None,
            sampling: crate::settings::ModelSampling::default(),
        }
    }

    fn shape(history: &History) -> Vec<String> {
        prompt_of(history)
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

    #[test]
    fn the_oldest_call_takes_no_item_of_another_kind_with_it() {
        let custom = json!({"type": "custom_tool_call", "call_id": "c1", "name": "t", "input": ""});
        let done = json!({"type": "custom_tool_call_output", "call_id": "c1", "output": "o"});
        let mut trimmed = history(&[call("c1"), custom, done, out("c1")]);
        assert!(trimmed.drop_oldest());
        let kinds: Vec<&str> = trimmed.items().iter().map(Item::kind).collect();
        assert_eq!(kinds, ["custom_tool_call", "custom_tool_call_output"]);
    }

    #[test]
    fn an_output_from_outside_needs_no_call_and_a_search_gets_no_tools() {
        let outside = json!({"type": "function_call_output", "name": "n", "output": "o"});
        let search = json!({"type": "tool_search_call", "call_id": "s", "execution": "client",
            "arguments": {}});
        let server = json!({"type": "tool_search_output", "call_id": "x", "status": "completed",
            "execution": "server", "tools": []});
        assert_eq!(
            shape(&history(&[outside, search, server])),
            [
                "function_call_output -",
                "tool_search_call s",
                "tool_search_output s",
                "tool_search_output x"
            ]
        );
    }

    #[test]
    fn what_a_model_cannot_take_in_becomes_a_text_in_its_place() {
        let items = history(&[
            json!({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "file_id": "f"},
                {"type": "input_audio", "audio_url": "data:audio/wav;base64,"}]}),
            json!({"type": "image_generation_call", "status": "completed", "result": "x"}),
        ]);
        let prompt = prompt_of(&items);
        assert_eq!(prompt[0].texts(), ["a", NO_IMAGE, NO_AUDIO]);
        assert_eq!(prompt[1].payload["result"], "");
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
            let prompt = prompt_of(&history(&values));
            for (calls, outputs) in [
                ("function_call", "function_call_output"),
                ("custom_tool_call", "custom_tool_call_output"),
            ] {
                let ids = |kind: &str| -> BTreeSet<&str> {
                    prompt.iter().filter(|i| i.kind() == kind).filter_map(Item::call_id).collect()
                };
                proptest::prop_assert_eq!(ids(calls), ids(outputs));
            }
            proptest::prop_assert_eq!(prompt_of(&History::new(prompt.clone())), prompt);
        }
    }
}
