//! Damaged rollouts (group g7): what the binaries made of each, with a resume, a turn, and both again.
//!
//! A case of `harness/tests/data/damage-cases.json` is a thread of two turns, `edits` of its file as
//! an `edit_rollout` step says them, and what came of it: the inputs of the first request behind the
//! first and the second resume, or a part of the error. `glued` says that the first record behind
//! the resume was glued to the last line.

use serde_json::{Value, json};

use super::short_forms::{Case, Setting, Template, case};
use super::{Run, in_force, prepared, short, template};
use crate::rollout_edit::apply;
use crate::scenario::plan::Plan;
use crate::scenario::{Resolved, edit_rollout, load_bytes};

const FILE: &str = include_str!("../../../../tests/data/damage-cases.json");
/// Cases in the file, versions counted one by one.
const CASES: usize = 93;
/// Cases that the engine answers in another way, and why.
pub(super) const DIFFERENT: &[(&str, &str)] = &[
    (
        "g7/session_meta_id_mismatch 0.164.0",
        "the command line took it; the app-server, which the engine plays, refuses it \
         (rollout/damage/refuses_metadata_of_another_thread)",
    ),
    (
        "g7/session_meta_id_mismatch 0.171.0",
        "the command line says it in other words than the app-server",
    ),
    (
        "g7/bad_utf8_middle 0.171.0",
        "the command line lists the turns and fails; the app-server loses the line alone \
         (rollout/damage/loses_a_line_that_is_not_utf8)",
    ),
    (
        "g7/bad_utf8_last 0.171.0",
        "the command line lists the turns and fails; the app-server loses the line alone",
    ),
];

const PLAN: &str = "description: A damaged rollout.\nrules: [rollout.append_only]\nmodels:\n  \
    main: {context_window: 200000, auto_compact_token_limit: 90000}\nsteps:\n  \
    - {user: U1, replies: [{say: A1}]}\n  - {user: NEW, replies: [{say: OK}]}\n  \
    - {user: NEW2, replies: [{say: OK}]}\n";

/// What came of a case.
#[derive(Debug, PartialEq)]
struct Came {
    inputs: Vec<Vec<Value>>,
    glued: bool,
}

pub(super) fn plan(version: &str) -> Plan {
    let loaded = load_bytes("case", "damage case", PLAN.as_bytes(), None).expect("a scenario");
    match loaded
        .plan(&version.parse().expect("a version"))
        .expect("resolves")
    {
        Resolved::Applicable(plan) => *plan,
        Resolved::NotApplicable(why) => panic!("{why}"),
    }
}

/// Lines as a file holds them: the keys of a record in their order.
fn file(records: &[Value]) -> Vec<u8> {
    let mut text = String::new();
    for record in records {
        let mut line = json!({});
        for key in ["timestamp", "ordinal", "type", "payload", "metadata"] {
            if let Some(value) = record.get(key) {
                line[key] = value.clone();
            }
        }
        text.push_str(&line.to_string());
        text.push('\n');
    }
    text.into_bytes()
}

async fn came(entry: &Value, case: &Case, template: &Template) -> Result<Came, String> {
    let bytes = damaged(entry, file(&template.lines(case)));
    let plan = plan(&case.version);
    let mut run = prepared(&case.version, &Setting::default(), &plan);
    let end = bytes.len();
    let open = bytes.last().is_some_and(|last| *last != b'\n');
    run.files.put(template.thread(), bytes);
    template.thread().clone_into(&mut run.thread);
    let mut inputs = Vec::new();
    for step in &plan.steps[1..] {
        inputs.push(turn(&mut run, &plan, step).await?);
    }
    let (_, bytes) = run.files.newest().expect("a file");
    let glued = open && bytes.get(end).is_some_and(|next| *next != b'\n');
    Ok(Came { inputs, glued })
}

/// A resume in a new process and a turn: the input of its request.
async fn turn(
    run: &mut Run<'_>,
    plan: &Plan,
    step: &crate::scenario::plan::PlanStep,
) -> Result<Vec<Value>, String> {
    run.session = None;
    let mut session = run.reopened()?;
    session.update_settings(in_force(&Setting::default(), plan));
    run.install(session);
    let before = run.provider.requests();
    Box::pin(run.step(step)).await.expect("the turn");
    let body = &run.provider.journal()[before].request.body;
    let body: Value = serde_json::from_slice(body).expect("a body");
    let mut input = body["input"].as_array().expect("an input").clone();
    if run.profile.base_is_item {
        input.remove(0);
    }
    Ok(input)
}

/// What differs from the case.
async fn difference(entry: &Value, case: &Case) -> Option<String> {
    let template = Box::pin(template(case)).await;
    let found = Box::pin(came(entry, case, &template)).await;
    let fits = match (&case.expected, &found) {
        (Err(error), Err(why)) => error == why,
        (Ok(first), Ok(found)) => {
            let second = super::short_forms::input(&entry["second_wire_input"]);
            let shown = |short: &[Value], input: &[Value]| {
                let mut pairs = short.iter().zip(input);
                short.len() == input.len() && pairs.all(|(s, i)| template.shows(s, i))
            };
            shown(first, &found.inputs[0])
                && shown(&second, &found.inputs[1])
                && found.glued == (entry["glued"] == true)
        }
        (Err(_) | Ok(_), _) => false,
    };
    (!fits).then(|| {
        let found = found.map(|found| {
            let inputs = found.inputs.iter().map(|input| short(input));
            (inputs.collect::<Vec<_>>(), found.glued)
        });
        let expected = case.expected.as_deref().map(short);
        format!(
            "{}\n  expected {expected:?}\n  found    {found:?}",
            case.label()
        )
    })
}

/// Every case of the file with its entry.
pub(super) fn load() -> Vec<(Value, Case)> {
    let entries: Vec<Value> = serde_json::from_str(FILE).expect("the file is JSON");
    let mut cases = Vec::new();
    for entry in entries {
        let mut whole = entry.clone();
        whole["rollout_items"] = json!(["session_meta", "<TURN 1>", "<TURN 2>"]);
        for version in entry["versions"].as_array().expect("versions") {
            let version = version.as_str().expect("a version");
            cases.push((entry.clone(), case(&whole, version)));
        }
    }
    cases
}

/// The file with the edits of a case.
pub(super) fn damaged(entry: &Value, mut bytes: Vec<u8>) -> Vec<u8> {
    for edit in entry["edits"].as_array().expect("edits") {
        let edit = edit_rollout(edit).expect("an edit");
        bytes = apply(&edit, &bytes).expect("it fits").expect("a file");
    }
    bytes
}

#[tokio::test(flavor = "current_thread")]
async fn every_damaged_rollout_is_read_as_it_was() {
    let cases = load();
    let mut wrong = Vec::new();
    for (entry, case) in &cases {
        let known = DIFFERENT.iter().find(|(label, _)| *label == case.label());
        match (Box::pin(difference(entry, case)).await, known) {
            (Some(difference), None) => wrong.push(difference),
            (None, Some((label, why))) => wrong.push(format!("{label} is equal now: {why}")),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
    assert_eq!(cases.len(), CASES);
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
