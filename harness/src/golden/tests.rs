//! Envelope, documents and printing together: lossless, readable, equal where versions are.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::envelope::{Envelope, ItemIds};
use super::fold::same;
use super::fold::tests::json_value;
use super::render::{self, Stream, print, read_events, read_rollouts, read_wire, render};
use super::wire::value_of;
use crate::fixture::{self, Texts, with_texts};
use crate::mask::{Masked, MaskedRequest, MaskedRollout, mask};

fn envelope() -> Envelope {
    let other = Texts {
        user: "Other".into(),
        output: "x".into(),
        usage: 5,
    };
    Envelope::build(&[&mask(&fixture::recording(1)), &mask(&with_texts(1, &other))])
}

/// Renders, parses and rebuilds; long texts are collected on the way.
fn assert_lossless(masked: &Masked, envelope: &Envelope) {
    let mut texts = BTreeMap::new();
    let all = json!([
        masked.wire.iter().map(value_of).collect::<Vec<_>>(),
        masked
            .rollouts
            .iter()
            .map(|f| json!(f.records))
            .collect::<Vec<_>>(),
        masked.events
    ]);
    collect(&all, &mut texts);
    let parse = |stream| -> Value {
        let text = render(stream, masked, envelope);
        let doc: Value = serde_json::from_str(&text).expect("a golden is JSON");
        assert_eq!(print(&doc), text, "the printed form is canonical");
        doc
    };
    let wire = read_wire(&parse(Stream::Wire), envelope, &texts).expect("wire reads back");
    assert_eq!(wire.len(), masked.wire.len());
    for (back, own) in wire.iter().zip(&masked.wire) {
        assert_eq!(back.kind, own.kind);
        assert_eq!(value_of(back).to_string(), value_of(own).to_string());
    }
    let files = read_rollouts(&parse(Stream::Rollout), envelope, &texts).expect("rollouts read");
    for (back, own) in files.iter().zip(&masked.rollouts) {
        assert!(
            same(&json!(back.records), &json!(own.records)),
            "{back:?}\n{own:?}"
        );
    }
    let events = read_events(&parse(Stream::Events), &texts).expect("events read back");
    assert!(same(&json!(events), &json!(masked.events)));
}

fn collect(value: &Value, texts: &mut BTreeMap<String, String>) {
    match value {
        Value::String(text) => drop(texts.insert(render::sha256(text.as_bytes()), text.clone())),
        Value::Array(list) => list.iter().for_each(|v| collect(v, texts)),
        Value::Object(map) => map.values().for_each(|v| collect(v, texts)),
        _ => {}
    }
}

#[test]
fn a_scenario_golden_says_only_its_own() {
    let masked = mask(&fixture::recording(2));
    let text = render(Stream::Wire, &masked, &envelope());
    let expected = r#"{
  "requests": [
    {
      "request": 1,
      "kind": "turn",
      "turn": "<turn:1>",
      "window": "<thread:1>:0",
      "model": "<model:main>",
      "base": "Be brief.",
      "input": [
        {"type":"message","role":"user","content":[{"type":"input_text","text":"Create it"}]}
      ]
    },
    {
      "request": 2,
      "kind": "turn",
      "turn": "<turn:1>",
      "window": "<thread:1>:0",
      "model": "<model:main>",
      "base": {"$same_as":1},
      "input": [
        {"$same_as":1,"items":"0..=0"},
        {"type":"function_call","name":"lookup","arguments":"{\"id\":\"<~time>\"}","call_id":"call_1"},
        {"type":"function_call_output","call_id":"call_1","output":"out"}
      ]
    },
    {
      "request": 3,
      "kind": "compaction",
      "turn": "<turn:2>",
      "window": "<thread:1>:0",
      "model": "<model:main>",
      "compaction": {"trigger":"auto","phase":"pre_turn"},
      "base": {"$same_as":1},
      "input": [
        {"$same_as":2,"items":"0..=2"},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"Summarise."}]}
      ]
    },
    {
      "request": 4,
      "kind": "turn",
      "turn": "<turn:2>",
      "window": "<thread:1>:1",
      "model": "<model:main>",
      "base": {"$same_as":1},
      "input": [
        {"$same_as":3,"items":"0..=0"},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"Summary: done."}]},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"and <~cwd>?"}]}
      ]
    }
  ]
}
"#;
    assert_eq!(text, expected);
}

