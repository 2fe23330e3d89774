//! A scenario of the suite, run, imported and run again, asks for the same: what the model sees, the
//! kinds of requests and the reported usage are equal.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::random;
use super::redact::Texts;
use super::{Imported, Mode, import};
use crate::driver::{self, Driver, Outcome};
use crate::golden::versions::VERSIONS;
use crate::recording::ClientEvent;
use crate::scenario::plan::{Answers, Plan};
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

/// [`Seen`] with lengths in the place of texts. An image's bytes are not kept, its size is.
fn lengths(seen: &Seen) -> Vec<(String, Vec<(String, usize)>)> {
    let requests = seen.requests.iter().map(|request| {
        let items = request.items.iter();
        let items = items
            .map(|(kind, text)| (kind.clone(), without_images(text).len()))
            .collect();
        (request.kind.clone(), items)
    });
    requests.collect()
}

fn without_images(text: &str) -> String {
    let mut parts = text.split("data:image/");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.find(['"', '\\']).map_or("", |end| &part[end..]));
    }
    out
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
            if plan.damages_rollouts() {
                continue;
            }
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

/// Scenarios that do not come back yet: subject, `texts` or `lengths`, scenario, reason.
const UNEQUAL: &str = include_str!("unequal.tsv");
/// Scenarios that came back of those that an engine runs, at least. A number that falls is a loss.
const EQUAL_MIN: [(&str, usize, usize); 2] = [("0.144", 332, 331), ("0.171", 365, 362)];

