//! Variants of a scenario drawn from a seed, and the comparison of two live recordings.
//!
//! Texts, lengths, usages, limits, call ids and the number of calls change; what the scenario is
//! about (steps, kinds of replies, which side of its limit a usage lies on) stays. The variant runs
//! on our engine and on a real binary, and no golden stands between them.

use serde_json::Value;

use crate::driver::Outcome;
use crate::golden::compare::{Difference, Expanded, compare, expand};
use crate::golden::envelope::Envelope;
use crate::golden::render::{Stream, document};
use crate::golden::unmodelled::UnmodelledFields;
use crate::mask::{Masked, mask};
use crate::recording::Finding;
use crate::scenario::plan::{Action, Ending, Expect, Plan, PlanReply, ReplyBody, StepAction};

/// Most calls added to a reply.
const CALLS_ADDED_MAX: u64 = 2;
/// Tokens by which limits and usages move, at most.
const TOKENS_MOVED_MAX: u64 = 900;
/// Pieces of text in a drawn text, at most.
const PIECES_MAX: u64 = 24;
const PIECES: &[&str] = &[
    "read ",
    "the file ",
    "x",
    "  ",
    "\n",
    "汉字",
    "é",
    "😀",
    "\"",
    "\\",
    "<b>",
    "0123456789",
    "\t",
    "a long word without any meaning at all ",
];

/// splitmix64: small, well mixed, the same on every machine.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// A sequence that only depends on the seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn text(&mut self) -> String {
        text_of(&mut |bound| self.below(bound))
    }
}

/// A text of drawn pieces; `below` draws a number below a bound.
pub(crate) fn text_of(below: &mut dyn FnMut(u64) -> u64) -> String {
    let pieces = 1 + below(PIECES_MAX);
    (0..pieces)
        .map(|_| PIECES[below(PIECES.len() as u64) as usize])
        .collect()
}

/// One variant of a plan.
pub fn perturb(plan: &Plan, seed: u64) -> Plan {
    let mut out = plan.clone();
    let mut draw = Draw::new(seed);
    out.id = format!("{}#{seed}", plan.id);
    // They describe the original.
    out.expect = Expect::default();
    let moved = draw.below(TOKENS_MOVED_MAX) as i64;
    let limits: Vec<i64> = limits(plan);
    for model in &mut out.models {
        for limit in [
            &mut model.auto_compact_token_limit,
            &mut model.context_window,
        ] {
            *limit = limit.map(|n| n + moved);
        }
    }
    out.config.auto_compact_token_limit = out.config.auto_compact_token_limit.map(|n| n + moved);
    let mut renamed = 0;
    for step in &mut out.steps {
        if let StepAction::User(user) = &mut step.action {
            texts(&mut user.input, &mut draw);
        }
        step.ends = step.ends.take().map(|mut ends| {
            ends.message = None;
            ends
        });
        for reply in &mut step.replies {
            vary_reply(reply, &limits, moved, &mut renamed, &mut draw);
        }
    }
    out
}

/// Limits that a usage is compared with in the plan.
fn limits(plan: &Plan) -> Vec<i64> {
    let own = plan
        .models
        .iter()
        .filter_map(|m| m.auto_compact_token_limit);
    let clamp = plan
        .models
        .iter()
        .filter_map(|m| m.context_window)
        .map(|w| w * 9 / 10);
    own.chain(clamp)
        .chain(plan.config.auto_compact_token_limit)
        .collect()
}

fn texts(parts: &mut [Value], draw: &mut Draw) {
    for part in parts {
        let text = part.get("text").and_then(Value::as_str);
        if text.is_some_and(|t| !t.is_empty() && !t.contains('<')) {
            part["text"] = draw.text().into();
        }
    }
}

