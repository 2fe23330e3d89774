//! Unit tests of the rules of the reader. Where a test names no source it is a case that was put to
//! the binaries 0.144.6, 0.164.0 and 0.171.0 as an edited rollout.

mod damaged;
mod reference;
mod streamed;

use serde_json::{Value, json};

use super::{Found, Unreadable, read};
use crate::items::Item;
use crate::profile::{Profile, Version};
use crate::settings::Truncation;
use crate::texts;

const ALL: [Version; 3] = [Version::V144, Version::V164, Version::V171];
const LATER: [Version; 2] = [Version::V164, Version::V171];

fn line(kind: &str, payload: &Value) -> Value {
    json!({"timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload})
}

fn meta() -> Value {
    line(
        "session_meta",
        &json!({"id": "thread", "timestamp": "", "cwd": "/begun", "originator": "o",
        "cli_version": "v", "context_window": {"window_id": "w0"}, "base_instructions": {"text": "BASE"}}),
    )
}

fn event(payload: &Value) -> Value {
    line("event_msg", payload)
}

fn start(turn: &str) -> Value {
    event(&json!({"type": "task_started", "turn_id": turn}))
}

fn end(turn: &str) -> Value {
    event(&json!({"type": "task_complete", "turn_id": turn}))
}

fn rollback(turns: i64) -> Value {
    event(&json!({"type": "thread_rolled_back", "num_turns": turns}))
}

fn counted(total: i64) -> Value {
    event(&json!({"type": "token_count", "info": {"last_token_usage": {"total_tokens": total}}}))
}

fn context_of(model: &str) -> Value {
    json!({"model": model, "cwd": "/told", "approval_policy": "never",
        "sandbox_policy": {"type": "read-only"}, "summary": "auto"})
}

fn context(turn: &str, model: &str) -> Value {
    let mut payload = context_of(model);
    payload["turn_id"] = json!(turn);
    line("turn_context", &payload)
}

fn world(full: bool, state: &Value) -> Value {
    line("world_state", &json!({"full": full, "state": state}))
}

fn message(role: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})
}

fn item(role: &str, text: &str) -> Value {
    line("response_item", &message(role, text))
}

fn checkpoint(texts: &[&str]) -> Value {
    let kept: Vec<Value> = texts.iter().map(|text| message("user", text)).collect();
    line(
        "compacted",
        &json!({"message": "m", "replacement_history": kept}),
    )
}

fn legacy(message: &str) -> Value {
    line("compacted", &json!({"message": message}))
}

/// A turn of the user under a context; `body` takes the place of its text and answer.
fn turn_of(number: usize, body: Option<&[Value]>) -> Vec<Value> {
    let id = format!("t{number}");
    let mut lines = vec![start(&id), context(&id, &format!("model-{number}"))];
    match body {
        Some(body) => lines.extend_from_slice(body),
        None => lines.extend([
            item("user", &format!("U{number}")),
            item("assistant", &format!("A{number}")),
        ]),
    }
    lines.push(end(&id));
    lines
}

fn turn(number: usize) -> Vec<Value> {
    turn_of(number, None)
}

fn found(version: Version, parts: &[Vec<Value>]) -> Found {
    let mut lines = vec![meta()];
    lines.extend(parts.concat());
    let profile = Profile::of(version);
    read(&lines, &profile, Truncation::Bytes(10_000)).expect("a thread")
}

fn texts_of(found: &Found) -> String {
    let texts: Vec<String> = found
        .history
        .items()
        .iter()
        .map(|item| item.texts().concat())
        .collect();
    texts.join(" ")
}

fn history(version: Version, parts: &[Vec<Value>]) -> String {
    texts_of(&found(version, parts))
}

fn has_baseline(version: Version, parts: &[Vec<Value>]) -> bool {
    found(version, parts).baseline.is_some()
}

#[test]
fn a_rollback_takes_the_newest_turns_of_the_user_with_what_follows_them() {
    for version in ALL {
        let lines = [turn(1), turn(2), vec![item("assistant", "late")], turn(3)];
        let back = |turns| [lines.concat(), vec![rollback(turns)]];
        assert_eq!(history(version, &back(1)), "U1 A1 U2 A2 late");
        assert_eq!(history(version, &back(2)), "U1 A1");
        assert_eq!(history(version, &back(9)), "");
        for nothing in [0, -1] {
            assert_eq!(history(version, &back(nothing)), history(version, &lines));
        }
        assert_eq!(found(version, &back(1)).model.as_deref(), Some("model-2"));
        assert!(!has_baseline(version, &back(9)));
    }
}

