//! Items as a client or a model gives them: how they are recorded, and what is retained of them.

use serde_json::Value;

use super::accept::{accepted, has_remote_image};
use super::{Refused, Session};
use crate::contextual;
use crate::images;
use crate::items::{Item, Retained};
use crate::rollout;
use crate::truncate;

impl Session {
    /// Puts items into the history between turns. Either all items are taken or none.
    pub fn inject(&mut self, values: &[Value]) -> Result<(), Refused> {
        let items = accepted(values, &self.profile)?;
        if items.iter().flatten().any(has_remote_image) {
            return Err(Refused::RemoteImage);
        }
        self.begin();
        let turn = format!("{}{}", rollout::INJECTED, self.counters.injected);
        self.counters.injected += 1;
        if self.baseline.is_none() {
            // The context comes before the first items, and a turn does not repeat it.
            self.record_context(&turn);
        }
        // The first item of a batch with a user message is attributed with it.
        let by_user = |item: &Item| item.kind() == "message" && item.role() == "user";
        self.attribution_due |= items.iter().flatten().any(by_user);
        for item in items {
            match item {
                Some(item) => self.record_injected(item, &turn),
                // It is numbered all the same.
                None => self.counters.number_item(),
            }
        }
        Ok(())
    }

    /// Takes items as they are: no turn, no time, no metadata in the record. Those of the user
    /// are retained (`retained.supplied`).
    pub(super) fn supply(&mut self, items: Vec<Option<Item>>) {
        self.begin();
        self.supplied = true;
        for mut item in items.into_iter().flatten() {
            self.prepare(&mut item, "", false);
            item.passthrough.clear();
            item.meta.mcp_attribution = false;
            self.recorder.line("response_item", item.stored(), None);
            if item.kind() == "message" && item.role() == "user" {
                item.meta.user_input_order = Some(self.take_order());
                self.retain(&mut item, "", "user", false);
                item.meta.user_input_order = None;
            }
            if item.reaches_history() {
                self.load(item);
            } else {
                self.counters.history -= 1;
            }
        }
        self.attribution_due = true;
        if self.profile.wide_metadata {
            self.record_settings();
            self.settings_recorded = false;
        }
    }

    /// Numbers items whose records say nothing of them by their place, and retains the messages of the
    /// user among them (`retained.supplied`).
    pub(super) fn retain_unattributed(&mut self) {
        let mut history = std::mem::take(&mut self.history);
        let mut order = 0;
        for (place, item) in history.items_mut().iter_mut().enumerate() {
            if item.meta.retained.is_some() || item.passthrough.contains_key("turn_id") {
                continue;
            }
            if item.meta.history_sequence == 0 {
                item.meta.history_sequence = place as u64 + 1;
                item.meta.supplied_thread = self.supplied;
            }
            if item.kind() == "message" && item.role() == "user" && item.id().is_some() {
                item.meta.user_input_order = Some(order);
                self.retain(item, "", "user", false);
                item.meta.user_input_order = None;
                order += 1;
            }
        }
        self.retained.user.sort_by_key(|(order, _)| *order);
        self.history = history;
    }

    fn record_injected(&mut self, mut item: Item, turn: &str) {
        self.prepare_given(&mut item, turn);
        self.commit(item);
    }

    /// Prepares an item as it was given: by a model, live, or injected by a client.
    pub(crate) fn prepare_given(&mut self, item: &mut Item, turn: &str) {
        let is_message = item.kind() == "message";
        if is_message {
            item.name_unknown_parts();
        }
        let role = match item.role() {
            "user" => Some("user"),
            "assistant" => Some("assistant"),
            _ => None,
        };
        let by_model = item.is_model_output();
        let by_client = item.role() == "developer" || item.role() == "user";
        self.prepare(item, turn, !by_model && (by_client || !is_message));
        let by_user = is_message && item.role() == "user" && !contextual::is_contextual(item);
        item.meta.mcp_attribution |= by_user || item.kind() == "agent_message";
        if item.kind().ends_with("call_output") {
            let tokens = truncate::override_tokens(self.settings.truncation());
            item.meta.fallback_token_limit =
                Some(tokens).filter(|_| self.profile.output_limit_override);
        }
        if item.kind() == "function_call" {
            item.meta.user_input_order = Some(self.take_order());
        }
        if let Some(role) = role.filter(|_| is_message) {
            item.meta.user_input_order = Some(self.take_order());
            if by_model {
                self.retain_answer(item, turn);
            } else {
                // Nothing is missing of a message without parts.
                let empty = item.payload["content"].as_array().is_none_or(Vec::is_empty);
                self.retain(item, turn, role, empty);
            }
        }
    }

    /// Retains an answer as it reads once its images are prepared; an empty one is not retained.
    fn retain_answer(&mut self, item: &mut Item, turn: &str) {
        if !self.profile.usage_records {
            return;
        }
        let mut seen = item.clone();
        images::prepare(&mut seen);
        let parts = seen.payload["content"].as_array().map_or(0, Vec::len);
        let texts = seen.texts();
        let all_text = parts == texts.len();
        if !all_text || !texts.concat().is_empty() {
            let text = texts.join("\n");
            self.retain_text(item, &text, turn, "assistant", all_text);
        }
    }

    /// Retains an item's text for later windows.
    pub(crate) fn retain(
        &mut self,
        item: &mut Item,
        turn: &str,
        role: &'static str,
        complete: bool,
    ) {
        let text = item.texts().join("\n");
        self.retain_text(item, &text, turn, role, complete);
    }

    /// Retains a text that stands for an item.
    pub(crate) fn retain_text(
        &mut self,
        item: &mut Item,
        text: &str,
        turn: &str,
        role: &'static str,
        complete: bool,
    ) {
        if !self.profile.usage_records {
            return;
        }
        let whole = text.len() <= truncate::RETAINED_BYTES;
        let source = Retained {
            revision: String::new(),
            message_id: item.id().unwrap_or_default().to_owned(),
            turn_id: turn.to_owned(),
            role,
            complete: complete && whole,
            text: truncate::retained(text),
        };
        // What comes twice is no revision (`retained.same_text`).
        let known = self.retained.revision_of(&source);
        let revision = known.unwrap_or_else(|| format!("retained_{}", self.ports.ids.uuid()));
        let source = Retained { revision, ..source };
        item.meta.retained = Some(source.clone());
        let order = item.meta.user_input_order.unwrap_or_default();
        self.retained.push(order, source);
    }
}