fn vary_reply(
    reply: &mut PlanReply,
    limits: &[i64],
    moved: i64,
    renamed: &mut usize,
    draw: &mut Draw,
) {
    reply.request = None;
    for answer in &mut reply.tool_answers {
        texts(&mut answer.content, draw);
        actions(&mut answer.while_running, draw);
    }
    let gated = reply.gate.is_some() || reply.answer_order.is_some();
    if let Some(gate) = &mut reply.gate {
        actions(&mut gate.actions, draw);
    }
    let ReplyBody::Stream { events, ending, .. } = &mut reply.body else {
        return;
    };
    let whole = *ending == Ending::Complete;
    let mut names = Vec::new();
    for event in events.iter_mut() {
        if let Some(item) = event.get_mut("item") {
            if let Some(parts) = item.get_mut("content").and_then(Value::as_array_mut) {
                texts(parts, draw);
            }
            if let Some(call) = item
                .get("call_id")
                .and_then(Value::as_str)
                .map(str::to_owned)
            {
                *renamed += 1;
                let name = format!("call_{}_{renamed}", draw.below(1000));
                item["call_id"] = name.clone().into();
                names.push((call, name));
            }
        }
        if let Some(usage) = event.pointer_mut("/response/usage") {
            vary_usage(usage, limits, moved, draw);
        }
    }
    for (old, new) in &names {
        for answer in reply.tool_answers.iter_mut().filter(|a| a.call_id == *old) {
            answer.call_id.clone_from(new);
        }
        for call in reply
            .answer_order
            .iter_mut()
            .flatten()
            .filter(|c| *c == old)
        {
            call.clone_from(new);
        }
    }
    if whole && !gated {
        add_calls(reply, renamed, draw);
    }
}

fn actions(actions: &mut [Action], draw: &mut Draw) {
    for action in actions {
        if let Action::Steer(parts) = action {
            texts(parts, draw);
        }
    }
}

/// Moves a usage without carrying it over a limit that it was below.
fn vary_usage(usage: &mut Value, limits: &[i64], moved: i64, draw: &mut Draw) {
    let Some(total) = usage.get("total_tokens").and_then(Value::as_i64) else {
        return;
    };
    let above = limits.iter().filter(|limit| **limit <= total).count() > 0;
    let room = limits
        .iter()
        .filter(|limit| **limit > total)
        .map(|l| l - total - 1)
        .min();
    let step = if above {
        moved
    } else {
        draw.below(room.unwrap_or(1000).clamp(1, 1000) as u64) as i64
    };
    for key in ["input_tokens", "total_tokens"] {
        if let Some(n) = usage.get(key).and_then(Value::as_i64) {
            usage[key] = (n + step).into();
        }
    }
}

/// Repeats the reply's last answered call under new ids.
fn add_calls(reply: &mut PlanReply, renamed: &mut usize, draw: &mut Draw) {
    let ReplyBody::Stream { events, .. } = &mut reply.body else {
        return;
    };
    let Some(answer) = reply
        .tool_answers
        .last()
        .filter(|a| a.while_running.is_empty())
    else {
        return;
    };
    let answer = answer.clone();
    let call =
        |event: &Value| event.pointer("/item/call_id") == Some(&answer.call_id.as_str().into());
    let Some(at) = events.iter().rposition(call) else {
        return;
    };
    for n in 0..draw.below(CALLS_ADDED_MAX + 1) as usize {
        *renamed += 1;
        let mut event = events[at].clone();
        let name = format!("call_{}_{renamed}", draw.below(1000));
        event["item"]["call_id"] = name.clone().into();
        if event.pointer("/item/id").is_some() {
            event["item"]["id"] = format!("fc_more_{renamed}").into();
        }
        events.insert(at + 1 + n, event);
        let mut answer = answer.clone();
        answer.call_id = name;
        texts(&mut answer.content, draw);
        reply.tool_answers.push(answer);
    }
}

