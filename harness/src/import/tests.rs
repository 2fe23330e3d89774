//! A scenario of the suite, run, imported and run again, asks for the same: what the model sees, the
//! kinds of requests and the reported usage are equal.

use std::path::Path;

use serde_json::{Value, json};

use super::redact::Texts;
use super::{Imported, Mode, import};
use crate::driver::{self, Driver, Outcome};
use crate::golden::versions::VERSIONS;
use crate::recording::ClientEvent;
use crate::scenario::plan::Plan;
use crate::scenario::{Resolved, Suite, load_bytes};

/// What is compared of a run.
#[derive(Debug, PartialEq)]
struct Seen {
    requests: Vec<Request>,
    usage: Vec<Value>,
}

#[derive(Debug, PartialEq)]
struct Request {
    kind: String,
    items: Vec<(String, String)>,
}

fn seen(outcome: &Outcome) -> Seen {
    let asked = outcome
        .recording
        .journal
        .iter()
        .filter(|e| !e.is_handshake());
    let requests = asked.map(|exchange| {
        let body: Value = serde_json::from_slice(&exchange.body).unwrap_or_default();
        let meta = body["client_metadata"]["x-codex-turn-metadata"].as_str();
        let meta: Value = meta
            .and_then(|m| serde_json::from_str(m).ok())
            .unwrap_or_default();
        let mut items: Vec<(String, String)> = vec![(
            "instructions".to_owned(),
            body["instructions"].as_str().unwrap_or_default().to_owned(),
        )];
        let input = body["input"].as_array();
        items.extend(input.into_iter().flatten().map(item));
        Request {
            kind: format!("{} {}", exchange.path, meta["request_kind"]),
            items,
        }
    });
    let usage = outcome
        .recording
        .events
        .iter()
        .filter_map(|event| match event {
            ClientEvent::TokenUsage { last, .. } => Some(last.clone()),
            _ => None,
        });
    // A resume reports the last usage once more, and leaves no record of itself.
    let mut usage: Vec<Value> = usage.collect();
    usage.dedup();
    Seen {
        requests: requests.collect(),
        usage,
    }
}

/// Kind and texts of an item.
fn item(item: &Value) -> (String, String) {
    let kind = format!("{} {}", item["type"], item["role"]);
    let parts = [
        "content",
        "arguments",
        "output",
        "input",
        "summary",
        "encrypted_content",
        "name",
    ];
    let texts: Vec<Value> = parts.iter().map(|key| plain(&item[*key])).collect();
    (kind, json!(texts).to_string())
}

/// A text, whether it stands alone or in one part.
fn plain(value: &Value) -> Value {
    match value.as_array().map(Vec::as_slice) {
        Some([part]) if part["text"].is_string() => part["text"].clone(),
        _ => value.clone(),
    }
}

/// [`Seen`] with lengths in the place of texts.
fn lengths(seen: &Seen) -> Vec<(String, Vec<(String, usize)>)> {
    let requests = seen.requests.iter().map(|request| {
        let items = request.items.iter();
        let items = items
            .map(|(kind, text)| (kind.clone(), text.len()))
            .collect();
        (request.kind.clone(), items)
    });
    requests.collect()
}

struct Case {
    id: String,
    plan: Plan,
}

/// Scenarios of a version.
fn cases(version: &str) -> Vec<Case> {
    let suite = Suite::find(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a suite");
    let version = semver::Version::parse(version).expect("a version");
    let mut cases = Vec::new();
    for file in suite.files.iter().filter(|file| !file.is_canary()) {
        let loaded = suite.load(file).expect("valid");
        if let Ok(Resolved::Applicable(plan)) = loaded.plan(&version) {
            let id = file.id.clone();
            cases.push(Case { id, plan: *plan });
        }
    }
    cases
}

/// Why a scenario and its import differ; nothing where they do not.
async fn round_trip(case: &Case, driver: &dyn Driver, version: &str, keep: bool) -> Option<String> {
    let Ok(first) = driver.run(&case.plan).await else {
        return Some("the engine does not run it".to_owned());
    };
    let [rollout] = first.recording.rollouts.as_slice() else {
        return Some(format!("{} rollout files", first.recording.rollouts.len()));
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(&rollout.name);
    std::fs::write(&path, &rollout.text).expect("written");
    let texts = Texts {
        keep,
        ..Texts::default()
    };
    let imported = match import(&path, Mode::Replay, &texts) {
        Ok(imported) => imported,
        Err(error) => return Some(format!("no import: {error}")),
    };
    if let Ok(folder) = std::env::var("TURNPROOF_IMPORT_DUMP") {
        let path = Path::new(&folder)
            .join(version)
            .join(format!("{}.yaml", case.id));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, &imported.yaml).expect("written");
    }
    let again = run_again(&imported, driver, version).await;
    let again = match again {
        Ok(again) => again,
        Err(why) => return Some(why),
    };
    let (one, other) = (seen(&first), seen(&again));
    if keep {
        difference(&one, &other)
    } else {
        let (one, other) = (lengths(&one), lengths(&other));
        (one != other).then(|| "the lengths differ".to_owned())
    }
}

async fn run_again(
    imported: &Imported,
    driver: &dyn Driver,
    version: &str,
) -> Result<Outcome, String> {
    let loaded = load_bytes("again.yaml", "again", imported.yaml.as_bytes(), None)
        .map_err(|errors| format!("invalid: {}", errors[0]))?;
    let version = semver::Version::parse(version).expect("a version");
    let plan = match loaded.plan(&version).map_err(|error| error.to_string())? {
        Resolved::Applicable(plan) => plan,
        Resolved::NotApplicable(why) => return Err(why),
    };
    driver
        .run(&plan)
        .await
        .map_err(|error| format!("{error:?}"))
}

fn difference(one: &Seen, other: &Seen) -> Option<String> {
    for (number, (a, b)) in one.requests.iter().zip(&other.requests).enumerate() {
        let number = number + 1;
        if a.kind != b.kind {
            return Some(format!("request {number}: {} against {}", a.kind, b.kind));
        }
        for (at, (a, b)) in a.items.iter().zip(&b.items).enumerate() {
            if a != b {
                return Some(format!("request {number} item {at}: {a:?} against {b:?}"));
            }
        }
        if a.items.len() != b.items.len() {
            let (a, b) = (a.items.len(), b.items.len());
            return Some(format!("request {number}: {a} items against {b}"));
        }
    }
    if one.requests.len() != other.requests.len() {
        let (a, b) = (one.requests.len(), other.requests.len());
        return Some(format!("{a} requests against {b}"));
    }
    (one.usage != other.usage).then(|| format!("usage: {:?} against {:?}", one.usage, other.usage))
}

#[tokio::test(flavor = "current_thread")]
async fn survey() {
    for version in VERSIONS {
        let driver = driver::open(&format!("engine@{}", version.name), &[])
            .await
            .expect("an engine");
        for keep in [true, false] {
            let (mut equal, mut all) = (0, 0);
            for case in cases(version.real) {
                let found = round_trip(&case, &*driver, version.real, keep).await;
                all += 1;
                match found {
                    None => equal += 1,
                    Some(why) => {
                        let why: String = why.chars().take(700).collect();
                        println!("DIFF {} {keep} {}: {why}", version.name, case.id);
                    }
                }
            }
            println!("EQUAL {} {keep} {equal}/{all}", version.name);
        }
    }
}
