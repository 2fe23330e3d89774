//! Request fields that the engine takes from the keys a scenario gives as they stand (`extra`).

use engine::settings::{ModelSampling, Sampling, service_tier};
use serde_json::Value;

use crate::scenario::plan::{ConfigSpec, ModelSpec};

/// What the config says.
pub(super) fn config(spec: &ConfigSpec) -> Sampling {
    let feature = find(&spec.features, "executed_tool_call_metadata");
    Sampling {
        summary: text(&spec.extra, "model_reasoning_summary"),
        verbosity: text(&spec.extra, "model_verbosity"),
        service_tier: text(&spec.extra, "service_tier").map(service_tier),
        executed_calls: feature == Some(&Value::Bool(true)),
    }
}

/// Effort of the config.
pub(super) fn effort(spec: &ConfigSpec) -> Option<String> {
    text(&spec.extra, "model_reasoning_effort")
}

/// What the catalogue says.
pub(super) fn model(spec: &ModelSpec) -> ModelSampling {
    let flag = |key: &str| find(&spec.extra, key) == Some(&Value::Bool(true));
    let tiers = find(&spec.extra, "service_tiers").and_then(Value::as_array);
    let tiers = tiers.into_iter().flatten();
    ModelSampling {
        default_summary: text(&spec.extra, "default_reasoning_summary"),
        supports_verbosity: flag("support_verbosity"),
        default_verbosity: text(&spec.extra, "default_verbosity"),
        service_tiers: tiers
            .filter_map(|tier| Some(tier.get("id")?.as_str()?.to_owned()))
            .collect(),
        lite: flag("use_responses_lite"),
    }
}

fn find<'a>(entries: &'a [(String, Value)], key: &str) -> Option<&'a Value> {
    let found = entries.iter().find(|(known, _)| known == key);
    found.map(|(_, value)| value)
}

fn text(entries: &[(String, Value)], key: &str) -> Option<String> {
    find(entries, key)?.as_str().map(str::to_owned)
}
