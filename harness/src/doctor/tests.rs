//! Whole files through the doctor: a clean one of each version has no finding, each kind of damage
//! trips its own, and no damage at all makes it panic.

mod damage;
pub(crate) mod suite;

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::report::Report;
use super::{Options, examine, report, text};
use crate::golden::versions::VERSIONS;

const THREAD: &str = "0199a213-81c0-7800-8aa1-bbab2a035a53";
const SECRET: &str = "Where does the treasure lie?";
const OPTIONS: Options = Options {
    show_text: false,
    resume_bytes_max: 1024 * 1024,
};

/// A rollout under construction.
#[derive(Clone)]
struct Rollout {
    records: Vec<Value>,
    version: &'static str,
}

impl Rollout {
    fn record(mut self, kind: &str, payload: &Value) -> Self {
        let mut record = json!({"timestamp": "2026-01-01T00:00:00.000Z"});
        if self.version != "0.144.6" {
            record["ordinal"] = json!(self.records.len());
        }
        record["type"] = json!(kind);
        record["payload"] = payload.clone();
        self.records.push(record);
        self
    }

    fn event(self, payload: &Value) -> Self {
        self.record("event_msg", payload)
    }

    fn item(self, payload: &Value) -> Self {
        self.record("response_item", payload)
    }

    fn user(self, text: &str) -> Self {
        self.item(&message("user", text))
            .event(&json!({"type": "user_message", "message": text}))
    }

    fn started(self, turn: &str) -> Self {
        self.event(&json!({"type": "task_started", "turn_id": turn}))
            .record(
                "turn_context",
                &json!({"turn_id": turn, "model": "m", "cwd": "/w", "approval_policy": "never",
                    "sandbox_policy": {"type": "read-only"}, "summary": "auto"}),
            )
    }

    fn usage(self, tokens: u64) -> Self {
        self.event(&json!({"type": "token_count", "info": {
            "last_token_usage": {"total_tokens": tokens}, "model_context_window": 1000}}))
    }

    fn completed(self, turn: &str) -> Self {
        self.event(&json!({"type": "task_complete", "turn_id": turn}))
    }

    fn compacted(self, window: u64, history: &Value) -> Self {
        let turn_context = json!({"turn_id": "t", "model": "m"});
        self.record(
            "compacted",
            &json!({"message": "In short.", "replacement_history": history,
                "window_number": window}),
        )
        .record("turn_context", &turn_context)
        .usage(100)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for record in &self.records {
            let _ = writeln!(text, "{record}");
        }
        text
    }

    /// Rules that the file trips, the worst first.
    fn rules(&self) -> Vec<&'static str> {
        rules(self.text().as_bytes())
    }
}

fn message(role: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "name": "t", "arguments": "{}", "call_id": id})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "done"})
}

fn meta(version: &'static str) -> Rollout {
    let mode = if version == "0.144.6" {
        "legacy"
    } else {
        "paginated"
    };
    let rollout = Rollout {
        records: Vec::new(),
        version,
    };
    rollout.record(
        "session_meta",
        &json!({"id": THREAD, "timestamp": "", "cwd": "/w", "originator": "o",
            "cli_version": version, "history_mode": mode, "base_instructions": {"text": "Be brief."}}),
    )
}

/// One turn with a call.
fn clean(version: &'static str) -> Rollout {
    meta(version)
        .started("t1")
        .user(SECRET)
        .item(&call("c1"))
        .item(&output("c1"))
        .item(&message("assistant", "Here."))
        .usage(500)
        .completed("t1")
}

fn clean_text() -> String {
    clean("0.171.0").text()
}

fn doctor_named(name: &str, bytes: &[u8], options: Options) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    let report = examine(&path, options, &mut |_, _| {}).expect("read");
    assert_eq!(
        std::fs::read(&path).expect("still there"),
        bytes,
        "never written to"
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        1
    );
    report
}

fn doctor(bytes: &[u8]) -> Report {
    doctor_named("bug.jsonl", bytes, OPTIONS)
}

fn rules(bytes: &[u8]) -> Vec<&'static str> {
    let report = doctor(bytes);
    report.findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_clean_file_of_each_version_has_no_finding() {
    for version in VERSIONS {
        let file = clean(version.real).compacted(1, &json!([message("user", SECRET)]));
        let file = file.started("t2").user("More?").completed("t2");
        assert_eq!(file.rules(), [""; 0], "{}", version.real);
    }
}

