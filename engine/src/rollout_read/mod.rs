//! From rollout lines back to the state of a thread.
//!
//! The way of a read: bytes become lines (`lines.rs`), lines records (`records.rs`), records stand in turns that survive or
//! were rolled back (`segments.rs`), the newest checkpoint and what follows it give the history
//! (`rebuild.rs`, `rollback.rs`), and the newest turn context with the world state says what the
//! model was told (`baseline.rs`). What is counted, such as usage and sequences, is read of all
//! records, also of those that were rolled back.

mod baseline;
pub mod lines;
mod rebuild;
mod records;
mod rollback;
mod segments;
mod stored;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use self::lines::Lines;
use self::rebuild::Start;
use self::records::{Checkpoint, Record};
use self::segments::Standing;
use crate::context;
use crate::history::History;
use crate::items::Item;
use crate::permissions;
use crate::profile::Profile;
use crate::rollout::TokenInfo;
use crate::session::{Baseline, Counters, RetainedTexts, Window};
use crate::settings::Truncation;
use crate::tokens::Usage;

/// Why a rollout is no thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// No line is a record.
    Empty,
    /// The first record is not `session_meta`.
    NoMeta,
    /// The release does not know paginated threads.
    Paginated,
    /// The history mode is none that is known.
    UnknownMode,
    /// A line is not UTF-8.
    NotUtf8,
    /// The last record of a paginated thread has no ordinal.
    NoOrdinal,
    /// The metadata names another thread than the file.
    OtherThread,
    /// The file cannot be written to; what the system says.
    NotWritable(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "is empty",
            Self::NoMeta => "does not start with session metadata",
            Self::Paginated => "paginated_threads is not supported yet",
            Self::UnknownMode => "unknown variant",
            Self::NotUtf8 => "stream did not contain valid UTF-8",
            Self::NoOrdinal => "is missing an ordinal",
            Self::OtherThread => "belongs to thread",
            Self::NotWritable(reason) => reason,
        })
    }
}

impl std::error::Error for Unreadable {}

/// What the lines say of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Thread id.
    pub thread: String,
    /// Session id.
    pub session_id: String,
    /// Id of the first window.
    pub first_window: String,
    /// Current window.
    pub window: Window,
    /// Live history.
    pub history: History,
    /// Token numbers.
    pub info: Option<TokenInfo>,
    /// A checkpoint came behind the token numbers.
    pub uncounted: bool,
    /// Usage of the thread, compactions included.
    pub thread_usage: Usage,
    /// Running numbers.
    pub counters: Counters,
    /// Retained texts.
    pub retained: RetainedTexts,
    /// Base instructions that the thread began with.
    pub base: Option<String>,
    /// Model whose base instructions they are, where it is said.
    pub base_model: Option<String>,
    /// Working directory of the thread.
    pub cwd: Option<String>,
    /// Sandbox mode of the thread; `None` where the config says it.
    pub sandbox: Option<String>,
    /// Approval policy of the thread; `None` where the config says it.
    pub approval: Option<String>,
    /// Model of the newest turn.
    pub model: Option<String>,
    /// Model that the context was last told of.
    pub told_model: Option<String>,
    /// Reasoning effort last recorded.
    pub effort: Option<String>,
    /// Model that the thread was last given.
    pub given_model: Option<String>,
    /// Service tier of the thread; `None` where the config says it.
    pub service_tier: Option<String>,
    /// The event that last said the settings of the thread, for a release that goes by it.
    pub applied: Option<Value>,
    /// What the model was told; `None` where it has to be told everything.
    pub baseline: Option<Baseline>,
    /// Next ordinal; `None` for a legacy thread.
    pub next_ordinal: Option<u64>,
    /// The metadata was found.
    pub begun: bool,
}

