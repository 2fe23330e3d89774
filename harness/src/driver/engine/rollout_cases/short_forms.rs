//! Recorded cases "rollout → next request" of the real binaries, and how their short forms are
//! written out (`harness/tests/data/rollout-cases.json`).
//!
//! A case holds all records of a rollout and the input of the request that followed its resume, or
//! the error that came instead. Versions with the same case share an entry. A record in short form
//! is written out with what the engine of that version recorded for a turn `U1` answered by `A1`,
//! the *template*; what stands here replaces keys of it. Short forms:
//!
//! - `session_meta`, `{"turn_context": {…}}` (without the template's turn id) and
//!   `{"world_state": {"full", "state": "<recorded>", "merge": patch}}` are the template's; the
//!   patch changes the recorded state. `turn_context_only` is a payload of nothing but that.
//! - `{"msg": role, "c": text or parts}` is a message; `_meta` the metadata of its record.
//! - `token_count` counts 100 tokens; `{"token_count": {"last_total": n, "total": m}}` n.
//! - `<TURN 1>` is the template's turn, `<TURN n>` a turn `Un` answered by `An` under no new context.
//! - A `compacted` record with a `window_number` has its three window ids, too.
//!   `<an entry each>` is metadata for each kept item.
//! - `{"bare": payload}` is a line of that and nothing else.
//! - From 0.164 on the settings of the thread are recorded in front of the first `U1`.
//! - `recorded` and `resume` name the settings of then and now where they are not the same;
//!   `recorded_by` another version whose template it is.
//!
//! In texts `<W>/work` is the working directory, `<x*n>` are n letters, and `<SUMMARY_PREFIX>` is
//! the first line of a summary. `<PREFIX>` in an input stands for `<PERM>`, `<ENV>`, `U1` and `A1`.
//! `<PERM>` and `<ENV>` are the template's texts, with ` *` any text of the kind, and
//! `<ENV key,key=value,…>` one with these lines. The base instructions are left out of an input.

use engine::texts::permissions::SANDBOX_READ_ONLY;
use engine::texts::{COMPACTION_PROMPT, SUMMARY_PREFIX};
use serde_json::{Map, Value, json};

use crate::driver::engine::WORKSPACE;
use crate::driver::history_cases::for_each_version;

/// Cases in the file, versions counted one by one.
pub(super) const CASES: usize = 361;
const FILE: &str = include_str!("../../../../tests/data/rollout-cases.json");
/// Id that stands in records where any will do.
const WINDOW_ID: &str = "00000000-0000-7000-8000-000000000001";

/// What the thread was recorded or is resumed with.
#[derive(Debug, Clone, Default)]
pub(super) struct Setting {
    pub(super) sandbox: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) agents_md: Option<String>,
    pub(super) developer_instructions: Option<String>,
    /// Another model than the thread's.
    pub(super) other_model: bool,
}

/// One case of one version.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) version: String,
    /// Version whose records they are.
    pub(super) recorded_by: String,
    pub(super) recorded: Setting,
    pub(super) resumed: Setting,
    records: Vec<Value>,
    /// The input in short form, or a part of the error.
    pub(super) expected: Result<Vec<Value>, String>,
    /// Number of the window that the request names.
    pub(super) window: u64,
}

impl Case {
    /// The name that a list of differences has for it.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    /// The request that follows the resume is a compaction.
    pub(super) fn compacts(&self) -> bool {
        let last = self.expected.as_ref().ok().and_then(|input| input.last());
        last.is_some_and(|item| item["c"] == "<COMPACT_PROMPT>")
    }
}

/// All cases of the file.
pub(super) fn load() -> Vec<Case> {
    for_each_version(FILE, case)
}

/// The case of an entry for a version.
pub(super) fn case(entry: &Value, version: &str) -> Case {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let setting = |value: &Value| Setting {
        sandbox: text(&value["sandbox"]),
        cwd: text(&value["cwd"]),
        agents_md: text(&value["agents_md"]),
        developer_instructions: text(&value["developer_instructions"]),
        other_model: value["model"] == "other",
    };
    let expected = match text(&entry["error"]) {
        Some(error) => Err(error),
        None => Ok(input(&entry["wire_input"])),
    };
    Case {
        name: text(&entry["name"]).expect("a name"),
        version: version.to_owned(),
        recorded_by: text(&entry["recorded_by"]).unwrap_or_else(|| version.to_owned()),
        recorded: setting(&entry["recorded"]),
        resumed: setting(&entry["resume"]),
        records: entry["rollout_items"].as_array().expect("items").clone(),
        expected,
        window: entry["window"].as_u64().unwrap_or(0),
    }
}

