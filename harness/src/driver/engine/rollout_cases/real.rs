//! Some of the recorded cases of all groups on the real binaries again, drawn by a fixed seed.
//!
//! The recordings were made with the command line, here the app-server is asked. The rollout is made
//! of what the binary itself recorded, so a case whose records are of another version is left out,
//! and so is one that the app-server answers in another way.

use std::cell::RefCell;

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::short_forms::{self, Case, Setting, Template};
use super::{DATE, damage, live, short};
use crate::driver::codex::{CodexDriver, Resumed, Rewrite, Source};
use crate::driver::engine::WORKSPACE;
use crate::driver::history_cases::count;
use crate::perturb::Draw;
use crate::scenario::plan::Plan;

/// Cases that run on the real binaries.
const DRAWN: usize = 60;
/// Seed of the draw.
const SEED: u64 = 1;
/// Processes at once.
const JOBS: usize = 3;
/// Drawn cases that the app-server answers in another way than the command line did, and how.
const OTHERWISE: &[(&str, &str)] = &[(
    "g4/t3complegacy/rb3 0.171.0",
    "the same input, but the app-server names window 0 and the command line named window 1",
)];
const VERSIONS: [&str; 3] = ["0.144.6", "0.164.0", "0.171.0"];

/// A case of one of the files.
enum Any {
    Rollout(Case),
    Damage(Value, Case),
    Live(Box<live::Case>),
}

impl Any {
    fn label(&self) -> String {
        match self {
            Self::Rollout(case) | Self::Damage(_, case) => case.label(),
            Self::Live(case) => case.label(),
        }
    }

    fn version(&self) -> &str {
        match self {
            Self::Rollout(case) | Self::Damage(_, case) => &case.version,
            Self::Live(case) => &case.version,
        }
    }

    fn plans(&self) -> Vec<Plan> {
        match self {
            Self::Rollout(case) => vec![rollout_plan(case)],
            Self::Damage(_, case) => vec![prepared(damage::plan(&case.version), case)],
            Self::Live(case) => case.plans(),
        }
    }
}

fn all() -> Vec<Any> {
    let known: Vec<&str> = super::DIFFERENT
        .iter()
        .chain(damage::DIFFERENT)
        .map(|(label, _)| *label)
        .collect();
    let own = short_forms::load().into_iter();
    let own = own.filter(|case| case.recorded_by == case.version && case.expected.is_ok());
    // No such folder is there, and a binary would not be started in it.
    let own = own.filter(|case| case.resumed.cwd.is_none());
    let damaged = damage::load().into_iter();
    let mut cases: Vec<Any> = own.map(Any::Rollout).collect();
    cases.extend(damaged.map(|(entry, case)| Any::Damage(entry, case)));
    cases.extend(
        live::load()
            .into_iter()
            .map(|case| Any::Live(Box::new(case))),
    );
    cases.retain(|case| !known.contains(&case.label().as_str()));
    cases
}

fn drawn() -> Vec<Any> {
    let mut cases = all();
    let mut draw = Draw::new(SEED);
    (0..DRAWN)
        .map(|_| cases.swap_remove(draw.below(cases.len() as u64) as usize))
        .collect()
}

fn rollout_plan(case: &Case) -> Plan {
    prepared(super::plan(&case.version, case.compacts()), case)
}

/// The plan with the settings that the recordings had.
fn prepared(mut plan: Plan, case: &Case) -> Plan {
    plan.id = case.label();
    let config = &mut plan.config;
    config.environment_context = true;
    config.permissions_instructions = true;
    config.project_doc = case.recorded.agents_md.is_some() || case.resumed.agents_md.is_some();
    if case.version != VERSIONS[0] {
        // Only these know the key; the older one tells the day anyway.
        let key = "include_environment_context_time".to_owned();
        config.extra.push((key, json!(true)));
    }
    if let Some(text) = &case.recorded.agents_md {
        plan.files.push(("AGENTS.md".to_owned(), text.clone()));
    }
    plan
}

fn params(setting: &Setting) -> Value {
    let sandbox = setting.sandbox.as_deref().unwrap_or("danger-full-access");
    let mut params = json!({"approvalPolicy": "never", "sandbox": sandbox});
    if let Some(text) = &setting.developer_instructions {
        params["developerInstructions"] = json!(text);
    }
    params
}

/// Plays a case, and the template of its records.
async fn resumed(
    case: &Case,
    plan: &Plan,
    bytes: &dyn Fn(Vec<u8>) -> Vec<u8>,
    driver: &CodexDriver,
) -> Result<(Resumed, Template), String> {
    let template = RefCell::new(None);
    let rewrite = Rewrite {
        lines: &|records| {
            let own = Template::of(records);
            let lines = own.lines(case);
            *template.borrow_mut() = Some(own);
            lines
        },
        bytes,
        workspace: WORKSPACE,
        date: DATE,
        model: usize::from(case.resumed.other_model),
        params: params(&case.resumed),
        agents_md: case.resumed.agents_md.clone(),
    };
    let resumed = driver.rewritten(plan, &rewrite).await;
    let resumed = resumed.map_err(|why| why.to_string())?;
    let template = template.into_inner().ok_or("nothing was recorded")?;
    Ok((resumed, template))
}

