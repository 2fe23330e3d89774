//! `doctor` and `import` on a long rollout stay within bounded memory.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::json;

/// Length of the rollout.
const FILE_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of an output.
const OUTPUT_BYTES: usize = 64 * 1024;
/// What `doctor` may hold at most.
const DOCTOR_KIB_MAX: u64 = 64 * 1024;
/// What `import` may hold at most: the records of the file, which it needs at once.
const IMPORT_KIB_MAX: u64 = 6 * 64 * 1024;
/// Pause between two looks at a child.
const LOOK: Duration = Duration::from_millis(2);

/// A thread that reads one long file after another.
fn write_rollout(path: &Path) {
    let mut file = BufWriter::new(std::fs::File::create(path).expect("made"));
    let mut written = 0;
    let mut line = String::new();
    let mut ordinal = 0;
    let mut put = |file: &mut BufWriter<std::fs::File>, kind: &str, payload: serde_json::Value| {
        line.clear();
        let record = json!({"timestamp": "2026-01-01T00:00:00Z", "ordinal": ordinal,
            "type": kind, "payload": payload});
        let _ = writeln!(line, "{record}");
        ordinal += 1;
        file.write_all(line.as_bytes()).expect("written");
        line.len()
    };
    put(
        &mut file,
        "session_meta",
        json!({"id": "0199a213-81c0-7800-8aa1-bbab2a035a53", "cwd": "/w",
            "cli_version": "0.171.0", "base_instructions": {"text": "Be brief."}}),
    );
    for turn in 0.. {
        if written > FILE_BYTES {
            break;
        }
        let (id, call) = (format!("t{turn}"), format!("call_{turn}"));
        let output = format!("{turn} ").repeat(OUTPUT_BYTES / 4);
        for (kind, payload) in [
            (
                "event_msg",
                json!({"type": "task_started", "turn_id": id, "model_context_window": 95_000}),
            ),
            (
                "response_item",
                json!({"type": "message", "role": "user",
                    "content": [{"type": "input_text", "text": "Read on."}]}),
            ),
            (
                "response_item",
                json!({"type": "function_call", "name": "read_file", "arguments": "{}",
                    "call_id": call}),
            ),
            (
                "response_item",
                json!({"type": "function_call_output", "call_id": call, "output": output}),
            ),
            ("event_msg", json!({"type": "task_complete", "turn_id": id})),
        ] {
            written += put(&mut file, kind, payload);
        }
    }
    file.flush().expect("written");
}

/// Runs a command; how it ended, the most that it held in KiB, and what it said.
fn peak(args: &[&str]) -> (ExitStatus, u64, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let said = folder.path().join("stderr");
    let mut child = Command::new(env!("CARGO_BIN_EXE_turnproof"))
        .args(args)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&said).expect("made"))
        .spawn()
        .expect("it runs");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        // The system keeps the peak itself: a look only has to come before the end.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(number.unwrap_or(0));
        if let Some(ended) = child.try_wait().expect("a child") {
            let said = std::fs::read_to_string(said).expect("UTF-8");
            return (ended, peak, said);
        }
        std::thread::sleep(LOOK);
    }
}

#[test]
fn a_long_rollout_is_read_in_bounded_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rollout.jsonl");
    write_rollout(&path);
    let path = path.to_str().expect("UTF-8");
    let (ended, kib, said) = peak(&["doctor", path]);
    assert!(ended.code().is_some_and(|code| code < 2), "{ended}: {said}");
    assert!(kib > 1024 && kib < DOCTOR_KIB_MAX, "doctor held {kib} KiB");
    let out = folder.path().join("bug.yaml");
    let (ended, kib, said) = peak(&["import", path, "-o", out.to_str().expect("UTF-8")]);
    assert!(kib > 1024 && kib < IMPORT_KIB_MAX, "import held {kib} KiB");
    // Runs of stand-ins are written short, so that it is a scenario, or it says why it is none.
    assert!(out.exists() || said.contains("help:"), "{ended}: {said}");
}
