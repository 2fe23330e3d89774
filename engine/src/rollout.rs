//! Rollout records: the payload of every kind the engine writes.
//!
//! Field order is that of the binary (appserver.md §8). How a record gets into the file is in
//! `recorder.rs`.

use serde_json::{Map, Value, json};

use crate::error::Failure;
use crate::items::Meta;
use crate::permissions;
use crate::profile::Profile;
use crate::settings::{Settings, Tool};
use crate::tokens::Usage;

/// RFC 3339 with milliseconds, UTC.
pub fn timestamp(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil(days as i64);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Days since the epoch as a civil date (proleptic Gregorian).
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (
        yoe + era * 400 + i64::from(month <= 2),
        month,
        doy - (153 * mp + 2) / 5 + 1,
    )
}

/// `metadata` of an item record, and of an entry in `replacement_history_metadata`.
pub fn item_metadata(meta: &Meta, profile: &Profile) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    if profile.sequences {
        set("history_sequence", json!(meta.history_sequence));
        set("sampled_through_sequence", json!(meta.sampled_through));
    }
    if let Some(source) = &meta.retained {
        set(
            "retained_source",
            json!({
                "id": {
                    "message_id": source.message_id,
                    "turn_id": source.turn_id,
                    "role": source.role
                },
                "revision": source.revision,
                "complete": source.complete,
            }),
        );
    }
    if meta.context_output {
        set("additional_context_tool_output", json!(true));
    }
    set("client_authored", json!(false));
    if meta.compaction_output {
        set("compaction_output", json!(true));
    }
    if let Some(order) = meta.user_input_order {
        set("user_input_order", json!(order));
    }
    if let Some(tokens) = meta.fallback_token_limit {
        set("fallback_token_limit_override", json!(tokens));
    }
    if meta.opaque && profile.sequences {
        set("compaction_without_file_error_sources", json!(true));
    }
    if let Some(hash) = &meta.model_hash {
        set("compaction_model_hash", json!(hash));
    }
    if meta.mcp_attribution {
        let status = if meta.supplied_thread {
            json!({"status": "attribution_error", "error_reason": "history_missing_checkpoint"})
        } else {
            json!({"status": "none"})
        };
        set("mcp_attribution", status);
    }
    if profile.sequences {
        let state = if meta.supplied_thread {
            "search_mcp"
        } else {
            "unused"
        };
        set("model_search_state", json!(state));
    }
    Value::Object(map)
}

/// What a thread stands on that did not begin by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The thread that it was forked from.
    pub forked_from: Option<ForkedFrom>,
    /// The records of another file that its file stands on.
    pub base: Option<HistoryBase>,
}

/// The thread that a fork was taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkedFrom {
    /// Its id.
    pub thread: String,
    /// The first ordinal that the fork does not have; `None` where records were copied.
    pub ordinal: Option<u64>,
}

/// Records before an ordinal of a thread's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryBase {
    /// Id of the file: that of its thread, or its own where a revert began it.
    pub id: String,
    /// The first ordinal that is not part of it.
    pub end_ordinal: u64,
    /// Bytes of the file before that record.
    pub end_bytes: u64,
}

/// `session_meta`
pub fn session_meta(
    settings: &Settings,
    profile: &Profile,
    thread: &str,
    window: &str,
    now: &str,
    paginated: bool,
    origin: &Origin,
) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    if profile.sequences {
        set("account_scoped", json!(true));
    }
    set("session_id", json!(thread));
    set("id", json!(thread));
    if let Some(from) = &origin.forked_from {
        set("forked_from_id", json!(from.thread));
        if let Some(ordinal) = from.ordinal {
            set("forked_from_ordinal_exclusive", json!(ordinal));
        }
    }
    set("timestamp", json!(now));
    set("cwd", json!(settings.cwd));
    if profile.wide_metadata {
        set("runtime_workspace_roots", json!([settings.cwd]));
    }
    set("originator", json!(settings.client_name));
    set("cli_version", json!(profile.release));
    set("source", json!("vscode"));
    set("model_provider", json!(settings.provider_id));
    set("base_instructions", base_instructions(settings, profile));
    if !settings.tools.is_empty() {
        set(
            "dynamic_tools",
            Value::Array(dynamic_tools(&settings.tools)),
        );
    }
    set(
        "history_mode",
        json!(if paginated { "paginated" } else { "legacy" }),
    );
    if let Some(base) = &origin.base {
        set(
            "history_base",
            json!({
                "thread_id": base.id,
                "end_ordinal_exclusive": base.end_ordinal,
                "end_byte_offset": base.end_bytes,
            }),
        );
    }
    if profile.wide_metadata || origin.forked_from.is_some() {
        set("multi_agent_version", json!("disabled"));
    }
    set("context_window", json!({"window_id": window}));
    Value::Object(map)
}

