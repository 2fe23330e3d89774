//! The laws of pairing, told apart from the code that pairs: what may differ between a history and
//! the prompt made of it.

use std::collections::BTreeSet;

use engine::items::Item;
use serde_json::{Value, json};

/// Output of a call that had none.
const ABORTED: &str = "aborted";

/// Every law that `prompt`, made of `history`, breaks; empty where all hold.
///
/// Source: the rules `history.pairing.*`.
pub(super) fn broken(history: &[Item], prompt: &[Item]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut given = history.iter();
    let mut before: Option<&Item> = None;
    for item in prompt {
        // What is missing before this item has to be an output without its call.
        if given.clone().any(|old| same_place(old, item)) {
            for old in given.by_ref() {
                if same_place(old, item) {
                    break;
                }
                dropped(old, history, &mut broken);
            }
        } else {
            made(item, before, history, &mut broken);
        }
        before = Some(item);
    }
    for old in given {
        dropped(old, history, &mut broken);
    }
    for item in prompt {
        let Some(id) = item.call_id() else { continue };
        if let Some(wanted) = output_of(item)
            && !has(prompt, wanted, id)
        {
            broken.push(format!("{} `{id}` has no output", item.kind()));
        }
        if is_orphan(item, prompt) {
            broken.push(format!("{} `{id}` has no call", item.kind()));
        }
    }
    broken
}

/// Whether it is this item of the history: parts may have been replaced, nothing else.
fn same_place(old: &Item, new: &Item) -> bool {
    let changing = ["content", "output", "result"];
    let keep = |item: &Item| {
        let fields = item.payload.iter();
        let kept = fields.filter(|(key, _)| !changing.contains(&key.as_str()));
        kept.map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    keep(old) == keep(new) && texts_stay(old, new)
}

/// Texts stay as they are; an image or a sound may be replaced in its place.
fn texts_stay(old: &Item, new: &Item) -> bool {
    let part_stays = |(old, new): (&Value, &Value)| {
        let replaceable = ["input_image", "input_audio"].map(Value::from);
        old == new || replaceable.contains(&old["type"])
    };
    ["content", "output"]
        .iter()
        .all(|key| match (old.payload.get(*key), new.payload.get(*key)) {
            (Some(Value::Array(old)), Some(Value::Array(new))) => {
                old.len() == new.len() && old.iter().zip(new).all(part_stays)
            }
            (old, new) => old == new,
        })
}

/// Kind of an item, and its call.
fn named(item: &Item) -> String {
    let id = item.call_id().map(|id| format!(" `{id}`"));
    format!("{}{}", item.kind(), id.unwrap_or_default())
}

fn dropped(old: &Item, history: &[Item], broken: &mut Vec<String>) {
    if !is_orphan(old, history) {
        broken.push(format!("{} was dropped", named(old)));
    }
}

/// An item that the history does not have: the output of the call right before it.
fn made(item: &Item, before: Option<&Item>, history: &[Item], broken: &mut Vec<String>) {
    let name = named(item);
    let call = before
        .filter(|call| output_of(call) == Some(item.kind()) && call.call_id() == item.call_id());
    let Some(id) = call.and_then(Item::call_id) else {
        broken.push(format!(
            "{name} was made and does not stand behind its call"
        ));
        return;
    };
    if has(history, item.kind(), id) {
        broken.push(format!("{name} was made although there is one"));
    }
    let says = item.payload.get("output").and_then(|said| said.as_str());
    if item.kind() != "tool_search_output" && says != Some(ABORTED) {
        let says = says.map_or("no text".to_owned(), crate::scenario::quoted);
        broken.push(format!("{name} was made and says {says}"));
    }
}

fn output_of(call: &Item) -> Option<&'static str> {
    match call.kind() {
        "function_call" | "local_shell_call" => Some("function_call_output"),
        "custom_tool_call" => Some("custom_tool_call_output"),
        "tool_search_call" => Some("tool_search_output"),
        _ => None,
    }
}

fn has(items: &[Item], kind: &str, id: &str) -> bool {
    items
        .iter()
        .any(|item| item.kind() == kind && item.call_id() == Some(id))
}

