//! Head of the scenario: models, limits and config, as the records of turns show them.

use serde_json::{Map, Value, json};

use super::items::map;
use super::read::{Entry, LeftOut};
use super::redact::Texts;
use super::replies::{Response, Task};
use crate::rollout_file::Place;

/// Base instructions of a scenario that says nothing.
const BASE_DEFAULT: &str = "Be brief.";
/// Percent of a window that is usable, as every model of the catalogue says.
const EFFECTIVE_PERCENT: i64 = 95;
/// Window of a scenario that says nothing, in tokens.
const WINDOW_DEFAULT: i64 = 100_000;
/// Budget of an output where the model says nothing, in tokens of four bytes.
const TOKEN_BUDGET_DEFAULT: u64 = 3000;

/// Settings of a thread over its turns.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Slugs in the order of their first turn; the first is `main`.
    slugs: Vec<String>,
    windows: Vec<Option<i64>>,
    cwd: String,
    /// Settings in force: key of a step, and value.
    held: Map<String, Value>,
    /// Base instructions that a switch of models told of, by slug.
    bases: Map<String, Value>,
    /// Total of the response before.
    last_total: i64,
    provider_is_openai: bool,
    limit: Option<i64>,
    truncation_bytes: Option<u64>,
    modalities: Vec<&'static str>,
    pub(super) config: Map<String, Value>,
    pub(super) files: Map<String, Value>,
    pub(super) left_out: Vec<LeftOut>,
}

impl Settings {
    /// Takes the settings of the first turn.
    pub(super) fn begin(&mut self, meta: &Value, tasks: &[Task], texts: &Texts) {
        let settings = self;
        meta["cwd"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut settings.cwd);
        settings.provider_is_openai = meta["model_provider"] == "openai";
        for task in tasks {
            let Some(slug) = task.context.as_ref().and_then(|c| c["model"].as_str()) else {
                continue;
            };
            if !settings.slugs.iter().any(|known| known == slug) {
                settings.slugs.push(slug.to_owned());
                settings.windows.push(task.window);
            }
        }
        if settings.slugs.is_empty() {
            settings.slugs.push(String::new());
            settings
                .windows
                .push(tasks.first().and_then(|task| task.window));
        }
        let first = tasks.iter().find_map(|task| task.context.as_ref());
        if let Some(context) = first {
            settings.held = settings.of(context, Place::default(), texts);
            settings.held.insert("model".to_owned(), json!("main"));
            for (key, usual) in [("sandbox", "danger-full-access"), ("approval", "never")] {
                match settings.held.get(key) {
                    // A turn may ask for it; no later version starts with it.
                    Some(value) if *value == "untrusted" => {
                        settings.held.insert(key.to_owned(), json!(usual));
                    }
                    Some(value) if *value != usual => {
                        settings.config.insert(key.to_owned(), value.clone());
                    }
                    _ => {}
                }
            }
            // The config has no key of these: the first turn asks for them.
            for key in ["effort", "cwd"] {
                settings.held.shift_remove(key);
            }
        }
        if meta["history_mode"] == "legacy" && !is_old(meta) {
            settings
                .config
                .insert("history_mode".to_owned(), json!("legacy"));
        }
    }

    fn name(&self, slug: &str) -> String {
        match self.slugs.iter().position(|known| known == slug) {
            None | Some(0) => "main".to_owned(),
            Some(index) => format!("model_{}", index + 1),
        }
    }