fn base_instructions(settings: &Settings, profile: &Profile) -> Value {
    let text = settings.base_text();
    if !profile.wide_metadata {
        return json!({"text": text});
    }
    let provenance = if settings.base_instructions.is_some() {
        json!({"type": "custom"})
    } else {
        json!({"type": "model", "model": settings.model.slug})
    };
    json!({"text": text, "provenance": provenance})
}

/// The client's tools as a record holds them: a namespace stands where its first tool stood.
pub fn dynamic_tools(tools: &[Tool]) -> Vec<Value> {
    let mut specs: Vec<Value> = Vec::new();
    for tool in tools {
        match &tool.namespace {
            None => specs.push(dynamic_tool(tool)),
            Some(name) => {
                crate::tools::into_namespace(&mut specs, name, name, dynamic_tool(tool));
            }
        }
    }
    specs
}

/// A client tool as the client declared it.
fn dynamic_tool(tool: &Tool) -> Value {
    let mut map = Map::new();
    map.insert("type".to_owned(), json!("function"));
    map.insert("name".to_owned(), json!(tool.name));
    map.insert("description".to_owned(), json!(tool.description));
    map.insert("inputSchema".to_owned(), tool.parameters.clone());
    if tool.defer_loading {
        map.insert("deferLoading".to_owned(), json!(true));
    }
    Value::Object(map)
}

/// `turn_attribution` of 0.164 and later.
pub fn turn_attribution(turn: &str) -> Value {
    json!({
        "turn_id": turn,
        "turn_trigger": null,
        "parent_turn_id": null,
        "initiating_agent_path": null,
        "root_turn_id": turn,
    })
}

/// `task_started`
pub fn task_started(
    settings: &Settings,
    profile: &Profile,
    turn: &str,
    at_s: u64,
    by_user: bool,
) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    set("type", json!("task_started"));
    if profile.wide_metadata && by_user {
        set("turn_attribution", turn_attribution(turn));
    }
    set("turn_id", json!(turn));
    if profile.wide_metadata {
        set("root_turn_id", json!(turn));
    }
    set("started_at", json!(at_s));
    set("model_context_window", json!(settings.effective_window()));
    set("collaboration_mode_kind", json!("default"));
    Value::Object(map)
}

/// When a turn ran, in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnTimes {
    /// Start.
    pub started_ms: u64,
    /// End.
    pub ended_ms: u64,
    /// First output of a model, if there was one.
    pub first_token_ms: Option<u64>,
}

/// `task_complete`
pub fn task_complete(
    profile: &Profile,
    turn: &str,
    last_agent_message: Option<&str>,
    failure: Option<&Failure>,
    times: TurnTimes,
) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    set("type", json!("task_complete"));
    if profile.wide_metadata {
        set("root_turn_id", json!(turn));
    }
    set("turn_id", json!(turn));
    set("last_agent_message", json!(last_agent_message));
    if let Some(failure) = failure.filter(|_| profile.error_in_task_complete) {
        set(
            "error",
            json!({"message": failure.message, "codex_error_info": failure.rollout_code(profile)}),
        );
    }
    if profile.wide_metadata {
        set("started_at", json!(times.started_ms / 1000));
    }
    set("completed_at", json!(times.ended_ms / 1000));
    set("duration_ms", json!(times.ended_ms - times.started_ms));
    if let Some(first) = times.first_token_ms {
        set("time_to_first_token_ms", json!(first - times.started_ms));
    }
    Value::Object(map)
}

/// `turn_aborted`
pub fn turn_aborted(profile: &Profile, turn: &str, times: TurnTimes) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    set("type", json!("turn_aborted"));
    if profile.wide_metadata {
        set("root_turn_id", json!(turn));
    }
    set("turn_id", json!(turn));
    set("reason", json!("interrupted"));
    if profile.wide_metadata {
        set("started_at", json!(times.started_ms / 1000));
    }
    set("completed_at", json!(times.ended_ms / 1000));
    set("duration_ms", json!(times.ended_ms - times.started_ms));
    Value::Object(map)
}

fn collaboration_mode(settings: &Settings) -> Value {
    json!({
        "mode": "default",
        "settings": {
            "model": settings.model.slug,
            "reasoning_effort": settings.effort,
            "developer_instructions": null,
        },
    })
}

