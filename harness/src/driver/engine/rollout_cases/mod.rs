//! The recorded cases "rollout → next request" on the engine: a rollout is read as the binary of
//! its version reads it.

mod damage;
mod live;
mod real;
mod short_forms;

use engine::change::Change;
use engine::profile::Profile;
use engine::rollout_read::{self, Unreadable};
use engine::settings::Settings;
use semver::Version as Release;
use serde_json::{Value, json};

use self::short_forms::{CASES, Case, Setting, Template, load};
use super::{Run, Session, Version, WORKSPACE};
use crate::scenario::plan::Plan;
use crate::scenario::{Resolved, load_bytes};

/// The day of the recordings.
const DATE: &str = "2026-11-30";
/// Cases that the engine answers in another way, and why.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "g6/chg_tc_realtime 0.144.6",
        "the engine has no realtime conversations, so it does not say that one ended",
    ),
    (
        "g6b/reinject_no_tc_model_changed 0.144.6",
        "the other model was of the shipped catalogue and has a personality; ours have none",
    ),
    (
        "g6b/reinject_no_tc_model_changed 0.171.0",
        "the other model was of the shipped catalogue and has deferred tools; ours have none",
    ),
];

fn family(version: &str) -> Version {
    match version {
        "0.144.6" => Version::V144,
        "0.164.0" => Version::V164,
        _ => Version::V171,
    }
}

/// A thread of one turn, and the turn behind its resume.
fn plan(version: &str, compacts: bool) -> Plan {
    let replies = if compacts {
        "[{for: {compaction: local}, say: SUM}, {say: A2}]"
    } else {
        "[{say: A2}]"
    };
    let model = "context_window: 200000, auto_compact_token_limit: 90000";
    let text = format!(
        "description: A recorded case.\nrules: [rollout.append_only]\n\
         models:\n  main: {{{model}}}\n  other: {{{model}, base_instructions: Be other.}}\n\
         steps:\n  - {{user: U1, replies: [{{say: A1}}]}}\n  - {{user: NEW, replies: {replies}}}\n"
    );
    let loaded = load_bytes("case", "rollout case", text.as_bytes(), None).expect("a scenario");
    let release: Release = version.parse().expect("a version");
    match loaded.plan(&release).expect("resolves") {
        Resolved::Applicable(plan) => *plan,
        Resolved::NotApplicable(why) => panic!("{why}"),
    }
}

fn apply(setting: &Setting, plan: &Plan, settings: &mut Settings) {
    settings.environment_context = true;
    settings.permissions_instructions = true;
    DATE.clone_into(&mut settings.date);
    let doc = setting.agents_md.clone();
    settings.project_doc = doc.map(|text| (WORKSPACE.to_owned(), text));
    settings
        .developer_instructions
        .clone_from(&setting.developer_instructions);
    in_force(setting, plan).apply(settings);
}

/// What a client overrides when it resumes: folder, sandbox and model are its own.
fn in_force(setting: &Setting, plan: &Plan) -> Change {
    let folder = setting.cwd.as_deref().unwrap_or(WORKSPACE);
    let sandbox = setting.sandbox.as_deref().unwrap_or("danger-full-access");
    Change {
        cwd: Some(folder.to_owned()),
        sandbox: Some(sandbox.to_owned()),
        approval: Some("never".to_owned()),
        model: Some(super::model(&plan.models[usize::from(setting.other_model)])),
        ..Change::default()
    }
}

fn prepared<'a>(version: &str, setting: &Setting, plan: &'a Plan) -> Run<'a> {
    let mut run = Run::new(Profile::of(family(version)), plan);
    // The cases were recorded with the environment context that is shipped.
    run.profile.environment_dates = true;
    apply(setting, plan, &mut run.settings);
    run
}

async fn template(case: &Case) -> Template {
    let plan = plan(&case.recorded_by, false);
    let mut run = prepared(&case.recorded_by, &case.recorded, &plan);
    run.step(&plan.steps[0]).await.expect("the first turn");
    Template::of(&run.files.records(&run.profile))
}

/// The first request behind the resume: its input, and the number of its window.
async fn resumed(case: &Case, lines: &[Value]) -> Result<(Vec<Value>, u64), Unreadable> {
    let plan = plan(&case.version, case.compacts());
    let mut run = prepared(&case.version, &case.resumed, &plan);
    run.files.open();
    // The records of the case are in no file.
    run.rereads = false;
    let (profile, settings) = (run.profile.clone(), run.settings.clone());
    let found = rollout_read::read(lines, &profile, settings.truncation())?;
    let mut session = Session::resume(profile, settings, run.ports(), found, &[])?;
    session.update_settings(in_force(&case.resumed, &plan));
    run.install(session);
    run.step(&plan.steps[1]).await.expect("the turn");
    let with_base = run.profile.base_is_item;
    let outcome = run.finish(&plan.steps);
    assert_eq!(outcome.findings, [], "{}", case.label());
    let first = &outcome.recording.journal[0];
    let body: Value = serde_json::from_slice(&first.body).expect("a body");
    let window = first
        .headers
        .iter()
        .find(|(name, _)| name == "x-codex-window-id")
        .and_then(|(_, value)| value.rsplit(':').next()?.parse().ok());
    let mut input = body["input"].as_array().expect("an input").clone();
    if with_base {
        input.remove(0);
    }
    Ok((input, window.expect("a number of the window")))
}

/// The beginnings of the texts of an input.
fn short(items: &[Value]) -> String {
    const CHARS_MAX: usize = 40;
    let text = |item: &Value| -> String {
        let text = match (&item["content"][0]["text"], &item["c"]) {
            (Value::String(text), _) | (_, Value::String(text)) => text.clone(),
            _ => item.to_string(),
        };
        text.chars().take(CHARS_MAX).collect()
    };
    items.iter().map(text).collect::<Vec<_>>().join(" | ")
}

/// What differs from the case.
async fn difference(case: &Case) -> Option<String> {
    let template = Box::pin(template(case)).await;
    let found = Box::pin(resumed(case, &template.lines(case))).await;
    let (expected, input) = match (&case.expected, &found) {
        (Err(error), Err(why)) if error.contains(&why.to_string()) => return None,
        (Ok(expected), Ok((input, window))) => {
            let shown = expected.len() == input.len()
                && expected
                    .iter()
                    .zip(input)
                    .all(|(e, i)| template.shows(e, i));
            if shown && *window == case.window {
                return None;
            }
            (expected.clone(), input.clone())
        }
        (Err(_) | Ok(_), _) => (Vec::new(), Vec::new()),
    };
    let window = found.as_ref().map_or(0, |(_, window)| *window);
    let short = |items: &[Value]| -> String {
        let text = json!(items).to_string();
        text.chars().take(1500).collect()
    };
    Some(format!(
        "{}\n  expected {} {}, window {}\n  found    {} {}, window {window}",
        case.label(),
        case.expected.as_ref().err().map_or("", String::as_str),
        short(&expected),
        case.window,
        found.err().map_or(String::new(), |why| why.to_string()),
        short(&input),
    ))
}

#[tokio::test(flavor = "current_thread")]
async fn every_recorded_rollout_gives_its_request() {
    let cases = load();
    assert_eq!(cases.len(), CASES);
    let mut wrong = Vec::new();
    for case in &cases {
        let known = DIFFERENT.iter().find(|(label, _)| *label == case.label());
        match (Box::pin(difference(case)).await, known) {
            (Some(difference), None) => wrong.push(difference),
            (None, Some((label, why))) => wrong.push(format!("{label} is equal now: {why}")),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
