//! What a model has to be told, and by which model it is read.
//!
//! Each law is tripped by a planted fault (`turnproof simulate --planted`).

use engine::texts::TURN_ABORTED;
use serde_json::Value;

use super::view::{Asked, View, acts, ended, finding, switches, user_texts};
use crate::recording::Finding;
use crate::scenario::plan::{Action, Answers, PlanReply, StepAction, TurnStatus};

/// Longest part of an output that is looked for: short enough never to be cut.
const HEAD_BYTES_MAX: usize = 12;

/// A model without images gets none.
pub(super) fn blind_models(view: &View<'_>) -> Vec<Finding> {
    let law = "a request to a model without images holds none";
    let holds = |asked: &&Asked<'_>| {
        let model = view
            .plan
            .models
            .iter()
            .find(|model| model.name == asked.model());
        let sees = |kinds: &Vec<String>| kinds.iter().any(|kind| kind == "image");
        let blind = model.is_some_and(|model| !sees(&model.input_modalities));
        blind && asked.input().iter().any(holds_image)
    };
    let shown = view
        .asked
        .iter()
        .filter(|asked| asked.is_turn())
        .find(holds);
    let said = shown.map(|asked| format!("request {} holds an image", asked.number));
    said.iter()
        .map(|what| finding("blind_models", what, law))
        .collect()
}

fn holds_image(item: &Value) -> bool {
    ["content", "output"].iter().any(|key| {
        let mut parts = item[*key].as_array().into_iter().flatten();
        parts.any(|part| part["type"] == "input_image")
    })
}

/// A thread goes on with its model, over a restart too.
pub(super) fn model_goes_on(view: &View<'_>) -> Vec<Finding> {
    if view.facts.storage || view.facts.ways_back {
        return Vec::new();
    }
    let law = "a turn request goes to the model of the one before where nobody chose another";
    let turns: Vec<&Asked<'_>> = view.asked.iter().filter(|asked| asked.is_turn()).collect();
    let pairs = turns.windows(2).filter(|pair| {
        let steps = view.steps(pair[0].step, pair[1].step);
        pair[0].model() != pair[1].model() && !steps.iter().any(switches)
    });
    let said = pairs.map(|pair| {
        let (from, to) = (pair[0].model(), pair[1].model());
        format!("request {} goes to {to}, and not to {from}", pair[1].number)
    });
    said.take(1)
        .map(|what| finding("model_goes_on", &what, law))
        .collect()
}

/// Texts of user messages in the rollout files.
fn recorded<'a>(view: &'a View<'_>) -> impl Iterator<Item = &'a str> {
    let files = view.masked.rollouts.iter().flat_map(|file| &file.records);
    let items = files.filter(|record| record["type"] == "response_item");
    items
        .filter_map(|record| user_texts(&record["payload"]))
        .flatten()
}

/// An interrupt of a running turn is recorded for the model.
pub(super) fn interrupts_told(view: &View<'_>) -> Vec<Finding> {
    if view.facts.storage || view.facts.hooks {
        return Vec::new();
    }
    let law = "a turn that its client interrupts leaves a user item that says so";
    let interrupted = view.plan.steps.iter().filter(|step| {
        let replies = step.replies.iter();
        let mut turns = replies.filter(|reply| reply.answers == Answers::Turn);
        matches!(step.action, StepAction::User(_))
            && ended(step) == TurnStatus::Interrupted
            && turns.any(|reply| acts(reply).any(|action| *action == Action::Interrupt))
    });
    let wanted = interrupted.count();
    let told = recorded(view)
        .filter(|text| text.contains(TURN_ABORTED))
        .count();
    let what = format!("{wanted} turns were interrupted, {told} items say so");
    (told < wanted)
        .then(|| finding("interrupts_told", &what, law))
        .into_iter()
        .collect()
}

/// What the user adds to a turn that completes is recorded.
pub(super) fn steers_kept(view: &View<'_>) -> Vec<Finding> {
    if view.facts.storage {
        return Vec::new();
    }
    let law = "what a user adds to a turn that completes is recorded";
    let mut found = Vec::new();
    for step in &view.plan.steps {
        let is_turn = matches!(step.action, StepAction::User(_));
        // Whoever is interrupted or asked while it compacts may have nothing to add to.
        let asks = |reply: &PlanReply| reply.answers != Answers::Turn;
        let odd = step.replies.iter().filter(|reply| asks(reply));
        let odd = odd.flat_map(acts).count() > 0;
        if !is_turn || odd || ended(step) != TurnStatus::Completed {
            continue;
        }
        let acts = step.replies.iter().flat_map(|reply| seen_acts(view, reply));
        for action in acts {
            let Action::Steer(parts) = action else {
                continue;
            };
            for text in parts.iter().filter_map(|part| part["text"].as_str()) {
                if !recorded(view).any(|known| known.contains(text)) {
                    let what = format!("step {}: no item holds {text:?}", step.number);
                    found.push(finding("steers_kept", &what, law));
                }
            }
        }
    }
    found
}

/// What the client did in a reply for sure: at its gate, and in calls whose answer was sent on.
fn seen_acts<'a>(view: &View<'a>, reply: &'a PlanReply) -> impl Iterator<Item = &'a Action> {
    let gate = reply.gate.iter().flat_map(|gate| &gate.actions);
    let tools = reply.tool_answers.iter().filter(|tool| {
        let text = tool.content.first().and_then(|part| part["text"].as_str());
        let head = text.map(|text| &text[..text.floor_char_boundary(HEAD_BYTES_MAX)]);
        let mut items = view.asked.iter().flat_map(Asked::input);
        head.is_some_and(|head| {
            !head.is_empty()
                && items.any(|item| {
                    let output = item["output"].as_str().unwrap_or_default();
                    item["call_id"] == *tool.call_id && output.starts_with(head)
                })
        })
    });
    let tools: Vec<_> = tools.collect();
    gate.chain(tools.into_iter().flat_map(|tool| &tool.while_running))
}