#[test]
fn records_between_turns_belong_to_the_turn_before_them() {
    for version in ALL {
        let between = vec![item("user", "X")];
        let lines = [turn(1), between, turn(2), vec![rollback(2)]];
        assert_eq!(history(version, &lines), "U1 A1");
        assert!(!has_baseline(version, &lines), "X and U1 are one turn");
    }
}

#[test]
fn a_marker_belongs_to_the_turn_before_it() {
    for version in ALL {
        let lines = [
            turn(1),
            turn(2),
            vec![rollback(1), item("user", "X"), rollback(1)],
        ];
        assert_eq!(history(version, &lines), "U1 A1");
        assert!(
            !has_baseline(version, &lines),
            "it counts for its own turn and one before"
        );
    }
}

#[test]
fn a_turn_context_counts_in_the_turn_that_its_records_name() {
    let other = |turn: &str| {
        vec![
            start("t1"),
            item("user", "U1"),
            context(turn, "m"),
            end("t1"),
        ]
    };
    let foreign_behind = vec![
        start("t1"),
        item("user", "U1"),
        end("t1"),
        context("zz", "m"),
    ];
    for version in ALL {
        assert!(has_baseline(version, &[other("t1")]));
        assert!(!has_baseline(version, &[other("zz")]));
        assert!(
            has_baseline(version, std::slice::from_ref(&foreign_behind)),
            "the newest names the turn"
        );
        let bare = vec![item("user", "U1"), line("turn_context", &context_of("m"))];
        assert!(has_baseline(version, &[bare]), "none is named");
    }
}

#[test]
fn a_turn_without_the_user_says_what_was_told_from_0_164_on() {
    let lines = [vec![
        item("user", "U1"),
        start("t2"),
        context("t2", "m"),
        end("t2"),
    ]];
    assert!(!has_baseline(Version::V144, &lines));
    for version in LATER {
        assert!(has_baseline(version, &lines));
        assert_eq!(
            found(version, &lines).model,
            None,
            "but not which model it had"
        );
    }
}

#[test]
fn a_checkpoint_that_was_rolled_back_loses_what_stood_before_it_on_0_144() {
    let compacts = [
        item("user", "U3"),
        checkpoint(&["Q1", "Q2"]),
        item("assistant", "A3"),
    ];
    let lines = [
        turn(1),
        turn(2),
        turn_of(3, Some(&compacts)),
        vec![rollback(1)],
    ];
    let older = found(Version::V144, &lines);
    assert_eq!(texts_of(&older), "A3");
    assert_eq!((older.window.number, older.baseline.is_some()), (0, true));
    for version in LATER {
        let later = found(version, &lines);
        assert_eq!(texts_of(&later), "Q1");
        assert_eq!((later.window.number, later.baseline.is_some()), (1, false));
    }
}

#[test]
fn an_older_checkpoint_takes_the_place_of_a_rolled_back_one_on_0_144() {
    let old = vec![start("c"), checkpoint(&["P1"]), end("c")];
    let compacts = [
        item("user", "U3"),
        checkpoint(&["Q1", "Q2"]),
        item("assistant", "A3"),
    ];
    let lines = [
        turn(1),
        old,
        turn(2),
        turn_of(3, Some(&compacts)),
        vec![rollback(1)],
    ];
    let older = found(Version::V144, &lines);
    assert_eq!(
        texts_of(&older),
        "Q1",
        "the newer one is replayed behind it"
    );
    assert_eq!(older.window.number, 1);
    let baseline = older.baseline.expect("that of the second turn");
    assert!(
        baseline.state.is_empty(),
        "nothing of the world behind the checkpoint"
    );
}

#[test]
fn of_several_checkpoints_that_were_rolled_back_the_oldest_turn_counts() {
    let with = |number, text, kept: &[&str]| {
        turn_of(
            number,
            Some(&[item("user", text), checkpoint(kept), item("assistant", "A")]),
        )
    };
    let lines = [
        turn(1),
        with(2, "U2", &["P1"]),
        with(3, "U3", &["Q1"]),
        vec![rollback(2)],
    ];
    assert_eq!(history(Version::V144, &lines), "");
    let twice = [
        item("user", "U2"),
        checkpoint(&["P1"]),
        checkpoint(&["Q1"]),
        item("assistant", "A"),
    ];
    let lines = [turn(1), turn_of(2, Some(&twice)), vec![rollback(1)]];
    assert_eq!(history(Version::V144, &lines), "A");
}