#[test]
fn what_a_file_holds_is_reported() {
    let file = clean("0.171.0").started("t2").user("More?").compacted(
        1,
        &json!([message("user", SECRET), message("user", "In short.")]),
    );
    let file = file
        .completed("t2")
        .started("t3")
        .event(&json!({"type": "turn_aborted",
        "turn_id": "t3", "reason": "interrupted"}));
    let bytes = file.text();
    let report = doctor(bytes.as_bytes());
    assert_eq!(report.bytes, bytes.len() as u64);
    assert_eq!(report.records, file.records.len() as u64);
    let sum: u64 = report.kinds.iter().map(|kind| kind.bytes).sum();
    assert_eq!(sum, report.bytes, "every byte is counted once");
    assert_eq!(report.session.thread.as_deref(), Some(THREAD));
    assert_eq!(report.session.models, ["m"]);
    let states: Vec<&str> = report
        .turns
        .iter()
        .map(|turn| turn.status.as_str())
        .collect();
    assert_eq!(states, ["completed", "completed", "aborted"]);
    // Base 3, secret 7, call 3, output 2, answer 2 tokens.
    assert_eq!(report.turns[0].estimated_tokens, 17);
    assert_eq!(report.turns[0].recorded_tokens, Some(500));
    assert_eq!(report.turns[1].checkpoints, 1);
    let checkpoint = &report.checkpoints[0];
    assert_eq!(
        (checkpoint.kind, checkpoint.window, checkpoint.items),
        ("local", 1, 2)
    );
    assert_eq!(
        (checkpoint.estimated_before, checkpoint.estimated_after),
        (19, 13)
    );
    assert_eq!(
        (checkpoint.recorded_before, checkpoint.recorded_after),
        (Some(500), Some(100))
    );
    let line = bytes
        .lines()
        .nth(checkpoint.line as usize - 1)
        .expect("the line");
    assert!(line.contains("compacted"));
    assert!(bytes[checkpoint.offset as usize..].starts_with(line));
    let view = report.resume.expect("what a resume sees");
    assert_eq!((view.items, view.window, view.baseline), (2, 1, true));
    assert_eq!(view.estimated_tokens, 13);
}

#[test]
fn a_fork_is_told_from_a_second_thread() {
    let mut fork = clean("0.144.6");
    let parent = fork.records[0].clone();
    fork.records[0]["payload"]["id"] = json!("0199a213-81c0-7800-8aa1-bbab2a035a54");
    fork.records[0]["payload"]["forked_from_id"] = json!(THREAD);
    fork.records.insert(1, parent);
    assert_eq!(fork.rules(), ["session.parent_meta"]);
    let mut child = meta("0.171.0");
    child.records[0]["payload"]["history_base"] =
        json!({"thread_id": THREAD, "end_ordinal_exclusive": 1});
    let child = child.item(&output("of_the_parent"));
    assert_eq!(child.rules(), ["output.no_call", "session.base"]);
    assert_eq!(doctor(child.text().as_bytes()).errors, 0);
}

#[test]
fn the_name_of_the_file_is_held_against_its_thread() {
    let other = "0199a213-81c0-7800-8aa1-bbab2a035a99";
    for (version, errors) in [("0.144.6", 0), ("0.171.0", 1)] {
        let file = clean(version).text();
        let named = |id: &str| format!("rollout-2026-01-01T00-00-00-{id}.jsonl");
        assert_eq!(
            doctor_named(&named(THREAD), file.as_bytes(), OPTIONS).findings,
            []
        );
        let report = doctor_named(&named(other), file.as_bytes(), OPTIONS);
        assert_eq!(report.findings[0].rule, "session.file_name");
        assert_eq!(report.errors, errors);
    }
}

#[test]
fn records_and_items_that_are_not_known_are_named() {
    let clean = || clean("0.171.0");
    assert_eq!(
        clean().record("mystery", &json!({})).rules(),
        ["record.unknown_type"]
    );
    assert_eq!(
        clean().item(&json!({"type": "mystery"})).rules(),
        ["item.unknown_type"]
    );
    assert_eq!(
        clean().item(&json!({"type": "ghost_snapshot"})).rules(),
        [""; 0]
    );
    assert_eq!(
        clean().item(&json!({"type": "message"})).rules(),
        ["item.malformed"]
    );
    let file = clean().event(&json!({"type": "mystery"}));
    assert_eq!(file.rules(), [""; 0], "events of any type are ignored");
}

#[test]
fn calls_are_judged_by_where_they_stand() {
    let clean = || clean("0.171.0");
    assert_eq!(clean().item(&call("x")).rules(), ["call.no_output"]);
    assert_eq!(clean().item(&output("x")).rules(), ["output.no_call"]);
    let past = clean().item(&output("x")).compacted(1, &json!([]));
    assert_eq!(past.rules(), ["pairing.past"]);
    let kept = clean().compacted(1, &json!([call("x")]));
    assert_eq!(kept.rules(), ["call.no_output"]);
    let across = clean()
        .item(&call("x"))
        .compacted(1, &json!([]))
        .item(&output("x"));
    assert_eq!(across.rules(), ["output.no_call", "pairing.past"]);
}