fn message(role: &str, text: &str) -> Value {
    json!({"msg": role, "c": text})
}

/// An input with `<PREFIX>` written out.
pub(super) fn input(short: &Value) -> Vec<Value> {
    let mut input = Vec::new();
    for item in short.as_array().expect("an input") {
        if item == "<PREFIX>" {
            input.extend([message("developer", "<PERM>"), message("user", "<ENV>")]);
            input.extend([message("user", "U1"), message("assistant", "A1")]);
        } else {
            input.push(item.clone());
        }
    }
    input
}

/// What the engine recorded for the turn `U1`.
#[derive(Debug, Clone)]
pub(super) struct Template {
    meta: Value,
    permissions: String,
    environment: String,
    world_state: Value,
    turn_context: Value,
    settings: Option<Value>,
}

impl Template {
    /// Takes the records of a thread of one turn apart.
    pub(super) fn of(lines: &[Value]) -> Self {
        let payload = |kind: &str| {
            let line = lines.iter().find(|line| line["type"] == kind);
            line.expect("recorded")["payload"].clone()
        };
        let context = |opening: &str| {
            let mut parts = lines
                .iter()
                .flat_map(|line| line["payload"]["content"].as_array().into_iter().flatten())
                .filter_map(|part| part["text"].as_str());
            let found = parts.find(|text| text.starts_with(opening));
            found.expect("the context was told").to_owned()
        };
        let mut turn_context = payload("turn_context");
        if let Some(object) = turn_context.as_object_mut() {
            object.shift_remove("turn_id");
        }
        let settings = lines
            .iter()
            .find(|line| line["payload"]["type"] == "thread_settings_applied");
        Self {
            meta: payload("session_meta"),
            permissions: context("<permissions"),
            environment: context("<environment_context>"),
            world_state: payload("world_state")["state"].clone(),
            turn_context,
            settings: settings.map(|line| line["payload"].clone()),
        }
    }

    /// Id of the thread.
    pub(super) fn thread(&self) -> &str {
        self.meta["id"].as_str().expect("a thread")
    }

    /// The lines of a case.
    pub(super) fn lines(&self, case: &Case) -> Vec<Value> {
        let mut lines = Vec::new();
        for record in &case.records {
            match record.as_str() {
                Some("<TURN 1>") => {
                    let context = [
                        json!({"task_started": "turn1"}),
                        message("developer", "<PERM>"),
                        message("user", "<ENV>"),
                        json!({"world_state": {"full": true, "state": "<recorded>"}}),
                    ];
                    for record in context.iter().chain(&turn(1)) {
                        self.push(record, &mut lines);
                    }
                }
                Some(name) if name.starts_with("<TURN ") => {
                    let digits = name.trim_matches(|c: char| !c.is_ascii_digit());
                    let number = digits.parse().expect("a number");
                    self.push(
                        &json!({"task_started": format!("turn{number}")}),
                        &mut lines,
                    );
                    for record in &turn(number) {
                        self.push(record, &mut lines);
                    }
                }
                _ => self.push(record, &mut lines),
            }
        }
        lines
    }

    fn push(&self, record: &Value, lines: &mut Vec<Value>) {
        if let (true, Some(settings)) = (*record == message("user", "U1"), &self.settings) {
            lines.push(json!({"timestamp": "", "type": "event_msg", "payload": settings}));
        }
        let mut line = self.line(record);
        if line["bare"].is_object() {
            lines.push(line["bare"].take());
            return;
        }
        let kind = &line["payload"]["type"];
        if *kind == "task_complete" || *kind == "turn_aborted" {
            let started = lines.iter().rev();
            let turn = started
                .map(|line| &line["payload"])
                .find(|payload| payload["type"] == "task_started");
            line["payload"]["turn_id"] = turn.map_or(Value::Null, |turn| turn["turn_id"].clone());
        }
        line["timestamp"] = json!("2026-11-30T00:00:00.000Z");
        line["ordinal"] = json!(lines.len());
        lines.push(line);
    }

