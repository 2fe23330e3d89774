//! Remote compaction: a provider that compacts gets the history and answers with an opaque item
//! (v2) or with a whole new history (v1).

use serde_json::json;
use tracing::debug;

use super::{Due, Replacement};
use crate::completed::{Completed, read_completed};
use crate::context;
use crate::error::{Failure, FailureKind};
use crate::history::History;
use crate::items::{self, Item};
use crate::request::Purpose;
use crate::session::Session;
use crate::settings::Settings;
use crate::tokens::estimate_text;
use crate::turn::Turn;

/// Stands for a tool output that does not fit into a remote compaction request.
const OUTPUT_REWRITTEN: &str = "Output exceeded the available model context and was truncated";

impl Session {
    /// v2: a stream with exactly one compaction item (compaction.md §6.3).
    pub(super) async fn replace_remotely(
        &mut self,
        turn: &Turn,
        due: &Due,
    ) -> Result<Replacement, Failure> {
        let mut attempt = 0;
        let (item, response_id) = loop {
            match self.ask_remotely(turn, due).await {
                Ok(answer) => break answer,
                Err(failure) => {
                    let again = failure.repeats_stream();
                    if again && attempt < self.settings.stream_max_retries {
                        attempt += 1;
                        self.reconnect(attempt, &failure);
                    } else if again && self.falls_back(&failure) {
                        attempt = 0;
                    } else {
                        return Err(failure.in_remote_compaction());
                    }
                }
            }
        };
        Ok(Replacement {
            kept: self.with_client_context(self.kept_user_items(&due.asked.model)),
            last: Some(item),
            message: String::new(),
            response_id: Some(response_id),
            model_hash: due.asked.model.comp_hash.clone(),
        })
    }

    async fn ask_remotely(&mut self, turn: &Turn, due: &Due) -> Result<(Item, String), Failure> {
        let mut prompt = self.fitted_prompt(&due.asked);
        prompt.push(items::trigger());
        let purpose = Purpose::Compaction(due.metadata.clone());
        let request = self.build_for(&due.asked, turn, &purpose, &prompt, None);
        debug!(items = prompt.len(), "asking for an opaque item");
        let mut stream = self.open_with(turn, request).await?;
        let mut found: Vec<Item> = Vec::new();
        let mut outputs = 0_usize;
        loop {
            let event = self.compaction_event(stream.as_mut()).await?;
            match event["type"].as_str() {
                Some("response.output_item.done") => {
                    let item = items::from_json(&event["item"], &self.profile);
                    // One without content is not read at all.
                    if let Some(item) = item {
                        outputs += 1;
                        found.extend((item.kind() == "compaction").then_some(item));
                    }
                }
                Some("response.completed") => {
                    if let Some(response) = read_completed(&event["response"], &self.profile)? {
                        return self.take_opaque(turn, response, found, outputs);
                    }
                }
                _ => {}
            }
        }
    }

    /// The one item; its usage is recorded but does not enter the total (compaction.md §2.3).
    fn take_opaque(
        &mut self,
        turn: &Turn,
        response: Completed,
        mut found: Vec<Item>,
        outputs: usize,
    ) -> Result<(Item, String), Failure> {
        let response_id = response.id;
        if let Some(usage) = response.usage {
            self.record_thread_usage(usage, &turn.id, &response_id);
        }
        let count = found.len();
        let (Some(item), 1) = (found.pop(), count) else {
            return Err(Failure::fatal(format!(
                "Fatal error: remote compaction v2 expected exactly one compaction output item, \
                 got {count} from {outputs} output items"
            )));
        };
        Ok((item, response_id))
    }

    /// v1: one JSON answer holds the new history (compaction.md §6.6).
    pub(super) async fn replace_by_endpoint(
        &mut self,
        turn: &Turn,
        due: &Due,
    ) -> Result<Replacement, Failure> {
        let prompt = self.fitted_prompt(&due.asked);
        let purpose = Purpose::Compaction(due.metadata.clone());
        let request = self.build_for(&due.asked, turn, &purpose, &prompt, None);
        let answer = self
            .post(request)
            .await
            .map_err(Failure::in_remote_compaction)?;
        let items = answer["output"].as_array().ok_or_else(|| {
            Failure::disconnected("missing field `output`").in_remote_compaction()
        })?;
        let kept = items
            .iter()
            .filter_map(|item| items::from_json(item, &self.profile))
            .filter(is_kept_by_endpoint)
            .collect();
        Ok(Replacement {
            kept,
            last: None,
            message: String::new(),
            response_id: None,
            model_hash: None,
        })
    }

    /// The prompt with its trailing outputs replaced, newest first, until the estimate fits the
    /// effective window (compaction.md §6.5).
    fn fitted_prompt(&self, asked: &Settings) -> Vec<Item> {
        let mut items = self.history.items().to_vec();
        let Some(window) = asked.effective_window() else {
            return self.history.for_prompt(&asked.model, &self.profile);
        };
        let base = estimate_text(asked.base_text());
        for index in (0..items.len()).rev() {
            let total = base + History::new(items.clone()).estimate_all(&self.profile);
            if total <= window || !items[index].kind().ends_with("_output") {
                break;
            }
            items[index]
                .payload
                .insert("output".to_owned(), json!(OUTPUT_REWRITTEN));
        }
        History::new(items).for_prompt(&asked.model, &self.profile)
    }
}

fn is_kept_by_endpoint(item: &Item) -> bool {
    match item.kind() {
        "message" => {
            item.role() == "assistant" || context::is_kept_remotely(item) || {
                item.role() == "user" && context::is_compacted(item)
            }
        }
        "compaction" => true,
        _ => false,
    }
}

impl Failure {
    /// The same failure of a remote compaction; an interrupt stays as it is. A window that was too
    /// small for it does not count as full.
    pub(super) fn in_remote_compaction(mut self) -> Self {
        if self.kind != FailureKind::Interrupted {
            self.message = format!("Error running remote compact task: {}", self.message);
        }
        self
    }
}
