//! The initial context and what changes of it: fragments, world state and the reference baseline.
//!
//! Without a baseline the whole context is recorded; with one only the changed fragments
//! (history.md §6). The world state is written whole or as a JSON merge patch.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::contextual::{PROJECT_DOC, is_contextual, is_hook_prompt};
use crate::items::{Item, message};
use crate::permissions;
use crate::profile::Profile;
use crate::session::Window;
use crate::settings::{Model, Settings};
use crate::texts;

/// One piece of context, before it is put into a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fragment {
    role: &'static str,
    kind: &'static str,
    provenance: Value,
    text: String,
}

/// Messages of the whole initial context, developer first.
/// `switched`: the model, where the turn before had another one.
pub fn full(
    settings: &Settings,
    profile: &Profile,
    switched: Option<&Model>,
    ids: &WindowIds<'_>,
) -> Vec<Item> {
    let mut developer: Vec<Fragment> = switched.map(model_switch_fragment).into_iter().collect();
    let permissions = permissions_fragment(settings, profile);
    let instructions = settings.developer_instructions.as_ref().map(|text| Fragment {
        role: "developer",
        kind: "generic.developer_instructions",
        provenance: json!({"type": "developer_instructions", "from_additional_requirements": false}),
        text: text.clone(),
    });
    if profile.base_is_item {
        developer.extend(instructions);
        developer.extend(permissions);
        developer.extend(deferred_tools_fragment(settings, profile));
    } else {
        developer.extend(permissions);
        developer.extend(instructions);
    }
    let window = window_fragments(settings, profile, ids);
    let mut apart = Vec::new();
    if profile.base_is_item {
        apart = window;
    } else {
        developer.extend(window);
    }
    let mut user = Vec::new();
    if let Some((folder, text)) = &settings.project_doc {
        user.push(project_doc_fragment(&project_doc_title(folder), text));
    }
    user.extend(environment_fragment(settings, profile, true));
    [developer, apart, user]
        .iter()
        .filter(|group| !group.is_empty())
        .map(|group| bundle(group))
        .collect()
}

/// Tools and base instructions are items of the history.
pub fn lite_in_history(settings: &Settings, profile: &Profile) -> bool {
    settings.model.sampling.lite && profile.lite_namespace
}

/// The section of the model; for a lite one also a hash of its instructions, which is masked.
fn world_model(settings: &Settings, profile: &Profile) -> Value {
    let has_tools = settings.tools.iter().any(|tool| !tool.defer_loading);
    if lite_in_history(settings, profile) && has_tools {
        lite_model(settings)
    } else {
        json!(settings.model.slug)
    }
}

fn lite_model(settings: &Settings) -> Value {
    json!({"model": settings.model.slug, "instructions": sha1_hex(settings.base_text())})
}

/// What stands before everything else for a lite model: its tools and its base instructions, as
/// items of the history (0.164+; 0.144 puts them into each request).
pub fn lite_items(settings: &Settings, profile: &Profile) -> Vec<Item> {
    if !lite_in_history(settings, profile) {
        return Vec::new();
    }
    let tools = crate::tools::tools(settings, profile);
    let mut items = Vec::new();
    if !tools.is_empty()
        && let Value::Object(listed) = json!({"type": "additional_tools", "role": "developer",
            "tools": tools})
    {
        items.push(Item::new(listed));
    }
    if !settings.base_text().is_empty() {
        items.push(bundle(&[Fragment {
            role: "developer",
            kind: "model.base_instructions",
            provenance: harness(),
            text: settings.base_text().to_owned(),
        }]));
    }
    items
}

/// Thread and window, as the context names them where there is a token budget.
#[derive(Debug, Clone, Copy)]
pub struct WindowIds<'a> {
    /// Thread id.
    pub thread: &'a str,
    /// The window that begins.
    pub window: &'a Window,
}

/// Whether the context names the window: with a token budget, where there is a window.
fn names_window(settings: &Settings) -> bool {
    settings.token_budget.is_some() && settings.window().is_some()
}