    fn line(&self, record: &Value) -> Value {
        let event = |payload: Value| json!({"type": "event_msg", "payload": payload});
        if let Some(name) = record.as_str() {
            return match name {
                "session_meta" => json!({"type": name, "payload": self.meta}),
                "token_count" => event(token_count(&json!(100), &json!(100))),
                "task_complete" | "turn_aborted" => event(json!({"type": name})),
                other => panic!("{other}"),
            };
        }
        let object = record.as_object().expect("a record");
        let (key, value) = object.iter().next().expect("a record");
        let payload = match key.as_str() {
            "bare" => return record.clone(),
            "session_meta" => changed(&self.meta, value),
            "turn_context" => changed(&self.turn_context, value),
            "turn_context_only" => {
                return json!({"type": "turn_context", "payload": value});
            }
            "world_state" => self.world_state(value),
            "compacted" => self.compacted(value),
            "inter_agent_communication" | "inter_agent_communication_metadata" => value.clone(),
            "task_started" => return event(json!({"type": key, "turn_id": value})),
            "thread_rolled_back" => {
                return event(json!({"type": key, "num_turns": value["num_turns"]}));
            }
            "token_count" => {
                let last = &value["last_total"];
                return event(token_count(last, value.get("total").unwrap_or(last)));
            }
            "event_msg" => return event(value.clone()),
            _ => {
                let mut line = json!({"type": "response_item", "payload": self.item(record)});
                if let Some(metadata) = object.get("_meta") {
                    line["metadata"] = metadata.clone();
                }
                return line;
            }
        };
        json!({"type": key, "payload": payload})
    }

    fn world_state(&self, short: &Value) -> Value {
        let mut payload = short.as_object().expect("a world state").clone();
        let patch = payload.shift_remove("merge").unwrap_or(json!({}));
        if let Some(state) = payload.get_mut("state") {
            *state = if *state == "<recorded>" {
                changed(&self.world_state, &patch)
            } else {
                self.texts(state)
            };
        }
        Value::Object(payload)
    }

    fn compacted(&self, short: &Value) -> Value {
        let mut payload = short.as_object().expect("a checkpoint").clone();
        if payload.contains_key("window_number") {
            for key in ["first_window_id", "previous_window_id", "window_id"] {
                payload.insert(key.to_owned(), json!(WINDOW_ID));
            }
        }
        if let Some(Value::Array(history)) = payload.get_mut("replacement_history") {
            for item in history.iter_mut() {
                *item = self.item(item);
            }
            let entries = vec![json!({"client_authored": false}); history.len()];
            if let Some(metadata) = payload.get_mut("replacement_history_metadata")
                && *metadata == "<an entry each>"
            {
                *metadata = json!(entries);
            }
        }
        let message = payload.get_mut("message");
        if let Some(message) = message {
            *message = self.texts(message);
        }
        Value::Object(payload)
    }

    fn item(&self, short: &Value) -> Value {
        let mut item = short.as_object().expect("an item").clone();
        item.shift_remove("_meta");
        let Some(role) = item.shift_remove("msg") else {
            return self.texts(short);
        };
        let kind = if role == "assistant" {
            "output_text"
        } else {
            "input_text"
        };
        let content = match item.shift_remove("c").expect("content") {
            Value::Array(texts) => texts,
            text => vec![text],
        };
        let part = |text: &Value| json!({"type": kind, "text": self.texts(text)});
        let content: Vec<Value> = content.iter().map(part).collect();
        let mut whole = Map::new();
        whole.insert("type".to_owned(), json!("message"));
        whole.insert("role".to_owned(), role);
        whole.insert("content".to_owned(), json!(content));
        whole.extend(item);
        Value::Object(whole)
    }

