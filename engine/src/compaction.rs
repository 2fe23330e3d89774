//! Local compaction: when it is due, its request, and the replacement history it installs.
//!
//! Three phases share one body; they differ in the metadata of the request and in where the
//! initial context goes (compaction.md §3).

use serde_json::{Map, Value, json};
use tracing::{Instrument, debug, info_span};

use crate::context;
use crate::error::{Failure, FailureKind};
use crate::events::Event;
use crate::history::History;
use crate::items::{self, Item};
use crate::ports::StreamStep;
use crate::request::{CompactionMetadata, Purpose};
use crate::rollout::{self, TokenInfo};
use crate::session::{Baseline, Session, Window};
use crate::settings::Scope;
use crate::texts;
use crate::tokens::{Usage, estimate_text};
use crate::truncate::{self, BYTES_PER_TOKEN, Budget};
use crate::turn::{Turn, TurnEnd};

/// Tokens of user text that survive a local compaction.
pub const KEPT_USER_TOKENS: u64 = 20_000;

/// One finished compaction answer.
struct Answer {
    response_id: String,
    /// Last text of the answer that is not blank.
    text: Option<String>,
}

impl Session {
    /// Whether the context has reached its limit (compaction.md §2.1).
    pub fn over_limit(&self) -> bool {
        let total = self.total_tokens();
        let cap = self.settings.effective_window();
        match self.settings.scope {
            Scope::Total => {
                let hard = cap.filter(|_| self.profile.hard_cap_in_total_scope);
                self.settings
                    .total_limit()
                    .is_some_and(|limit| total >= limit)
                    || hard.is_some_and(|cap| total >= cap)
            }
            Scope::BodyAfterPrefix => {
                let body = (total - self.prefill.unwrap_or(0)).max(0);
                self.settings
                    .body_limit()
                    .is_some_and(|limit| body >= limit)
                    || cap.is_some_and(|cap| total >= cap)
            }
        }
    }

    /// `thread/compact/start`: a turn of its own.
    pub async fn run_compaction(&mut self) -> TurnEnd {
        let turn = self.start_turn(None, false);
        let metadata = CompactionMetadata {
            trigger: "manual",
            reason: "user_requested",
            phase: "standalone_turn",
        };
        let inject = self.profile.context_in_every_replacement;
        let result = self.compact(&turn, metadata, inject).await;
        self.end_turn(&turn, result)
    }

    pub(crate) async fn compact_pre_turn(&mut self, turn: &Turn) -> Result<(), Failure> {
        let metadata = CompactionMetadata {
            trigger: "auto",
            reason: "context_limit",
            phase: "pre_turn",
        };
        let inject = self.profile.context_in_every_replacement;
        self.compact(turn, metadata, inject).await
    }

    pub(crate) async fn compact_mid_turn(&mut self, turn: &Turn) -> Result<(), Failure> {
        let metadata = CompactionMetadata {
            trigger: "auto",
            reason: "context_limit",
            phase: "mid_turn",
        };
        self.compact(turn, metadata, true).await
    }

    /// Compacts after a finished turn that is over the threshold (0.164+, compaction.md row 53). A
    /// failure leaves turn and history as they are.
    pub(crate) async fn compact_post_turn(&mut self, turn: &Turn) {
        let percent = self
            .settings
            .post_turn_percent
            .filter(|_| self.profile.usage_records);
        let (Some(percent), Some(window)) = (percent, self.settings.effective_window()) else {
            return;
        };
        let threshold = window * percent / 100;
        let limit = self
            .settings
            .total_limit()
            .map_or(threshold, |limit| limit.min(threshold));
        if self.total_tokens() < limit {
            return;
        }
        let metadata = CompactionMetadata {
            trigger: "auto",
            reason: "context_limit",
            phase: "post_turn",
        };
        if let Err(failure) = self.compact(turn, metadata, true).await {
            debug!(message = %failure.message, "post-turn compaction failed");
        }
    }

