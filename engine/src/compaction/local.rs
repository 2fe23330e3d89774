//! Local compaction: the model itself writes a summary when a prompt asks it to.

use serde_json::json;
use tracing::debug;

use super::replacement::kept_user_texts;
use super::{Due, Replacement, assistant_text};
use crate::completed::{Completed, read_completed};
use crate::error::{Failure, FailureKind};
use crate::history::History;
use crate::items::{self, Item};
use crate::profile::CompactionRetries;
use crate::request::Purpose;
use crate::session::Session;
use crate::settings::Settings;
use crate::texts;
use crate::turn::Turn;

/// One finished answer.
struct Answer {
    response_id: String,
    /// Last text of the answer that is not blank.
    text: Option<String>,
}

impl Session {
    pub(super) async fn replace_locally(
        &mut self,
        turn: &Turn,
        due: &Due,
    ) -> Result<Replacement, Failure> {
        let answer = self.ask_for_summary(turn, due).await?;
        let summary = match (answer.text, due.metadata.phase == "post_turn") {
            (Some(text), true) => text,
            (None, true) => return Err(Failure::disconnected("the answer has no text")),
            (_, false) => self.last_assistant_text(),
        };
        let message = format!("{}\n{summary}", texts::SUMMARY_PREFIX);
        Ok(Replacement {
            kept: self.with_client_context(kept_user_texts(self.history.items(), &self.profile)),
            last: Some(summary_item(&message)),
            message,
            response_id: Some(answer.response_id),
            model_hash: None,
        })
    }

    /// Asks until an answer is complete; trims the oldest items while the prompt is too long.
    async fn ask_for_summary(&mut self, turn: &Turn, due: &Due) -> Result<Answer, Failure> {
        let mut copy = self.history.clone();
        let mut attempt = 0;
        loop {
            match self.ask_once(turn, due, &copy).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if failure.kind == FailureKind::Interrupted => return Err(failure),
                Err(failure) if failure.kind == FailureKind::ContextWindowExceeded => {
                    if !copy.drop_oldest() {
                        self.fill_window();
                        return Err(failure);
                    }
                    attempt = 0;
                }
                Err(failure)
                    if attempt < self.settings.stream_max_retries && self.asks_again(&failure) =>
                {
                    attempt += 1;
                    self.announce_compaction_retry(attempt, &failure);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn asks_again(&self, failure: &Failure) -> bool {
        match self.profile.compaction_retries {
            CompactionRetries::Every => true,
            CompactionRetries::AllButIncomplete => failure.kind != FailureKind::Incomplete,
            CompactionRetries::AsTurns => failure.repeats_stream(),
        }
    }

    /// Only where a compaction retries like a turn the provider's wish for a pause counts.
    fn announce_compaction_retry(&mut self, attempt: u64, failure: &Failure) {
        let mut failure = failure.clone();
        if self.profile.compaction_retries != CompactionRetries::AsTurns {
            failure.retry_after_ms = None;
        }
        self.announce_retry(attempt, &failure);
    }

    fn summary_prompt(&self, asked: &Settings, copy: &History) -> Vec<Item> {
        let mut prompt = copy.for_prompt(&asked.model, &self.profile);
        let text = self
            .settings
            .compact_prompt
            .clone()
            .filter(|text| !text.trim().is_empty())
            .unwrap_or_else(|| texts::COMPACTION_PROMPT.to_owned());
        let content = vec![json!({"type": "input_text", "text": text})];
        let mut last = items::message("user", None, content);
        if self.profile.wide_metadata {
            last.passthrough
                .insert("content_item_kinds".to_owned(), json!(["unknown"]));
        }
        prompt.push(last);
        prompt
    }

    async fn ask_once(
        &mut self,
        turn: &Turn,
        due: &Due,
        copy: &History,
    ) -> Result<Answer, Failure> {
        let prompt = self.summary_prompt(&due.asked, copy);
        let purpose = Purpose::Compaction(due.metadata.clone());
        let request = self.build_for(&due.asked, turn, &purpose, &prompt, None);
        debug!(items = prompt.len(), "asking for a summary");
        let mut stream = self.open(request).await?;
        self.tell_limits(stream.as_ref());
        let mut outputs = Vec::new();
        loop {
            let event = self.compaction_event(stream.as_mut()).await?;
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
                    if let Some(response) = read_completed(&event["response"], &self.profile)? {
                        return Ok(self.take_answer(turn, due, response, outputs));
                    }
                }
                _ => {}
            }
        }
    }

    fn take_answer(
        &mut self,
        turn: &Turn,
        due: &Due,
        response: Completed,
        outputs: Vec<Item>,
    ) -> Answer {
        let text = outputs.iter().rev().find_map(assistant_text);
        let recorded = due.metadata.phase != "post_turn";
        for item in outputs.into_iter().filter(|_| recorded) {
            self.record_compaction_output(turn, item);
        }
        let window = due.asked.effective_window();
        self.record_usage(response.usage, window, &turn.id, &response.id);
        self.emit_token_count();
        Answer {
            response_id: response.id,
            text,
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

    /// Text of the last assistant message that is not blank.
    fn last_assistant_text(&self) -> String {
        self.history
            .items()
            .iter()
            .rev()
            .find_map(assistant_text)
            .unwrap_or_default()
    }
}

fn summary_item(message: &str) -> Item {
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
    item
}
