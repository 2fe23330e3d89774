//! The recorded cases "rollout items → next request" on the engine, and some of them on the real
//! binaries again.

use engine::items::parse;
use engine::rollout_read;
use semver::Version as Release;
use serde_json::{Value, json};

use super::{Profile, Run, Session, Version};
use crate::driver::Driver as _;
use crate::driver::codex::{CodexDriver, Source};
use crate::driver::history_cases::{CASES, Case, count, load, shows};
use crate::perturb::Draw;
use crate::recording::Recording;
use crate::scenario::plan::{Plan, ResumeStep, StepAction};
use crate::scenario::{Resolved, load_bytes};

/// Cases that run on the real binaries, drawn from those that can be supplied.
const DRAWN: usize = 60;
/// Seed of the draw.
const SEED: u64 = 1;

fn release(case: &Case) -> Release {
    case.version.parse().expect("a version")
}

fn family(case: &Case) -> Version {
    match case.version.as_str() {
        "0.144.6" => Version::V144,
        "0.164.0" => Version::V164,
        _ => Version::V171,
    }
}

/// A thread of one turn and what follows; `first` is how it begins.
fn plan(case: &Case, first: &str) -> Plan {
    let name = case.model.as_deref().unwrap_or("m-img");
    let (cut, sees) = match (name, name.get(2..3), name.get(3..)) {
        ("m-text", ..) => ("bytes: 10000".to_owned(), "text"),
        ("m-img" | "m-imgnoorig", ..) => ("bytes: 10000".to_owned(), "text, image"),
        ("m-aud", ..) => ("bytes: 10000".to_owned(), "text, image, audio"),
        (_, Some("b"), Some(limit)) => (format!("bytes: {limit}"), "text"),
        (_, Some("t"), Some(limit)) => (format!("tokens: {limit}"), "text"),
        _ => panic!("{name}"),
    };
    let original = name != "m-imgnoorig";
    let config = case
        .tool_output_token_limit
        .map_or_else(String::new, |limit| {
            format!("config: {{tool_output_token_limit: {limit}}}\n")
        });
    let text = format!(
        "description: A recorded case.\nrules: [history.supplied_items]\n\
         models: {{main: {{truncation: {{{cut}}}, input_modalities: [{sees}], extra: \
         {{supports_image_detail_original: {original}}}}}}}\n{config}\
         steps:\n  - {first}\n  - {{user: NEW, replies: [{{say: A2}}]}}\n"
    );
    let loaded = load_bytes("case", &case.name, text.as_bytes(), None).expect("a scenario");
    match loaded.plan(&release(case)).expect("resolves") {
        Resolved::Applicable(plan) => *plan,
        Resolved::NotApplicable(why) => panic!("{why}"),
    }
}

fn inputs(recording: &Recording) -> Vec<Vec<Value>> {
    recording
        .journal
        .iter()
        .map(|exchange| {
            let body: Value = serde_json::from_slice(&exchange.body).expect("a body");
            body["input"].as_array().expect("an input").clone()
        })
        .collect()
}

/// The input behind the prefix, on the engine.
async fn replayed(case: &Case) -> Vec<Value> {
    let plan = plan(case, "{user: U1, replies: [{say: A1}]}");
    let mut run = Run::new(Profile::of(family(case)), &plan);
    run.step(&plan.steps[0]).await.expect("the first turn");
    let mut records = run.files.records(&run.profile);
    for (item, meta) in &case.items {
        let ordinal = records.len();
        let mut line = json!({"ordinal": ordinal, "type": "response_item", "payload": item});
        if !meta.is_null() {
            line["metadata"] = meta.clone();
        }
        records.push(line);
    }
    let found = rollout_read::read(&records, &run.profile, run.settings.truncation());
    let (profile, settings) = (run.profile.clone(), run.settings.clone());
    let found = found.expect("a thread");
    let session = Session::resume(profile, settings, run.ports(), found, &[]);
    let session = session.expect("a thread");
    run.install(session);
    // The items of the case are in no file.
    run.rereads = false;
    run.step(&plan.steps[1]).await.expect("the second turn");
    let outcome = run.finish(&plan.steps);
    assert_eq!(outcome.findings, [], "{}", case.name);
    let inputs = inputs(&outcome.recording);
    assert_eq!(inputs.len(), 2, "{}", case.name);
    let prefix = inputs[0].len();
    assert_eq!(inputs[1][..prefix], inputs[0][..], "{}", case.name);
    assert_eq!(
        inputs[1][prefix]["content"][0]["text"], "A1",
        "{}",
        case.name
    );
    inputs[1][prefix + 1..].to_vec()
}

