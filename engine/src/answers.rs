//! Items of a model's response: what is recorded, and what the client is told of each.

use serde_json::{Value, json};

use crate::announce::image;
use crate::calls::{Calls, fruitless_search, is_client_search};
use crate::contextual;
use crate::items::{self, Item};
use crate::session::Session;
use crate::tools;
use crate::turn::Turn;

impl Session {
    /// Takes one item of a response. What is no item is skipped; a kind that is not kept is numbered
    /// all the same.
    pub(crate) fn take_output_item(&mut self, turn: &mut Turn, value: &Value, calls: &mut Calls) {
        let Ok(item) = items::parse(value, &self.profile) else {
            return;
        };
        self.counters.sampled = calls.asked;
        let Some(mut item) = item else {
            self.counters.number_item();
            return;
        };
        if begins_answer(&item, value) {
            let now = self.ports.clock.now_ms();
            turn.first_token_ms.get_or_insert(now);
        }
        self.prepare_given(&mut item, &turn.id);
        match (item.kind(), item.role()) {
            ("message", "assistant") => {
                let text = item.texts().concat();
                if !text.trim().is_empty() {
                    turn.last_agent_message = Some(text);
                }
                self.announce_message(turn, &item);
            }
            ("message", "user") if contextual::is_contextual(&item) => {
                self.announce_hook_prompt(turn, &item);
            }
            ("message", "user") => {
                let parts = input_parts(&item);
                self.announce_user(turn, &parts, None);
            }
            ("reasoning", _) => self.announce_reasoning(turn, &item, &value["content"]),
            ("web_search_call", _) => self.announce_search(turn, &item),
            ("function_call", _) => {
                self.new_window_wished |= self.wishes_new_window(&item);
                calls.pending.push(self.pending_call(&item));
                if calls.newest_runs() {
                    calls.waiting.push_back(calls.pending.len() - 1);
                }
            }
            ("custom_tool_call", _) => calls.pending.push(self.custom_call(&item)),
            ("tool_search_call", _) if is_client_search(&item) => {
                calls.pending.push(fruitless_search(&item));
            }
            _ => {}
        }
        self.commit(item);
    }

    /// Whether a tool of this name is offered to the model, without a namespace.
    pub(crate) fn offers_tool(&self, name: &str) -> bool {
        let client = self.settings.tools.iter();
        let mut client = client.filter(|tool| tool.namespace.is_none());
        client.any(|tool| tool.name == name)
            || tools::tools(&self.settings, &self.profile)
                .iter()
                .any(|tool| tool["name"] == name)
    }
}

/// Whether the answer begins with this item, as the time to its first token counts
/// (`response.first_token`). `given`: the item as it came, with texts that are not kept.
fn begins_answer(item: &Item, given: &Value) -> bool {
    let said = |key: &str, kinds: &[&str]| {
        let parts = given[key].as_array();
        parts.into_iter().flatten().any(|part| {
            let kind = part["type"].as_str().unwrap_or_default();
            kinds.contains(&kind) && part["text"].as_str().is_some_and(|text| !text.is_empty())
        })
    };
    match item.kind() {
        "message" => item.role() == "assistant" && said("content", &["output_text"]),
        "reasoning" => {
            said("summary", &["summary_text"]) || said("content", &["reasoning_text", "text"])
        }
        _ => item.is_model_output(),
    }
}

/// A message of the user as parts in app-server shape; other parts are not told.
fn input_parts(item: &Item) -> Vec<Value> {
    let parts = item.payload.get("content").and_then(Value::as_array);
    let parts = parts.into_iter().flatten();
    parts
        .filter_map(|part| match part["type"].as_str() {
            Some("input_text") => Some(json!({"type": "text", "text": part["text"]})),
            Some("input_image") => Some(image("url", &part["image_url"], part.get("detail"))),
            _ => None,
        })
        .collect()
}