    /// The value with placeholders in its texts written out.
    fn texts(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => json!(self.text(text)),
            Value::Array(list) => list.iter().map(|item| self.texts(item)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (key.clone(), self.texts(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn text(&self, short: &str) -> String {
        if let Some(date) = short
            .strip_prefix("<ENV cwd,")
            .and_then(|keys| keys.split("current_date=").nth(1)?.split(',').next())
        {
            let line = |of: &str| format!("<current_date>{of}</current_date>");
            return self.environment.replace(&line(super::DATE), &line(date));
        }
        match short {
            "<PERM>" | "<PERM *>" => self.permissions.clone(),
            "<ENV>" | "<ENV *>" => self.environment.clone(),
            _ => long(short).replace("<W>/work", WORKSPACE),
        }
    }

    /// Whether an input item is the one that the case shows in short form.
    pub(super) fn shows(&self, short: &Value, item: &Value) -> bool {
        let Some(role) = short.get("msg") else {
            return self.texts(short) == *item;
        };
        let expected = match &short["c"] {
            Value::Array(texts) => texts.clone(),
            text => vec![text.clone()],
        };
        let Some(parts) = item["content"].as_array() else {
            return false;
        };
        item["role"] == *role
            && expected.len() == parts.len()
            && expected.iter().zip(parts).all(|(short, part)| {
                let (short, text) = (short.as_str(), part["text"].as_str());
                matches!((short, text), (Some(short), Some(text)) if self.means(short, text))
            })
    }

    fn means(&self, short: &str, text: &str) -> bool {
        match short {
            "<PERM *>" => text.starts_with("<permissions"),
            "<PERM sandbox=read-only>" => text.contains(SANDBOX_READ_ONLY),
            "<ENV *>" => text.starts_with("<environment_context>"),
            "<MODEL_SWITCH>" => text.starts_with("<model_switch>"),
            "<COMPACT_PROMPT>" => text == COMPACTION_PROMPT,
            _ if short.starts_with("<ENV ") => short == environment(text),
            _ => text == self.text(short),
        }
    }
}

/// The end of a turn behind its start and context.
fn turn(number: usize) -> [Value; 5] {
    [
        json!({"turn_context": {"turn_id": format!("turn{number}")}}),
        message("user", &format!("U{number}")),
        message("assistant", &format!("A{number}")),
        json!("token_count"),
        json!("task_complete"),
    ]
}

fn token_count(last: &Value, total: &Value) -> Value {
    let usage = |tokens: &Value| json!({"input_tokens": tokens, "total_tokens": tokens});
    let info = json!({"last_token_usage": usage(last), "total_token_usage": usage(total)});
    let info = if last.is_null() { Value::Null } else { info };
    json!({"type": "token_count", "info": info})
}

/// A value with a merge patch applied; the working directory is written out.
fn changed(value: &Value, patch: &Value) -> Value {
    match (value, patch) {
        (Value::Object(map), Value::Object(patch)) => {
            let mut map = map.clone();
            for (key, patch) in patch {
                let before = map.get(key).cloned().unwrap_or(json!({}));
                if patch.is_null() {
                    map.shift_remove(key);
                } else {
                    map.insert(key.clone(), changed(&before, patch));
                }
            }
            Value::Object(map)
        }
        (_, Value::String(text)) => json!(text.replace("<W>/work", WORKSPACE)),
        _ => patch.clone(),
    }
}

pub(super) fn long(short: &str) -> String {
    if let Some(rest) = short.strip_prefix("<SUMMARY_PREFIX>") {
        return format!("{SUMMARY_PREFIX}\n{rest}");
    }
    let mut parts = short.split("<x*");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (count, rest) = part.split_once('>').expect("a number of letters");
        text.push_str(&"x".repeat(count.parse().expect("a number")));
        text.push_str(rest);
    }
    text
}

/// An environment context as `<ENV key,key=value,…>`.
fn environment(text: &str) -> String {
    let mut keys = Vec::new();
    for line in text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('<'))
    {
        let (key, rest) = line.split_once('>').unwrap_or_default();
        let value = rest.split('<').next().unwrap_or_default();
        match key {
            "cwd" => keys.push(key.to_owned()),
            "shell" | "current_date" | "timezone" => keys.push(format!("{key}={value}")),
            "filesystem" => {
                let managed = line.contains("permission_profile type=\"managed\"");
                let kind = if managed { "managed" } else { "disabled" };
                keys.push(format!("{key} fs={kind}"));
            }
            _ => {}
        }
    }
    format!("<ENV {}>", keys.join(","))
}