/// What differs from the case. The new message has an id that the case leaves out.
fn difference(case: &Case, mut found: Vec<Value>, fresh_ids: bool) -> Option<String> {
    if let Some(object) = found.last_mut().and_then(Value::as_object_mut) {
        object.shift_remove("id");
    }
    let mut expected = case.expected.clone();
    if fresh_ids {
        for item in found.iter_mut().chain(&mut expected) {
            if let Some(object) = item.as_object_mut() {
                object.shift_remove("id");
            }
        }
    }
    let equal = expected.len() == found.len()
        && expected.iter().zip(&found).all(|(e, f)| shows(e, f, case));
    (!equal).then(|| {
        let short = |items: &[Value]| {
            let text = json!(items).to_string();
            text.chars().take(900).collect::<String>()
        };
        format!(
            "{} {}\n  expected {}\n  found    {}",
            case.name,
            case.version,
            short(&expected),
            short(&found)
        )
    })
}

#[tokio::test(flavor = "current_thread")]
async fn every_recorded_case_gives_its_input() {
    let cases = load();
    assert_eq!(cases.len(), CASES);
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(difference(case, Box::pin(replayed(case)).await, false));
    }
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A supplied history has no records, so no metadata of them, and may not be empty.
fn can_be_supplied(case: &Case) -> bool {
    let profile = Profile::of(family(case));
    case.items.iter().all(|(_, meta)| meta.is_null())
        && case
            .items
            .iter()
            .any(|(item, _)| parse(item, &profile).is_ok())
}

fn drawn() -> Vec<Case> {
    let mut cases: Vec<Case> = load().into_iter().filter(can_be_supplied).collect();
    let mut draw = Draw::new(SEED);
    (0..DRAWN)
        .map(|_| cases.swap_remove(draw.below(cases.len() as u64) as usize))
        .collect()
}

/// Items that do not parse are lost from a rollout, and refused in a supplied history.
fn supplied(case: &Case) -> Plan {
    let first = "resume: {by: history, history: [{type: other}]}";
    let mut plan = plan(case, first);
    let profile = Profile::of(family(case));
    let items = case
        .items
        .iter()
        .map(|(item, _)| item.clone())
        .filter(|item| parse(item, &profile).is_ok())
        .collect();
    plan.id = format!("{} {}", case.name, case.version);
    plan.steps[0].action = StepAction::Resume(ResumeStep::History(items));
    plan
}

#[tokio::test(flavor = "current_thread")]
#[ignore = "needs the real binaries"]
async fn drawn_cases_give_their_input_on_the_real_binaries() {
    let cases = drawn();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for version in ["0.144.6", "0.164.0", "0.171.0"] {
        let mine: Vec<&Case> = cases
            .iter()
            .filter(|case| case.version == version)
            .collect();
        let plans: Vec<Plan> = mine.iter().map(|case| supplied(case)).collect();
        let source = Source::Version(version.to_owned());
        let driver = CodexDriver::new(&source, &plans, 4)
            .await
            .expect("a driver");
        for (case, plan) in mine.iter().zip(&plans) {
            let outcome = driver.run(plan).await.expect("a verdict");
            assert_eq!(outcome.findings, [], "{}", plan.id);
            let all = inputs(&outcome.recording);
            let input = &all[0];
            let base = usize::from(input[0]["role"] == "developer" && version != "0.144.6");
            compared += 1;
            wrong.extend(difference(case, input[base..].to_vec(), true));
        }
        driver.close().await;
    }
    count(compared, wrong.len());
    assert_eq!(compared, DRAWN);
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The draw has all three versions and most groups in it, or it shows little.
#[test]
fn the_draw_is_mixed() {
    let cases = drawn();
    let mut groups: Vec<&str> = cases
        .iter()
        .map(|case| case.name.split('/').next().expect("a group"))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    assert!(groups.len() >= 5, "{groups:?}");
    for version in ["0.144.6", "0.164.0", "0.171.0"] {
        assert!(cases.iter().filter(|case| case.version == version).count() >= 10);
    }
}