/// `<context_window>`: one text on 0.144, tag, body and tag as three parts later.
fn window_fragments(settings: &Settings, profile: &Profile, ids: &WindowIds<'_>) -> Vec<Fragment> {
    if !names_window(settings) {
        return Vec::new();
    }
    let window = ids.window;
    let owner = if profile.base_is_item {
        "Agent name: /root".to_owned()
    } else {
        format!("Thread id: {}", ids.thread)
    };
    let mut lines = vec![
        owner,
        format!("First context window id: {}", window.first),
        format!("Current context window id: {}", window.id),
    ];
    if let Some(previous) = &window.previous {
        lines.push(format!("Previous context window id: {previous}"));
    }
    let body = format!("\n{}\n", lines.join("\n"));
    let (open, close) = ("<context_window>", "</context_window>");
    let texts = if profile.base_is_item {
        vec![open.to_owned(), body, close.to_owned()]
    } else {
        vec![format!("{open}{body}{close}")]
    };
    let fragment = |text| Fragment {
        role: "developer",
        kind: "token_budget.context_window",
        provenance: harness(),
        text,
    };
    texts.into_iter().map(fragment).collect()
}

/// Messages of these fragments: adjacent ones with the same role share one.
pub(crate) fn messages(fragments: &[Fragment]) -> Vec<Item> {
    fragments
        .chunk_by(|one, next| one.role == next.role)
        .map(bundle)
        .collect()
}

/// One message of fragments with the same role.
fn bundle(fragments: &[Fragment]) -> Item {
    let content = fragments
        .iter()
        .map(|fragment| json!({"type": "input_text", "text": fragment.text}))
        .collect();
    let mut item = message(fragments[0].role, None, content);
    let kinds: Vec<&str> = fragments.iter().map(|fragment| fragment.kind).collect();
    let metadata: Vec<Value> = fragments
        .iter()
        .map(|fragment| json!({"provenance": fragment.provenance}))
        .collect();
    item.passthrough
        .insert("content_item_kinds".to_owned(), json!(kinds));
    item.passthrough
        .insert("content_item_metadata".to_owned(), Value::Array(metadata));
    item
}

fn harness() -> Value {
    json!({"type": "harness", "hook": false})
}

/// Tells the model what another one was told in the base instructions.
pub(crate) fn model_switch_fragment(model: &Model) -> Fragment {
    Fragment {
        role: "developer",
        kind: "model_switch.instructions",
        provenance: harness(),
        text: format!(
            "<model_switch>\n{}\n\n{}\n</model_switch>",
            texts::MODEL_SWITCH,
            model.base_instructions
        ),
    }
}

pub(crate) fn permissions_fragment(settings: &Settings, profile: &Profile) -> Option<Fragment> {
    settings.permissions_instructions.then(|| Fragment {
        role: "developer",
        kind: "permissions.instructions",
        provenance: harness(),
        text: permissions::text(settings, profile),
    })
}

fn deferred_tools_fragment(settings: &Settings, profile: &Profile) -> Option<Fragment> {
    let names = crate::tools::deferred_namespaces(settings);
    if names.is_empty() || !profile.names_deferred_tools {
        return None;
    }
    let lines: Vec<String> = names
        .iter()
        .map(|name| format!("- {name}: {name}\n"))
        .collect();
    Some(Fragment {
        role: "developer",
        kind: "tools.deferred_namespaces",
        provenance: json!({"type": "tool", "namespace": "tool_search"}),
        text: format!(
            "<tools>\nDeferred tool namespaces:\n{}</tools>",
            lines.concat()
        ),
    })
}

pub(crate) fn project_doc_title(folder: &str) -> String {
    format!("# AGENTS.md instructions for {folder}")
}

pub(crate) fn project_doc_fragment(title: &str, body: &str) -> Fragment {
    Fragment {
        role: "user",
        kind: "agents_md.instructions",
        provenance: json!({"type": "agents_md"}),
        text: format!("{title}\n\n<INSTRUCTIONS>\n{body}\n</INSTRUCTIONS>"),
    }
}

pub(crate) fn environment_fragment(
    settings: &Settings,
    profile: &Profile,
    whole: bool,
) -> Option<Fragment> {
    settings.environment_context.then(|| Fragment {
        role: "user",
        kind: "environments.environment_context",
        provenance: harness(),
        text: environment_text(settings, profile, whole),
    })
}

