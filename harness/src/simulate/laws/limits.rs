//! What has to come of a number: of a limit, of the length of an output, of a count of retries.
//!
//! Each law is tripped by a planted fault (`turnproof simulate --planted`).

use serde_json::Value;

use super::view::{Asked, View, acts, ended, finding};
use crate::recording::Finding;
use crate::scenario::plan::{Ending, ModelSpec, ReplyBody, TruncationMode, TurnStatus};

/// Percent of a window that a limit has at most.
const LIMIT_PERCENT: i64 = 90;
/// Bytes of a token, as an engine guesses.
const TOKEN_BYTES: u64 = 4;
/// How many times its limit an output may be long: the budget is 1.2 times the limit, and each part
/// is cut by itself.
const OUTPUT_TIMES_MAX: u64 = 2;
/// Bytes that say what was cut.
const MARKER_BYTES_MAX: u64 = 200;

fn named<'a>(view: &View<'a>, name: &str) -> Option<&'a ModelSpec> {
    view.plan.models.iter().find(|model| model.name == name)
}

/// Tokens at which a model's context is full at the latest.
fn limit(model: &ModelSpec) -> Option<i64> {
    let clamp = model.context_window? * LIMIT_PERCENT / 100;
    let own = model.auto_compact_token_limit;
    Some(own.map_or(clamp, |own| own.min(clamp)))
}

/// Bytes of text of an output.
fn output_bytes(item: &Value) -> u64 {
    if item["type"] != "function_call_output" {
        return 0;
    }
    let parts = item["output"].as_array().into_iter().flatten();
    let parts = parts.filter_map(|part| part["text"].as_str());
    let texts = item["output"].as_str().into_iter().chain(parts);
    texts.map(|text| text.len() as u64).sum()
}

/// Behind an answer at its limit comes a compaction, and no sampling.
pub(super) fn limit_holds(view: &View<'_>) -> Vec<Finding> {
    let (facts, config) = (&view.facts, &view.plan.config);
    let scoped = config.auto_compact_token_limit_scope.is_some();
    let other = facts.token_budget || facts.hooks || facts.storage || facts.ways_back;
    // A session whose budget is spent ends its turns.
    let budget = config
        .features
        .iter()
        .any(|(name, _)| name == "rollout_budget");
    if scoped || other || budget || config.auto_compact_token_limit.is_some() {
        return Vec::new();
    }
    let law = "behind an answer whose tokens, with the outputs that follow, reach the limit of its \
               model, a compaction comes before the next sampling";
    let mut found = Vec::new();
    for (first, second) in view.neighbours() {
        // In one turn, or in two that follow each other.
        let next = second.step <= first.step + 1;
        let same = next && first.model() == second.model();
        if !same || !first.is_turn() || !second.is_turn() {
            continue;
        }
        let limit = named(view, first.model()).and_then(limit);
        let (Some(usage), Some(limit)) = (first.usage(), limit) else {
            continue;
        };
        let skipped = first.input().len();
        let new = second
            .input()
            .iter()
            .skip(skipped)
            .filter(|_| first.step == second.step);
        let behind = new.map(output_bytes).sum::<u64>() / TOKEN_BYTES;
        let total = usage.saturating_add(behind as i64);
        if usage > 0 && total >= limit {
            let what = format!(
                "request {} is sent at {usage} tokens and {behind} of outputs, with a limit of \
                 {limit}",
                second.number
            );
            found.push(finding("limit_holds", &what, law));
        }
    }
    found
}

/// An output is cut to what its model takes.
pub(super) fn outputs_cut(view: &View<'_>) -> Vec<Finding> {
    let law = "an output is not longer than any model of the session takes";
    let of_model = |model: &ModelSpec| match model.truncation.mode {
        TruncationMode::Bytes => model.truncation.limit,
        TruncationMode::Tokens => model.truncation.limit * TOKEN_BYTES,
    };
    let models = view
        .plan
        .models
        .iter()
        .map(of_model)
        .max()
        .unwrap_or_default();
    let own = view.plan.config.tool_output_token_limit;
    let limit = own.map_or(0, |tokens| tokens * TOKEN_BYTES).max(models);
    let most = limit * OUTPUT_TIMES_MAX + MARKER_BYTES_MAX;
    let long = |asked: &&Asked<'_>| asked.input().iter().any(|item| output_bytes(item) > most);
    let long = view.asked.iter().filter(|asked| asked.is_turn()).find(long);
    let said = long.map(|asked| {
        format!(
            "request {} holds an output of more than {most} bytes",
            asked.number
        )
    });
    said.iter()
        .map(|what| finding("outputs_cut", what, law))
        .collect()
}

/// A stream that broke off is asked for again.
pub(super) fn cuts_retried(view: &View<'_>) -> Vec<Finding> {
    let config = &view.plan.config;
    let budget = config
        .features
        .iter()
        .any(|(name, _)| name == "rollout_budget");
    let off = config.stream_max_retries == 0 || config.websockets || budget;
    if off || view.facts.storage {
        return Vec::new();
    }
    let law = "a stream that breaks off is asked for again while retries are left";
    let is_cut = |asked: &Asked<'_>| {
        matches!(
            &asked.reply.body,
            ReplyBody::Stream {
                ending: Ending::Cut { .. },
                ..
            }
        )
    };
    let mut found = Vec::new();
    for (index, asked) in view.asked.iter().enumerate() {
        if !asked.is_turn() || !is_cut(asked) || acts(asked.reply).count() > 0 {
            continue;
        }
        let of_step = |other: &&Asked<'_>| other.step == asked.step;
        let before = index.checked_sub(1).and_then(|index| view.asked.get(index));
        // Behind a whole answer, or the first one of its step: every retry is left.
        let fresh = before
            .filter(of_step)
            .is_none_or(|before| before.usage().is_some());
        let again = view.asked.get(index + 1).as_ref().is_some_and(of_step);
        let failed = ended(&view.plan.steps[asked.step]) == TurnStatus::Failed;
        if fresh && failed && !again {
            let what = format!("request {} is not sent again", asked.number);
            found.push(finding("cuts_retried", &what, law));
        }
    }
    found
}
