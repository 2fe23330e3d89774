//! From a prompt to the wire: body, headers and turn metadata.

use serde_json::{Map, Value, json};

use crate::items::Item;
use crate::ports::Request;
use crate::profile::Profile;
use crate::settings::{Settings, Tool};
use crate::texts;

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// An ordinary sampling.
    Turn,
    /// A request that generates nothing and warms the connection of a thread.
    Prewarm,
    /// A local compaction.
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
}

/// Ids and numbers that a request carries beside the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses<'a> {
    /// Thread id.
    pub thread: &'a str,
    /// Turn id.
    pub turn: &'a str,
    /// Number of the window, from 0.
    pub window_number: u64,
    /// Id of the window.
    pub window_id: &'a str,
    /// How the thread's history began: `new`, `cold_resume`, `supplied_history`.
    pub history_initialization: &'a str,
    /// Milliseconds since the epoch.
    pub turn_started_ms: u64,
    /// Item id of the base instructions.
    pub base_id: &'a str,
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
    let metadata = turn_metadata(settings, profile, at, purpose).to_string();
    let body = body(
        settings,
        profile,
        at,
        purpose,
        prompt,
        &metadata,
        output_schema,
    );
    Request {
        path: "/responses",
        headers: headers(settings, profile, at, &metadata),
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
        ("x-codex-beta-features", "remote_compaction_v2".to_owned()),
        ("x-codex-window-id", window_text(at)),
        ("x-codex-turn-metadata", metadata.to_owned()),
        ("x-client-request-id", at.thread.to_owned()),
        ("session-id", at.thread.to_owned()),
        ("thread-id", at.thread.to_owned()),
        ("accept", "text/event-stream".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("originator", settings.client_name.clone()),
        ("user-agent", agent),
    ];
    if profile.accept_encoding {
        headers.push(("accept-encoding", "zstd,gzip".to_owned()));
    }
    headers
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
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
    set("session_id", json!(at.thread));
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
        if in_turn {
            set("root_turn_id", json!(at.turn));
        }
    }
    set(
        "sandbox",
        json!(if settings.sandbox == "read-only" {
            "seccomp"
        } else {
            "none"
        }),
    );
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
                "implementation": "responses",
                "phase": compaction.phase,
                "strategy": "memento",
            }),
        ),
        Purpose::Turn | Purpose::Prewarm if profile.wide_metadata => {
            set("model", json!(settings.model.slug));
            let effort = settings.effort.as_ref();
            if let Some(effort) = effort.or(settings.model.default_effort.as_ref()) {
                set("reasoning_effort", json!(effort));
            }
        }
        Purpose::Turn | Purpose::Prewarm => {}
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
    let turn = matches!(purpose, Purpose::Turn | Purpose::Prewarm);
    let tools = if turn {
        tools(settings, profile)
    } else {
        Vec::new()
    };
    let parallel = turn && (profile.always_parallel || settings.model.parallel_tool_calls);
    let (reasoning, include) = reasoning(settings, profile);
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    set("model", json!(settings.model.slug));
    if profile.base_is_item {
        set("stream", json!(true));
    } else if !settings.base_text().is_empty() {
        set("instructions", json!(settings.base_text()));
    }
    set("input", Value::Array(input(settings, profile, at, prompt)));
    set("tools", Value::Array(tools));
    set("tool_choice", json!("auto"));
    set("parallel_tool_calls", json!(parallel));
    set("reasoning", reasoning);
    set("store", json!(false));
    if !profile.base_is_item {
        set("stream", json!(true));
    }
    set("include", include);
    set("prompt_cache_key", json!(at.thread));
    if let Some(schema) = output_schema.filter(|_| turn) {
        set(
            "text",
            json!({"format": {"type": "json_schema", "strict": true, "schema": schema,
                "name": "codex_output_schema"}}),
        );
    }
    set(
        "client_metadata",
        client_metadata(settings, profile, at, purpose, metadata),
    );
    map
}

fn input(
    settings: &Settings,
    profile: &Profile,
    at: &Addresses<'_>,
    prompt: &[Item],
) -> Vec<Value> {
    let mut input = Vec::with_capacity(prompt.len() + 1);
    if profile.base_is_item && !settings.base_text().is_empty() {
        let content = vec![json!({"type": "input_text", "text": settings.base_text()})];
        let base = crate::items::message("developer", Some(at.base_id.to_owned()), content);
        input.push(base.wire(profile));
    }
    input.extend(prompt.iter().map(|item| item.wire(profile)));
    input
}