#[test]
fn a_checkpoint_takes_the_baseline_before_it() {
    for version in ALL {
        let behind = [turn(1), vec![checkpoint(&["P"])]];
        assert!(!has_baseline(version, &behind));
        let state = json!({"k": 1});
        let told = [
            turn(1),
            vec![world(true, &state), checkpoint(&["P"])],
            turn(2),
        ];
        let baseline = found(version, &told).baseline.expect("of the second turn");
        assert!(
            baseline.state.is_empty(),
            "the world state stands before the checkpoint"
        );
    }
}

#[test]
fn a_summary_is_a_turn_of_the_user_on_0_144_only() {
    let summary = format!("{}\ns", texts::SUMMARY_PREFIX);
    let old = vec![start("c"), checkpoint(&["P"]), end("c")];
    let compacts = turn_of(3, Some(&[item("user", "U3"), checkpoint(&["Q", &summary])]));
    let lines = [old, turn(2), compacts, vec![rollback(1)]];
    assert_eq!(history(Version::V144, &lines), "Q");
    for version in LATER {
        assert_eq!(history(version, &lines), "");
    }
}

#[test]
fn a_cut_takes_context_before_it_and_stops_at_any_other_text() {
    let env = "<environment_context>\n</environment_context>";
    let told = |before: Value| {
        let body = [
            before,
            item("developer", "<permissions instructions>"),
            item("user", "U2"),
        ];
        [turn(1), turn_of(2, Some(&body)), vec![rollback(1)]]
    };
    for version in ALL {
        assert_eq!(history(version, &told(item("user", env))), "U1 A1");
        assert_eq!(
            history(version, &told(item("developer", "note"))),
            "U1 A1 note"
        );
        let all = [vec![item("user", env)], turn(1), vec![rollback(1)]];
        assert_eq!(
            history(version, &all),
            env,
            "the context of the thread stays"
        );
    }
}

#[test]
fn another_agent_begins_a_turn() {
    let said = json!({"author": "/root", "recipient": "/root/a", "content": "hi",
        "trigger_turn": false});
    let heard = |payload: &Value| vec![line("inter_agent_communication", payload)];
    for version in ALL {
        assert_eq!(history(version, &[turn(1), heard(&said)]), "U1 A1 hi");
        assert_eq!(
            history(version, &[turn(1), heard(&said), vec![rollback(1)]]),
            "U1 A1"
        );
        let mut bare = said.clone();
        bare.as_object_mut()
            .expect("an object")
            .shift_remove("trigger_turn");
        assert_eq!(history(version, &[turn(1), heard(&bare)]), "U1 A1");
    }
}

#[test]
fn a_checkpoint_without_a_replacement_keeps_the_texts_of_the_user() {
    for version in ALL {
        let lines = [
            turn(1),
            vec![
                item("user", "<turn_aborted>x</turn_aborted>"),
                legacy("SUM"),
            ],
            turn(2),
        ];
        let read = found(version, &lines);
        assert_eq!(texts_of(&read), "U1 SUM U2 A2");
        assert_eq!(
            read.baseline, None,
            "not even a later turn tells the context"
        );
        assert_eq!(
            history(version, &[vec![legacy("")]]),
            "(no summary available)"
        );
        let replaced = [turn(1), vec![legacy("SUM"), checkpoint(&["P"])], turn(2)];
        assert!(has_baseline(version, &replaced), "a replacement follows it");
    }
}

#[test]
fn a_kept_text_is_cut_at_twenty_thousand_tokens() {
    let long = "x".repeat(100_000);
    let lines = [vec![
        item("user", "old"),
        item("user", &long),
        legacy("SUM"),
    ]];
    for version in ALL {
        let read = found(version, &lines);
        let parts = read.history.items()[0].texts();
        let expected = if version == Version::V144 { 1 } else { 3 };
        assert_eq!(parts.len(), expected);
        assert!(
            parts
                .concat()
                .contains("\u{2026}5000 tokens truncated\u{2026}")
        );
        assert_eq!(
            read.history.items().len(),
            2,
            "nothing is left for the older text"
        );
    }
}

#[test]
fn the_number_of_a_window_is_the_newest_that_is_said() {
    let numbered = |key: &str, number: u64| {
        let mut line = checkpoint(&["P"]);
        line["payload"][key] = json!(number);
        line
    };
    for version in ALL {
        let number = |lines: &[Value]| found(version, &[lines.to_vec()]).window.number;
        assert_eq!(number(&[checkpoint(&["P"]), legacy("s")]), 2);
        assert_eq!(
            number(&[
                numbered("window_number", 5),
                checkpoint(&["P"]),
                legacy("s")
            ]),
            5
        );
        assert_eq!(number(&[checkpoint(&["P"]), numbered("window_id", 7)]), 7);
    }
}

