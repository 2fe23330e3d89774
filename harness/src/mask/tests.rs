//! Masks against synthetic recordings: what they replace, and that they hide nothing else.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{self, Texts, with_texts};
use crate::recording::{ClientEvent, RolloutFile};

fn rollout_of(text: &str) -> MaskedRollout {
    let recording = Recording {
        rewrites: Vec::new(),
        edits: Vec::new(),
        rollouts: vec![RolloutFile {
            name: "odd".into(),
            text: text.into(),
        }],
        ..Recording::default()
    };
    mask(&recording).rollouts.remove(0)
}

#[test]
fn ids_are_numbered_by_first_appearance() {
    let masked = mask(&fixture::recording(1));
    let first = &masked.wire[0];
    assert_eq!(first.headers[0].1, "<thread:1>:0");
    assert_eq!(first.headers[1].1, "<same as body>");
    assert_eq!(
        first.headers[3].1,
        "turnproof/<version> (<os>) dumb (turnproof; <version>)"
    );
    assert_eq!(first.headers[4].1, "127.0.0.1:<port>");
    assert_eq!(first.headers[5].1, "<content-length>");
    assert_eq!(first.body["model"], "<model:main>");
    assert_eq!(first.body["input"][0]["id"], "msg_<item:1>");
    assert_eq!(masked.wire[1].body["input"][2]["id"], "fc_<item:3>");
    assert_eq!(masked.wire[2].kind, "compaction");
    let meta = &masked.wire[3].body["client_metadata"]["x-codex-turn-metadata"]["$json"];
    assert_eq!(meta["context_window_id"], "<window:2>");
    assert_eq!(meta["window_number"], 1, "window numbers are never masked");
    assert_eq!(masked.rollouts[0].name, "rollout-<time>-<thread:1>.jsonl");
    assert_eq!(masked.rollouts[0].records[0]["payload"]["cwd"], "<cwd>");
    assert_eq!(
        masked.events[0],
        json!({"event": "turn_started", "turn": "<turn:1>"})
    );
}

/// The two words of one race are one; every other output, and the word elsewhere, stays.
#[test]
fn a_call_that_did_not_start_is_told_in_one_way() {
    let late = "aborted before handler start: rollout budget exhausted";
    let line = |output: &str| {
        let item = json!({"type": "function_call_output", "call_id": "call_1", "output": output});
        json!({"timestamp": "t", "type": "response_item", "payload": item}).to_string() + "\n"
    };
    let masked = |text: &str| rollout_of(text).records[0]["payload"].clone();
    assert_eq!(masked(&line(late))["output"], "aborted before dispatch");
    let other = format!("{late}.");
    assert_eq!(masked(&line(&other))["output"], other.as_str());
    let said = line("x").replace("call_1", late);
    assert_eq!(masked(&said)["call_id"], late);
}

/// Only a place where a line of an older file ends is masked.
#[test]
fn the_end_of_a_base_has_to_be_the_end_of_a_line() {
    let on = |bytes: u64| {
        let meta = json!({"type": "session_meta", "payload": {"history_base":
            {"end_ordinal_exclusive": 1, "end_byte_offset": bytes}}});
        let file = |name: &str, text: String| RolloutFile {
            name: name.into(),
            text,
        };
        let recording = Recording {
            rollouts: vec![
                file("a", "{\"a\":1}\n{\"b\":2}\n".into()),
                file("b", format!("{meta}\n")),
            ],
            ..Recording::default()
        };
        let base = mask(&recording).rollouts[1].records[0]["payload"]["history_base"].clone();
        assert_eq!(base["end_ordinal_exclusive"], 1);
        base["end_byte_offset"].clone()
    };
    assert_eq!((on(8), on(16)), (json!("<bytes>"), json!("<bytes>")));
    assert_eq!((on(7), on(0)), (json!(7), json!(0)));
}

#[test]
fn texts_that_look_like_placeholders_are_escaped() {
    let masked = mask(&fixture::recording(1));
    assert_eq!(
        masked.wire[3].body["input"][3]["content"][0]["text"],
        "and <~cwd>?"
    );
    assert_eq!(
        masked.wire[1].body["input"][2]["arguments"],
        "{\"id\":\"<~time>\"}"
    );
}