/// Reads the thread of a file, which names it; outputs are cut by the policy in force.
pub fn read_file(
    thread: &str,
    lines: &Lines,
    profile: &Profile,
    policy: Truncation,
) -> Result<Found, Unreadable> {
    let mut found = read(&lines.records, profile, policy)?;
    if found.begun && found.thread != thread && profile.checks_thread_id {
        return Err(Unreadable::OtherThread);
    }
    if !found.begun {
        thread.clone_into(&mut found.thread);
        thread.clone_into(&mut found.session_id);
    }
    let last = lines.records.last();
    let numbered = last.is_none_or(|last| last["ordinal"].is_u64());
    if found.next_ordinal.is_some() && !numbered && profile.needs_last_ordinal {
        return Err(Unreadable::NoOrdinal);
    }
    Ok(found)
}

/// Reads a thread from its lines; outputs are cut by the policy in force.
pub fn read(lines: &[Value], profile: &Profile, policy: Truncation) -> Result<Found, Unreadable> {
    let parsed = |line| Record::of(line, profile);
    let records: Vec<Record<'_>> = lines.iter().filter_map(parsed).collect();
    let meta = meta(&records, profile)?;
    let mode = meta.map_or(&Value::Null, |meta| &meta["history_mode"]);
    if !(mode.is_null() || mode == "legacy" || mode == "paginated") {
        return Err(if profile.usage_records {
            Unreadable::UnknownMode
        } else {
            Unreadable::NoMeta
        });
    }
    let paginated = meta.is_none_or(|meta| meta["history_mode"] == "paginated");
    if meta.is_some() && paginated && !profile.usage_records {
        return Err(Unreadable::Paginated);
    }
    let standings = segments::standings(&records, profile);
    let start = Start::of(&records, &standings, profile);
    let rebuilt = rebuild::replay(&records, start, policy, profile);
    let behind = start.installed.map_or(0, |index| index + 1);
    let model = baseline::model(&records, &standings, profile);
    let mut found = Found::of(meta.unwrap_or(&Value::Null));
    found.begun = meta.is_some();
    found.history = rebuilt.history;
    found.uncounted = rebuilt.uncounted;
    if !rebuilt.summarised_anew {
        found.baseline = baseline::read(&records, &standings, behind, profile);
    }
    found.model = model.map(str::to_owned);
    found.windows(&records, &standings, profile);
    let ordinal = |line: &Value| line["ordinal"].as_u64();
    let last = lines.iter().rev().find_map(ordinal);
    let next = last.map_or(0, |last| last.saturating_add(1));
    found.next_ordinal = (paginated && profile.usage_records).then_some(next);
    for record in &records {
        found.count(record, profile);
    }
    found.told_model = found.announced_model().or(found.model.clone());
    Ok(found)
}

/// The metadata: the first record, or the first that is one where its place is not held to.
fn meta<'a>(records: &[Record<'a>], profile: &Profile) -> Result<Option<&'a Value>, Unreadable> {
    let mut found = records.iter().map(|record| match record {
        Record::Meta(meta) => Some(*meta),
        _ => None,
    });
    if !profile.needs_meta_first {
        return Ok(found.flatten().next());
    }
    match found.next() {
        Some(Some(meta)) => Ok(Some(meta)),
        Some(None) => Err(Unreadable::NoMeta),
        None => Err(Unreadable::Empty),
    }
}

impl Found {
    fn of(meta: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let window = text(&meta["context_window"]["window_id"]);
        Self {
            thread: text(&meta["id"]),
            session_id: text(meta.get("session_id").unwrap_or(&meta["id"])),
            first_window: window.clone(),
            window: Window {
                number: 0,
                id: window.clone(),
                first: window,
                previous: None,
            },
            history: History::default(),
            info: None,
            uncounted: false,
            thread_usage: Usage::default(),
            counters: Counters::default(),
            retained: RetainedTexts::default(),
            base: meta["base_instructions"]["text"]
                .as_str()
                .map(str::to_owned),
            base_model: meta["base_instructions"]["provenance"]["model"]
                .as_str()
                .map(str::to_owned),
            cwd: meta["cwd"].as_str().map(str::to_owned),
            sandbox: None,
            approval: None,
            model: None,
            told_model: None,
            effort: None,
            given_model: None,
            service_tier: None,
            applied: None,
            baseline: None,
            next_ordinal: None,
            begun: true,
        }
    }