#[test]
fn a_checkpoint_that_is_malformed_is_none() {
    let broken = |change: fn(&mut Value)| {
        let mut line = checkpoint(&["P"]);
        change(&mut line["payload"]);
        [turn(1), vec![line]]
    };
    for version in ALL {
        for change in [
            (|payload| payload["message"] = Value::Null) as fn(&mut Value),
            |payload| payload["replacement_history"] = json!("x"),
            |payload| payload["replacement_history"][0]["content"] = json!(1),
            |payload| payload["window_number"] = json!(-1),
            |payload| payload["window_number"] = json!("x"),
        ] {
            let read = found(version, &broken(change));
            assert_eq!(
                (texts_of(&read), read.window.number),
                ("U1 A1".to_owned(), 0)
            );
        }
        for change in [
            (|payload| payload["replacement_history_metadata"] = json!([])) as fn(&mut Value),
            |payload| payload["replacement_history_metadata"] = json!("x"),
        ] {
            let kept = if version == Version::V144 {
                "P"
            } else {
                "U1 A1"
            };
            assert_eq!(history(version, &broken(change)), kept);
        }
    }
}

#[test]
fn metadata_that_is_no_object_loses_an_item_from_0_164_on() {
    let mut odd = item("user", "X");
    odd["metadata"] = json!("str");
    assert_eq!(history(Version::V144, &[vec![odd.clone()]]), "X");
    for version in LATER {
        assert_eq!(history(version, &[vec![odd.clone()]]), "");
    }
}

#[test]
fn a_turn_context_needs_its_keys() {
    let without = |version, key: &str| {
        let mut payload = context_of("m");
        payload
            .as_object_mut()
            .expect("an object")
            .shift_remove(key);
        has_baseline(
            version,
            &[vec![item("user", "U"), line("turn_context", &payload)]],
        )
    };
    for version in ALL {
        for key in ["cwd", "model", "approval_policy"] {
            assert!(!without(version, key), "{key}");
        }
        assert_eq!(without(version, "summary"), version != Version::V144);
        assert_eq!(without(version, "sandbox_policy"), version == Version::V171);
    }
}

#[test]
fn world_states_merge_in_file_order_and_a_patch_of_nothing_is_nothing() {
    let told = |records: &[Value]| {
        let lines = [turn(1), records.to_vec()];
        let baseline = found(Version::V171, &lines).baseline.expect("a baseline");
        Value::Object(baseline.state)
    };
    let whole = world(true, &json!({"a": {"b": 1, "c": 2}, "d": 3}));
    let patch = world(
        false,
        &json!({"a": {"b": null, "e": {"f": null, "g": 4}}, "d": [5]}),
    );
    let both = json!({"a": {"c": 2, "e": {"g": 4}}, "d": [5]});
    assert_eq!(told(&[whole.clone(), patch.clone()]), both);
    assert_eq!(told(std::slice::from_ref(&patch)), json!({}));
    assert_eq!(told(&[patch.clone(), whole.clone()])["d"], 3);
    let unreadable = line("world_state", &json!({"full": true, "state": "x"}));
    assert_eq!(told(&[whole.clone(), unreadable])["d"], 3);
    let rolled_back = [turn(1), vec![whole], turn(2), vec![patch, rollback(1)]];
    let baseline = found(Version::V171, &rolled_back)
        .baseline
        .expect("a baseline");
    assert_eq!(baseline.state["d"], 3);
}

#[test]
fn the_model_that_was_told_is_of_the_world_state_where_one_was_announced() {
    let patch = world(false, &json!({"model": "other"}));
    let announced = item("developer", "<model_switch>\nx\n</model_switch>");
    let told = |behind: &[Value]| {
        let lines = [
            vec![world(true, &json!({"model": "model-1"}))],
            turn(1),
            behind.to_vec(),
        ];
        found(Version::V171, &lines).told_model
    };
    assert_eq!(
        told(std::slice::from_ref(&patch)).as_deref(),
        Some("model-1")
    );
    assert_eq!(told(&[announced, patch]).as_deref(), Some("other"));
}

#[test]
fn the_model_of_a_turn_that_compacted_counts_from_0_164_on() {
    let compacts = turn_of(2, Some(&[checkpoint(&["P"]), context("t2", "model-2")]));
    let model = |version| found(version, &[turn(1), compacts.clone()]).model;
    assert_eq!(model(Version::V144).as_deref(), Some("model-1"));
    assert_eq!(model(Version::V171).as_deref(), Some("model-2"));
}

