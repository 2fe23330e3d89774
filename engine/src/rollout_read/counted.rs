//! What is counted or said whatever became of its turn: usage, settings, sequences, retained texts.
//!
//! Of each the newest word counts, so a thread is asked from its end. Sequences and orders grow with
//! the file, and a checkpoint repeats the retained texts: what stands before the newest of them is
//! not asked.

use serde_json::Value;

use super::Need;
use super::records::{Checkpoint, Record};
use crate::items::{Item, Retained};
use crate::permissions;
use crate::profile::Profile;
use crate::rollout::TokenInfo;
use crate::session::{Counters, RETAINED_TEXTS_MAX, RetainedTexts};
use crate::tokens::Usage;

/// The newest words.
#[derive(Debug, Default)]
pub(super) struct Counted {
    // What this release asks for.
    restores_settings: bool,
    usage_records: bool,
    sequences: bool,

    pub(super) info: Option<TokenInfo>,
    thread_usage: Option<Usage>,
    /// Reasoning effort of the newest record that could say one.
    effort: Option<Effort>,
    given_model: Given,
    applied: Option<Value>,
    cwd: Option<String>,
    approval: Option<String>,
    /// Items that were come by.
    items: u64,
    /// The highest sequence with the items behind it, and of the newest item what a model has seen.
    history: u64,
    sampled: Option<u64>,
    checkpoint_sequence: bool,
    order: Option<u64>,
    retained: Texts,
}

/// What a record says of the reasoning effort.
#[derive(Debug)]
struct Effort(Option<String>);

/// The model that the thread was last given.
#[derive(Debug, Default)]
enum Given {
    #[default]
    Sought,
    Model(String),
}

impl Counted {
    pub(super) fn new(profile: &Profile) -> Self {
        Self {
            restores_settings: profile.restores_thread_settings,
            usage_records: profile.usage_records,
            sequences: profile.sequences,
            ..Self::default()
        }
    }

    /// Takes the next older record.
    pub(super) fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Item(item) => self.item(item),
            Record::Checkpoint(checkpoint) => self.checkpoint(checkpoint),
            Record::TurnContext(context) => {
                self.effort
                    .get_or_insert_with(|| Effort(context.effort.map(str::to_owned)));
                if !self.restores_settings && matches!(self.given_model, Given::Sought) {
                    self.given_model = Given::Model(context.model.to_owned());
                }
            }
            Record::Usage(payload) => {
                self.thread_usage
                    .get_or_insert_with(|| usage(&payload["thread_token_usage"]));
            }
            Record::Event(event) => self.event(event),
            Record::Meta(_)
            | Record::WorldState { .. }
            | Record::TurnStarted(_)
            | Record::TurnEnded(_)
            | Record::RolledBack(_)
            | Record::Other => {}
        }
    }

    fn item(&mut self, item: &Item) {
        self.sequence(item.meta.history_sequence);
        self.items += 1;
        if item.meta.history_sequence > 0 && self.sampled.is_none() {
            self.sampled = Some(item.meta.sampled_through);
        }
        let Some(order) = item.meta.user_input_order else {
            return;
        };
        let next = order.saturating_add(1);
        self.order = Some(self.order.map_or(next, |known| known.max(next)));
        if let Some(source) = &item.meta.retained {
            self.retained.take(order, source);
        }
    }

    /// A sequence counts with the items behind it, each of which took one.
    fn sequence(&mut self, sequence: u64) {
        self.history = self.history.max(sequence.saturating_add(self.items));
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint<'_>) {
        let kept = checkpoint.replacement.iter().flatten();
        let newest = kept.map(|item| item.meta.history_sequence).max();
        let newest = newest.unwrap_or(0);
        self.checkpoint_sequence |= newest > 0;
        self.sequence(newest);
        if let Some(context) = checkpoint.retained_context {
            let next = context["next_order"].as_u64();
            self.order = self.order.max(next);
            self.retained.checkpoint(context);
        }
    }

    fn event(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("token_count") if event["info"].is_object() && self.info.is_none() => {
                let info = &event["info"];
                self.info = Some(TokenInfo {
                    total: usage(&info["total_token_usage"]),
                    window: info["model_context_window"].as_i64(),
                    last: usage(&info["last_token_usage"]),
                    includes_reasoning: info["last_usage_includes_reasoning"].as_bool(),
                });
            }
            Some("thread_settings_applied") => self.settings(event),
            _ => {}
        }
    }

    /// Settings of the thread as they were applied; 0.144 takes the folder of `session_meta` and
    /// the permissions of the config (history.md §9).
    fn settings(&mut self, event: &Value) {
        let applied = &event["thread_settings"];
        let text = |key: &str| applied[key].as_str().map(str::to_owned);
        self.effort
            .get_or_insert_with(|| Effort(text("reasoning_effort")));
        if let (Given::Sought, Some(model)) = (&self.given_model, text("model")) {
            self.given_model = Given::Model(model);
        }
        if !self.restores_settings {
            return;
        }
        self.applied.get_or_insert_with(|| event.clone());
        self.cwd = self.cwd.take().or_else(|| text("cwd"));
        self.approval = self.approval.take().or_else(|| text("approval_policy"));
    }

    pub(super) fn needs(&self) -> Vec<Need> {
        let settings = self.applied.is_some() && self.cwd.is_some() && self.approval.is_some();
        let given = !matches!(self.given_model, Given::Sought) && self.effort.is_some();
        let sequences = self.sampled.is_some() && self.checkpoint_sequence;
        let open = [
            (Need::TokenInfo, self.info.is_none()),
            (
                Need::ThreadUsage,
                self.usage_records && self.thread_usage.is_none(),
            ),
            (
                Need::Settings,
                !given || (self.restores_settings && !settings),
            ),
            (Need::Sequences, self.sequences && !sequences),
            (Need::Order, self.usage_records && self.order.is_none()),
            (
                Need::RetainedTexts,
                self.usage_records && !self.retained.ended(),
            ),
        ];
        open.into_iter()
            .filter_map(|(need, is_open)| is_open.then_some(need))
            .collect()
    }

    /// What was said, for the thread that is being put together.
    pub(super) fn into_found(mut self, found: &mut super::Found) {
        self.sequence(0);
        found.info = self.info;
        found.counters = Counters {
            history: if self.sequences { self.history } else { 0 },
            sampled: self.sampled.filter(|_| self.sequences).unwrap_or(0),
            order: self.order.filter(|_| self.usage_records).unwrap_or(0),
            injected: 0,
        };
        if self.usage_records {
            found.thread_usage = self.thread_usage.unwrap_or_default();
            found.retained = self.retained.texts();
        }
        found.effort = self.effort.and_then(|effort| effort.0);
        found.given_model = match self.given_model {
            Given::Model(model) => Some(model),
            Given::Sought => None,
        };
        if let Some(event) = &self.applied {
            let applied = &event["thread_settings"];
            let word = |key: &str| applied[key].as_str().map(str::to_owned);
            found.service_tier = word("service_tier");
            found.summary = word("reasoning_summary");
            // A sandbox that writes the workspace is that of the config again.
            found.sandbox =
                permissions::recorded_sandbox(&applied["permission_profile"]).map(str::to_owned);
        }
        found.applied = self.applied;
        found.cwd = self.cwd.or(found.cwd.take());
        found.approval = self.approval;
    }
}

