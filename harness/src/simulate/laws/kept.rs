//! What outlives a compaction and where it stands, and what a request may hold without its other half.
//!
//! Each law is tripped by a planted fault (`turnproof simulate --planted`).

use std::collections::BTreeSet;

use engine::texts::SUMMARY_PREFIX;
use serde_json::Value;

use super::view::{Asked, View, finding, user_texts};
use crate::recording::Finding;

/// Bytes of user texts that a local compaction keeps in any case: half of its 20,000 tokens.
const KEPT_BYTES_MIN: usize = 40_000;
/// What an output says that stands in for one that never came.
const STAND_IN: &str = "aborted";

/// The first text of a message that a user wrote: no context, no note, no summary.
fn written(item: &Value) -> Option<&str> {
    let text = *user_texts(item)?.first()?;
    let own = text.trim_start().starts_with('<') || text.starts_with(SUMMARY_PREFIX);
    (!own && !text.is_empty()).then_some(text)
}

/// A local compaction keeps what the user wrote, in its order, before the summary.
pub(super) fn local_keeps(view: &View<'_>) -> Vec<Finding> {
    let facts = &view.facts;
    if facts.token_budget || facts.storage || facts.ways_back || facts.foreign {
        return Vec::new();
    }
    let law =
        "behind a local compaction the user's texts come in their order, and the summary last";
    let mut found = Vec::new();
    for (before, after) in view.asked.iter().zip(view.asked.iter().skip(1)) {
        let Some((history, sent)) = around(before, after) else {
            continue;
        };
        let texts: Vec<&str> = history.iter().filter_map(written).collect();
        if texts.iter().map(|text| text.len()).sum::<usize>() > KEPT_BYTES_MIN {
            continue;
        }
        let number = after.number;
        let mut place = 0;
        for text in texts {
            let rest = sent[place..].iter();
            let mut rest = rest.map(|item| written(item).is_some_and(|it| it.starts_with(text)));
            let Some(next) = rest.position(|is_it| is_it) else {
                let head = &text[..text.floor_char_boundary(40)];
                let what = format!("request {number} lacks {head:?}, or it is out of order");
                found.push(finding("local_keeps", &what, law));
                break;
            };
            place += next + 1;
        }
        let is_summary = |item: &Value| {
            let texts = user_texts(item).unwrap_or_default();
            texts
                .first()
                .is_some_and(|text| text.starts_with(SUMMARY_PREFIX))
        };
        if sent[place..].iter().all(|item| !is_summary(item)) && sent.iter().any(is_summary) {
            let what = format!("request {number}: the summary stands before what was kept");
            found.push(finding("local_keeps", &what, law));
        }
    }
    found
}

/// What a local compaction was made of, and what the first request of the new window sends.
fn around<'a>(before: &Asked<'a>, after: &Asked<'a>) -> Option<(&'a [Value], &'a [Value])> {
    let history = crate::check::input(before.request);
    let (prompt, history) = history.split_last()?;
    let is_local = before.request.kind == "compaction" && user_texts(prompt).is_some();
    let (thread, number) = before.window()?;
    let is_next = after.is_turn() && after.window() == Some((thread, number + 1));
    (is_local && is_next).then(|| (history, crate::check::input(after.request)))
}

fn call_id(item: &Value) -> Option<&str> {
    item["call_id"].as_str().filter(|id| !id.is_empty())
}

/// An output is not sent without its call.
pub(super) fn lone_outputs(view: &View<'_>) -> Vec<Finding> {
    if view.facts.websockets {
        return Vec::new();
    }
    let law = "an output is sent only beside its call";
    let lone = |asked: &&Asked<'_>| {
        let calls = asked
            .input()
            .iter()
            .filter(|item| item["type"] == "function_call" || item["type"] == "local_shell_call");
        let calls: BTreeSet<&str> = calls.filter_map(call_id).collect();
        let mut outputs = asked.input().iter();
        outputs.any(|item| {
            let id = call_id(item);
            item["type"] == "function_call_output" && id.is_some_and(|id| !calls.contains(id))
        })
    };
    let found = view.asked.iter().filter(|asked| asked.is_turn()).find(lone);
    let said = found.map(|asked| format!("request {} holds a lone output", asked.number));
    said.iter()
        .map(|what| finding("lone_outputs", what, law))
        .collect()
}

/// What stands in for an output stands directly behind its call.
pub(super) fn stand_ins(view: &View<'_>) -> Vec<Finding> {
    if view.facts.given_twice || view.facts.websockets {
        return Vec::new();
    }
    let law = "what stands in for an output that never came stands directly behind its call";
    let far = |asked: &&Asked<'_>| {
        let items = asked.input();
        items.iter().enumerate().any(|(index, item)| {
            let stands_in = item["type"] == "function_call_output" && item["output"] == STAND_IN;
            let before = index.checked_sub(1).and_then(|index| items.get(index));
            // A recorded one stands where its turn left it.
            let recorded = view.masked.rollouts.iter().flat_map(|file| &file.records);
            let mut recorded = recorded.map(|record| &record["payload"]);
            stands_in
                && before.and_then(call_id) != call_id(item)
                && !recorded.any(|known| {
                    known["type"] == item["type"] && known["call_id"] == item["call_id"]
                })
        })
    };
    let found = view.asked.iter().filter(|asked| asked.is_turn()).find(far);
    let said = found.map(|asked| format!("request {} holds one elsewhere", asked.number));
    said.iter()
        .map(|what| finding("stand_ins", what, law))
        .collect()
}