    /// Settings of a turn by the keys of a step.
    fn of(&mut self, context: &Value, place: Place, texts: &Texts) -> Map<String, Value> {
        let mut out = Map::new();
        if let Some(slug) = context["model"].as_str() {
            out.insert("model".to_owned(), json!(self.name(slug)));
        }
        let asked = &context["collaboration_mode"]["settings"]["reasoning_effort"];
        let effort = context["effort"].as_str().or(asked.as_str());
        if let Some(effort) = effort {
            out.insert("effort".to_owned(), json!(effort));
        }
        if let Some(summary) = context["summary"].as_str() {
            out.insert("summary".to_owned(), json!(summary));
        }
        let cwd = context["cwd"].as_str().unwrap_or_default();
        if let Some(below) = cwd
            .strip_prefix(&self.cwd)
            .filter(|below| below.starts_with('/'))
        {
            // A part of a path stays a part; its name is a text of the user's.
            let parts: Vec<String> = below[1..]
                .split('/')
                .map(|part| texts.plain(part))
                .collect();
            out.insert("cwd".to_owned(), json!(parts.join("/")));
        } else if cwd != self.cwd || self.held.contains_key("cwd") {
            self.left_out.push(LeftOut {
                place,
                what: "a working directory that is not below the first one".to_owned(),
            });
        }
        let sandbox = context["sandbox_policy"]["type"].as_str();
        let approval = context["approval_policy"].as_str();
        for (key, value, known) in [
            (
                "sandbox",
                sandbox,
                &["read-only", "workspace-write", "danger-full-access"],
            ),
            ("approval", approval, &["never", "on-request", "untrusted"]),
        ] {
            match value {
                Some(value) if known.contains(&value) => {
                    out.insert(key.to_owned(), json!(value));
                }
                Some(_) => self.left_out.push(LeftOut {
                    place,
                    what: format!("a setting `{key}` that the format has no word for"),
                }),
                None => {}
            }
        }
        out
    }

    /// What a turn changes, as keys of its step.
    pub(super) fn changes(&mut self, task: &Task, texts: &Texts) -> Map<String, Value> {
        let Some(context) = &task.context else {
            return Map::new();
        };
        let now = self.of(context, task.place, texts);
        let mut changed = Map::new();
        for (key, value) in now {
            if self.held.get(&key) != Some(&value) {
                changed.insert(key.clone(), value.clone());
                self.held.insert(key, value);
            }
        }
        changed
    }

    /// A message that Codex put into the history by a setting.
    pub(super) fn injected(&mut self, task: &Task, texts: &Texts) {
        let slug = task
            .context
            .as_ref()
            .and_then(|context| context["model"].as_str());
        let parts = task.injected.iter().flat_map(|(place, message)| {
            let parts = message["content"].as_array().into_iter().flatten();
            parts.map(move |part| (*place, message, part))
        });
        for (place, message, part) in parts {
            let text = part["text"].as_str().unwrap_or_default();
            if let Some(base) = switched_base(text)
                && let Some(slug) = slug
            {
                self.bases.insert(slug.to_owned(), json!(base));
            }
            if text.starts_with("<permissions instructions>") {
                self.config
                    .insert("permissions_instructions".to_owned(), json!(true));
            } else if text.starts_with("<environment_context>") {
                self.config
                    .insert("environment_context".to_owned(), json!(true));
            } else if text.starts_with("# AGENTS.md instructions for ") {
                let inner = text.split_once("<INSTRUCTIONS>\n").map(|(_, rest)| rest);
                let inner = inner.and_then(|rest| rest.strip_suffix("\n</INSTRUCTIONS>"));
                self.config.insert("project_doc".to_owned(), json!(true));
                let inner = inner.unwrap_or_default();
                self.files.insert("AGENTS.md".to_owned(), texts.text(inner));
            } else if ["<turn_aborted>", "<model_switch>"]
                .iter()
                .any(|tag| text.starts_with(tag))
            {
                // The turn that is replayed makes it anew.
            } else if message["role"] == "developer"
                && !text.starts_with('<')
                && !self.config.contains_key("developer_instructions")
            {
                let text = texts.text(text);
                self.config
                    .insert("developer_instructions".to_owned(), text);
            } else if self.config.get("developer_instructions") != Some(&texts.text(text)) {
                self.left_out.push(LeftOut {
                    place,
                    what: "a message of context that no setting of the format makes".to_owned(),
                });
            }
        }
    }

