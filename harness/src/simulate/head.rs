//! The settings of a drawn session: models, limits, provider, features, hooks.

use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::reach::{Group, Reach};

/// What the steps and replies have to know of the settings.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Head {
    /// The scenario without steps.
    pub scenario: Value,
    /// Tokens at which a compaction is due, or near it.
    pub limits: Vec<i64>,
    /// The thread has ordinals: it can be reverted.
    pub ordinals: bool,
    /// Settings of a turn can change while it runs.
    pub turn_settings: bool,
    /// The provider is asked over a WebSocket.
    pub websockets: bool,
}

/// Windows in tokens.
const WINDOWS: [i64; 4] = [100_000, 4_000, 20_000, 272_000];
/// Percent of a window that a limit has without one of its own.
const LIMIT_PERCENT: i64 = 90;
/// Percent of a window that is usable.
const EFFECTIVE_PERCENT: i64 = 95;

/// A version family by its place in the table of versions.
pub(super) const OLDEST: usize = 0;

/// The range of versions that is one family.
fn range(family: usize) -> &'static str {
    ["<0.164", ">=0.164, <0.171", ">=0.171"][family]
}

/// Draws the settings of a session for a family.
pub(super) fn draw(dice: &mut Dice, family: usize, reach: Reach, seed: &str) -> Head {
    let window = *dice.pick(&WINDOWS);
    let limit = match dice.below(3) {
        0 => None,
        1 => Some(window / 2),
        _ => Some(window / 5),
    };
    let mut main = model(dice, window);
    if let Some(limit) = limit {
        main.insert("auto_compact_token_limit".to_owned(), json!(limit));
    }
    let smaller = window / [1, 2, 4][dice.below(3) as usize];
    let mut other = model(dice, smaller);
    if dice.rarely(3) {
        other.insert("comp_hash".to_owned(), json!("second"));
        main.insert("comp_hash".to_owned(), json!("first"));
    }
    if dice.rarely(3) {
        other.insert("base_instructions".to_owned(), json!("Be thorough."));
    }
    let mut config = Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    for key in ["environment_context", "permissions_instructions"] {
        if dice.rarely(3) {
            set(key, json!(true));
        }
    }
    if dice.rarely(3) {
        set("provider_name", json!("OpenAI"));
    }
    for key in ["request_max_retries", "stream_max_retries"] {
        if dice.rarely(3) {
            set(key, json!(1 + dice.below(2)));
        }
    }
    if dice.rarely(4) {
        set("auto_compact_token_limit_scope", json!("body_after_prefix"));
    }
    if dice.rarely(8) {
        set(
            "post_turn_compact_threshold_percent",
            json!(5 + dice.below(90)),
        );
    }
    if dice.rarely(6) {
        set("compact_prompt", json!(dice.text("Sum up")));
    }
    if dice.rarely(6) {
        set("developer_instructions", json!(dice.text("Mind")));
    }
    if dice.rarely(6) {
        set("tool_output_token_limit", json!(20 + dice.below(200)));
    }
    if dice.rarely(5) {
        set("instant_interrupt", json!(false));
    }
    let legacy = dice.rarely(6);
    if legacy {
        set("history_mode", json!("legacy"));
    }
    let websockets = dice.rarely(10);
    if websockets {
        set("websockets", json!(true));
    }
    let turn_settings = family != OLDEST && dice.rarely(4);
    let features = features(dice, family, turn_settings);
    if !features.is_empty() {
        set("features", Value::Object(features));
    }
    if dice.rarely(8) {
        let drawn = hooks(dice);
        if reach.faults.has(Group::Hooks) {
            set("hooks", drawn);
        }
    }
    let limits = limits(window, limit);
    let mut scenario = json!({
        "description": format!("Session {seed} is drawn."),
        "versions": range(family),
        "reason": "it was drawn for this version",
        "models": {"main": main, "other": other},
        "config": config,
        "tools": {"lookup": {"path": "string"}},
        "files": {"sub/note.md": "A note.", "far/note.md": "Another note."},
        "steps": [],
    });
    if reach.faults.has(Group::Storage) {
        scenario["only"] = json!("engine");
        scenario["reason"] = json!("it was drawn for this version, and its storage may fail");
    }
    Head {
        scenario,
        limits,
        ordinals: family != OLDEST && !legacy,
        turn_settings,
        websockets,
    }
}

fn model(dice: &mut Dice, window: i64) -> Map<String, Value> {
    let mut model = Map::new();
    let mut set = |key: &str, value: Value| model.insert(key.to_owned(), value);
    set("context_window", json!(window));
    if dice.below(2) == 1 {
        set("input_modalities", json!(["text", "image"]));
    }
    match dice.below(4) {
        1 => drop(set("truncation", json!({"bytes": 100}))),
        2 => drop(set("truncation", json!({"tokens": 20}))),
        _ => {}
    }
    if dice.rarely(6) {
        set("effective_context_window_percent", json!(80));
    }
    if dice.rarely(6) {
        set("supports_parallel_tool_calls", json!(true));
    }
    model
}

fn features(dice: &mut Dice, family: usize, turn_settings: bool) -> Map<String, Value> {
    let mut features = Map::new();
    if turn_settings {
        features.insert("step_model_switching".to_owned(), json!(true));
    }
    if dice.rarely(10) {
        let budget = match dice.below(3) {
            0 => json!({"enabled": true}),
            1 => json!({"enabled": true, "reminder_threshold_tokens": 1000}),
            _ => json!({"enabled": true, "auto_compact_fallback_prompt": "Write notes.",
                "auto_compact_fallback_buffer_tokens": 500}),
        };
        features.insert("token_budget".to_owned(), budget);
    }
    if dice.rarely(10) {
        let limit = 2000 + 1000 * dice.below(40);
        features.insert(
            "rollout_budget".to_owned(),
            json!({"enabled": true, "limit_tokens": limit,
                "reminder_at_remaining_tokens": [limit / 2, limit / 4]}),
        );
    }
    if family == OLDEST && dice.rarely(2) {
        // A provider that compacts does it the old way then.
        features.insert("remote_compaction_v2".to_owned(), json!(false));
    }
    features
}

fn hooks(dice: &mut Dice) -> Value {
    let mut hooks = Map::new();
    for event in ["PreCompact", "PostCompact"] {
        let hook = match dice.below(5) {
            0 => continue,
            1 => json!({"prints": {"continue": false, "stopReason": "Not now."}}),
            2 => json!({"prints": {"systemMessage": "Careful."}}),
            3 => json!({"complains": "It broke.", "exit": 1}),
            _ => json!({"matcher": "manual"}),
        };
        hooks.insert(event.to_owned(), json!([hook]));
    }
    if dice.below(2) == 1 {
        let source = *dice.pick(&["compact", "startup", "resume"]);
        let hook = json!({"matcher": source, "prints": "Mind the gap."});
        hooks.insert("SessionStart".to_owned(), json!([hook]));
    }
    Value::Object(hooks)
}

fn limits(window: i64, limit: Option<i64>) -> Vec<i64> {
    let clamp = window * LIMIT_PERCENT / 100;
    let usable = window * EFFECTIVE_PERCENT / 100;
    let due = limit.map_or(clamp, |limit| limit.min(clamp));
    vec![due, due, due, usable, window]
}