#[test]
fn a_rollback_takes_the_turn_out_of_the_numbers() {
    let file = clean("0.144.6")
        .started("t2")
        .user("More?")
        .item(&call("x"))
        .completed("t2");
    let file = file.event(&json!({"type": "thread_rolled_back", "num_turns": 1}));
    let file = file.started("t3").user("Else?").completed("t3");
    let report = doctor(file.text().as_bytes());
    assert_eq!(
        report.findings.iter().map(|f| f.rule).collect::<Vec<_>>(),
        ["resume.rolled_back"]
    );
    assert!(report.turns[1].rolled_back && !report.turns[0].rolled_back);
    assert_eq!(report.turns[2].items, report.turns[0].items + 1);
}

#[test]
fn checkpoints_and_their_surroundings_are_judged() {
    let clean = || clean("0.144.6");
    let history = json!([message("user", "a")]);
    let bare = json!({"message": "S", "replacement_history": history, "window_number": 1});
    let file = clean().record("compacted", &bare);
    assert_eq!(
        file.rules(),
        ["checkpoint.no_token_count", "resume.no_baseline"]
    );
    let file = clean().record(
        "compacted",
        &json!({"message": "S", "replacement_history": "x"}),
    );
    assert_eq!(file.rules(), ["checkpoint.malformed"]);
    assert_eq!(
        doctor(file.text().as_bytes()).resume.expect("read").window,
        0
    );
    assert_eq!(
        clean().compacted(3, &history).rules(),
        ["checkpoint.window_number"]
    );
    let legacy = clean()
        .record("compacted", &json!({"message": "S"}))
        .usage(1);
    assert_eq!(legacy.rules(), ["checkpoint.legacy", "resume.no_baseline"]);
}

#[test]
fn a_window_that_is_not_recorded_is_counted_over_the_whole_file() {
    let bare = json!({"message": "S", "replacement_history": []});
    let file = clean("0.171.0")
        .record("compacted", &bare)
        .record("compacted", &bare);
    let view = doctor(file.text().as_bytes()).resume.expect("read");
    assert_eq!(
        view.window, 2,
        "though only the newest checkpoint is read again"
    );
}

#[test]
fn repeated_images_are_counted() {
    let image = |bytes: usize| {
        let url = format!("data:image/png;base64,{}", "A".repeat(bytes));
        json!({"type": "message", "role": "user",
            "content": [{"type": "input_image", "image_url": url}]})
    };
    for (bytes, severity) in [(100, "note"), (1024 * 1024, "warning")] {
        let file = clean("0.171.0")
            .item(&image(bytes))
            .compacted(1, &json!([image(bytes)]));
        let report = doctor(file.text().as_bytes());
        let finding = &report.findings[0];
        assert_eq!(
            (finding.rule, finding.severity.word()),
            ("image.repeated", severity)
        );
        assert_eq!(report.images.wasted_bytes, bytes as u64 + 22);
        assert_eq!(report.checkpoints[0].images, 1);
    }
}

#[test]
fn no_text_is_printed_unless_it_is_asked_for() {
    let mut file = clean("0.171.0")
        .compacted(1, &json!([message("user", SECRET)]))
        .text();
    let _ = writeln!(file, "{{\"broken\": \"{SECRET}");
    for show_text in [false, true] {
        let report = doctor_named(
            "bug.jsonl",
            file.as_bytes(),
            Options {
                show_text,
                ..OPTIONS
            },
        );
        let printed = text::report("bug.jsonl", &report);
        let json = report::json(&[("bug.jsonl".to_owned(), report)]).expect("JSON");
        for output in [&printed, &json] {
            assert_eq!(output.contains("treasure"), show_text, "{output}");
            assert_eq!(output.contains("In short."), show_text, "{output}");
            assert!(!output.contains("Be brief."), "{output}");
        }
    }
}

#[test]
fn a_flood_of_rows_is_shortened_in_the_text_only() {
    let mut file = meta("0.171.0");
    for turn in 0..200 {
        let turn = format!("t{turn}");
        file = file.started(&turn).user("Next?").completed(&turn);
    }
    let report = doctor(file.text().as_bytes());
    assert_eq!(report.turns.len(), 200);
    let printed = text::report("bug.jsonl", &report);
    assert!(
        printed.contains("… 160 turns; --json lists them"),
        "{printed}"
    );
    assert!(printed.lines().count() < 70, "{printed}");
}