/// Beginning of the turn id of items that were injected between turns; a number follows.
pub const INJECTED: &str = "auto-compact-";

/// `turn_context`
pub fn turn_context(settings: &Settings, profile: &Profile, turn: &str) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    set("turn_id", json!(turn));
    if profile.wide_metadata {
        // A batch of injected items is no turn.
        if !turn.starts_with(INJECTED) {
            set("root_turn_id", json!(turn));
        }
        set("disabled_plugin_ids", json!([]));
    }
    set("cwd", json!(settings.cwd));
    if !profile.wide_metadata {
        set("workspace_roots", json!([settings.cwd]));
        set("current_date", json!(settings.date));
        set("timezone", json!(settings.timezone));
    }
    set("approval_policy", json!(settings.approval));
    set("approvals_reviewer", json!("user"));
    let sandbox = permissions::sandbox_policy(settings);
    let file_system = permissions::file_system_policy(settings, profile);
    if !profile.sequences {
        set("sandbox_policy", sandbox.clone());
    }
    set("permission_profile", permissions::record(settings, profile));
    if let Some(policy) = file_system.as_ref().filter(|_| !profile.sequences) {
        set("file_system_sandbox_policy", policy.clone());
    }
    set("model", json!(settings.model.slug));
    if let Some(hash) = &settings.model.comp_hash {
        set("comp_hash", json!(hash));
    }
    if !profile.wide_metadata {
        set("personality", json!("pragmatic"));
    }
    set("collaboration_mode", collaboration_mode(settings));
    set("multi_agent_version", json!("disabled"));
    set("realtime_active", json!(false));
    if let Some(effort) = &settings.effort {
        set("effort", json!(effort));
    }
    set(
        "summary",
        json!(if profile.wide_metadata {
            "none"
        } else {
            "auto"
        }),
    );
    if profile.sequences {
        set("sandbox_policy", sandbox);
        if let Some(policy) = file_system {
            set("file_system_sandbox_policy", policy);
        }
    }
    Value::Object(map)
}

/// `thread_settings_applied`
pub fn thread_settings(settings: &Settings, profile: &Profile, thread: &str) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    set("model", json!(settings.model.slug));
    set("model_provider_id", json!(settings.provider_id));
    if let Some(tier) = &settings.sampling.service_tier {
        set("service_tier", json!(tier));
    }
    set("approval_policy", json!(settings.approval));
    set("approvals_reviewer", json!("user"));
    if profile.sequences {
        set("requested_approvals_reviewer", json!("user"));
    }
    set("permission_profile", permissions::record(settings, profile));
    set("cwd", json!(settings.cwd));
    if profile.wide_metadata {
        set("runtime_workspace_roots", json!([settings.cwd]));
    }
    if let Some(effort) = &settings.effort {
        set("reasoning_effort", json!(effort));
    }
    if let Some(summary) = &settings.sampling.summary {
        set("reasoning_summary", json!(summary));
    }
    if !profile.wide_metadata {
        set("personality", json!("pragmatic"));
    }
    set("collaboration_mode", collaboration_mode(settings));
    if profile.wide_metadata {
        set("disabled_plugin_ids", json!([]));
    }
    let mut event = Map::new();
    event.insert("type".to_owned(), json!("thread_settings_applied"));
    if profile.wide_metadata {
        event.insert("thread_id".to_owned(), json!(thread));
    }
    event.insert("thread_settings".to_owned(), Value::Object(map));
    Value::Object(event)
}

/// What `token_count` says of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenInfo {
    /// Sum of all usages.
    pub total: Usage,
    /// Last usage, or the estimate after a compaction.
    pub last: Usage,
    /// Reasoning is part of `last` (0.171); `None` where nothing says so.
    pub includes_reasoning: Option<bool>,
    /// Effective window of the model that was asked last, in tokens.
    pub window: Option<i64>,
}

/// `token_count`
pub fn token_count(info: Option<&TokenInfo>, limits: &Value, profile: &Profile) -> Value {
    let info = info.map_or(Value::Null, |info| {
        let mut map = Map::new();
        map.insert("total_token_usage".to_owned(), info.total.record(profile));
        map.insert("last_token_usage".to_owned(), info.last.record(profile));
        if let Some(includes) = info.includes_reasoning.filter(|_| profile.sequences) {
            map.insert("last_usage_includes_reasoning".to_owned(), json!(includes));
        }
        map.insert("model_context_window".to_owned(), json!(info.window));
        Value::Object(map)
    });
    json!({"type": "token_count", "info": info, "rate_limits": limits})
}
