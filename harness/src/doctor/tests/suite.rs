//! Rollouts of the suite: what our engine writes and what the real binaries wrote is clean, but for
//! the scenarios that plant an error.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::{OPTIONS, doctor_named};
use crate::driver;
use crate::golden::gate::Gate;
use crate::golden::versions::VERSIONS;
use crate::scenario::{Resolved, Suite};

/// Scenarios that plant an output without its call.
const PLANTED: [&str; 9] = [
    "history/drops_a_custom_output_without_call",
    "history/drops_a_named_output_without_call",
    "history/drops_an_output_without_call",
    "history/keeps_a_tool_search_output_of_the_server",
    "history/keeps_outputs_and_calls_of_other_kinds_apart",
    "history/leaves_a_local_shell_call_without_call_id_open",
    "history/pairs_a_local_shell_call_with_a_function_output",
    "turn/response/counts_the_time_to_the_first_token",
    "turn/response/records_outputs_that_the_model_gives",
];

/// Scenarios of lite models, whose base instructions stand in the history: a rollout does not say
/// so, and the estimate counts them once more.
const LITE: [&str; 2] = [
    "request/sends_the_base_twice_to_a_lite_model_without_tools",
    "request/sends_tools_as_items_in_lite_mode",
];

/// Errors in the rollouts of the suite that nobody planted.
#[derive(Default)]
struct Unplanted {
    files: usize,
    /// Checkpoints behind which our estimate is the one that was recorded.
    estimated: usize,
    misestimated: Vec<String>,
    planted: BTreeSet<&'static str>,
    problems: Vec<String>,
}

impl Unplanted {
    fn look(&mut self, id: &str, subject: &str, name: &str, bytes: &[u8]) {
        self.files += 1;
        let report = doctor_named(name, bytes, OPTIONS);
        for checkpoint in &report.checkpoints {
            let (recorded, estimated) = (checkpoint.recorded_after, checkpoint.estimated_after);
            if recorded == Some(estimated) {
                self.estimated += 1;
            } else if recorded.is_some() && !LITE.contains(&id) {
                let line = checkpoint.line;
                self.misestimated.push(format!(
                    "{id} on {subject}: checkpoint at {line}: estimate {estimated}, {recorded:?}"
                ));
            }
        }
        let errors = report
            .findings
            .iter()
            .filter(|f| f.severity.word() == "error");
        for finding in errors {
            let known = PLANTED.into_iter().find(|planted| *planted == id);
            if let Some(planted) = known.filter(|_| finding.rule == "output.no_call") {
                self.planted.insert(planted);
            } else {
                let (rule, line, what) = (finding.rule, finding.line, &finding.what);
                self.problems
                    .push(format!("{id} on {subject}: {rule} at {line}: {what}"));
            }
        }
    }

    /// There were at least so many files, each planted error was found, and no other.
    fn judge(&self, files_min: usize) {
        assert!(self.problems.is_empty(), "{}", self.problems.join("\n"));
        assert!(self.files >= files_min, "{} files", self.files);
        assert_eq!(self.planted, BTreeSet::from(PLANTED));
    }
}

fn suite() -> Suite {
    Suite::find(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a suite")
}

#[tokio::test(flavor = "current_thread")]
async fn what_the_engine_writes_has_no_error() {
    let suite = suite();
    let mut found = Unplanted::default();
    for version in VERSIONS {
        let subject = format!("engine@{}", version.name);
        let driver = driver::open(&subject, &[]).await.expect("an engine");
        let real = semver::Version::parse(version.real).expect("a version");
        for file in suite.files.iter().filter(|file| !file.is_canary()) {
            let loaded = suite.load(file).expect("valid");
            let Ok(Resolved::Applicable(plan)) = loaded.plan(&real) else {
                continue;
            };
            if plan.damages_rollouts() {
                continue;
            }
            let Ok(outcome) = driver.run(&plan).await else {
                continue;
            };
            for rollout in &outcome.recording.rollouts {
                found.look(&file.id, &subject, &rollout.name, rollout.text.as_bytes());
            }
        }
    }
    found.judge(1000);
    let wrong = &found.misestimated;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found.estimated > 500, "{} estimates", found.estimated);
}

/// The goldens hold what the real binaries wrote, up to masked ids and times. Estimates are not
/// compared: a mask has another length than what it stands for.
#[test]
fn what_the_real_binaries_write_has_no_error() {
    let mut found = Unplanted::default();
    for (version, id, text) in golden_rollouts() {
        found.look(&id, version, "golden.jsonl", text.as_bytes());
    }
    found.judge(1000);
}

/// Version, scenario and text of every rollout that a golden holds.
pub(crate) fn golden_rollouts() -> Vec<(&'static str, String, String)> {
    let suite = suite();
    let scratch = tempfile::tempdir().expect("a folder");
    let gate = Gate::open(
        &suite.root.join("golden"),
        scratch.path(),
        Box::new(|_| Vec::new()),
    );
    let gate = gate.expect("the goldens");
    let mut found = Vec::new();
    for (index, version) in VERSIONS.iter().enumerate() {
        let real = semver::Version::parse(version.real).expect("a version");
        for file in suite.files.iter().filter(|file| !file.is_canary()) {
            let loaded = suite.load(file).expect("valid");
            let Ok(Resolved::Applicable(plan)) = loaded.plan(&real) else {
                continue;
            };
            if plan.damages_rollouts() {
                continue;
            }
            let Some(masked) = gate.golden(&file.id, index) else {
                continue;
            };
            for rollout in &masked.rollouts {
                let lines = rollout.records.iter().map(|record| {
                    let line = unfolded(record).to_string();
                    unmasked(&line, version.real) + "\n"
                });
                found.push((version.real, file.id.clone(), lines.collect()));
            }
        }
    }
    found
}

/// A golden's record with texts in the place of those that it shortens.
fn unfolded(value: &Value) -> Value {
    match value {
        Value::Object(map) => match map.get("$long") {
            Some(long) => {
                let bytes = long["bytes"].as_u64().expect("a length") as usize;
                let head = long["head"].as_str().expect("a head");
                json!(format!("{head}{}", "x".repeat(bytes - head.len())))
            }
            None => map
                .iter()
                .map(|(key, value)| (key.clone(), unfolded(value)))
                .collect(),
        },
        Value::Array(list) => list.iter().map(unfolded).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A golden's line with values in the place of masks that stand for another type or decide.
fn unmasked(line: &str, version: &str) -> String {
    line.replace("<version>", version)
        .replace(r#""timeout_ms":"<time>""#, r#""timeout_ms":1000"#)
}
