//! What a client sees of a WebSocket of the live adapter.

use super::*;
use crate::case::CaseHandle;
use crate::live::Server;
use crate::script::{Answers, ScriptedReply};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{self, Message as ClientMessage};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

fn reply(label: &str, ending: Ending, gate_after_events: Option<usize>) -> ScriptedReply {
    ScriptedReply {
        label: label.into(),
        answers: Answers::Turn,
        attempts: 1,
        body: Body::Stream {
            headers: vec![],
            events: vec![json!({"type": "one"}), json!({"type": "two"})],
            ending,
            gate_after_events,
        },
    }
}

fn refusal(status: u16) -> ScriptedReply {
    ScriptedReply {
        label: "refusal".into(),
        answers: Answers::Handshake,
        attempts: 1,
        body: Body::Http {
            status,
            headers: vec![("x-codex-turn-state".into(), "s".into())],
            body: "{}".into(),
        },
    }
}

fn url(case: &CaseHandle) -> String {
    format!("{}/responses", case.base_url().replacen("http", "ws", 1))
}

async fn open(case: &CaseHandle) -> Client {
    connect_async(url(case)).await.expect("a WebSocket").0
}

async fn ask(client: &mut Client) {
    let frame = ClientMessage::text("{\"type\":\"response.create\"}");
    client.send(frame).await.expect("sends");
}

/// The next frame as text; `None` when the connection has ended.
async fn next(client: &mut Client) -> Option<String> {
    match client.next().await? {
        Ok(message) => Some(message.to_string()),
        Err(_) => None,
    }
}

#[tokio::test]
async fn frames_are_requests_and_events_are_frames() {
    let server = Server::start().await.expect("live");
    let case = server.open_case("k");
    case.begin_step(vec![
        reply("a", Ending::Complete, None),
        reply("b", Ending::Complete, None),
    ]);
    let mut client = open(&case).await;
    for _ in 0..2 {
        ask(&mut client).await;
        assert_eq!(
            next(&mut client).await.as_deref(),
            Some("{\"type\":\"one\"}")
        );
        assert_eq!(
            next(&mut client).await.as_deref(),
            Some("{\"type\":\"two\"}")
        );
    }
    let journal = case.journal();
    let seen: Vec<(&str, Option<&str>)> = journal
        .iter()
        .map(|entry| (entry.request.method.as_str(), entry.reply.as_deref()))
        .collect();
    assert_eq!(seen, [("GET", None), ("WS", Some("a")), ("WS", Some("b"))]);
    assert_eq!(journal[2].request.header("websocket"), Some("1"));
    assert_eq!(
        &journal[1].request.body[..],
        b"{\"type\":\"response.create\"}"
    );
    assert!(case.end_step().is_empty() && case.take_problems().is_empty());
}

#[tokio::test]
async fn a_handshake_is_refused_or_accepted_with_headers_as_scripted() {
    let server = Server::start().await.expect("live");
    let case = server.open_case("k");
    case.begin_step(vec![refusal(426), refusal(101)]);
    let failed = connect_async(url(&case)).await.expect_err("refused");
    let tungstenite::Error::Http(answer) = failed else {
        panic!("{failed}")
    };
    assert_eq!(answer.status().as_u16(), 426);
    let (_, answer) = connect_async(url(&case)).await.expect("accepted");
    let state = answer.headers().get("x-codex-turn-state");
    assert_eq!(state.and_then(|state| state.to_str().ok()), Some("s"));
    assert!(case.end_step().is_empty());
}

#[tokio::test]
async fn a_close_has_its_code_and_a_cut_has_none() {
    let server = Server::start().await.expect("live");
    let case = server.open_case("k");
    case.begin_step(vec![
        reply("close", Ending::Close { code: 1011 }, None),
        reply("cut", Ending::Cut { after_events: 1 }, None),
    ]);
    let mut client = open(&case).await;
    ask(&mut client).await;
    client.next().await.expect("one").expect("a frame");
    client.next().await.expect("two").expect("a frame");
    let Some(Ok(ClientMessage::Close(Some(close)))) = client.next().await else {
        panic!("no close frame")
    };
    assert_eq!(u16::from(close.code), 1011);
    let mut client = open(&case).await;
    ask(&mut client).await;
    assert_eq!(
        next(&mut client).await.as_deref(),
        Some("{\"type\":\"one\"}")
    );
    assert_eq!(
        next(&mut client).await,
        None,
        "a break without a close frame"
    );
    assert_eq!(case.journal()[3].request.header("websocket"), Some("2"));
}

#[tokio::test]
async fn a_gate_keeps_a_frame_that_comes_early_and_notes_a_client_that_leaves() {
    let server = Server::start().await.expect("live");
    let mut case = server.open_case("k");
    case.begin_step(vec![
        reply("a", Ending::Complete, Some(1)),
        reply("b", Ending::Complete, Some(0)),
    ]);
    let mut client = open(&case).await;
    ask(&mut client).await;
    let gate = case.next_gate().await.expect("a gate");
    ask(&mut client).await;
    gate.release.send(()).expect("held");
    let gate = case.next_gate().await.expect("the gate of the early frame");
    assert_eq!(gate.label, "b");
    drop(client);
    let left = async {
        while !case.journal()[2].client_left {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(5), left).await;
    waited.expect("the client that left is noted");
    assert!(!case.journal()[1].client_left);
}