/// Differences of one stream of two live recordings of one version; `None` if one of them does not
/// read back.
pub fn differences(
    stream: Stream,
    ours: &Masked,
    real: &Masked,
    profile: &str,
    unmodelled: &UnmodelledFields,
) -> Option<Vec<Difference>> {
    let envelope = Envelope::default();
    let side = |masked: &Masked, is_golden| -> Option<Expanded> {
        let doc = document(stream, masked, &envelope);
        let mut side = expand(stream, &doc, &envelope)?;
        unmodelled.strip(profile, &mut side, is_golden);
        Some(side)
    };
    Some(compare(&side(real, true)?, &side(ours, false)?))
}

/// Compares two live runs of one plan: `ours` of an engine profile, `real` of a binary.
pub fn compare_live(
    ours: &Outcome,
    real: &Outcome,
    profile: &str,
    unmodelled: &UnmodelledFields,
) -> Vec<Finding> {
    let masked = [mask(&ours.recording), mask(&real.recording)];
    let mut found = Vec::new();
    for stream in Stream::ALL {
        match differences(stream, &masked[0], &masked[1], profile, unmodelled) {
            Some(list) => found.extend(list.into_iter().map(|difference| Finding {
                id: "perturb.difference".to_owned(),
                message: difference.explain(),
            })),
            None => found.push(Finding {
                id: "perturb.unreadable".to_owned(),
                message: format!("{} does not read back", stream.name()),
            }),
        }
    }
    // The messages hold ids and requests of the run; which findings there are has to agree.
    let listed = |ids: &[String]| match ids {
        [] => "none".to_owned(),
        ids => ids.join(" "),
    };
    let ids = |outcome: &Outcome| -> Vec<String> {
        outcome
            .findings
            .iter()
            .map(|finding| finding.id.clone())
            .collect()
    };
    if ids(ours) != ids(real) {
        found.push(Finding {
            id: "perturb.findings".to_owned(),
            message: format!(
                "the script's findings differ: engine {}, binary {}",
                listed(&ids(ours)),
                listed(&ids(real))
            ),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_seed_gives_one_variant_and_seeds_differ() {
        let plan = fixture::plan();
        assert_eq!(perturb(&plan, 7), perturb(&plan, 7));
        assert_ne!(perturb(&plan, 7), perturb(&plan, 8));
        assert_ne!(perturb(&plan, 7).steps, plan.steps);
    }

    #[test]
    fn every_call_has_one_answer_and_usage_stays_below_its_limit() {
        let mut counts = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let plan = perturb(&fixture::plan(), seed);
            let reply = &plan.steps[0].replies[0];
            let ReplyBody::Stream { events, .. } = &reply.body else {
                panic!("a stream")
            };
            let mut calls: Vec<&str> = events
                .iter()
                .filter_map(|e| e.pointer("/item/call_id")?.as_str())
                .collect();
            let mut answers: Vec<&str> = reply
                .tool_answers
                .iter()
                .map(|a| a.call_id.as_str())
                .collect();
            calls.sort_unstable();
            answers.sort_unstable();
            assert_eq!(calls, answers);
            counts.insert(calls.len());
            let usage = events
                .last()
                .and_then(|e| e.pointer("/response/usage/total_tokens"));
            let limit = plan.models[0].auto_compact_token_limit.unwrap();
            assert!(usage.and_then(Value::as_i64).unwrap() < limit);
        }
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn live_recordings_compare_without_goldens() {
        let outcome = |salt, user: &str| Outcome {
            recording: fixture::with_texts(
                salt,
                &fixture::Texts {
                    user: user.into(),
                    output: "o".into(),
                    usage: 1,
                },
            ),
            findings: vec![],
        };
        let none = UnmodelledFields::default();
        assert_eq!(
            compare_live(&outcome(1, "a"), &outcome(2, "a"), "0.171", &none),
            []
        );
        let found = compare_live(&outcome(1, "a"), &outcome(2, "b"), "0.171", &none);
        assert!(
            found[0].message.contains("request 1 (turn), input item 1"),
            "{found:?}"
        );
    }
}
