//! Live and resumed (group g9): what the binaries sent next in the same process, and in a new one.
//!
//! A case of `harness/tests/data/live-cases.json` is the steps of a scenario, `live` the input of the
//! turn `FIN` behind them, and `wire_input` its input behind a stop and a resume where that is another
//! one. A case without `live` is of a process that was killed. `modalities` are those of the model.
//! The recordings used tools of the binaries; here the client has them. Left out of the group are
//! `user_shell` and `view_image_3000`: no step runs a command of the user, and 0.164 and later have no
//! `view_image` here; an image of a tool is prepared as the one of `local_image_3000` is.

use serde_json::{Value, json};

use super::short_forms::long;
use crate::driver::history_cases::for_each_version;
use crate::driver::{Driver, NoVerdict};
use crate::mask::image_size;
use crate::scenario::plan::Plan;
use crate::scenario::{Resolved, load_bytes};

const FILE: &str = include_str!("../../../../tests/data/live-cases.json");
/// Cases in the file, versions counted one by one.
const CASES: usize = 57;

/// One case of one version.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) version: String,
    /// The whole in one process, and what is sent then.
    live: Option<(Plan, Vec<Value>)>,
    /// With a stop and a resume.
    resumed: (Plan, Vec<Value>),
}

impl Case {
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    pub(super) fn plans(&self) -> Vec<Plan> {
        let live = self.live.iter().map(|(plan, _)| plan.clone());
        live.chain([self.resumed.0.clone()]).collect()
    }
}

/// All cases of the file.
pub(super) fn load() -> Vec<Case> {
    for_each_version(FILE, case)
}

fn case(entry: &Value, version: &str) -> Case {
    let input = |key: &str| entry[key].as_array().cloned();
    let live = input("live");
    let resumed = input("wire_input").or(live.clone()).expect("an input");
    Case {
        name: entry["name"].as_str().expect("a name").to_owned(),
        version: version.to_owned(),
        live: live.map(|input| (plan(entry, version, &[]), input)),
        resumed: (
            plan(
                entry,
                version,
                &[json!({"stop": "eof"}), json!({"resume": {"by": "id"}})],
            ),
            resumed,
        ),
    }
}

fn plan(entry: &Value, version: &str, between: &[Value]) -> Plan {
    let steps = entry["steps"].as_array().expect("steps");
    let killed = steps.iter().any(|step| step["stop"] == "kill");
    // A process that was killed is not stopped again.
    let between = if killed { &between[1..] } else { between };
    let mut steps = [&steps[..], between].concat();
    steps.push(json!({"user": "FIN", "replies": [{"say": "OK"}]}));
    let mut config = json!({"environment_context": true, "permissions_instructions": true});
    for (key, value) in entry["config"].as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let modalities = entry.get("modalities").cloned();
    let versions = if version == "0.144.6" {
        "<0.164"
    } else {
        ">=0.164"
    };
    let scenario = json!({
        "description": "A recorded case.", "versions": versions,
        "reason": "It was recorded with this version.", "rules": ["rollout.append_only"],
        "models": {"main": {"context_window": 200_000, "auto_compact_token_limit": 90_000,
            "input_modalities": modalities.unwrap_or(json!(["text"]))}},
        "config": config, "tools": {"lookup": {"path": "string"}}, "steps": steps,
    });
    let name = entry["name"].as_str().expect("a name");
    let loaded = load_bytes("case", name, scenario.to_string().as_bytes(), None);
    let loaded = loaded.unwrap_or_else(|found| panic!("{name}: {found:?}"));
    match loaded
        .plan(&version.parse().expect("a version"))
        .expect("resolves")
    {
        Resolved::Applicable(plan) => *plan,
        Resolved::NotApplicable(why) => panic!("{why}"),
    }
}

/// Input of the last request, base instructions left out, and the number of its window.
async fn last(driver: &dyn Driver, plan: &Plan) -> Result<(Vec<Value>, String), String> {
    let outcome = driver
        .run(plan)
        .await
        .map_err(|why: NoVerdict| why.to_string())?;
    if let Some(finding) = outcome.findings.first() {
        return Err(format!("{}: {}", finding.id, finding.message));
    }
    let last = outcome
        .recording
        .journal
        .last()
        .ok_or("nothing was asked")?;
    let body: Value = serde_json::from_slice(&last.body).map_err(|error| error.to_string())?;
    let mut input = body["input"].as_array().ok_or("no input")?.clone();
    if body.get("instructions").is_none() {
        input.remove(0);
    }
    let window = last
        .headers
        .iter()
        .find(|(name, _)| name == "x-codex-window-id");
    let window = window.and_then(|(_, id)| id.rsplit(':').next());
    Ok((input, window.unwrap_or_default().to_owned()))
}

/// What differs from the case.
pub(super) async fn difference(case: &Case, driver: &dyn Driver) -> Option<String> {
    let mut windows = Vec::new();
    let live = case.live.iter().map(|of| ("live", of));
    for (way, (plan, expected)) in live.chain([("resumed", &case.resumed)]) {
        match Box::pin(last(driver, plan)).await {
            Err(why) => return Some(format!("{} {way}: {why}", case.label())),
            Ok((input, window)) => {
                windows.push(window);
                let shown = expected.len() == input.len()
                    && expected
                        .iter()
                        .zip(&input)
                        .all(|(short, item)| shows(short, item));
                if !shown {
                    let (label, found) = (case.label(), super::short(&input));
                    let expected = super::short(expected);
                    return Some(format!(
                        "{label} {way}\n  expected {expected}\n  found    {found}"
                    ));
                }
            }
        }
    }
    windows.dedup();
    (windows.len() > 1).then(|| format!("{}: windows {windows:?}", case.label()))
}

/// Whether an item is the one that the case shows in short form; ids are left out.
fn shows(short: &Value, item: &Value) -> bool {
    let Some(role) = short.get("msg") else {
        let mut item = item.clone();
        if let Some(object) = item.as_object_mut() {
            object.shift_remove("id");
        }
        return texts(short) == item;
    };
    let expected = match &short["c"] {
        Value::Array(parts) => parts.clone(),
        text => vec![text.clone()],
    };
    let parts = item["content"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    item["role"] == *role
        && expected.len() == parts.len()
        && expected
            .iter()
            .zip(parts)
            .all(|(short, part)| shows_part(short, part))
}

fn shows_part(short: &Value, part: &Value) -> bool {
    if let Some(size) = short.get("image") {
        let url = part["image_url"].as_str().unwrap_or_default();
        return part["detail"] == "high" && image_size(url).is_some_and(|found| *size == found);
    }
    let text = part["text"].as_str().unwrap_or_default();
    match short.as_str().unwrap_or_default() {
        "<PERM>" => text.starts_with("<permissions"),
        "<ENV>" => text.starts_with("<environment_context>"),
        "<ABORTED>" => text.starts_with("<turn_aborted>"),
        short => text == long(short),
    }
}

fn texts(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(long(text)),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), texts(value)));
            Value::Object(entries.collect())
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_resumed_thread_goes_on_as_the_live_one_does() {
    let cases = load();
    assert_eq!(cases.len(), CASES);
    let mut wrong = Vec::new();
    for case in &cases {
        let family = case
            .version
            .rsplit_once('.')
            .map_or("", |(family, _)| family);
        let driver = crate::driver::engine::EngineDriver::new(family).expect("a family");
        wrong.extend(Box::pin(difference(case, &driver)).await);
    }
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