/// The environment context; `whole` adds working directory and shell.
fn environment_text(settings: &Settings, profile: &Profile, whole: bool) -> String {
    let mut lines = Vec::new();
    if whole {
        lines.push(format!("  <cwd>{}</cwd>", settings.cwd));
        lines.push(format!("  <shell>{}</shell>", settings.shell));
    }
    if profile.environment_dates {
        lines.push(format!("  <current_date>{}</current_date>", settings.date));
        lines.push(format!("  <timezone>{}</timezone>", settings.timezone));
    }
    lines.push(format!("  {}", filesystem(settings, profile)));
    format!(
        "<environment_context>\n{}\n</environment_context>",
        lines.join("\n")
    )
}

fn filesystem(settings: &Settings, profile: &Profile) -> String {
    format!(
        "<filesystem><workspace_roots><root>{}</root></workspace_roots>{}</filesystem>",
        settings.cwd,
        permissions::element(settings, profile)
    )
}

/// Hash of the permissions in the world state.
pub(crate) fn permissions_hash(fragment: &Fragment) -> String {
    sha1_hex(&fragment.text)
}

/// The whole world state, keys in the order of the binary.
pub fn world_state(settings: &Settings, profile: &Profile) -> Map<String, Value> {
    let mut state = Map::new();
    let mut set = |key: &str, value: Value| {
        state.insert(key.to_owned(), value);
    };
    set(
        "agents_md",
        settings.project_doc.as_ref().map_or(
            json!({}),
            |(folder, text)| json!({"directory": folder, "text": text}),
        ),
    );
    let wide = profile.usage_records;
    if wide && !settings.permissions_instructions {
        set("approved_command_prefixes", json!([]));
    }
    set("apps_instructions", json!(false));
    if wide && names_window(settings) {
        set("context_window", json!("/root"));
    }
    if wide {
        set("context_window_guidance", json!(""));
    }
    if settings.environment_context {
        set("environments", environments(settings, profile));
    }
    if wide {
        set("environments_instructions", json!(false));
        set("git_attribution", json!(false));
        set("host_skills", json!({"includeInstructions": false}));
        set("managed_developer_instructions", json!({}));
        set("model", world_model(settings, profile));
        set("model_catalog", json!(sha1_hex("catalog")));
        set("multi_agent_mode", json!({}));
        if let Some(fragment) = permissions_fragment(settings, profile) {
            let hash = permissions_hash(&fragment);
            set(
                "permissions",
                json!({"instructions": hash, "approved_command_prefixes": []}),
            );
        }
        set("persistent_mode", json!({}));
    }
    set("plugins_instructions", json!(false));
    if wide {
        set("realtime", json!({"active": false}));
    }
    set("skills", json!({"includeInstructions": false}));
    let deferred = crate::tools::deferred_namespaces(settings);
    if profile.names_deferred_tools && !deferred.is_empty() {
        let named = deferred
            .into_iter()
            .map(|name| (name.to_owned(), json!(name)));
        let named: BTreeMap<String, Value> = named.collect();
        set("tools", json!(named));
    }
    if lite_in_history(settings, profile) {
        let hashes = tool_hashes(settings, profile);
        if !hashes.is_empty() {
            set("top_level_tools", json!(hashes));
        }
    }
    state
}

/// The world state as it is written whole. That of a lite model without tools says that there are
/// none, and is taken back before the next sampling (0.164+).
pub fn whole_world_state(settings: &Settings, profile: &Profile) -> Map<String, Value> {
    let mut state = world_state(settings, profile);
    if lite_in_history(settings, profile) && !state.contains_key("top_level_tools") {
        state.insert("model".to_owned(), lite_model(settings));
        state.insert("top_level_tools".to_owned(), json!({}));
    }
    state
}

/// Hashes of a lite model's tools by full name: of each namespace without its tools, of each tool.
fn tool_hashes(settings: &Settings, profile: &Profile) -> BTreeMap<String, String> {
    let mut hashes = BTreeMap::new();
    for mut space in crate::tools::tools(settings, profile) {
        let name = space["name"].as_str().unwrap_or_default().to_owned();
        let members = space
            .as_object_mut()
            .and_then(|map| map.shift_remove("tools"));
        for tool in members
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let full = format!("{name}.{}", tool["name"].as_str().unwrap_or_default());
            hashes.insert(full, sha1_hex(&sorted(tool).to_string()));
        }
        hashes.insert(name, sha1_hex(&sorted(&space).to_string()));
    }
    hashes
}

