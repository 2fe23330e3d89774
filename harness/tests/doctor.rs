//! `turnproof doctor` as a user meets it: exit codes, what is printed, the shape of its JSON.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn doctor(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_turnproof"))
        .arg("doctor")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A thread with a turn, an image, a checkpoint that repeats it, and what stands behind `last`.
fn rollout(last: &str) -> String {
    let image = json!({"type": "message", "role": "user",
        "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]});
    let event = |payload: Value| ("event_msg", payload);
    let turn_context = json!({"turn_id": "t1", "model": "m", "cwd": "/w",
        "approval_policy": "never", "sandbox_policy": {"type": "read-only"}, "summary": "auto"});
    let records = [
        (
            "session_meta",
            json!({"id": "0199a213-81c0-7800-8aa1-bbab2a035a53", "cwd": "/w",
                "timestamp": "2026-01-01T00:00:00Z", "originator": "test",
                "cli_version": "0.171.0", "history_mode": "paginated",
                "base_instructions": {"text": "Be brief."}}),
        ),
        event(json!({"type": "task_started", "turn_id": "t1"})),
        ("turn_context", turn_context.clone()),
        ("response_item", image.clone()),
        (
            "compacted",
            json!({"message": "In short.", "replacement_history": [image], "window_number": 1}),
        ),
        ("turn_context", turn_context.clone()),
        event(json!({"type": "token_count",
            "info": {"last_token_usage": {"total_tokens": 7}, "model_context_window": 100}})),
        event(json!({"type": "task_complete", "turn_id": "t1"})),
    ];
    let mut text = String::new();
    for (ordinal, (kind, payload)) in records.iter().enumerate() {
        let record = json!({"timestamp": "2026-01-01T00:00:00Z", "ordinal": ordinal,
            "type": kind, "payload": payload});
        let _ = writeln!(text, "{record}");
    }
    text + last
}

#[test]
fn exit_codes_say_what_was_found() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("good.jsonl"), rollout("")).unwrap();
    std::fs::write(
        folder.path().join("torn.jsonl"),
        rollout("{\"timestamp\":\"2026"),
    )
    .unwrap();
    for (arguments, code, word) in [
        (&["good.jsonl"][..], 0, "0 errors, 0 warnings, 1 note\n"),
        (&["torn.jsonl"], 1, "error line.torn\n  at 9:"),
        (
            &["good.jsonl", "torn.jsonl"],
            1,
            "good.jsonl: 8 records in 8 lines",
        ),
        // The other file is still reported.
        (
            &["none.jsonl", "good.jsonl"],
            2,
            "good.jsonl: 8 records in 8 lines",
        ),
        (&["."], 2, ""),
        (&[], 2, ""),
        (&["--unknown"], 2, ""),
    ] {
        let run = doctor(arguments, folder.path());
        assert_eq!(run.status.code(), Some(code), "{arguments:?}");
        let said = text(&run.stdout);
        assert!(said.contains(word), "{arguments:?}: {said}");
        assert_eq!(
            run.stderr.is_empty(),
            code < 2,
            "{arguments:?}: {}",
            text(&run.stderr)
        );
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "nothing is written beside a rollout");
}

#[test]
fn the_same_file_gives_the_same_bytes_and_no_place_of_the_machine() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&here, &there] {
        std::fs::write(folder.path().join("a.jsonl"), rollout("")).unwrap();
    }
    for arguments in [&["a.jsonl"][..], &["--json", "a.jsonl"]] {
        let first = doctor(arguments, here.path());
        assert_eq!(first.stdout, doctor(arguments, there.path()).stdout);
        let place = here.path().to_string_lossy().into_owned();
        assert!(!text(&first.stdout).contains(&place));
    }
}

/// The JSON without its values: an object by its keys, a list by its first entry.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), shape(value)))
            .collect(),
        Value::Array(list) => Value::Array(list.first().map(shape).into_iter().collect()),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("bool"),
        Value::Null => Value::Null,
    }
}

#[test]
fn json_has_the_shape_that_its_format_number_promises() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.jsonl"), rollout("")).unwrap();
    let run = doctor(&["--json", "a.jsonl"], folder.path());
    let found: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(found["format"], 1);
    assert_eq!(found["files"][0]["file"], "a.jsonl");
    let (n, t, b) = ("number", "text", "bool");
    let expected = json!({"format": n, "files": [{
        "file": t, "bytes": n, "bytes_on_disk": n, "compressed": b, "lines": n, "records": n,
        "errors": n, "warnings": n, "notes": n,
        "session": {"thread": t, "cli_version": t, "profile": t, "history_mode": t,
            "forked_from": null, "history_base": null, "models": [t],
            "base_instructions_tokens": n},
        "kinds": [{"kind": t, "count": n, "bytes": n}],
        "turns": [{"id": t, "line": n, "offset": n, "status": t, "rolled_back": b, "model": t,
            "checkpoints": n, "recorded_tokens": n, "window_tokens": n, "estimated_tokens": n,
            "items": n}],
        "turns_left_out": n,
        "checkpoints": [{"line": n, "offset": n, "bytes": n, "kind": t, "window": n,
            "window_recorded": b, "items": n, "items_by_kind": {"message": n}, "images": n,
            "image_bytes": n, "estimated_before": n, "estimated_after": n,
            "recorded_before": null, "recorded_after": n}],
        "checkpoints_left_out": n,
        "images": {"distinct": n, "stored": n, "bytes": n, "in_checkpoints": n,
            "wasted_bytes": n, "repeated": [{"line": n, "offset": n, "bytes": n, "stored": n,
                "in_checkpoints": n, "wasted_bytes": n}]},
        "resume": {"items": n, "items_by_kind": {"message/user": n}, "outputs_made_up": n,
            "outputs_dropped": n, "estimated_tokens": n, "recorded_tokens": n, "window": n,
            "baseline": b, "model": t},
        "findings": [{"severity": t, "rule": t, "line": n, "offset": n, "what": t, "why": t,
            "mend": t}],
        "findings_left_out": [],
    }]});
    assert_eq!(shape(&found), expected, "{:#}", shape(&found));
}

#[test]
fn compressed_files_read_like_plain_ones() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let folder = tempfile::tempdir().expect("a folder");
    let plain = rollout("");
    let packed = compress_to_vec(plain.as_bytes(), CompressionLevel::Fastest);
    std::fs::write(folder.path().join("a.jsonl"), &plain).unwrap();
    std::fs::write(folder.path().join("a.jsonl.zst"), packed).unwrap();
    let body = |name: &str| {
        let said = text(&doctor(&[name], folder.path()).stdout);
        said.split_once('\n').expect("lines").1.to_owned()
    };
    assert_eq!(body("a.jsonl"), body("a.jsonl.zst"));
}