#[test]
fn schemas_keep_their_dollar_keys_and_ids() {
    let masked = mask(&fixture::recording(1));
    assert_eq!(masked.wire[0].body["tools"][0]["parameters"]["$ref"], "#/x");
}

#[test]
fn lines_that_are_not_compact_json_stay_text() {
    let odd = rollout_of("{\"type\":\"a\"}\n{ \"type\":\"b\"}\n{\"a\":1,\"a\":2}\n{\"torn");
    assert_eq!(odd.records[0], json!({"type": "a"}));
    assert_eq!(odd.records[1], json!({"$raw": "{ \"type\":\"b\"}"}));
    assert_eq!(odd.records[2], json!({"$raw": "{\"a\":1,\"a\":2}"}));
    assert_eq!(odd.records[4], json!({"$no_newline": true}));
}

#[test]
fn times_go_and_numbers_beside_them_stay() {
    let line = json!({"timestamp": "2026-01-02T03:04:05.123Z", "type": "event_msg", "payload": {
        "duration_ms": 5, "completed_at": null, "duration": {"secs": 0, "nanos": 7},
        "total_tokens": 5, "text": "2026-01-02T03:04:05.123Z", "arguments": {"started_at": 3},
    }});
    let masked = rollout_of(&format!("{line}\n")).records.remove(0);
    assert_eq!(masked["timestamp"], "<time>");
    assert_eq!(
        masked["payload"],
        json!({"duration_ms": "<time>", "completed_at": null,
            "duration": {"secs": "<time>", "nanos": "<time>"}, "total_tokens": 5,
            "text": "2026-01-02T03:04:05.123Z", "arguments": {"started_at": 3}})
    );
}

#[test]
fn date_and_seconds_are_masked_only_in_their_texts() {
    let context = "<environment_context>\n<current_date>2026-01-02</current_date>";
    let line = json!({"type": "response_item", "payload": {
        "content": [{"text": context}, {"text": "on <current_date>2026-01-02</current_date>"}],
        "output": "aborted by user after 0.1s", "message": "aborted by user after 0.1s",
        "current_date": "2026-01-02",
    }});
    let payload = rollout_of(&format!("{line}\n")).records.remove(0)["payload"].take();
    let text = payload["content"][0]["text"].as_str().unwrap();
    assert!(
        text.ends_with("<current_date><date></current_date>"),
        "{text}"
    );
    assert_eq!(
        payload["content"][1]["text"],
        "on <current_date>2026-01-02</current_date>"
    );
    assert_eq!(payload["output"], "aborted by user after <seconds>");
    assert_eq!(payload["message"], "aborted by user after 0.1s");
    assert_eq!(payload["current_date"], "<date>");
}

#[test]
fn a_wrong_content_length_shows() {
    let mut recording = fixture::recording(1);
    recording.journal[0].headers[5].1 = "7".into();
    assert_eq!(mask(&recording).wire[0].headers[5].1, "7");
}

#[test]
fn catalogue_version_and_slug_in_a_warning() {
    let hash = "0123456789012345678901234567890123456789";
    let line = json!({"type": "world_state", "payload": {"model_catalog": hash, "other": hash}});
    let record = rollout_of(&format!("{line}\n")).records.remove(0);
    assert_eq!(
        record["payload"],
        json!({"model_catalog": "<catalog>", "other": hash})
    );
    let mut recording = fixture::recording(3);
    recording.events = vec![ClientEvent::Warning {
        message: "no m-00000003 here".into(),
    }];
    assert_eq!(
        mask(&recording).events[0]["message"],
        "no <model:main> here"
    );
}

#[test]
fn ids_of_scripts_in_no_known_form_stay() {
    let line = json!({"type": "event_msg", "payload": {"item": {"id": "call_1"}, "id": "weird9"}});
    let record = rollout_of(&format!("{line}\n")).records.remove(0);
    assert_eq!(
        record["payload"],
        json!({"item": {"id": "call_1"}, "id": "weird9"})
    );
}