/// Retained texts, newest first: more of a role than are retained are not looked at.
#[derive(Debug, Default)]
struct Texts {
    user: Vec<(u64, Retained)>,
    assistant: Vec<(u64, Retained)>,
    user_dropped: bool,
    assistant_dropped: bool,
    /// A checkpoint has said what was retained before it.
    checkpoint: bool,
}

impl Texts {
    fn take(&mut self, order: u64, source: &Retained) {
        if self.checkpoint {
            return;
        }
        let (texts, dropped) = if source.role == "user" {
            (&mut self.user, &mut self.user_dropped)
        } else {
            (&mut self.assistant, &mut self.assistant_dropped)
        };
        let known = |(_, text): &(u64, Retained)| text.message_id == source.message_id;
        if texts.iter().any(known) {
            return;
        }
        if texts.len() < RETAINED_TEXTS_MAX {
            texts.push((order, source.clone()));
        } else {
            *dropped = true;
        }
    }

    fn checkpoint(&mut self, context: &Value) {
        if self.checkpoint {
            return;
        }
        for (key, role) in [
            ("user_messages", "user"),
            ("assistant_messages", "assistant"),
        ] {
            let texts = context[key].as_array().into_iter().flatten();
            for entry in texts.rev() {
                if let Some((order, source)) = retained(entry, role) {
                    self.take(order, &source);
                }
            }
        }
        let says = |key: &str| context[key] == Value::Bool(true);
        self.user_dropped |= says("user_messages_incomplete");
        self.assistant_dropped |= says("assistant_messages_incomplete");
        self.checkpoint = true;
    }

    /// Nothing older changes them.
    fn ended(&self) -> bool {
        self.checkpoint || (self.user_dropped && self.assistant_dropped)
    }

    fn texts(mut self) -> RetainedTexts {
        self.user.reverse();
        self.assistant.reverse();
        RetainedTexts {
            user: self.user,
            assistant: self.assistant,
            user_dropped: self.user_dropped,
            assistant_dropped: self.assistant_dropped,
        }
    }
}

/// A text in the record of a checkpoint.
fn retained(entry: &Value, role: &'static str) -> Option<(u64, Retained)> {
    let text = |key: &str| entry[key].as_str().map(str::to_owned);
    let source = Retained {
        revision: text("revision")?,
        message_id: text("message_id")?,
        turn_id: text("turn_id")?,
        role,
        complete: entry["complete"] == Value::Bool(true),
        text: text("text")?,
    };
    Some((entry["order"].as_u64()?, source))
}

/// A usage as a record says it.
pub(super) fn usage(record: &Value) -> Usage {
    let number = |key: &str| record[key].as_i64().unwrap_or(0);
    Usage {
        input: number("input_tokens"),
        cached: number("cached_input_tokens"),
        cache_write: number("cache_write_input_tokens"),
        output: number("output_tokens"),
        reasoning: number("reasoning_output_tokens"),
        total: number("total_tokens"),
    }
}