fn reasoning(settings: &Settings, profile: &Profile) -> (Value, Value) {
    if !profile.reasoning_always && !settings.model.reasoning_summaries {
        return (Value::Null, json!([]));
    }
    let mut reasoning = Map::new();
    if let Some(effort) = settings
        .effort
        .as_ref()
        .or(settings.model.default_effort.as_ref())
    {
        reasoning.insert("effort".to_owned(), json!(effort));
    }
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
    set("session_id", at.thread);
    set("thread_id", at.thread);
    set("turn_id", at.turn);
    set("x-codex-installation-id", &settings.installation_id);
    set("x-codex-turn-metadata", metadata);
    set("x-codex-window-id", &window_text(at));
    Value::Object(map)
}

/// Tools of a turn request: built-in ones, then the client's.
fn tools(settings: &Settings, profile: &Profile) -> Vec<Value> {
    let mut tools = Vec::new();
    if profile.built_in_tools {
        tools.push(update_plan());
        tools.push(view_image());
    }
    let mut namespaces: Vec<(&str, Vec<Value>)> = Vec::new();
    for tool in settings.tools.iter().filter(|tool| !tool.defer_loading) {
        match &tool.namespace {
            None => tools.push(function(tool)),
            Some(name) => match namespaces.iter_mut().find(|(known, _)| known == name) {
                Some((_, members)) => members.push(function(tool)),
                None => namespaces.push((name, vec![function(tool)])),
            },
        }
    }
    for (name, members) in namespaces {
        tools.push(
            json!({"type": "namespace", "name": name, "description": name,
            "tools": members}),
        );
    }
    tools
}

fn function(tool: &Tool) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "strict": false,
        "parameters": schema(&tool.parameters),
    })
}

/// A JSON Schema with its keys in the binary's order and its properties sorted by name.
fn schema(value: &Value) -> Value {
    const ORDER: [&str; 6] = [
        "type",
        "description",
        "enum",
        "items",
        "properties",
        "required",
    ];
    let Some(map) = value.as_object() else {
        return value.clone();
    };
    let mut out = Map::new();
    let rest = map
        .keys()
        .map(String::as_str)
        .filter(|key| !ORDER.contains(key));
    for key in ORDER.into_iter().chain(rest) {
        let Some(child) = map.get(key) else { continue };
        let child = match (key, child) {
            ("properties", Value::Object(properties)) => {
                let mut names: Vec<&String> = properties.keys().collect();
                names.sort();
                names
                    .into_iter()
                    .map(|name| (name.clone(), schema(&properties[name])))
                    .collect()
            }
            ("items", items) => schema(items),
            (_, other) => other.clone(),
        };
        out.insert(key.to_owned(), child);
    }
    if out.get("type").is_some_and(|kind| kind == "array") && !out.contains_key("items") {
        out.insert("items".to_owned(), json!({"type": "string"}));
    }
    Value::Object(out)
}

/// Shape as seen on 0.144.6, wording ours at equal length where it is longer than a line.
fn update_plan() -> Value {
    json!({
        "type": "function",
        "name": "update_plan",
        "description": texts::UPDATE_PLAN,
        "strict": false,
        "parameters": {
            "type": "object",
            "properties": {
                "explanation": {
                    "type": "string",
                    "description": "Optional explanation for this plan update."
                },
                "plan": {
                    "type": "array",
                    "description": "The list of steps",
                    "items": {
                        "type": "object",
                        "properties": {
                            "status": {
                                "type": "string",
                                "description": "Step status.",
                                "enum": ["pending", "in_progress", "completed"]
                            },
                            "step": {"type": "string", "description": "Task step text."}
                        },
                        "required": ["step", "status"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["plan"],
            "additionalProperties": false
        }
    })
}

fn view_image() -> Value {
    json!({
        "type": "function",
        "name": "view_image",
        "description": texts::VIEW_IMAGE,
        "strict": false,
        "parameters": {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "Local filesystem path to an image file."
                }
            },
            "required": ["path"],
            "additionalProperties": false
        }
    })
}
