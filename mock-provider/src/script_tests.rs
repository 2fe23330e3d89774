//! Every problem of a script, and that what is scripted is sent in order.

use super::*;
use bytes::Bytes;

pub(crate) fn reply(label: &str, answers: Answers) -> ScriptedReply {
    ScriptedReply {
        label: label.into(),
        answers,
        attempts: 1,
        body: Body::Http {
            status: 200,
            headers: vec![],
            body: label.into(),
        },
    }
}

fn request(path: &str, metadata: &Value) -> Request {
    let body = json!({
        "model": "m",
        "client_metadata": {"x-codex-turn-metadata": metadata.to_string()},
    });
    Request {
        method: "POST".into(),
        path: path.into(),
        headers: vec![],
        body: Bytes::from(body.to_string()),
    }
}

fn turn() -> Request {
    request("/responses", &json!({"request_kind": "turn"}))
}

fn compaction(implementation: &str) -> Request {
    request(
        "/responses",
        &json!({"request_kind": "compaction", "compaction": {
            "implementation": implementation, "phase": "pre_turn", "reason": "context_limit"}}),
    )
}

fn local(phase: &str) -> Answers {
    Answers::Compaction {
        implementation: "local".into(),
        phase: Some(phase.into()),
        reason: None,
        model: None,
    }
}

fn status(planned: &Planned) -> u16 {
    match planned.body {
        Body::Http { status, .. } => status,
        Body::Stream { .. } | Body::DropConnection => 0,
    }
}

#[test]
fn replies_come_in_order_and_attempts_repeat_one() {
    let mut script = Script::default();
    let mut twice = reply("a", Answers::Turn);
    twice.attempts = 2;
    script.begin_step(vec![twice, reply("b", local("pre_turn"))]);
    let labels: Vec<_> = [turn(), turn(), compaction("responses")]
        .iter()
        .map(|request| script.next(request).label.unwrap_or_default())
        .collect();
    assert_eq!(labels, ["a", "a", "b"]);
    assert!(script.end_step().is_empty());
    assert!(script.problems().is_empty());
}

#[test]
fn a_request_without_a_reply_is_unscripted() {
    let mut script = Script::default();
    let planned = script.next(&turn());
    assert_eq!(status(&planned), 500);
    assert!(matches!(&planned.body, Body::Http { body, .. }
        if body.starts_with("{\"error\":{\"message\":\"turnproof: unscripted request")));
    assert!(
        matches!(&script.problems()[0], Problem::Unscripted { kind: Answers::Turn, request }
        if request.starts_with("POST /responses (") && request.contains("\n  {\"model\":\"m\""))
    );
}

#[test]
fn a_long_request_is_told_by_its_end() {
    let mut script = Script::default();
    let long = "x".repeat(5_000);
    let items: Vec<Value> = (1..=9).map(|n| json!({"n": n, "text": long})).collect();
    let body = json!({"model": "m", "input": items}).to_string();
    script.next(&Request {
        body: Bytes::from(body),
        ..turn()
    });
    let said = script.problems()[0].to_string();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[1].ends_with(" bytes), 9 input items"), "{}", lines[1]);
    assert_eq!(lines[2], "  … 6 before these");
    assert_eq!(lines.len(), 6);
    assert!(lines.iter().all(|line| line.len() < 300), "{said}");
    assert!(lines[5].starts_with("  {\"n\":9,"), "{}", lines[5]);
}

#[test]
fn a_request_of_another_kind_is_a_problem_and_consumes_nothing() {
    let mut script = Script::default();
    script.begin_step(vec![reply("a", local("mid_turn"))]);
    assert_eq!(status(&script.next(&turn())), 500);
    assert_eq!(status(&script.next(&compaction("responses"))), 500);
    let texts: Vec<String> = script
        .problems()
        .iter()
        .map(|problem| {
            problem
                .to_string()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(
        texts,
        [
            "a answers a request of kind `compaction local, phase mid_turn`, got `turn`",
            "a answers a request of kind `compaction local, phase mid_turn`, got \
             `compaction local, phase pre_turn, reason context_limit, model m`",
        ]
    );
    assert_eq!(script.end_step(), ["a"]);
}

#[test]
fn an_unused_reply_is_a_problem() {
    let mut script = Script::default();
    let mut thrice = reply("a", Answers::Turn);
    thrice.attempts = 3;
    script.begin_step(vec![thrice]);
    script.next(&turn());
    script.begin_step(vec![]);
    assert_eq!(
        script.take_problems(),
        [Problem::UnusedReply {
            label: "a".into(),
            left: 2,
            attempts: 3
        }]
    );
}

#[test]
fn an_unknown_route_is_a_problem() {
    let mut script = Script::default();
    assert_eq!(
        status(&script.unknown_route(&request("/files", &json!({})))),
        404
    );
    assert!(matches!(script.problems(), [Problem::UnknownRoute { .. }]));
}

#[test]
fn kinds_are_read_from_path_body_and_header() {
    let implementation = |request: &Request| match Kind::of(request).answers {
        Answers::Compaction { implementation, .. } => implementation,
        other @ (Answers::Turn | Answers::Prewarm | Answers::Handshake) => other.to_string(),
    };
    assert_eq!(implementation(&compaction("responses")), "local");
    assert_eq!(
        implementation(&compaction("responses_compaction_v2")),
        "remote_v2"
    );
    assert_eq!(
        implementation(&compaction("responses_compact")),
        "remote_v1"
    );
    assert_eq!(
        implementation(&request("/responses/compact", &json!({}))),
        "remote_v1"
    );
    assert_eq!(
        implementation(&request("/responses", &json!({"request_kind": "prewarm"}))),
        "prewarm"
    );
    let mut by_header = turn();
    by_header.body = Bytes::from_static(b"{}");
    by_header.headers = vec![(
        "x-codex-turn-metadata".into(),
        "{\"request_kind\":\"compaction\"}".into(),
    )];
    assert_eq!(implementation(&by_header), "local");
}
