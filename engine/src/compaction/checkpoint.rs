//! The checkpoint: the new history, its window, its record and what is estimated for it.

use serde_json::{Map, Value, json};

use super::Replacement;
use crate::client_context::is_client_context;
use crate::context;
use crate::history::History;
use crate::items::{self, Item};
use crate::planted::Planted;
use crate::rollout::{self, TokenInfo};
use crate::session::{Baseline, Session, Window};
use crate::token_budget::Said;
use crate::tokens::{Usage, estimate_text};
use crate::turn::Turn;

impl Session {
    /// Replaces the history, opens the next window and writes the checkpoint.
    pub(super) fn install(&mut self, turn: &Turn, replacement: Replacement, inject: bool) {
        let Replacement {
            mut kept,
            last,
            message,
            response_id,
            model_hash,
        } = replacement;
        let previous = std::mem::replace(&mut self.window.id, self.ports.ids.uuid());
        self.window.previous = Some(previous.clone());
        if !self.profile.plants(Planted::WindowStuck) {
            self.window.number = self.window.number.saturating_add(1);
        }
        self.said = Said::default();
        self.budget_use.begin_window();
        self.new_window_wished = false;
        if inject && !self.profile.plants(Planted::ContextLost) {
            let at = context_place(&kept);
            let mut full = context::full(
                &self.settings,
                &self.profile,
                self.switched_model(),
                &self.window_ids(),
            );
            for item in &mut full {
                self.prepare(item, &turn.id, false);
            }
            kept.splice(at..at, full);
            let mut lite = context::lite_items(&self.settings, &self.profile);
            for item in &mut lite {
                self.prepare(item, &turn.id, false);
            }
            kept.splice(0..0, lite);
        }
        if let Some(mut item) = last {
            self.prepare(&mut item, &turn.id, false);
            if item.kind() == "compaction" {
                item.passthrough.clear();
                item.meta.opaque = true;
                item.meta.model_hash = model_hash;
            }
            let place = if self.profile.plants(Planted::SummaryFirst) {
                0
            } else {
                kept.len()
            };
            kept.insert(place, item);
        }
        if let Some(newest) = kept.last_mut() {
            newest.meta.mcp_attribution = true;
        }
        if let Some(first) = kept.first_mut() {
            // Seen on 0.171.0; what the number means for a kept item is not known.
            first.meta.sampled_through = self.counters.sampled;
        }
        self.history = History::new(kept);
        let checkpoint = self.checkpoint(turn, response_id.as_deref(), &message, &previous);
        if !self.profile.plants(Planted::CheckpointUnwritten) {
            self.recorder.line("compacted", checkpoint, None);
        }
        self.after_checkpoint(turn, inject);
        self.recompute();
    }

    fn after_checkpoint(&mut self, turn: &Turn, inject: bool) {
        if !inject {
            self.baseline = None;
            return;
        }
        let state = context::whole_world_state(&self.settings, &self.profile);
        self.record_world_state(true, &state);
        self.record_turn_context(&turn.id);
        if self.profile.wide_metadata {
            self.record_settings();
        }
        self.baseline = Some(Baseline {
            permissions: self.settings.permissions(&self.profile),
            state,
        });
        self.context_turn = Some(turn.id.clone());
    }

    /// Tokens of base instructions and history, as they are estimated without any usage.
    pub(crate) fn estimate_context(&self) -> i64 {
        let base = if context::lite_in_history(&self.settings, &self.profile) {
            0
        } else {
            estimate_text(self.settings.base_text())
        };
        base + self.history.estimate_all(&self.profile)
    }

    /// Estimates the new context (compaction.md §2.3).
    fn recompute(&mut self) {
        let total = self.estimate_context();
        let includes_reasoning = self.profile.sequences;
        let window = self.turn_settings().effective_window();
        let info = self.info.get_or_insert_with(TokenInfo::default);
        info.last = Usage {
            total,
            ..Usage::default()
        };
        info.includes_reasoning = Some(includes_reasoning);
        if info.window.is_none() || self.profile.recompute_takes_window {
            info.window = window;
        }
        self.prefill = None;
        self.emit_token_count();
    }

    /// Payload of the `compacted` record.
    fn checkpoint(
        &self,
        turn: &Turn,
        response_id: Option<&str>,
        message: &str,
        previous: &str,
    ) -> Value {
        let history: Vec<Value> = self.history.items().iter().map(Item::stored).collect();
        let mut map = Map::new();
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        set("message", json!(message));
        set("replacement_history", Value::Array(history));
        if self.profile.usage_records {
            let metadata = self
                .history
                .items()
                .iter()
                .map(|item| rollout::item_metadata(&item.meta, &self.profile))
                .collect();
            set("replacement_history_metadata", Value::Array(metadata));
            set("retained_context", self.retained_context());
        }
        let Window {
            number, id, first, ..
        } = &self.window;
        set("window_number", json!(number));
        set("first_window_id", json!(first));
        set("previous_window_id", json!(previous));
        set("window_id", json!(id));
        if self.profile.usage_records {
            set("compaction_response_id", json!(response_id));
            // Without any usage 0.171 says null; 0.164 was seen only with usage.
            let latest = self.latest_usage_record.clone();
            set("latest_token_usage_record", latest.unwrap_or(Value::Null));
            set("resume_metadata", self.resume_metadata(&turn.id));
        }
        Value::Object(map)
    }

    fn retained_context(&self) -> Value {
        let list = |texts: &[(u64, items::Retained)]| -> Value {
            texts
                .iter()
                .map(|(order, source)| {
                    json!({
                        "revision": source.revision,
                        "order": order,
                        "turn_id": source.turn_id,
                        "message_id": source.message_id,
                        "text": source.text,
                        "complete": source.complete,
                    })
                })
                .collect()
        };
        json!({
            "verified_answers": [],
            "incomplete": false,
            "user_messages": list(&self.retained.user),
            "user_messages_incomplete": self.retained.user_dropped,
            "assistant_messages": list(&self.retained.assistant),
            "assistant_messages_incomplete": self.retained.assistant_dropped,
            "next_order": self.inbox.next_order(),
        })
    }

    fn resume_metadata(&self, turn: &str) -> Value {
        let mut map = Map::new();
        if self.profile.sequences {
            let tools = rollout::dynamic_tools(&self.settings.tools);
            map.insert(
                "dynamic_tools".to_owned(),
                json!({"thread_id": self.thread, "tools": tools}),
            );
        }
        map.insert("multi_agent_version".to_owned(), json!("disabled"));
        map.insert("last_started_turn_id".to_owned(), json!(turn));
        if let Some(attributed) = &self.attributed_turn {
            let attribution = rollout::turn_attribution(attributed);
            map.insert("turn_attribution".to_owned(), attribution);
        }
        let model = self.previous_model.as_ref();
        let previous = self.attributed_turn.as_ref().and(model);
        let previous = previous.map_or(Value::Null, |model| {
            json!({
                "model": model.slug,
                "comp_hash": model.comp_hash,
                "realtime_active": false,
            })
        });
        map.insert("previous_turn_settings".to_owned(), previous);
        Value::Object(map)
    }
}

/// Where the initial context goes: before the last message of the user, without one before the
/// last summary or opaque item, else behind everything (compaction.md row 22).
fn context_place(kept: &[Item]) -> usize {
    let last = kept
        .iter()
        .rposition(context::is_real_user_message)
        .or_else(|| kept.iter().rposition(context::is_compacted))
        .unwrap_or(kept.len());
    // Client context belongs to the message behind it.
    let client = kept[..last].iter().rev();
    last - client.take_while(|item| is_client_context(item)).count()
}
