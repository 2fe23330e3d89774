//! What a client sees of the live adapter and of the whole-body adapter, over a raw socket.

use super::*;
use crate::script::Answers;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest time that one read of a test may take.
const READ_MAX: Duration = Duration::from_secs(5);

fn reply(label: &str, body: Body) -> ScriptedReply {
    ScriptedReply {
        label: label.into(),
        answers: Answers::Turn,
        attempts: 1,
        body,
    }
}

fn streamed(ending: Ending, gate_after_events: Option<usize>) -> Body {
    Body::Stream {
        headers: vec![("x-codex-turn-state".into(), "s".into())],
        events: vec![json!({"type": "one"}), json!({"type": "two"})],
        ending,
        gate_after_events,
    }
}

async fn send(base_url: &str) -> TcpStream {
    let rest = base_url.strip_prefix("http://").expect("a plain URL");
    let (address, path) = rest.split_once('/').expect("a path");
    let mut socket = TcpStream::connect(address).await.expect("connects");
    let head = format!(
        "POST /{path}/responses HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-length: 2\r\n\r\n{{}}"
    );
    socket.write_all(head.as_bytes()).await.expect("writes");
    socket
}

async fn read_all(socket: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // An error is a reset: what came before it counts.
    let _ = tokio::time::timeout(READ_MAX, socket.read_to_end(&mut all))
        .await
        .expect("in time");
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn both_adapters_send_the_same_stream_and_keep_the_request() {
    let (http, live) = (
        crate::http::Server::start().await.expect("http"),
        Server::start().await.expect("live"),
    );
    for case in [http.open_case("k"), live.open_case("k")] {
        case.begin_step(vec![reply("a", streamed(Ending::Complete, None))]);
        let seen = read_all(&mut send(case.base_url()).await).await;
        assert!(seen.starts_with("HTTP/1.1 200 OK\r\n"), "{seen}");
        assert!(
            seen.contains("content-type: text/event-stream\r\n"),
            "{seen}"
        );
        assert!(seen.contains("x-codex-turn-state: s\r\n"), "{seen}");
        assert!(
            seen.contains("event: two\ndata: {\"type\":\"two\"}\n\n"),
            "{seen}"
        );
        let entry = &case.journal()[0];
        assert_eq!(
            (entry.request.path.as_str(), &entry.request.body[..]),
            ("/responses", &b"{}"[..])
        );
        assert_eq!(
            (entry.reply.as_deref(), entry.client_left),
            (Some("a"), false)
        );
        assert!(case.end_step().is_empty());
    }
}

#[tokio::test]
async fn a_cut_comes_after_what_was_sent_and_a_dropped_connection_sends_nothing() {
    let server = Server::start().await.expect("live");
    let case = server.open_case("k");
    case.begin_step(vec![
        reply("cut", streamed(Ending::Cut { after_events: 1 }, None)),
        reply("drop", Body::DropConnection),
        reply("head only", streamed(Ending::Cut { after_events: 0 }, None)),
    ]);
    let cut = read_all(&mut send(case.base_url()).await).await;
    assert!(
        cut.contains("event: one") && !cut.contains("event: two"),
        "{cut}"
    );
    assert!(!cut.ends_with("0\r\n\r\n"), "{cut}");
    assert_eq!(read_all(&mut send(case.base_url()).await).await, "");
    let head = read_all(&mut send(case.base_url()).await).await;
    assert!(
        head.starts_with("HTTP/1.1 200") && !head.contains("event:"),
        "{head}"
    );
    assert!(case.journal().iter().all(|entry| !entry.client_left));
}

#[tokio::test]
async fn a_gate_holds_the_stream_until_it_is_released() {
    let server = Server::start().await.expect("live");
    let mut case = server.open_case("k");
    case.begin_step(vec![reply("a", streamed(Ending::Complete, Some(1)))]);
    let mut socket = send(case.base_url()).await;
    let gate = tokio::time::timeout(READ_MAX, case.next_gate())
        .await
        .expect("in time");
    let gate = gate.expect("the gate");
    let mut before = vec![0; 4096];
    let count = socket.read(&mut before).await.expect("reads");
    let mut seen = String::from_utf8_lossy(&before[..count]).into_owned();
    assert!(
        seen.contains("event: one") && !seen.contains("event: two"),
        "{seen}"
    );
    gate.release.send(()).expect("still waits");
    seen.push_str(&read_all(&mut socket).await);
    assert!(seen.contains("event: two"), "{seen}");
}

#[tokio::test]
async fn a_client_that_leaves_a_stalled_stream_is_noted() {
    let server = Server::start().await.expect("live");
    let case = server.open_case("k");
    case.begin_step(vec![reply(
        "a",
        streamed(Ending::Stall { after_events: 1 }, None),
    )]);
    let mut socket = send(case.base_url()).await;
    let mut seen = vec![0; 4096];
    assert!(socket.read(&mut seen).await.expect("reads") > 0);
    drop(socket);
    let left = async {
        while !case.journal()[0].client_left {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(READ_MAX, left)
        .await
        .expect("the client left");
}

#[tokio::test]
async fn a_closed_case_answers_404() {
    let server = Server::start().await.expect("live");
    let url = server.open_case("k").base_url().to_owned();
    assert!(
        read_all(&mut send(&url).await)
            .await
            .starts_with("HTTP/1.1 404")
    );
}