    async fn compact(
        &mut self,
        turn: &Turn,
        metadata: CompactionMetadata,
        inject: bool,
    ) -> Result<(), Failure> {
        let span = info_span!(
            "compaction",
            phase = metadata.phase,
            window = self.window.number
        );
        let id = self.ports.ids.uuid();
        self.ports.observer.event(Event::ItemStarted {
            kind: "contextCompaction",
            id: id.clone(),
        });
        let post_turn = metadata.phase == "post_turn";
        if metadata.trigger == "auto" {
            self.counters.injected += 1;
        }
        let answer = self
            .ask_for_summary(turn, metadata)
            .instrument(span)
            .await?;
        let summary = match (answer.text.clone(), post_turn) {
            (Some(text), true) => text,
            (None, true) => return Err(Failure::disconnected("the answer has no text")),
            (_, false) => self.last_assistant_text(),
        };
        self.install(turn, &answer, &summary, inject);
        self.announce_compaction(turn, id);
        Ok(())
    }

    /// Asks until an answer is complete; trims the oldest items while the prompt is too long.
    async fn ask_for_summary(
        &mut self,
        turn: &Turn,
        metadata: CompactionMetadata,
    ) -> Result<Answer, Failure> {
        let mut copy = self.history.clone();
        let purpose = Purpose::Compaction(metadata);
        let mut attempt = 0;
        loop {
            match self.ask_once(turn, &purpose, &copy).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if failure.kind == FailureKind::Interrupted => return Err(failure),
                Err(failure) if failure.kind == FailureKind::ContextWindowExceeded => {
                    if !copy.drop_oldest() {
                        return Err(failure);
                    }
                    attempt = 0;
                }
                Err(failure) if attempt < self.settings.stream_max_retries => {
                    attempt += 1;
                    self.announce_retry(attempt, &failure);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn ask_once(
        &mut self,
        turn: &Turn,
        purpose: &Purpose,
        copy: &History,
    ) -> Result<Answer, Failure> {
        let mut prompt = copy.for_prompt(&self.settings.model, &self.profile);
        let text = self
            .settings
            .compact_prompt
            .clone()
            .filter(|text| !text.trim().is_empty())
            .unwrap_or_else(|| texts::COMPACTION_PROMPT.to_owned());
        prompt.push(items::message(
            "user",
            None,
            vec![json!({"type": "input_text", "text": text})],
        ));
        let request = self.build(turn, purpose, &prompt, None);
        debug!(items = prompt.len(), "asking for a summary");
        let mut stream = self.open(request).await?;
        self.emit_token_count();
        let inbox = self.inbox();
        let recorded = !matches!(purpose, Purpose::Compaction(m) if m.phase == "post_turn");
        let mut outputs = Vec::new();
        loop {
            if inbox.is_interrupted() {
                return Err(Failure::interrupted());
            }
            let step = tokio::select! {
                biased;
                () = inbox.changed() => continue,
                step = stream.next() => step,
            };
            let event = match step {
                StreamStep::Event(event) => event,
                StreamStep::End => {
                    return Err(Failure::disconnected(
                        "stream closed before response.completed",
                    ));
                }
            };
            match event["type"].as_str() {
                Some("response.output_item.done") => {
                    if let Some(item) = items::from_json(&event["item"], &self.profile) {
                        if self.profile.keeps_failed_compaction_items {
                            self.record_compaction_output(turn, item);
                        } else {
                            outputs.push(item);
                        }
                    }
                }
                Some("response.completed") => {
                    let text = outputs.iter().rev().find_map(assistant_text);
                    for item in outputs.into_iter().filter(|_| recorded) {
                        self.record_compaction_output(turn, item);
                    }
                    let response = &event["response"];
                    let response_id = response["id"].as_str().unwrap_or_default().to_owned();
                    let usage = Usage::from_response(&response["usage"]);
                    self.record_usage(usage, &turn.id, &response_id);
                    self.emit_token_count();
                    return Ok(Answer { response_id, text });
                }
                Some("response.failed") => return Err(Failure::from_failed(&event["response"])),
                Some("response.incomplete") => {
                    return Err(Failure::from_incomplete(&event["response"]));
                }
                _ => {}
            }
        }
    }

    fn record_compaction_output(&mut self, turn: &Turn, mut item: Item) {
        if item.kind() == "message" {
            let unknown = vec!["unknown"; item.texts().len()];
            item.passthrough
                .insert("content_item_kinds".to_owned(), json!(unknown));
        }
        self.prepare(&mut item, &turn.id, false);
        item.meta.compaction_output = true;
        self.commit(item);
    }

    /// Replaces the history, opens the next window and writes the checkpoint.
    fn install(&mut self, turn: &Turn, answer: &Answer, summary: &str, inject: bool) {
        let message = format!("{}\n{summary}", texts::SUMMARY_PREFIX);
        let mut kept = self.kept_user_messages();
        if inject {
            let at = kept
                .iter()
                .rposition(context::is_real_user_message)
                .unwrap_or(kept.len());
            let mut full = context::full(&self.settings, &self.profile);
            for item in &mut full {
                self.prepare(item, &turn.id, false);
            }
            kept.splice(at..at, full);
        }
        kept.push(self.summary_item(turn, &message));
        if let Some(first) = kept.first_mut() {
            // Seen on 0.171.0; what the number means for a kept item is not known.
            first.meta.sampled_through = self.counters.sampled;
        }
        let previous = std::mem::replace(&mut self.window.id, self.ports.ids.uuid());
        self.window.number += 1;
        self.history = History::new(kept);
        let checkpoint = self.checkpoint(turn, answer, &message, &previous);
        self.recorder.line("compacted", checkpoint, None);
        self.after_checkpoint(turn, inject);
        self.recompute();
    }

    fn after_checkpoint(&mut self, turn: &Turn, inject: bool) {
        if !inject {
            self.baseline = None;
            return;
        }
        let state = context::world_state(&self.settings, &self.profile);
        self.record_world_state(true, &state);
        self.record_turn_context(&turn.id);
        if self.profile.wide_metadata {
            self.record_settings();
        }
        self.baseline = Some(Baseline {
            settings: self.settings.clone(),
            state,
        });
        self.context_turn = Some(turn.id.clone());
    }

    /// Estimates the new context (compaction.md §2.3).
    fn recompute(&mut self) {
        let total =
            estimate_text(self.settings.base_text()) + self.history.estimate_all(&self.profile);
        let includes_reasoning = self.profile.sequences;
        let info = self.info.get_or_insert_with(TokenInfo::default);
        info.last = Usage {
            total,
            ..Usage::default()
        };
        info.includes_reasoning = includes_reasoning;
        self.prefill = None;
        self.emit_token_count();
    }

    fn announce_compaction(&mut self, turn: &Turn, id: String) {
        if self.recorder.paginated() {
            let item = json!({"type": "ContextCompaction", "id": id});
            self.record_item_completed(&turn.id, &item);
        } else {
            self.recorder.event(json!({"type": "context_compacted"}));
        }
        self.ports.observer.event(Event::ItemCompleted {
            kind: "contextCompaction",
            id,
            shown: Value::Null,
        });
        if self.profile.warns_after_compaction {
            self.ports.observer.event(Event::Warning {
                message: texts::COMPACTION_WARNING.to_owned(),
            });
        }
    }

    /// Text of the last assistant message that is not blank.
    fn last_assistant_text(&self) -> String {
        self.history
            .items()
            .iter()
            .rev()
            .find_map(assistant_text)
            .unwrap_or_default()
    }

    fn summary_item(&mut self, turn: &Turn, message: &str) -> Item {
        let content = vec![json!({"type": "input_text", "text": message})];
        let mut item = items::message("user", None, content);
        item.passthrough.insert(
            "content_item_kinds".to_owned(),
            json!(["compaction.summary"]),
        );
        item.passthrough.insert(
            "content_item_metadata".to_owned(),
            json!([{"provenance": {"type": "harness", "hook": false}}]),
        );
        self.prepare(&mut item, &turn.id, false);
        item.meta.mcp_attribution = true;
        item
    }

    /// User messages that survive, newest first within the budget, returned oldest first.
    fn kept_user_messages(&self) -> Vec<Item> {
        let mut left = KEPT_USER_TOKENS;
        let mut kept = Vec::new();
        for item in self
            .history
            .items()
            .iter()
            .rev()
            .filter(|i| context::is_real_user_message(i))
        {
            if left == 0 {
                break;
            }
            let text = item.texts();
            let bytes: u64 = text.iter().map(|text| text.len() as u64).sum();
            let cost = bytes.div_ceil(BYTES_PER_TOKEN);
            if cost <= left {
                left -= cost;
                kept.push(self.without_images(item));
            } else {
                let mut item = item.clone();
                if let Some(cut) = truncate::split(&text.concat(), Budget::of_tokens(left)) {
                    self.cut_message(&mut item, &cut);
                }
                kept.push(item);
                left = 0;
            }
        }
        kept.reverse();
        kept
    }

    /// Writes head, marker and tail: in one part on 0.144.6, in three later.
    fn cut_message(&self, item: &mut Item, cut: &[String; 3]) {
        let part = |text: &str| json!({"type": "input_text", "text": text});
        if self.profile.joins_kept_parts {
            let content = json!([part(&cut.concat())]);
            item.payload.insert("content".to_owned(), content);
            return;
        }
        let content: Vec<Value> = cut.iter().map(|text| part(text)).collect();
        item.payload
            .insert("content".to_owned(), Value::Array(content));
        let user = json!({"provenance": {"type": "user"}});
        let marker = json!({"provenance": {"type": "harness", "hook": false}});
        let kinds = json!(["user.text", "unknown", "user.text"]);
        item.passthrough
            .insert("content_item_kinds".to_owned(), kinds);
        item.passthrough.insert(
            "content_item_metadata".to_owned(),
            json!([user, marker, user]),
        );
    }

    fn without_images(&self, item: &Item) -> Item {
        let texts = item.texts();
        let parts = item.payload["content"].as_array().map_or(0, Vec::len);
        if texts.len() == parts && (texts.len() == 1 || !self.profile.joins_kept_parts) {
            return item.clone();
        }
        let mut item = item.clone();
        let part = |text: &str| json!({"type": "input_text", "text": text});
        let content: Vec<Value> = if self.profile.joins_kept_parts || texts.is_empty() {
            vec![part(&item.texts().concat())]
        } else {
            item.texts().into_iter().map(part).collect()
        };
        item.payload
            .insert("content".to_owned(), Value::Array(content));
        item
    }

    /// Payload of the `compacted` record.
    fn checkpoint(&self, turn: &Turn, answer: &Answer, message: &str, previous: &str) -> Value {
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
        let Window { number, id, first } = &self.window;
        set("window_number", json!(number));
        set("first_window_id", json!(first));
        set("previous_window_id", json!(previous));
        set("window_id", json!(id));
        if self.profile.usage_records {
            set("compaction_response_id", json!(answer.response_id));
            if let Some(record) = &self.latest_usage_record {
                set("latest_token_usage_record", record.clone());
            }
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
            let tools: Vec<Value> = self
                .settings
                .tools
                .iter()
                .map(rollout::dynamic_tool)
                .collect();
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
        let previous = self.attributed_turn.as_ref().map_or(Value::Null, |_| {
            json!({
                "model": self.settings.model.slug,
                "comp_hash": self.settings.model.comp_hash,
                "realtime_active": false,
            })
        });
        map.insert("previous_turn_settings".to_owned(), previous);
        Value::Object(map)
    }
}

/// Text of an assistant message that is not blank.
fn assistant_text(item: &Item) -> Option<String> {
    if item.kind() != "message" || item.role() != "assistant" {
        return None;
    }
    Some(item.texts().concat()).filter(|text| !text.trim().is_empty())
}