#[test]
fn settings_of_the_thread_are_restored_from_0_164_on() {
    let applied = event(
        &json!({"type": "thread_settings_applied", "thread_settings": {
        "model": "m", "cwd": "/applied", "approval_policy": "on-request",
        "permission_profile": {"type": "managed"}}}),
    );
    let restored = |version| {
        let read = found(version, &[turn(1), vec![applied.clone()]]);
        (read.cwd, read.sandbox, read.approval)
    };
    assert_eq!(
        restored(Version::V144),
        (Some("/begun".to_owned()), None, None)
    );
    let text = |text: &str| Some(text.to_owned());
    let later = (text("/applied"), text("read-only"), text("on-request"));
    assert_eq!(restored(Version::V171), later);
}

#[test]
fn a_checkpoint_is_uncounted_until_a_count_follows() {
    let uncounted = |lines: &[Value]| found(Version::V171, &[lines.to_vec()]).uncounted;
    assert!(uncounted(&[counted(9), checkpoint(&["P"])]));
    assert!(!uncounted(&[checkpoint(&["P"]), counted(9)]));
    let empty = event(&json!({"type": "token_count", "info": null}));
    assert!(uncounted(&[checkpoint(&["P"]), empty]));
}

#[test]
fn an_item_of_a_checkpoint_is_neither_filtered_nor_cut() {
    let mut line = checkpoint(&[]);
    line["payload"]["replacement_history"] = json!([
        message("system", "SYS"),
        {"type": "brand_new", "x": 1},
        {"type": "function_call_output", "call_id": "c", "output": "x".repeat(50_000)},
    ]);
    let read = found(Version::V171, &[vec![line]]);
    let kinds: Vec<&str> = read.history.items().iter().map(Item::kind).collect();
    assert_eq!(kinds, ["message", "other", "function_call_output"]);
    let output = read.history.items()[2].payload["output"]
        .as_str()
        .map(str::len);
    assert_eq!(output, Some(50_000));
}

#[test]
fn a_file_that_is_no_thread_says_why() {
    let why = |version, lines: &[Value]| {
        read(lines, &Profile::of(version), Truncation::Bytes(1)).expect_err("no thread")
    };
    let mut paginated = meta();
    paginated["payload"]["history_mode"] = json!("paginated");
    paginated["ordinal"] = json!(0);
    for version in ALL {
        assert_eq!(why(version, &[]), Unreadable::Empty);
        assert_eq!(
            why(version, &[json!({"id": "x"}), json!([1])]),
            Unreadable::Empty
        );
        assert_eq!(
            why(version, &[item("user", "U"), meta()]),
            Unreadable::NoMeta
        );
    }
    assert_eq!(
        why(Version::V144, std::slice::from_ref(&paginated)),
        Unreadable::Paginated
    );
    assert!(
        read(
            &[paginated],
            &Profile::of(Version::V171),
            Truncation::Bytes(1)
        )
        .is_ok()
    );
}

/// A record of a few, whole, broken or foreign.
fn any_line(kind: usize, number: i64) -> Value {
    match kind {
        0 => start(&format!("t{number}")),
        1 => end(&format!("t{number}")),
        2 => context(&format!("t{number}"), "m"),
        3 => item("user", "U"),
        4 => item("assistant", "A"),
        5 => checkpoint(&["P", "Q"]),
        6 => legacy("SUM"),
        7 => rollback(number),
        8 => world(number % 2 == 0, &json!({"a": {"b": number}})),
        9 => counted(number),
        10 => rollback(i64::MAX),
        11 => line(
            "compacted",
            &json!({"message": "", "window_number": u64::MAX}),
        ),
        12 => json!({"type": "event_msg", "payload": null, "ordinal": u64::MAX}),
        _ => item("developer", "<permissions instructions>"),
    }
}

proptest::proptest! {
    #[test]
    fn no_order_of_records_is_too_much(
        kinds in proptest::collection::vec((0_usize..14, -1_i64..4), 0..24),
    ) {
        let lines: Vec<Value> = kinds.iter().map(|(kind, n)| any_line(*kind, *n)).collect();
        for version in ALL {
            let read = found(version, std::slice::from_ref(&lines));
            let again = found(version, &[lines.clone(), vec![rollback(0)]]);
            proptest::prop_assert_eq!(&read.history, &again.history);
            let emptied = found(version, &[lines.clone(), vec![rollback(i64::MAX)]]);
            proptest::prop_assert!(!texts_of(&emptied).contains('U'));
        }
    }
}
