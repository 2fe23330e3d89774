//! From a prompt to the wire: body, headers and turn metadata.

use std::fmt::Write as _;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::items::Item;
use crate::permissions;
use crate::ports::Request;
use crate::profile::Profile;
use crate::rollout::ForkedFrom;
use crate::settings::{Implementation, Settings};
use crate::tools::tools;

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// An ordinary sampling.
    Turn,
    /// A request that generates nothing and warms the connection of a thread.
    Prewarm,
    /// A compaction.
    Compaction(CompactionMetadata),
}

/// `compaction` of the turn metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionMetadata {
    /// `auto` or `manual`.
    pub trigger: &'static str,
    /// `context_limit`, `user_requested`, …
    pub reason: &'static str,
    /// `pre_turn`, `mid_turn`, `standalone_turn`, `post_turn`.
    pub phase: &'static str,
    /// Who makes it.
    pub implementation: Implementation,
}

/// Ids and numbers that a request carries beside the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses<'a> {
    /// Session id: that of the thread, unless its metadata say another one.
    pub session: &'a str,
    /// Thread id.
    pub thread: &'a str,
    /// Turn id.
    pub turn: &'a str,
    /// Number of the window, from 0.
    pub window_number: u64,
    /// Id of the window.
    pub window_id: &'a str,
    /// How the thread's history began: `new`, `cold_resume`, `supplied_history`, `warm_fork`.
    pub history_initialization: &'a str,
    /// The thread that this one was forked from.
    pub forked_from: Option<&'a ForkedFrom>,
    /// Milliseconds since the epoch.
    pub turn_started_ms: u64,
    /// Item id of the base instructions.
    pub base_id: &'a str,
    /// Texts of the client for the turn metadata.
    pub client_metadata: &'a [(String, String)],
}

/// Builds one request.
pub fn build(
    settings: &Settings,
    profile: &Profile,
    at: &Addresses<'_>,
    purpose: &Purpose,
    prompt: &[Item],
    output_schema: Option<&Value>,
) -> Request {
    let metadata = ascii_json(&turn_metadata(settings, profile, at, purpose));
    let body = body(
        settings,
        profile,
        at,
        purpose,
        prompt,
        &metadata,
        output_schema,
    );
    let mut headers = headers(settings, profile, at, &metadata);
    if is_endpoint(purpose) {
        return to_endpoint(settings, &headers, body);
    }
    if profile.remote_v1 && !settings.remote_compaction_v2 {
        headers.retain(|(name, _)| name != BETA_FEATURES);
    }
    Request {
        path: "/responses",
        headers,
        body: Value::Object(body).to_string().into_bytes(),
    }
}

/// Names the features of the client.
const BETA_FEATURES: &str = "x-codex-beta-features";

fn is_endpoint(purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Compaction(due) if due.implementation == Implementation::RemoteV1)
}

/// The same request for the endpoint that compacts: fewer keys and headers (compaction.md §6.6).
fn to_endpoint(
    settings: &Settings,
    headers: &[(String, String)],
    mut body: Map<String, Value>,
) -> Request {
    const KEYS: [&str; 7] = [
        "model",
        "input",
        "instructions",
        "tools",
        "parallel_tool_calls",
        "prompt_cache_key",
        "text",
    ];
    const HEADERS: [&str; 9] = [
        "x-codex-window-id",
        "x-codex-turn-metadata",
        "session-id",
        "thread-id",
        "content-type",
        "accept",
        "originator",
        "user-agent",
        "accept-encoding",
    ];
    let body: Map<String, Value> = KEYS
        .iter()
        .filter_map(|key| body.remove_entry(*key))
        .collect();
    let installation = (
        "x-codex-installation-id".to_owned(),
        settings.installation_id.clone(),
    );
    let kept = HEADERS.iter().filter_map(|name| {
        let (_, value) = headers.iter().find(|(known, _)| known == name)?;
        let value = if *name == "accept" { "*/*" } else { value };
        Some(((*name).to_owned(), value.to_owned()))
    });
    Request {
        path: "/responses/compact",
        headers: std::iter::once(installation).chain(kept).collect(),
        body: Value::Object(body).to_string().into_bytes(),
    }
}

