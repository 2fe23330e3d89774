//! What a resume would see: the engine's own reader on the session metadata, the newest checkpoint
//! and what follows it.
//!
//! [`view`] is the one place that calls the reader. The rollout does not say everything that a
//! resume goes by; what the user's config decides is taken as the fallback model has it
//! (tool outputs are cut at 10,000 bytes, images and texts are taken in).

use std::collections::{BTreeMap, BTreeSet};

use engine::history::History;
use engine::items::Item;
use engine::profile::{Profile, Version};
use engine::rollout_read::{self, Unreadable};
use engine::settings::{Model, ModelSampling, Truncation};
use engine::tokens::estimate_text;
use serde::Serialize;
use serde_json::Value;

use super::shown;

/// Cut of tool outputs of a model that no catalogue knows, in bytes.
const FALLBACK_OUTPUT_BYTES: u64 = 10_000;

/// What a resume sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct View {
    /// Items of the history.
    pub items: u64,
    /// The same by kind; messages by role.
    pub items_by_kind: BTreeMap<String, u64>,
    /// Outputs that are made up for calls without one.
    pub outputs_made_up: u64,
    /// Outputs that are dropped, since nothing called for them.
    pub outputs_dropped: u64,
    /// Estimated tokens of base instructions and history.
    pub estimated_tokens: i64,
    /// `total_tokens` of the usage recorded last: what the compaction limit is held against.
    pub recorded_tokens: Option<i64>,
    /// Number of the window.
    pub window: u64,
    /// A turn context stands behind the newest checkpoint: only changed context is sent.
    pub baseline: bool,
    /// Model of the newest turn.
    pub model: Option<String>,
}

/// Reads the records as a resume of that version does.
///
/// It takes the records, so that they are gone before the history is looked at.
pub fn view(lines: Vec<Value>, version: Version) -> Result<View, Unreadable> {
    let profile = Profile::of(version);
    let model = fallback_model();
    let found = rollout_read::read(&lines, &profile, model.truncation)?;
    drop(lines);
    let items = found.history.items();
    let (outputs_made_up, outputs_dropped) = prompt_changes(items, &model, &profile);
    let mut items_by_kind: BTreeMap<String, u64> = BTreeMap::new();
    for item in items {
        *items_by_kind.entry(kind(item)).or_default() += 1;
    }
    let base = found.base.as_deref().unwrap_or_default();
    Ok(View {
        items: items.len() as u64,
        items_by_kind,
        outputs_made_up,
        outputs_dropped,
        estimated_tokens: estimate_text(base) + found.history.estimate_all(&profile),
        recorded_tokens: found.info.map(|info| info.last.total),
        window: found.window.number,
        baseline: found.baseline.is_some(),
        model: found.model.as_deref().map(shown),
    })
}

/// Outputs that the prompt makes up and that it drops. It is asked of items without their texts: a
/// prompt is a copy.
fn prompt_changes(items: &[Item], model: &Model, profile: &Profile) -> (u64, u64) {
    const TELLING: [&str; 4] = ["type", "call_id", "execution", "name"];
    let bare = items.iter().map(|item| {
        let telling = TELLING.iter().filter_map(|key| {
            let value = item.payload.get(*key)?;
            Some(((*key).to_owned(), value.clone()))
        });
        Item::new(telling.collect())
    });
    let bare: Vec<Item> = bare.collect();
    let outputs = |list: &[Item]| list.iter().filter(|item| is_output(item)).count() as u64;
    let before = outputs(&bare);
    let prompt = History::new(bare.clone()).for_prompt(model, profile);
    let key = |item: &Item| (item.kind().to_owned(), item.call_id().map(str::to_owned));
    let kept: BTreeSet<_> = prompt
        .iter()
        .filter(|item| is_output(item))
        .map(key)
        .collect();
    let dropped = bare
        .iter()
        .filter(|item| is_output(item) && !kept.contains(&key(item)));
    let dropped = dropped.count() as u64;
    ((outputs(&prompt) + dropped).saturating_sub(before), dropped)
}

fn is_output(item: &Item) -> bool {
    item.kind().ends_with("_output")
}

fn kind(item: &Item) -> String {
    if item.kind() == "message" {
        format!("message/{}", shown(item.role()))
    } else {
        shown(item.kind())
    }
}

/// A model that no catalogue knows.
fn fallback_model() -> Model {
    Model {
        slug: String::new(),
        context_window: None,
        max_context_window: None,
        effective_percent: 95,
        auto_compact_token_limit: None,
        base_instructions: String::new(),
        truncation: Truncation::Bytes(FALLBACK_OUTPUT_BYTES),
        input_modalities: vec!["text".to_owned(), "image".to_owned(), "audio".to_owned()],
        image_detail_original: true,
        comp_hash: None,
        parallel_tool_calls: false,
        reasoning_summaries: false,
        default_effort: None,
        sampling: ModelSampling::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(kind: &str, payload: &Value) -> Value {
        json!({"type": kind, "payload": payload})
    }

    #[test]
    fn the_suffix_of_a_checkpoint_is_what_a_resume_sees() {
        let text = |role: &str, text: &str| {
            json!({"type": "message", "role": role,
                "content": [{"type": "input_text", "text": text}]})
        };
        let call = json!({"type": "function_call", "name": "t", "arguments": "{}", "call_id": "a"});
        let orphan = json!({"type": "function_call_output", "call_id": "z", "output": "o"});
        let lines = [
            record(
                "session_meta",
                &json!({"id": "x", "timestamp": "", "cwd": "/w", "originator": "o",
                    "cli_version": "v", "base_instructions": {"text": "Be brief."}}),
            ),
            record("response_item", &text("user", "gone")),
            record(
                "compacted",
                &json!({"message": "S", "replacement_history": [text("user", "12345678")],
                    "window_number": 3}),
            ),
            record(
                "turn_context",
                &json!({"model": "m", "cwd": "/w", "approval_policy": "never",
                    "sandbox_policy": {"type": "read-only"}}),
            ),
            record("response_item", &call),
            record("response_item", &orphan),
        ];
        let view = view(lines.to_vec(), Version::V171).expect("a thread");
        assert_eq!(view.items, 3);
        assert_eq!(view.items_by_kind["message/user"], 1);
        assert_eq!((view.outputs_made_up, view.outputs_dropped), (1, 1));
        assert_eq!((view.window, view.baseline), (3, true));
        assert_eq!(view.model.as_deref(), Some("m"));
        // 9 bytes of base, 8 of text, 12 of the call, 2 of the output.
        assert_eq!(view.estimated_tokens, 3 + 2 + 3 + 1);
    }
}