/// Runs every scenario of a version; the listed ones and no others differ.
async fn suite_comes_back(version: &str, keep: bool) {
    let what = if keep { "texts" } else { "lengths" };
    let listed: BTreeSet<&str> = UNEQUAL
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\t');
            let fits = fields.next() == Some(version) && fields.next() == Some(what);
            fits.then(|| fields.next()).flatten()
        })
        .collect();
    let known = VERSIONS.iter().find(|known| known.name == version);
    let real = known.expect("a version").real;
    let subject = format!("engine@{version}");
    let driver = driver::open(&subject, &[]).await.expect("an engine");
    let mut problems = Vec::new();
    let (mut equal, mut all) = (0, 0);
    for case in cases(real) {
        all += 1;
        let listed = listed.contains(case.id.as_str());
        match round_trip(&case, &*driver, real, keep).await {
            None => {
                equal += 1;
                if listed {
                    problems.push(format!("{} comes back: unlist it", case.id));
                }
            }
            Some(why) if !listed => {
                let why: String = why.chars().take(600).collect();
                problems.push(format!("{version}\t{what}\t{}\t{why}", case.id));
            }
            Some(_) => {}
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let least = EQUAL_MIN.iter().find(|(name, ..)| *name == version);
    let (_, texts, lengths) = least.expect("a number");
    let least = if keep { *texts } else { *lengths };
    assert!(equal >= least, "{equal} of {all}, at least {least}");
}

#[tokio::test(flavor = "current_thread")]
async fn scenarios_of_0_144_come_back_with_their_texts() {
    suite_comes_back("0.144", true).await;
}

#[tokio::test(flavor = "current_thread")]
async fn scenarios_of_0_144_come_back_with_equal_lengths() {
    suite_comes_back("0.144", false).await;
}

#[tokio::test(flavor = "current_thread")]
async fn scenarios_of_0_171_come_back_with_their_texts() {
    suite_comes_back("0.171", true).await;
}

#[tokio::test(flavor = "current_thread")]
async fn scenarios_of_0_171_come_back_with_equal_lengths() {
    suite_comes_back("0.171", false).await;
}

/// Sessions that are drawn, and engines that play them.
const SESSIONS: u64 = 200;

/// Whatever is drawn is played again with equal requests, with its texts and with stand-ins. The
/// engines take turns: each plays a third of the sessions.
#[tokio::test(flavor = "current_thread")]
async fn drawn_sessions_come_back() {
    let mut problems = Vec::new();
    let (mut requests, mut compactions) = (0, 0);
    for seed in 0..SESSIONS {
        let version = &VERSIONS[(seed % VERSIONS.len() as u64) as usize];
        let subject = format!("engine@{}", version.name);
        let driver = driver::open(&subject, &[]).await.expect("an engine");
        let text = random::session(seed);
        let loaded = load_bytes("drawn.yaml", "drawn", text.as_bytes(), None);
        let loaded = loaded.unwrap_or_else(|errors| panic!("seed {seed}: {}\n{text}", errors[0]));
        let real = semver::Version::parse(version.real).expect("a version");
        let Ok(Resolved::Applicable(plan)) = loaded.plan(&real) else {
            panic!("seed {seed}: not a plan\n{text}");
        };
        let outcome = driver.run(&plan).await.expect("runs");
        if !outcome.findings.is_empty() {
            problems.push(format!("seed {seed} on {subject}: {:?}", outcome.findings));
            continue;
        }
        requests += outcome.recording.journal.len();
        let replies = plan.steps.iter().flat_map(|step| &step.replies);
        compactions += replies
            .filter(|reply| reply.answers != Answers::Turn)
            .count();
        let id = format!("seed {seed}");
        let case = Case { id, plan: *plan };
        for keep in [true, false] {
            if let Some(why) = round_trip(&case, &*driver, version.real, keep).await {
                let why: String = why.chars().take(600).collect();
                problems.push(format!("seed {seed} on {subject}, texts {keep}: {why}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(requests > 1500, "{requests} requests");
    assert!(compactions > 200, "{compactions} compactions");
}

/// What `cargo xtask record-transcripts` wrote down from each real version.
const TRANSCRIPTS: [(&str, &str); 3] = [
    ("0.144", "0.144.6"),
    ("0.164", "0.164.0"),
    ("0.171", "0.171.0"),
];

/// Items, checkpoints, ends of turns and token totals of a rollout, in order.
fn shape(text: &str) -> Vec<String> {
    let records = text.lines().filter_map(|line| {
        let record: Value = serde_json::from_str(line).expect("a record");
        let payload = &record["payload"];
        let inner = payload["type"].as_str().unwrap_or_default();
        match record["type"].as_str()? {
            // The one output that no client can give; the import lists it.
            "response_item" if inner == "custom_tool_call_output" => None,
            "response_item" => Some(format!("{inner} {}", payload["role"])),
            "compacted" => {
                let kept = payload["replacement_history"].as_array()?.len();
                Some(format!(
                    "checkpoint of {kept}, window {}",
                    payload["window_number"]
                ))
            }
            "event_msg" if ["task_started", "task_complete"].contains(&inner) => {
                Some(inner.to_owned())
            }
            _ => None,
        }
    });
    records.collect()
}

/// Threads that used the shell, the patch tool and an MCP server, saw an image and compacted three
/// times on a real binary are played again on our engine.
#[tokio::test(flavor = "current_thread")]
async fn transcripts_of_the_real_binaries_are_played_again() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts");
    for (name, real) in TRANSCRIPTS {
        let path = root.join(real).join("tools.jsonl");
        let recorded = std::fs::read_to_string(&path).expect("a transcript");
        let driver = driver::open(&format!("engine@{name}"), &[])
            .await
            .expect("an engine");
        for keep in [true, false] {
            let texts = Texts {
                keep,
                ..Texts::default()
            };
            let imported = import(&path, Mode::Replay, &texts).expect("imported");
            let [left] = imported.left_out.as_slice() else {
                panic!("{real}: {:?}", imported.left_out)
            };
            assert!(
                left.what.contains("`custom_tool_call`"),
                "{real}: {}",
                left.what
            );
            assert!(imported.yaml.contains("Tool exec_command is exec_commanx"));
            let again = run_again(&imported, &*driver, real).await.expect("runs");
            assert_eq!(again.findings, [], "{real}: {}", imported.yaml);
            let [rollout] = again.recording.rollouts.as_slice() else {
                panic!("{real}: no rollout")
            };
            assert_eq!(
                shape(&rollout.text),
                shape(&recorded),
                "{real}, texts {keep}"
            );
            let supplied = import(&path, Mode::Supplied, &texts).expect("imported");
            assert_eq!(supplied.left_out, [], "{real}");
            let again = run_again(&supplied, &*driver, real).await.expect("runs");
            assert_eq!(again.findings, [], "{real}: {}", supplied.yaml);
        }
    }
}

/// Every difference that is listed has a reason, and no line stands twice.
#[test]
fn the_list_of_differences_is_well_kept() {
    let mut seen = BTreeSet::new();
    for line in UNEQUAL.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [version, what, id, reason] = fields[..] else {
            panic!("not four fields: {line}");
        };
        assert!(["0.144", "0.171"].contains(&version), "{line}");
        assert!(["texts", "lengths"].contains(&what), "{line}");
        assert!(reason.len() > 10, "{line}");
        assert!(seen.insert((version, what, id)), "twice: {line}");
    }
}

/// What the real binaries wrote makes valid scenarios. The goldens hold it, up to masked ids and
/// times, which stand for texts here.
#[tokio::test(flavor = "current_thread")]
async fn rollouts_of_the_real_binaries_are_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut problems = Vec::new();
    let (mut files, mut clean) = (0, 0);
    for (version, id, text) in crate::doctor::tests::suite::golden_rollouts() {
        let path = folder.path().join("rollout.jsonl");
        std::fs::write(&path, text).expect("written");
        files += 1;
        let imported = match import(&path, Mode::Replay, &Texts::default()) {
            Ok(imported) => imported,
            // A thread that came to no turn.
            Err(error) if error.what == "no turn to play" => continue,
            Err(error) => {
                problems.push(format!("{version} {id}: {error}"));
                continue;
            }
        };
        let known = VERSIONS.iter().find(|known| known.real == version);
        let name = known.expect("a version").name;
        let subject = format!("engine@{name}");
        let driver = driver::open(&subject, &[]).await.expect("an engine");
        match run_again(&imported, &*driver, version).await {
            Ok(outcome) => clean += usize::from(outcome.findings.is_empty()),
            Err(why) => problems.push(format!("{version} {id}: {why}")),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(files > 1000, "{files} files");
    assert!(
        clean >= CLEAN_MIN,
        "{clean} of {files} play without a finding"
    );
}

/// Rollouts of real binaries whose scenario asks for what it scripts, at least.
const CLEAN_MIN: usize = 1489;

/// A turn whose custom call only Codex answers is supplied as a history, and the rest is played.
#[test]
fn what_cannot_be_played_is_supplied() {
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let turn = |user: &str, items: &[Value], total: u64| {
        let mut records = vec![
            (
                "event_msg",
                json!({"type": "task_started", "model_context_window": 95_000}),
            ),
            ("response_item", message("user", "input_text", user)),
            (
                "event_msg",
                json!({"type": "user_message", "message": user}),
            ),
        ];
        records.extend(items.iter().map(|item| ("response_item", item.clone())));
        let usage = json!({"input_tokens": 5, "total_tokens": total});
        let info = json!({"total_token_usage": usage, "last_token_usage": usage});
        records.push(("event_msg", json!({"type": "token_count", "info": info})));
        let ended = json!({"type": "task_complete", "last_agent_message": "Done."});
        records.push(("event_msg", ended));
        records
    };
    let call = json!({"type": "custom_tool_call", "name": "apply_patch", "input": "p",
        "call_id": "call_1"});
    let output = json!({"type": "custom_tool_call_output", "call_id": "call_1", "output": "ok"});
    let done = message("assistant", "output_text", "Done.");
    let mut records = vec![(
        "session_meta",
        json!({"cwd": "/w", "cli_version": "0.171.0"}),
    )];
    records.extend(turn("Patch it.", &[call, output, done.clone()], 5));
    records.extend(turn("And now?", &[done], 10));
    let lines = records.iter().map(|(kind, payload)| {
        json!({"timestamp": "t", "type": kind, "payload": payload}).to_string() + "\n"
    });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rollout.jsonl");
    std::fs::write(&path, lines.collect::<String>()).expect("written");
    let texts = Texts {
        keep: true,
        ..Texts::default()
    };
    let replayed = import(&path, Mode::Replay, &texts).expect("imported");
    let [left] = replayed.left_out.as_slice() else {
        panic!("{:?}", replayed.left_out)
    };
    assert_eq!(left.place.line, 5);
    assert!(
        left.what.contains("`custom_tool_call` (call_1)"),
        "{}",
        left.what
    );
    assert!(replayed.yaml.contains("#   5:"), "{}", replayed.yaml);
    let supplied = import(&path, Mode::Supplied, &texts).expect("imported");
    assert_eq!(supplied.left_out, []);
    let loaded = load_bytes("a.yaml", "a", supplied.yaml.as_bytes(), None).expect("valid");
    let steps = &loaded.scenario.steps.0;
    let history = steps[0]
        .value
        .resume
        .as_ref()
        .and_then(|resume| resume.history.as_ref());
    let kinds: Vec<&Value> = history
        .expect("a history")
        .iter()
        .map(|i| &i["type"])
        .collect();
    assert_eq!(
        kinds,
        [
            "message",
            "custom_tool_call",
            "custom_tool_call_output",
            "message"
        ]
    );
    assert!(
        steps.len() == 2 && steps[1].value.user.is_some(),
        "{}",
        supplied.yaml
    );
}

/// A file that lacks any one of its lines, or ends behind it, still makes a valid scenario or says
/// why not.
#[tokio::test(flavor = "current_thread")]
async fn a_file_with_a_hole_makes_a_valid_scenario() {
    let driver = driver::open("engine@0.171", &[]).await.expect("an engine");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rollout.jsonl");
    let wanted = [
        "compaction/local/story_compacts_in_the_middle_of_the_turn",
        "compaction/remote_v2/story_compacts_before_the_next_turn",
        "turn/records_an_interrupt_during_a_tool",
        "turn/keeps_a_finished_message_when_a_steer_drops_the_stream",
    ];
    let mut imported = 0;
    for case in cases("0.171.0") {
        if !wanted.contains(&case.id.as_str()) {
            continue;
        }
        let outcome = driver.run(&case.plan).await.expect("runs");
        let text = &outcome.recording.rollouts[0].text;
        let lines: Vec<&str> = text.lines().collect();
        for gone in 1..lines.len() {
            let without = [&lines[..gone], &lines[gone + 1..]].concat();
            for lines in [without.as_slice(), &lines[..=gone]] {
                std::fs::write(&path, lines.join("\n")).expect("written");
                match import(&path, Mode::Replay, &Texts::default()) {
                    Ok(_) => imported += 1,
                    Err(error) => assert_eq!(error.what, "no turn to play", "{}: {error}", case.id),
                }
            }
        }
    }
    assert!(imported > 200, "{imported} files");
}