    /// The window in force: its number is that of the newest checkpoint that says one, and without
    /// any the number of checkpoints.
    fn windows(&mut self, records: &[Record<'_>], standings: &[Standing], profile: &Profile) {
        let mut opened = 0;
        let mut said = None;
        for (record, standing) in records.iter().zip(standings) {
            let Record::Checkpoint(checkpoint) = record else {
                continue;
            };
            if !standing.survives && profile.skips_rolled_back_checkpoints {
                continue;
            }
            opened += 1;
            said = checkpoint.window_number.or(said);
            if let Some(id) = checkpoint.window_id {
                id.clone_into(&mut self.window.id);
                self.window.previous = checkpoint.previous_window_id.map(str::to_owned);
            }
        }
        self.window.number = said.unwrap_or(opened);
    }

    /// The model of the world state, where the history shows that a model was announced: a change
    /// inside a turn has no turn context. Without an announcement the world state is not asked.
    fn announced_model(&self) -> Option<String> {
        let told = self.baseline.as_ref()?.state.get("model")?.as_str()?;
        let announced = self.history.items().iter().any(context::announces_model);
        announced.then(|| told.to_owned())
    }

    /// Takes from a record what counts whatever became of its turn.
    fn count(&mut self, record: &Record<'_>, profile: &Profile) {
        match record {
            Record::Item(item) => self.count_item(item, profile),
            Record::Checkpoint(checkpoint) => self.count_checkpoint(checkpoint),
            Record::TurnContext(context) => {
                self.effort = context.effort.map(str::to_owned);
            }
            Record::Usage(payload) => {
                self.thread_usage = usage(&payload["thread_token_usage"]);
            }
            Record::Event(event) => self.event(event, profile),
            Record::Meta(_)
            | Record::WorldState { .. }
            | Record::TurnStarted(_)
            | Record::TurnEnded(_)
            | Record::RolledBack(_)
            | Record::Other => {}
        }
    }

    fn count_item(&mut self, item: &Item, profile: &Profile) {
        self.counters.history += 1;
        if profile.sequences {
            self.counters.history = item.meta.history_sequence.max(self.counters.history);
            self.counters.sampled = item.meta.sampled_through.max(self.counters.sampled);
        }
        if let Some(order) = item.meta.user_input_order {
            self.counters.order = self.counters.order.max(order.saturating_add(1));
        }
        if let (Some(order), Some(source)) = (item.meta.user_input_order, &item.meta.retained) {
            self.retained.push(order, source.clone());
        }
    }

    fn count_checkpoint(&mut self, checkpoint: &Checkpoint<'_>) {
        let kept = checkpoint.replacement.iter().flatten();
        let newest = kept.map(|item| item.meta.history_sequence).max();
        self.counters.history = self.counters.history.max(newest.unwrap_or(0));
    }

    fn event(&mut self, event: &Value, profile: &Profile) {
        match event["type"].as_str() {
            Some("token_count") if event["info"].is_object() => {
                let info = &event["info"];
                self.info = Some(TokenInfo {
                    total: usage(&info["total_token_usage"]),
                    window: info["model_context_window"].as_i64(),
                    last: usage(&info["last_token_usage"]),
                    includes_reasoning: info["last_usage_includes_reasoning"].as_bool(),
                });
            }
            Some("thread_settings_applied") => {
                self.settings(&event["thread_settings"], profile);
                self.applied = profile.restores_thread_settings.then(|| (*event).clone());
            }
            _ => {}
        }
    }

    /// Settings of the thread as they were last applied; 0.144 takes the folder of `session_meta`
    /// and the permissions of the config (history.md §9).
    fn settings(&mut self, applied: &Value, profile: &Profile) {
        let text = |key: &str| applied[key].as_str().map(str::to_owned);
        self.effort = text("reasoning_effort");
        self.given_model = text("model").or(self.given_model.take());
        if !profile.restores_thread_settings {
            return;
        }
        self.service_tier = text("service_tier");
        self.cwd = text("cwd").or(self.cwd.take());
        self.approval = text("approval_policy").or(self.approval.take());
        // A sandbox that writes the workspace is that of the config again.
        self.sandbox =
            permissions::recorded_sandbox(&applied["permission_profile"]).map(str::to_owned);
    }
}

fn usage(record: &Value) -> Usage {
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
