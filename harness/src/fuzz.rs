//! Histories drawn from a seed, supplied to a new thread, and what its first request sends.
//!
//! Items of every kind that parse, paired, unpaired, repeated and out of order, with ids and
//! without; a few call ids, so that they meet. The input of the request is compared, masked, with
//! no golden between: pairing, filtering, shapes, cuts and ids at once. What does not parse is
//! refused as a whole and has its own scenarios.

use semver::Version;
use serde_json::{Value, json};

use crate::driver::Outcome;
use crate::mask::mask;
use crate::perturb::Draw;
use crate::scenario::plan::{Plan, ResumeStep, StepAction};
use crate::scenario::{Resolved, load_bytes};

/// Items of a drawn history, at most.
const ITEMS_MAX: u64 = 14;
/// Call ids that a history draws from; few, so that calls and outputs meet.
const CALL_IDS: &[&str] = &["c1", "c2", "c3", ""];
/// Item ids: of the kind, foreign, without prefix, empty.
const ODD_IDS: &[&str] = &["x_1", "m1", "", "fc_1", "_9", "msg_"];
const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQAAAAA3bvkkAAAACklEQVR4AWNgAAAAAgABc3UBGAAAAABJRU5ErkJggg==";
/// Kinds that are drawn; each has an arm in [`item`].
const KINDS: u64 = 17;

/// The scenario around a drawn history. Outputs are cut by bytes or by tokens, and images are seen
/// or not, by the seed.
fn frame(seed: u64) -> String {
    let cut = ["bytes: 100", "tokens: 20", "bytes: 1000"][(seed % 3) as usize];
    let modalities = ["text", "text, image"][(seed / 3 % 2) as usize];
    format!(
        "description: A drawn history is supplied to a new thread.\n\
         rules: [history.supplied_items]\n\
         models: {{main: {{truncation: {{{cut}}}, input_modalities: [{modalities}]}}}}\n\
         steps:\n  - resume: {{by: history, history: [{{type: other}}]}}\n  \
         - {{user: New question., replies: [{{say: New answer.}}]}}\n"
    )
}

/// The plan of a seed for a version; the same seed gives the same items on every version.
pub fn plan(seed: u64, version: &Version) -> Result<Plan, String> {
    let text = frame(seed);
    let id = format!("fuzz_history#{seed}");
    let loaded = load_bytes("fuzz", &id, text.as_bytes(), None)
        .map_err(|errors| format!("{:?}", errors.first()))?;
    match loaded.plan(version).map_err(|error| error.to_string())? {
        Resolved::Applicable(mut plan) => {
            plan.steps[0].action = StepAction::Resume(ResumeStep::History(items(seed)));
            Ok(*plan)
        }
        Resolved::NotApplicable(why) => Err(why),
    }
}

/// The items of a seed.
pub fn items(seed: u64) -> Vec<Value> {
    let mut draw = Draw::new(seed);
    (0..=draw.below(ITEMS_MAX))
        .map(|_| item(&mut draw))
        .collect()
}

fn pick<'a>(draw: &mut Draw, from: &[&'a str]) -> &'a str {
    from[draw.below(from.len() as u64) as usize]
}

