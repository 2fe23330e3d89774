//! Whole files through the doctor: a clean one of each version has no finding, each kind of damage
//! trips its own, and no damage at all makes it panic.

mod suite;

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
            .record("turn_context", &json!({"turn_id": turn, "model": "m"}))
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
        &json!({"id": THREAD, "cwd": "/w", "cli_version": version, "history_mode": mode,
            "base_instructions": {"text": "Be brief."}}),
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
fn each_damage_of_a_line_trips_its_finding() {
    let file = clean_text();
    let line = file.lines().nth(4).expect("a line");
    let at = file.find(line).expect("found") as u64;
    let half = &line[..line.len() / 2];
    let with = |new: &str| file.replacen(line, new, 1).into_bytes();
    let invalid: Vec<u8> = with(&line.replacen("2026", "\u{1}026", 1));
    let invalid: Vec<u8> = invalid
        .iter()
        .map(|b| if *b == 1 { 0xFF } else { *b })
        .collect();
    // The event is no item, so that nothing but the line itself is amiss.
    for (rule, offset, bytes) in [
        ("line.cut_off", at, with(half)),
        (
            "line.glued",
            at + half.len() as u64,
            with(&format!("{half}{line}")),
        ),
        (
            "line.two_records",
            at + line.len() as u64,
            with(&format!("{line}{line}")),
        ),
        ("line.not_json", at, with("garbage")),
        ("line.not_a_record", at, with("[1,2]")),
        (
            "line.nul",
            at + 14,
            with(&line.replacen("2026", "\u{0}026", 1)),
        ),
        ("line.invalid_utf8", at + 14, invalid),
        ("line.byte_order_mark", at, with(&format!("\u{feff}{line}"))),
    ] {
        let report = doctor(&bytes);
        let errors = report
            .findings
            .iter()
            .filter(|f| f.severity.word() == "error");
        let errors: Vec<_> = errors.map(|f| (f.rule, f.line, f.offset)).collect();
        assert_eq!(errors, [(rule, 5, offset)]);
        assert_eq!(report.errors, 1, "{rule}");
        // The record is gone, and its ordinal with it.
        assert!(
            report.findings.iter().any(|f| f.rule == "ordinal.gap"),
            "{rule}"
        );
    }
    for (rule, bytes) in [
        ("line.carriage_return", file.replace('\n', "\r\n")),
        ("line.blank", file.replacen('\n', "\n\n", 1)),
        ("file.no_final_newline", file.trim_end().to_owned()),
    ] {
        assert_eq!(rules(bytes.as_bytes()), [rule]);
        assert_eq!(doctor(bytes.as_bytes()).errors, 0, "{rule}");
    }
    let torn = &file[..file.len() - 9];
    assert_eq!(rules(torn.as_bytes()), ["line.torn", "turn.unfinished"]);
}

#[test]
fn damage_of_the_whole_file_trips_its_finding() {
    assert_eq!(rules(b""), ["file.empty"]);
    assert_eq!(rules(b"\n\n"), ["file.empty", "line.blank", "line.blank"]);
    let file = clean_text();
    let (first, rest) = file.split_once('\n').expect("lines");
    let found = rules(rest.as_bytes());
    assert!(found.starts_with(&["session.no_meta"]), "{found:?}");
    assert_eq!(doctor(rest.as_bytes()).resume, None);
    let marked = format!("\u{feff}{file}");
    assert_eq!(
        rules(marked.as_bytes()),
        ["line.byte_order_mark", "session.no_meta"]
    );
    let no_cwd = file.replacen("\"cwd\"", "\"cwe\"", 1);
    assert_eq!(rules(no_cwd.as_bytes()), ["session.broken_meta"]);
    let weird = file.replacen("\"paginated\"", "\"weird\"", 1);
    assert!(rules(weird.as_bytes()).contains(&"session.broken_meta"));
    let newer = file.replacen("0.171.0", "0.180.0", 1);
    assert_eq!(rules(newer.as_bytes()), ["session.unknown_version"]);
    let twice = format!("{first}\n{file}");
    let found = rules(twice.as_bytes());
    assert_eq!(found, ["ordinal.duplicate", "session.second_meta"]);
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
fn long_lines_are_read_and_named() {
    let long = "x".repeat(9 * 1024 * 1024);
    let file = clean("0.171.0").started("t2").user(&long).completed("t2");
    let report = doctor(file.text().as_bytes());
    let found: Vec<_> = report.findings.iter().map(|f| (f.rule, f.line)).collect();
    let expected = [("line.long", 13), ("line.long", 14), ("resume.not_read", 1)];
    assert_eq!(found, expected);
    assert_eq!(report.errors, 0);
}

#[test]
fn damage_of_the_compression_is_a_finding_and_what_came_before_is_read() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let file = clean_text();
    let whole = compress_to_vec(file.as_bytes(), CompressionLevel::Fastest);
    let report = doctor_named("bug.jsonl.zst", &whole, OPTIONS);
    assert_eq!((report.findings.len(), report.compressed), (0, true));
    assert_eq!(report.bytes, file.len() as u64);
    let mut damaged = whole;
    damaged.extend_from_slice(b"no frame");
    let report = doctor_named("bug.jsonl.zst", &damaged, OPTIONS);
    let found: Vec<_> = report.findings.iter().map(|f| (f.rule, f.offset)).collect();
    assert_eq!(found, [("file.compression", file.len() as u64)]);
    assert!(report.resume.is_some());
    let plain = doctor_named("bug.jsonl.zst", file.as_bytes(), OPTIONS);
    assert_eq!(plain.findings[0].rule, "file.compression");
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

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]
    /// Bytes are turned, lines are cut, doubled and moved; the report adds up all the same.
    #[test]
    fn no_damage_makes_it_panic(
        edits in proptest::collection::vec((0_usize..4, 0_usize..10_000, 0_u8..=255), 1..12),
        cut in 0_usize..10_000,
    ) {
        let file = clean("0.171.0").compacted(1, &json!([call("x"), message("user", SECRET)]));
        let mut bytes = file.user("More?").item(&output("x")).text().into_bytes();
        for (kind, place, byte) in edits {
            let place = place % bytes.len();
            match kind {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                2 => drop(bytes.remove(place)),
                _ => {
                    let tail = bytes.split_off(place);
                    bytes.splice(0..0, tail);
                }
            }
        }
        bytes.truncate(bytes.len() - cut % bytes.len());
        let report = doctor(&bytes);
        let sum: u64 = report.kinds.iter().map(|kind| kind.bytes).sum();
        proptest::prop_assert_eq!(sum, bytes.len() as u64);
        let printed = text::report("bug.jsonl", &report);
        proptest::prop_assert!(!printed.contains("treasure"), "{}", printed);
    }
}