/// An output that names a call which is nowhere; a search of the server needs none.
fn is_orphan(item: &Item, items: &[Item]) -> bool {
    let kinds = [
        "function_call_output",
        "custom_tool_call_output",
        "tool_search_output",
    ];
    let Some(kind) = kinds.into_iter().find(|kind| *kind == item.kind()) else {
        return false;
    };
    if kind == "tool_search_output" && item.payload.get("execution") == Some(&json!("server")) {
        return false;
    }
    let calls: BTreeSet<&str> = items
        .iter()
        .filter(|call| output_of(call) == Some(kind))
        .filter_map(Item::call_id)
        .collect();
    item.call_id().is_some_and(|id| !calls.contains(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbitrary::{Arbitrary as _, Unstructured};
    use engine::history::History;
    use engine::items::parse;
    use engine::profile::{Profile, Version};
    use engine::settings::{Model, ModelSampling, Truncation};
    use proptest::prelude::*;

    use crate::fuzz::items::Drawn;

    fn model(images: bool) -> Model {
        let modalities = if images {
            &["text", "image"][..]
        } else {
            &["text"]
        };
        Model {
            slug: "m".to_owned(),
            context_window: None,
            max_context_window: None,
            effective_percent: 95,
            auto_compact_token_limit: None,
            base_instructions: String::new(),
            truncation: Truncation::Bytes(100),
            input_modalities: modalities.iter().map(|name| (*name).to_owned()).collect(),
            image_detail_original: false,
            comp_hash: None,
            parallel_tool_calls: false,
            reasoning_summaries: false,
            default_effort: None,
            sampling: ModelSampling::default(),
        }
    }

    fn kept(values: &[Value], profile: &Profile) -> Vec<Item> {
        let items = values
            .iter()
            .filter_map(|value| parse(value, profile).ok().flatten());
        items.filter(Item::reaches_history).collect()
    }

    fn items(values: &[Value]) -> Vec<Item> {
        kept(values, &Profile::of(Version::V171))
    }

    /// Bytes that one history is drawn from, at most.
    const BYTES_MAX: usize = 600;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Whatever stands in a history, its prompt keeps the laws, and making one of it again
        /// changes nothing.
        #[test]
        fn prompts_of_arbitrary_histories_keep_the_laws(
            bytes in proptest::collection::vec(any::<u8>(), 0..BYTES_MAX),
            images in any::<bool>(),
        ) {
            let drawn = Drawn::arbitrary(&mut Unstructured::new(&bytes)).expect("any bytes do").0;
            for version in [Version::V144, Version::V164, Version::V171] {
                let profile = Profile::of(version);
                let history = kept(&drawn, &profile);
                let prompt = History::new(history.clone()).for_prompt(&model(images), &profile);
                prop_assert_eq!(broken(&history, &prompt), Vec::<String>::new(), "{:?}", version);
                let again = History::new(prompt.clone()).for_prompt(&model(images), &profile);
                prop_assert_eq!(again, prompt, "{:?}", version);
            }
        }
    }

    fn call(id: &str) -> Value {
        json!({"type": "function_call", "name": "t", "arguments": "{}", "call_id": id})
    }

    fn output(id: &str, text: &str) -> Value {
        json!({"type": "function_call_output", "call_id": id, "output": text})
    }

    fn said(text: &str) -> Value {
        json!({"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": text}]})
    }

    #[test]
    fn each_law_can_be_broken() {
        let (a, b) = (call("a"), call("b"));
        let (done, made) = (output("a", "done"), output("a", ABORTED));
        for (history, prompt, expected) in [
            (vec![a.clone()], vec![a.clone()], "has no output"),
            (vec![done.clone()], vec![done.clone()], "has no call"),
            (vec![said("x"), said("y")], vec![said("y")], "was dropped"),
            (
                vec![a.clone(), done.clone()],
                vec![a.clone()],
                "was dropped",
            ),
            (
                vec![a.clone(), b.clone()],
                vec![a.clone(), b.clone(), made.clone(), output("b", ABORTED)],
                "does not stand behind its call",
            ),
            (
                vec![a.clone(), said("x"), done.clone()],
                vec![a.clone(), made.clone(), said("x"), done.clone()],
                "although there is one",
            ),
            (
                vec![a.clone()],
                vec![a.clone(), output("a", "well")],
                "says `well`",
            ),
            (
                vec![said("x"), said("y")],
                vec![said("y"), said("x")],
                "was dropped",
            ),
        ] {
            let found = broken(&items(&history), &items(&prompt));
            assert!(
                found.iter().any(|law| law.contains(expected)),
                "{expected}: {found:?}"
            );
        }
    }

    #[test]
    fn a_pair_and_an_aborted_call_break_nothing() {
        let history = items(&[
            call("a"),
            call("b"),
            output("b", "done"),
            output("c", "lost"),
        ]);
        let prompt = items(&[
            call("a"),
            output("a", ABORTED),
            call("b"),
            output("b", "done"),
        ]);
        assert_eq!(broken(&history, &prompt), Vec::<String>::new());
    }
}