#[test]
fn a_rollout_line_says_only_its_own() {
    let text = render(Stream::Rollout, &mask(&fixture::recording(2)), &envelope());
    assert!(
        text.contains(r#"["event_msg/task_started",{},{"turn":"<turn:1>"}]"#),
        "{text}"
    );
    let usage = r#"["event_msg/token_count",{"payload":{"info":{"last_token_usage":{"#;
    assert!(text.contains(usage), "{text}");
}

#[test]
fn long_texts_become_hashes_and_come_back() {
    let long = Texts {
        user: "汉".repeat(3000),
        output: "y".repeat(5000),
        usage: 1,
    };
    let masked = mask(&with_texts(2, &long));
    let text = render(Stream::Wire, &masked, &envelope());
    assert!(
        text.contains(r#"{"$long":{"bytes":9000,"sha256":""#),
        "{text}"
    );
    assert!(text.len() < 6000);
    assert_lossless(&masked, &envelope());
}

#[test]
fn works_without_an_envelope() {
    assert_lossless(&mask(&fixture::recording(3)), &Envelope::default());
    assert_eq!(envelope().policy.item_ids, ItemIds::Canonical);
    let value = envelope().to_value();
    assert_eq!(Envelope::from_value(&value), Some(envelope()));
}

#[test]
fn ids_that_break_the_rule_are_written() {
    let mut masked = mask(&fixture::recording(2));
    masked.wire[1].body["input"][3]["id"] = json!("fco_<item:9>");
    masked.wire[0].body["input"][1]
        .as_object_mut()
        .unwrap()
        .shift_remove("id");
    let text = render(Stream::Wire, &masked, &envelope());
    assert!(
        text.contains(r#""id":"fco_<item:9>""#) && text.contains(r#""id":null"#),
        "{text}"
    );
    assert_lossless(&masked, &envelope());
}

/// Puts a random value somewhere into a recording.
fn disturb(masked: &mut Masked, at: usize, value: Value) {
    const PLACES: &[&str] = &[
        "",
        "/input",
        "/input/0",
        "/input/1",
        "/tools",
        "/client_metadata",
        "/model",
        "/client_metadata/x-codex-turn-metadata/$json/compaction",
    ];
    let request = at % masked.wire.len();
    let record = at % masked.rollouts[0].records.len();
    match at % 11 {
        8 => masked.rollouts[0].records[record] = value,
        9 => {
            if let Some(payload) = masked.rollouts[0].records[record].pointer_mut("/payload") {
                *payload = value;
            }
        }
        10 => masked.events.push(value),
        place => {
            if let Some(target) = masked.wire[request].body.pointer_mut(PLACES[place]) {
                *target = value;
            }
        }
    }
}

proptest! {
    #[test]
    fn envelope_and_golden_rebuild_the_recording(
        changes in prop::collection::vec((0usize..500, json_value()), 0..4),
        user in "(a|<cwd>|<turn:1>|汉){0,4}",
    ) {
        let texts = Texts { user, output: "o".into(), usage: 3 };
        let mut masked = mask(&with_texts(2, &texts));
        for (at, value) in changes {
            disturb(&mut masked, at, value);
        }
        assert_lossless(&masked, &envelope());
    }

    #[test]
    fn any_value_at_all_rebuilds(bodies in prop::collection::vec(json_value(), 0..4)) {
        let request = |body: &Value| MaskedRequest {
            kind: "turn".into(), method: "POST".into(), path: "/x".into(),
            headers: vec![("a".into(), "1".into()), ("a".into(), "2".into())],
            body: body.clone(),
        };
        let masked = Masked {
            wire: bodies.iter().map(request).collect(),
            rollouts: vec![MaskedRollout { name: "r".into(), records: bodies.clone() }],
            events: bodies,
            ..Masked::default()
        };
        assert_lossless(&masked, &envelope());
    }
}