    /// `models`; nothing where the default does.
    pub(super) fn models(&self, meta: &Value, texts: &Texts) -> Map<String, Value> {
        let limit = self.limit;
        let mut out = Map::new();
        for (slug, window) in self.slugs.iter().zip(&self.windows) {
            let mut model = Map::new();
            let raw = window.map(raw_window);
            match raw {
                Some(WINDOW_DEFAULT) => {}
                Some(raw) => {
                    model.insert("context_window".to_owned(), json!(raw));
                }
                None => {
                    model.insert("context_window".to_owned(), json!("none"));
                }
            }
            let usual = raw.map(|raw| raw * 9 / 10);
            if let Some(limit) = limit.filter(|limit| usual.is_none_or(|usual| *limit < usual)) {
                model.insert("auto_compact_token_limit".to_owned(), json!(limit));
            }
            let base = self
                .bases
                .get(slug)
                .unwrap_or(&meta["base_instructions"]["text"]);
            let base = base.as_str();
            if let Some(base) = base.filter(|base| *base != BASE_DEFAULT) {
                model.insert("base_instructions".to_owned(), texts.text(base));
            }
            if self.modalities.len() > 1 {
                model.insert("input_modalities".to_owned(), json!(self.modalities));
            }
            if let Some(bytes) = self.truncation_bytes {
                model.insert("truncation".to_owned(), json!({"bytes": bytes}));
            }
            out.insert(self.name(slug), Value::Object(model));
        }
        let plain = out.len() == 1 && out.values().all(|model| *model == json!({}));
        if plain { Map::new() } else { out }
    }

    /// Config that the compactions ask for.
    pub(super) fn compactions(&mut self, tasks: &[Task]) {
        self.limit = limit(tasks);
        let responses = || tasks.iter().flat_map(|task| &task.responses);
        let remote = responses().any(|r| r.compaction.as_ref().is_some_and(|c| c.remote));
        if remote || self.provider_is_openai {
            self.config
                .insert("provider_name".to_owned(), json!("OpenAI"));
        }
        let window = self.windows.first().copied().flatten();
        let after: Vec<i64> = before_compactions(tasks, |phase| phase == Some("post_turn"));
        if let (Some(window), Some(least)) = (window, after.into_iter().min()) {
            let percent = (least * 100 / window.max(1)).clamp(1, 100);
            let key = "post_turn_compact_threshold_percent".to_owned();
            self.config.insert(key, json!(percent));
        }
        let read_to_end = responses()
            .any(|response| response.completed && !response.steers.is_empty() && !response.calls());
        if read_to_end {
            self.config
                .insert("instant_interrupt".to_owned(), json!(false));
        }
    }

    /// What records show of the model: what it takes, and how it cuts outputs.
    pub(super) fn look(&mut self, entries: &[Entry]) {
        self.modalities = vec!["text"];
        for (word, part) in [("image", "\"input_image\""), ("audio", "\"input_audio\"")] {
            let mut items = entries.iter().filter(|entry| entry.kind == "response_item");
            if items.any(|entry| entry.payload.to_string().contains(part)) {
                self.modalities.push(word);
            }
        }
        // The budget of an output in tokens of four bytes; that of the default limit is 3000.
        let budgets = entries.iter().filter(|entry| entry.kind == "response_item");
        let mut budgets =
            budgets.filter_map(|e| e.metadata["fallback_token_limit_override"].as_u64());
        let budget = budgets
            .next()
            .filter(|budget| *budget != TOKEN_BUDGET_DEFAULT);
        self.truncation_bytes = budget.map(|budget| budget.saturating_mul(10) / 3);
    }

    /// Whether a turn that begins or goes on now compacts first.
    pub(super) fn is_full(&self, window: Option<i64>) -> bool {
        let usual = window.map(|window| raw_window(window) * 9 / 10);
        let limit = match (self.limit, usual) {
            (Some(limit), Some(usual)) => Some(limit.min(usual)),
            (limit, usual) => limit.or(usual),
        };
        limit.is_some_and(|limit| self.last_total >= limit)
    }