/// The value with all keys sorted.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.iter().map(|(key, child)| (key.clone(), sorted(child)));
            json!(entries.collect::<BTreeMap<String, Value>>())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A hash as the binary writes one; what it hashes is not known, so the value is masked.
fn sha1_hex(text: &str) -> String {
    use std::fmt::Write as _;

    use sha1::{Digest, Sha1};
    let mut hex = String::with_capacity(40);
    for byte in Sha1::digest(text) {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

pub(crate) fn environments(settings: &Settings, profile: &Profile) -> Value {
    let mut map = Map::new();
    map.insert(
        "environments".to_owned(),
        json!({"local": {"cwd": settings.cwd, "status": "available", "shell": settings.shell}}),
    );
    if profile.environment_dates {
        map.insert("current_date".to_owned(), json!(settings.date));
        map.insert("timezone".to_owned(), json!(settings.timezone));
    }
    map.insert(
        "filesystem".to_owned(),
        json!(filesystem(settings, profile)),
    );
    Value::Object(map)
}

/// JSON merge patch from one world state to another; empty when nothing changed.
pub fn patch(before: &Map<String, Value>, now: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !now.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in now {
        match (before.get(key), value) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                patch.insert(key.clone(), Value::Object(self::patch(old, new)));
            }
            (_, new) => {
                patch.insert(key.clone(), new.clone());
            }
        }
    }
    patch
}

/// Whether a developer message tells the permissions.
pub(crate) fn tells_permissions(item: &Item) -> bool {
    item.role() == "developer"
        && item
            .texts()
            .iter()
            .any(|text| text.starts_with(PERMISSIONS))
}

/// Whether a developer message announces a model.
pub(crate) fn announces_model(item: &Item) -> bool {
    item.role() == "developer"
        && item
            .texts()
            .iter()
            .any(|text| text.starts_with(MODEL_SWITCH))
}

/// Whether a user message holds instructions of AGENTS.md.
pub(crate) fn is_project_doc(item: &Item) -> bool {
    item.role() == "user"
        && item
            .texts()
            .iter()
            .any(|text| text.starts_with(PROJECT_DOC))
}

/// Whether an item is context that was told for a turn: a rollback takes it back with the turn.
pub(crate) fn is_context(item: &Item) -> bool {
    const OPENINGS: [&str; 4] = [
        PERMISSIONS,
        MODEL_SWITCH,
        "<collaboration_mode>",
        "<personality_spec>",
    ];
    let opens = |text: &&str| OPENINGS.iter().any(|opening| text.starts_with(opening));
    match item.role() {
        "user" => is_contextual(item),
        "developer" => item.texts().iter().any(opens),
        _ => false,
    }
}

/// Whether a text is a summary: the exact prefix and a newline.
pub fn is_summary(text: &str) -> bool {
    text.strip_prefix(texts::SUMMARY_PREFIX)
        .is_some_and(|rest| rest.starts_with('\n'))
}

/// Whether an item stands for what a compaction removed: a summary or an opaque item.
pub fn is_compacted(item: &Item) -> bool {
    matches!(item.kind(), "compaction" | "context_compaction")
        || item.texts().first().is_some_and(|text| is_summary(text))
}

/// Whether a remote compaction keeps an item: messages of the user and of hooks.
pub fn is_kept_remotely(item: &Item) -> bool {
    let by_hook = || {
        let first = item.texts().first().copied().unwrap_or_default();
        item.role() == "user" && is_hook_prompt(first)
    };
    is_real_user_message(item) || by_hook()
}

/// Opening of the permissions.
const PERMISSIONS: &str = "<permissions instructions>";
/// Opening of the announcement of a model.
const MODEL_SWITCH: &str = "<model_switch>";

/// Whether an item is a message that the user wrote.
pub fn is_real_user_message(item: &Item) -> bool {
    item.kind() == "message"
        && item.role() == "user"
        && !is_contextual(item)
        && !item.texts().first().is_some_and(|text| is_summary(text))
}
