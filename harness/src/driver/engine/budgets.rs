//! The budgets of a scenario's `features`, as the engine takes them.

use engine::session_budget::SessionBudget;
use engine::token_budget::TokenBudget;
use serde_json::Value;

use crate::scenario::plan::ConfigSpec;

/// Feature `token_budget`: `true`, or a mapping with `enabled`.
pub(super) fn token_budget(config: &ConfigSpec) -> Option<TokenBudget> {
    let (_, value) = config
        .features
        .iter()
        .find(|(key, _)| key == "token_budget")?;
    let on = *value == true || value["enabled"] == true;
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    on.then(|| TokenBudget {
        reminder_threshold: value["reminder_threshold_tokens"].as_i64(),
        reminder_template: text("reminder_message_template"),
        fallback_prompt: text("auto_compact_fallback_prompt"),
        fallback_buffer: value["auto_compact_fallback_buffer_tokens"]
            .as_i64()
            .unwrap_or(0),
    })
}

/// Feature `rollout_budget`.
pub(super) fn session_budget(config: &ConfigSpec) -> Option<SessionBudget> {
    let (_, value) = config
        .features
        .iter()
        .find(|(key, _)| key == "rollout_budget")?;
    let limit = value["limit_tokens"]
        .as_f64()
        .or(value["limit_budget"].as_f64())?;
    let amounts = value["reminder_at_remaining_tokens"].as_array();
    let flag = |key: &str| value[key].as_bool().unwrap_or(true);
    (value["enabled"] == true).then(|| SessionBudget {
        limit,
        reminders: amounts
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect(),
        sampling_weight: value["sampling_token_weight"].as_f64().unwrap_or(1.0),
        prefill_weight: value["prefill_token_weight"].as_f64().unwrap_or(1.0),
        enforced: flag("enforce_limit"),
        at_context_start: flag("reminder_at_context_start"),
    })
}