fn item(draw: &mut Draw) -> Value {
    let call_id = pick(draw, CALL_IDS);
    let (mut item, prefix) = match draw.below(KINDS) {
        0 | 1 => (message(draw), "msg_"),
        2 => (reasoning(draw), "rs_"),
        3 | 4 => (
            json!({"type": "function_call", "name": "lookup", "arguments": draw.text(),
                "call_id": call_id}),
            "fc_",
        ),
        5 | 6 => (
            json!({"type": "function_call_output", "call_id": call_id, "output": output(draw)}),
            "fco_",
        ),
        7 => (
            json!({"type": "custom_tool_call", "call_id": call_id, "name": "edit",
                "input": draw.text()}),
            "ctc_",
        ),
        8 => (
            json!({"type": "custom_tool_call_output", "call_id": call_id, "name": "edit",
                "output": output(draw)}),
            "ctco_",
        ),
        9 => (shell(draw, call_id), "lsh_"),
        10 => (search_call(draw, call_id), "tsc_"),
        11 => (search_output(draw, call_id), "tso_"),
        12 => (web_search(draw), "ws_"),
        13 => (
            json!({"type": "image_generation_call", "status": "completed",
                "revised_prompt": draw.text(), "result": "aGVsbG8="}),
            "ig_",
        ),
        14 => (
            json!({"type": "agent_message", "author": "/root", "recipient": "/root/a",
                "content": [{"type": "input_text", "text": draw.text()},
                    {"type": "encrypted_content", "encrypted_content": "E"}]}),
            "amsg_",
        ),
        15 => (
            json!({"type": pick(draw, &["compaction", "compaction_summary", "context_compaction"]),
                "encrypted_content": "E"}),
            "cmp_",
        ),
        _ => (unkept(draw), "x_"),
    };
    match draw.below(4) {
        0 => item["id"] = json!(pick(draw, ODD_IDS)),
        1 | 2 => item["id"] = json!(format!("{prefix}{}", draw.below(1000))),
        _ => {}
    }
    if draw.below(5) == 0 {
        item["unknown_key"] = json!({"deep": [1]});
    }
    item
}

/// Kinds that are accepted and do not reach the history.
fn unkept(draw: &mut Draw) -> Value {
    match draw.below(4) {
        0 => json!({"type": "ghost_snapshot", "ghost_commit": {"id": "abc"}}),
        1 => json!({"type": "compaction_trigger"}),
        2 => json!({"type": "brand_new", "call_id": "c1"}),
        _ => json!({"type": "message", "role": "system", "content": []}),
    }
}

fn message(draw: &mut Draw) -> Value {
    let role = pick(draw, &["user", "assistant", "developer", "tool"]);
    let kind = pick(draw, &["input_text", "output_text"]);
    let mut content: Vec<Value> = (0..draw.below(3))
        .map(|_| json!({"type": kind, "text": draw.text()}))
        .collect();
    if draw.below(3) == 0 {
        content.push(image(draw));
    }
    let mut item = json!({"type": "message", "role": role, "content": content});
    if draw.below(3) == 0 {
        item["phase"] = json!(pick(draw, &["commentary", "final_answer"]));
    }
    if draw.below(3) == 0 {
        item["status"] = json!("completed");
    }
    item
}

fn image(draw: &mut Draw) -> Value {
    let url = match draw.below(6) {
        0 => "http://127.0.0.1:1/a.png".to_owned(),
        1 => "data:image/png;base64,AAAA".to_owned(),
        2 => IMAGE.replace("image/png", "image/jpeg"),
        3 => "file:///a.png".to_owned(),
        _ => IMAGE.to_owned(),
    };
    let mut part = json!({"type": "input_image", "image_url": url});
    match draw.below(3) {
        0 => part["detail"] = json!(pick(draw, &["auto", "low", "high", "original"])),
        1 => part["detail"] = Value::Null,
        _ => {}
    }
    part
}

fn output(draw: &mut Draw) -> Value {
    let long = |draw: &mut Draw| {
        let times = draw.below(5) as usize;
        draw.text().repeat(times)
    };
    if draw.below(2) == 0 {
        return json!(long(draw));
    }
    let parts: Vec<Value> = (0..draw.below(5))
        .map(|_| match draw.below(4) {
            0 => image(draw),
            _ => json!({"type": "input_text", "text": long(draw)}),
        })
        .collect();
    json!(parts)
}