    /// A response that was played.
    pub(super) fn played(&mut self, response: &Response) {
        if response.compaction.is_some() {
            self.last_total = 0;
        } else if let Some(total) = total(response) {
            self.last_total = total;
        }
    }

    /// Whether the provider compacts.
    pub(super) fn is_remote(&self) -> bool {
        self.config.contains_key("provider_name")
    }

    /// Names of the scenario and slugs of the file.
    pub(super) fn names(&self) -> impl Iterator<Item = (String, &String)> {
        self.slugs.iter().map(|slug| (self.name(slug), slug))
    }
}

pub(super) fn is_old(meta: &Value) -> bool {
    let version = meta["cli_version"].as_str().unwrap_or_default();
    let minor = version
        .split('.')
        .nth(1)
        .and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor < 164)
}

/// The base instructions that a switch of models tells of.
fn switched_base(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("<model_switch>\n")?;
    let (_, base) = rest.split_once("\n\n")?;
    base.strip_suffix("\n</model_switch>")
}

/// The raw window of which the recorded one is what can be used.
fn raw_window(effective: i64) -> i64 {
    let least = (effective.saturating_mul(100)).div_euclid(EFFECTIVE_PERCENT);
    let fits = |raw: &i64| raw.saturating_mul(EFFECTIVE_PERCENT) / 100 == effective;
    (least..=least + 1).find(fits).unwrap_or(effective)
}

fn total(response: &Response) -> Option<i64> {
    response.usage.as_ref()?["total_tokens"].as_i64()
}

/// Total of the response before each compaction of some phases; 0 before any response.
fn before_compactions(tasks: &[Task], wanted: impl Fn(Option<&str>) -> bool) -> Vec<i64> {
    let mut last = Some(0);
    let mut found = Vec::new();
    for response in tasks.iter().flat_map(|task| &task.responses) {
        match &response.compaction {
            Some(compaction) => {
                if wanted(compaction.phase) {
                    found.extend(last);
                }
                last = None;
            }
            None => last = total(response).or(last),
        }
    }
    found
}

/// The limit at which turns compact: the smallest total that made one do so, or what lies just above
/// the largest that did not, where an estimate was added to the former.
fn limit(tasks: &[Task]) -> Option<i64> {
    let phases = [Some("pre_turn"), Some("mid_turn")];
    let reached = before_compactions(tasks, |phase| phases.contains(&phase));
    let reached = reached.into_iter().min()?;
    let responses: Vec<&Response> = tasks.iter().flat_map(|task| &task.responses).collect();
    let passed = responses
        .windows(2)
        .filter(|pair| pair[1].compaction.is_none());
    let passed = passed.filter_map(|pair| total(pair[0]).filter(|_| pair[0].compaction.is_none()));
    let passed = passed
        .max()
        .map_or(reached, |total| total.saturating_add(1));
    Some(reached.max(passed))
}

/// A mapping of usage as the format writes it; a number where only the input counts.
pub(super) fn usage(recorded: &Value) -> Value {
    let count = |key: &str| recorded[key].as_i64().unwrap_or_default();
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    let mut out = map(json!({"input": input}));
    for (key, recorded) in [
        ("cached", "cached_input_tokens"),
        ("cache_write", "cache_write_input_tokens"),
        ("output", "output_tokens"),
        ("reasoning", "reasoning_output_tokens"),
    ] {
        if count(recorded) != 0 {
            out.insert(key.to_owned(), json!(count(recorded)));
        }
    }
    if count("total_tokens") != input.saturating_add(output) {
        out.insert("total".to_owned(), json!(count("total_tokens")));
    }
    if out.len() == 1 {
        json!(input)
    } else {
        Value::Object(out)
    }
}