fn window_text(at: &Addresses<'_>) -> String {
    format!("{}:{}", at.thread, at.window_number)
}

fn headers(
    settings: &Settings,
    profile: &Profile,
    at: &Addresses<'_>,
    metadata: &str,
) -> Vec<(String, String)> {
    let agent = format!(
        "{name}/{release} (Debian 12.0.0; x86_64) dumb ({name}; {version})",
        name = settings.client_name,
        release = profile.release,
        version = settings.client_version
    );
    let mut headers = vec![
        (BETA_FEATURES, "remote_compaction_v2".to_owned()),
        ("x-codex-window-id", window_text(at)),
    ];
    // What no header may hold is left out of all of them (request.client_metadata.header).
    if !metadata.contains(DELETE) {
        headers.push(("x-codex-turn-metadata", metadata.to_owned()));
    }
    if settings.model.sampling.lite {
        headers.push(("x-openai-internal-codex-responses-lite", "true".to_owned()));
    }
    headers.extend([
        ("x-client-request-id", at.thread.to_owned()),
        ("session-id", at.session.to_owned()),
        ("thread-id", at.thread.to_owned()),
        ("accept", "text/event-stream".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("originator", settings.client_name.clone()),
        ("user-agent", agent),
    ]);
    if profile.accept_encoding {
        headers.push(("accept-encoding", "zstd,gzip".to_owned()));
    }
    headers
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The one control character that JSON does not escape.
const DELETE: char = '\u{7f}';

/// JSON in which only ASCII stands as written (request.client_metadata.ascii).
pub fn ascii_json(value: &Value) -> String {
    let mut out = String::new();
    for sign in value.to_string().chars() {
        if sign.is_ascii() {
            out.push(sign);
            continue;
        }
        for unit in sign.encode_utf16(&mut [0; 2]) {
            // Writing to a text cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

fn turn_metadata(
    settings: &Settings,
    profile: &Profile,
    at: &Addresses<'_>,
    purpose: &Purpose,
) -> Value {
    let in_turn = *purpose != Purpose::Prewarm;
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    set("installation_id", json!(settings.installation_id));
    set("session_id", json!(at.session));
    set("thread_id", json!(at.thread));
    if profile.wide_metadata {
        set("agent_name", json!("/root"));
    }
    set("turn_id", json!(at.turn));
    set("window_id", json!(window_text(at)));
    if profile.wide_metadata {
        set("window_number", json!(at.window_number));
        set("context_window_id", json!(at.window_id));
    }
    let kind = match purpose {
        Purpose::Turn => "turn",
        Purpose::Prewarm => "prewarm",
        Purpose::Compaction(_) => "compaction",
    };
    set("request_kind", json!(kind));
    if profile.wide_metadata {
        set("history_initialization", json!(at.history_initialization));
    }
    if let Some(from) = at.forked_from {
        set("forked_from_thread_id", json!(from.thread));
        if let Some(ordinal) = from.ordinal {
            set("forked_from_ordinal_exclusive", json!(ordinal));
        }
    }
    if profile.wide_metadata && in_turn {
        set("root_turn_id", json!(at.turn));
    }
    set("sandbox", json!(permissions::sandbox_kind(settings)));
    if profile.wide_metadata {
        set("sandbox_mode", json!(settings.sandbox));
        set("auto_review_enabled", json!(false));
        set("node_repl_auto_review_required", json!(false));
        set("node_repl_disabled", json!(false));
    }
    if in_turn {
        set("turn_started_at_unix_ms", json!(at.turn_started_ms));
    }
    if profile.wide_metadata {
        set("analytics_enabled", json!(false));
    }
    match purpose {
        Purpose::Compaction(compaction) => set(
            "compaction",
            json!({
                "trigger": compaction.trigger,
                "reason": compaction.reason,
                "implementation": match compaction.implementation {
                    Implementation::Local => "responses",
                    Implementation::RemoteV1 => "responses_compact",
                    Implementation::RemoteV2 => "responses_compaction_v2",
                    // No request is made for a new window.
                    Implementation::NewWindow => "new_window",
                },
                "phase": compaction.phase,
                "strategy": "memento",
            }),
        ),
        Purpose::Turn | Purpose::Prewarm => {}
    }
    // What the client and the model add is sorted by name.
    let mut added: BTreeMap<&str, &str> = BTreeMap::new();
    if matches!(purpose, Purpose::Turn | Purpose::Prewarm) && profile.wide_metadata {
        added.insert("model", &settings.model.slug);
        if let Some(effort) = settings.effective_effort() {
            added.insert("reasoning_effort", effort);
        }
    }
    let own = |key: &str| {
        let wide = ["model", "reasoning_effort"].contains(&key) && profile.wide_metadata;
        wide || key == "compaction" || map.contains_key(key)
    };
    let remarks = at.client_metadata.iter();
    let remarks = remarks.map(|(key, text)| (key.as_str(), text.as_str()));
    added.extend(remarks.filter(|(key, _)| !own(key)));
    for (key, text) in added {
        map.insert(key.to_owned(), json!(text));
    }
    Value::Object(map)
}

fn body(
    settings: &Settings,
    profile: &Profile,
    at: &Addresses<'_>,
    purpose: &Purpose,
    prompt: &[Item],
    metadata: &str,
    output_schema: Option<&Value>,
) -> Map<String, Value> {
    // A remote compaction is the turn's request but for its input.
    let turn = match purpose {
        Purpose::Turn | Purpose::Prewarm => true,
        Purpose::Compaction(due) => due.implementation != Implementation::Local,
    };
    let lite = settings.model.sampling.lite;
    let tools = if turn {
        tools(settings, profile)
    } else {
        Vec::new()
    };
    let asks = if lite && profile.always_parallel {
        false
    } else {
        profile.always_parallel || settings.model.parallel_tool_calls
    };
    let (reasoning, include) = reasoning(settings, profile);
    let mut map = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            map.insert(key.to_owned(), value);
        }
    };
    let new = profile.base_is_item;
    let tier = settings
        .effective_service_tier(profile)
        .map(|tier| json!(tier));
    let base = settings.base_text();
    set("model", Some(json!(settings.model.slug)));
    set("stream", new.then(|| json!(true)));
    set("service_tier", tier.clone().filter(|_| new));
    let instructions = (!new && !lite && !base.is_empty()).then(|| json!(base));
    set("instructions", instructions);
    // From 0.164 on these stand in the history of a lite thread (`context::lite_items`).
    let listed =
        (lite && !crate::context::lite_in_history(settings, profile)).then_some(tools.as_slice());
    let input = input(settings, profile, at, turn, prompt, listed);
    set("input", Some(Value::Array(input)));
    set("tools", (!lite).then_some(Value::Array(tools)));
    set("tool_choice", Some(json!("auto")));
    set("parallel_tool_calls", Some(json!(turn && asks)));
    set("reasoning", Some(reasoning));
    set("store", Some(json!(stores(settings, profile))));
    set("stream", (!new).then(|| json!(true)));
    set("include", Some(include));
    set("service_tier", tier.filter(|_| !new));
    set("prompt_cache_key", Some(json!(at.thread)));
    set("text", text(settings, output_schema.filter(|_| turn)));
    set(
        "client_metadata",
        Some(client_metadata(settings, profile, at, purpose, metadata)),
    );
    map
}

/// `text`: verbosity and the format of the answer.
fn text(settings: &Settings, output_schema: Option<&Value>) -> Option<Value> {
    let mut text = Map::new();
    if let Some(verbosity) = settings.effective_verbosity() {
        text.insert("verbosity".to_owned(), json!(verbosity));
    }
    if let Some(schema) = output_schema {
        let format = json!({"type": "json_schema", "strict": true, "schema": schema,
            "name": "codex_output_schema"});
        text.insert("format".to_owned(), format);
    }
    (!text.is_empty()).then_some(Value::Object(text))
}

/// The input: what stands before the history, and the history as this provider gets it.
fn input(
    settings: &Settings,
    profile: &Profile,
    at: &Addresses<'_>,
    turn: bool,
    prompt: &[Item],
    listed: Option<&[Value]>,
) -> Vec<Value> {
    let mut input = Vec::with_capacity(prompt.len() + 2);
    if let Some(tools) = listed {
        input.push(json!({"type": "additional_tools", "role": "developer", "tools": tools}));
    }
    // A lite thread has its base instructions in the history. Without tools a turn request has
    // them once more (upstream-findings 20).
    let listless = prompt.first().map(Item::kind) != Some("additional_tools");
    let in_history = crate::context::lite_in_history(settings, profile) && !(turn && listless);
    let first = (profile.base_is_item && !in_history) || listed.is_some();
    if first && !settings.base_text().is_empty() {
        let content = vec![json!({"type": "input_text", "text": settings.base_text()})];
        let id = Some(at.base_id.to_owned());
        let mut base = crate::items::message("developer", id, content);
        if profile.wide_metadata {
            let kinds = json!(["model.base_instructions"]);
            base.passthrough
                .insert("content_item_kinds".to_owned(), kinds);
        }
        input.push(on_wire(&base, settings, profile));
    }
    let history = prompt.iter();
    input.extend(history.map(|item| on_wire(item, settings, profile)));
    input
}

/// Whether the provider keeps what it is sent: an Azure one does on 0.144 (compaction.md §6.1).
fn stores(settings: &Settings, profile: &Profile) -> bool {
    profile.stores_for_azure && settings.is_azure()
}

/// An item as this provider gets it: one named OpenAI also gets what the client knows of it.
fn on_wire(item: &Item, settings: &Settings, profile: &Profile) -> Value {
    let mut value = item.wire(profile);
    if let Some(id) = item.payload.get("id").filter(|_| stores(settings, profile))
        && let Some(map) = value.as_object_mut()
    {
        map.shift_insert(1, "id".to_owned(), id.clone());
    }
    if settings.sends_passthrough()
        && !item.passthrough.is_empty()
        && let Some(map) = value.as_object_mut()
    {
        let mut known = item.passthrough.clone();
        known.shift_remove("content_item_metadata");
        map.insert(
            "internal_chat_message_metadata_passthrough".to_owned(),
            Value::Object(known),
        );
    }
    value
}

fn reasoning(settings: &Settings, profile: &Profile) -> (Value, Value) {
    if !profile.reasoning_always && !settings.model.reasoning_summaries {
        return (Value::Null, json!([]));
    }
    let mut reasoning = Map::new();
    let mut set = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            reasoning.insert(key.to_owned(), json!(value));
        }
    };
    set("effort", settings.effective_effort());
    set("summary", settings.effective_summary());
    set(
        "context",
        settings.model.sampling.lite.then_some("all_turns"),
    );
    (
        Value::Object(reasoning),
        json!(["reasoning.encrypted_content"]),
    )
}

/// Keys in a fixed order; the binary's order is random and masked.
fn client_metadata(
    settings: &Settings,
    profile: &Profile,
    at: &Addresses<'_>,
    purpose: &Purpose,
    metadata: &str,
) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: &str| {
        map.insert(key.to_owned(), json!(value));
    };
    if profile.wide_metadata && *purpose != Purpose::Prewarm {
        set("root_turn_id", at.turn);
    }
    set("session_id", at.session);
    set("thread_id", at.thread);
    set("turn_id", at.turn);
    set("x-codex-installation-id", &settings.installation_id);
    set("x-codex-turn-metadata", metadata);
    set("x-codex-window-id", &window_text(at));
    Value::Object(map)
}