#[test]
fn thread_ids_beside_tools_are_masked_and_schemas_are_not() {
    let (id, other) = (fixture::id(1, 1), fixture::id(1, 2));
    let line = json!({"type": "compacted", "payload": {"resume_metadata": {"dynamic_tools": {
        "thread_id": id, "tools": [{"inputSchema": {"thread_id": other}, "description": other}],
    }}}});
    let record = rollout_of(&format!("{line}\n")).records.remove(0);
    let tools = &record["payload"]["resume_metadata"]["dynamic_tools"];
    assert_eq!(tools["thread_id"], "<thread:1>");
    assert_eq!(tools["tools"][0]["inputSchema"]["thread_id"], other);
    assert_eq!(tools["tools"][0]["description"], other);
}

/// Only the handshake of a loaded history names its window by chance, and it does name a window.
#[test]
fn the_window_of_a_loaded_history_is_masked_in_its_handshake_alone() {
    let header = |method: &str, began: &str, window: &str| {
        let mut recording = fixture::recording(1);
        let exchange = &mut recording.journal[0];
        exchange.method = method.to_owned();
        let metadata = json!({"history_initialization": began, "context_window_id": window});
        let name = "x-codex-turn-metadata".to_owned();
        exchange.headers = vec![(name, metadata.to_string())];
        mask(&recording).wire.remove(0).headers.remove(0).1
    };
    let handshake = mock_provider::script::HANDSHAKE_METHOD;
    let window = fixture::id(1, 77);
    for began in ["warm_fork", "cold_resume"] {
        assert!(header(handshake, began, &window).contains("<window by chance>"));
        assert!(header(handshake, began, "none").contains("\"none\""));
        assert!(header("POST", began, &window).contains("<window:1>"));
    }
    for began in ["new", "supplied_history"] {
        assert!(header(handshake, began, &window).contains("<window:1>"));
    }
}

#[test]
fn every_mask_has_its_own_name_and_a_reason() {
    let names: Vec<_> = MASKS
        .iter()
        .map(|m| (m.id, m.reason))
        .chain(STRUCTURAL.iter().copied())
        .collect();
    for (at, (id, reason)) in names.iter().enumerate() {
        assert!(
            !reason.is_empty() && names[..at].iter().all(|(other, _)| other != id),
            "{id}"
        );
    }
}

/// Changes the `n`-th string or number below a value that is not in a masked place.
fn change(value: &mut Value, n: &mut usize) -> bool {
    match value {
        Value::Object(map) => map.iter_mut().any(|(_, v)| change(v, n)),
        Value::Array(list) => list.iter_mut().any(|v| change(v, n)),
        Value::String(text) => {
            if *n == 0 {
                text.push('!');
                return true;
            }
            *n -= 1;
            false
        }
        Value::Number(_) | Value::Bool(_) | Value::Null => false,
    }
}

proptest! {
    #[test]
    fn renaming_ids_and_places_changes_nothing(a in 0u32..5000, b in 0u32..5000) {
        prop_assert_eq!(mask(&fixture::recording(a)), mask(&fixture::recording(b)));
    }

    #[test]
    fn other_texts_and_usage_always_show(
        user in "(<|~|>|cwd|<cwd>|thread:1| |[a-c]|汉){0,6}", usage in 0i64..4,
    ) {
        let plain = Texts { user: "a".into(), output: "b".into(), usage: 0 };
        let other = Texts { user: user.clone(), usage, ..plain.clone() };
        let equal = mask(&with_texts(1, &plain)) == mask(&with_texts(1, &other));
        prop_assert_eq!(equal, user == "a" && usage == 0);
    }

    #[test]
    fn a_longer_string_anywhere_in_a_body_shows(request in 0usize..4, n in 0usize..60) {
        let mut recording = fixture::recording(7);
        let mut body: Value = serde_json::from_slice(&recording.journal[request].body).unwrap();
        let mut at = n;
        if change(&mut body, &mut at) {
            recording.journal[request].body = body.to_string().into_bytes();
            prop_assert_ne!(mask(&recording), mask(&fixture::recording(7)));
        }
    }
}