fn reasoning(draw: &mut Draw) -> Value {
    let mut item = json!({"type": "reasoning", "summary": []});
    if draw.below(2) == 0 {
        item["summary"] = json!([{"type": "summary_text", "text": draw.text()}]);
    }
    match draw.below(4) {
        0 => item["content"] = json!([{"type": "text", "text": "t"}]),
        1 => {
            item["content"] =
                json!([{"type": "text", "text": "t"}, {"type": "reasoning_text", "text": "r"}]);
        }
        2 => item["content"] = Value::Null,
        _ => {}
    }
    if draw.below(2) == 0 {
        item["encrypted_content"] = json!("E");
    }
    item
}

fn shell(draw: &mut Draw, call_id: &str) -> Value {
    let status = pick(draw, &["completed", "in_progress", "incomplete"]);
    let mut item = json!({"type": "local_shell_call", "status": status,
        "action": {"type": "exec", "command": ["echo", draw.text()], "timeout_ms": 5}});
    if draw.below(3) > 0 {
        item["call_id"] = json!(call_id);
    }
    item
}

fn search_call(draw: &mut Draw, call_id: &str) -> Value {
    let execution = pick(draw, &["client", "server"]);
    let mut item = json!({"type": "tool_search_call", "execution": execution,
        "arguments": {"query": draw.text()}});
    if draw.below(3) > 0 {
        item["call_id"] = json!(call_id);
    }
    item
}

fn search_output(draw: &mut Draw, call_id: &str) -> Value {
    let execution = pick(draw, &["client", "server"]);
    let mut item = json!({"type": "tool_search_output", "execution": execution,
        "status": "completed", "tools": [{"type": "function", "name": "t", "strict": false}]});
    if draw.below(3) > 0 {
        item["call_id"] = json!(call_id);
    }
    item
}

fn web_search(draw: &mut Draw) -> Value {
    let action = match draw.below(4) {
        0 => json!({"type": "search", "queries": ["b"], "query": "a"}),
        1 => json!({"type": "open_page", "url": "u"}),
        2 => json!({"type": "find_in_page", "pattern": "p"}),
        _ => json!({"type": "brand_new", "field": 1}),
    };
    json!({"type": "web_search_call", "status": "completed", "action": action})
}

/// Masked input items of the first request of a run.
pub fn input(outcome: &Outcome) -> Option<Vec<Value>> {
    let masked = mask(&outcome.recording);
    let body = &masked.wire.first()?.body;
    body["input"].as_array().cloned()
}

/// What differs between the first requests of two runs; `None` where they are equal.
pub fn difference(ours: &Outcome, real: &Outcome) -> Option<String> {
    let ids = |outcome: &Outcome| -> Vec<String> {
        let findings = outcome.findings.iter();
        findings
            .map(|finding| format!("{}: {}", finding.id, finding.message))
            .collect()
    };
    let (Some(left), Some(right)) = (input(ours), input(real)) else {
        return Some(format!(
            "no request: engine {:?}, binary {:?}",
            ids(ours),
            ids(real)
        ));
    };
    let at = (0..left.len().max(right.len())).find(|at| left.get(*at) != right.get(*at))?;
    let show = |side: &[Value]| side.get(at).map_or("nothing".to_owned(), Value::to_string);
    Some(format!(
        "input item {at}:\n  engine {}\n  binary {}",
        show(&left),
        show(&right)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use engine::items::parse;
    use engine::profile::{Profile, Version as Family};

    #[test]
    fn a_seed_gives_one_history_and_every_kind_is_drawn() {
        assert_eq!(items(7), items(7));
        assert_ne!(items(7), items(8));
        let kinds: BTreeSet<String> = (0..300)
            .flat_map(items)
            .map(|item| item["type"].as_str().expect("a type").to_owned())
            .collect();
        assert_eq!(kinds.len(), 18, "{kinds:?}");
    }

    #[test]
    fn whatever_is_drawn_parses_on_every_profile() {
        for family in [Family::V144, Family::V164, Family::V171] {
            let profile = Profile::of(family);
            for seed in 0..300 {
                for item in items(seed) {
                    assert!(parse(&item, &profile).is_ok(), "seed {seed}: {item}");
                }
            }
        }
    }
}