fn shown(expected: &[Value], input: &[Value], template: &Template, version: &str) -> bool {
    let base = usize::from(version != VERSIONS[0]);
    let input = input.get(base..).unwrap_or_default();
    expected.len() == input.len()
        && expected
            .iter()
            .zip(input)
            .all(|(short, item)| template.shows(short, item))
}

async fn rollout_difference(case: &Case, driver: &CodexDriver) -> Result<(), String> {
    let plan = rollout_plan(case);
    let (resumed, template) = resumed(case, &plan, &|bytes| bytes, driver).await?;
    let asked = resumed.asked.into_iter().next();
    let asked = asked.ok_or("nothing was asked")??;
    let expected = case.expected.as_ref().map_err(Clone::clone)?;
    let same = shown(expected, &asked.input, &template, &case.version);
    if same && asked.window == Some(case.window) {
        return Ok(());
    }
    let (wanted, found) = (short(expected), short(&asked.input));
    Err(format!(
        "\n  expected {wanted}, window {}\n  found    {found}, window {:?}",
        case.window, asked.window
    ))
}

async fn damage_difference(entry: &Value, case: &Case, driver: &CodexDriver) -> Result<(), String> {
    let plan = prepared(damage::plan(&case.version), case);
    let bytes = |bytes| damage::damaged(entry, bytes);
    let (resumed, template) = resumed(case, &plan, &bytes, driver).await?;
    let glued = resumed.glued;
    let inputs: Result<Vec<_>, String> = resumed.asked.into_iter().collect();
    match (&case.expected, inputs) {
        (Err(error), Err(why)) if why.contains(error.as_str()) => Ok(()),
        (Ok(first), Ok(asked)) => {
            let second = short_forms::input(&entry["second_wire_input"]);
            let mut pairs = [first, &second].into_iter().zip(&asked);
            let same = asked.len() == 2
                && pairs.all(|(short, asked)| shown(short, &asked.input, &template, &case.version));
            if same && glued == (entry["glued"] == true) {
                return Ok(());
            }
            let found: Vec<String> = asked.iter().map(|asked| short(&asked.input)).collect();
            let wanted = [short(first), short(&second)];
            Err(format!(
                "\n  expected {wanted:?}\n  found    {found:?}, glued {glued}"
            ))
        }
        (expected, inputs) => Err(format!(
            "\n  expected {:?}\n  found    {:?}",
            expected.as_deref().map(short),
            inputs.map(|asked| asked.len())
        )),
    }
}

async fn difference(case: &Any, driver: &CodexDriver) -> Option<String> {
    let found = match case {
        Any::Rollout(case) => Box::pin(rollout_difference(case, driver)).await,
        Any::Damage(entry, case) => Box::pin(damage_difference(entry, case, driver)).await,
        Any::Live(case) => Box::pin(live::difference(case, driver))
            .await
            .map_or(Ok(()), Err),
    };
    found.err().map(|why| format!("{}: {why}", case.label()))
}

#[tokio::test(flavor = "current_thread")]
#[ignore = "needs the real binaries"]
async fn drawn_rollouts_give_their_request_on_the_real_binaries() {
    let cases = drawn();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for version in VERSIONS {
        let mine: Vec<&Any> = cases
            .iter()
            .filter(|case| case.version() == version)
            .collect();
        let plans: Vec<Plan> = mine.iter().flat_map(|case| case.plans()).collect();
        let source = Source::Version(version.to_owned());
        let driver = CodexDriver::new(&source, &plans, JOBS).await;
        let driver = driver.expect("a driver");
        let runs = mine.iter().map(|case| difference(case, &driver));
        let mut runs = stream::iter(runs).buffered(JOBS);
        while let Some(found) = runs.next().await {
            compared += 1;
            wrong.extend(found);
        }
        drop(runs);
        driver.close().await;
    }
    for (label, why) in OTHERWISE {
        let before = wrong.len();
        wrong.retain(|difference: &String| !difference.starts_with(&format!("{label}:")));
        assert!(wrong.len() < before, "{label} is equal now: {why}");
    }
    count(compared - OTHERWISE.len(), wrong.len());
    assert_eq!(compared, DRAWN);
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The draw has every version and every group in it, or it shows little.
#[test]
fn the_draw_is_mixed() {
    let cases = drawn();
    let labels: Vec<String> = cases.iter().map(Any::label).collect();
    for group in ["g4", "g5", "g6", "g7", "g8", "g9", "g10"] {
        let of_group = |label: &&String| {
            let name = label.split('/').next().unwrap_or_default();
            name.trim_end_matches(['b', 'c']) == group
        };
        assert!(labels.iter().any(|label| of_group(&label)), "{group}");
    }
    for version in VERSIONS {
        let of_version = cases.iter().filter(|case| case.version() == version);
        assert!(of_version.count() >= 10, "{version}");
    }
}
