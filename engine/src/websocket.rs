//! Requests over a WebSocket: one connection, and a delta where the provider keeps the rest.
//!
//! The newest completed response of a connection is its anchor. A request that differs from it only
//! by items behind it names the response and carries those items; every other one carries the full
//! input. A response that did not complete ends its connection. What is a failure, and when it is
//! tried again or given up for HTTP, is decided in `transport.rs` and `turn.rs`.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::{FutureExt, LocalBoxFuture};
use serde_json::{Map, Value, json};

use crate::items;
use crate::ports::{Connection, EventStream, HttpFailure, Request, StreamEnd, StreamStep};
use crate::profile::Profile;

/// Fields that a delta does not have to share with its anchor.
const OWN_FIELDS: [&str; 2] = ["input", "client_metadata"];
/// What the client tells about an item.
const PASSTHROUGH: &str = "internal_chat_message_metadata_passthrough";
/// What `openai-beta` says in a handshake.
const BETA: &str = "responses_websockets=2026-02-06";
/// Headers of a request that its handshake has as well, in the handshake's order.
const HANDSHAKE_HEADERS: [&str; 9] = [
    "user-agent",
    "originator",
    "openai-beta",
    "x-codex-turn-metadata",
    "x-codex-window-id",
    "x-codex-beta-features",
    "x-client-request-id",
    "session-id",
    "thread-id",
];

/// The WebSocket of a thread.
#[derive(Clone, Default)]
pub(crate) struct Socket {
    open: Rc<RefCell<Option<Open>>>,
}

/// An open connection.
struct Open {
    connection: Rc<dyn Connection>,
    anchor: Option<Anchor>,
}

/// What the provider keeps of the newest response.
#[derive(Debug, Clone, PartialEq)]
struct Anchor {
    response_id: String,
    /// Body of its request without [`OWN_FIELDS`].
    fields: Map<String, Value>,
    /// Input of its request, then its own items in wire form.
    items: Vec<Value>,
}

/// A request as it goes into a frame.
#[derive(Debug, Clone, PartialEq)]
struct Framed {
    fields: Map<String, Value>,
    input: Vec<Value>,
    body: Map<String, Value>,
}

impl Framed {
    /// From a built request; `None` if its body is no object with an input.
    fn of(request: &Request) -> Option<Self> {
        let Ok(Value::Object(body)) = serde_json::from_slice(&request.body) else {
            return None;
        };
        let input = body.get("input")?.as_array()?.clone();
        let mut fields = body.clone();
        for key in OWN_FIELDS {
            fields.shift_remove(key);
        }
        Some(Self {
            fields,
            input,
            body,
        })
    }

    /// The items behind the anchor, if the request begins with it.
    fn behind(&self, anchor: &Anchor, profile: &Profile) -> Option<Vec<Value>> {
        let begins = anchor.fields == self.fields
            && anchor.items.len() <= self.input.len()
            && anchor
                .items
                .iter()
                .zip(&self.input)
                .all(|(kept, sent)| is_kept(kept, sent, profile));
        begins.then(|| self.input[anchor.items.len()..].to_vec())
    }

    /// The frame of this request: a delta on the anchor, else the full input.
    fn frame(
        &self,
        anchor: Option<&Anchor>,
        prewarm: bool,
        now_ms: u64,
        profile: &Profile,
    ) -> Value {
        let delta = anchor.and_then(|anchor| Some((anchor, self.behind(anchor, profile)?)));
        let mut frame = Map::new();
        frame.insert("type".to_owned(), json!("response.create"));
        for (key, value) in &self.body {
            match (key.as_str(), &delta) {
                ("input", Some((anchor, items))) => {
                    let previous = json!(anchor.response_id);
                    frame.insert("previous_response_id".to_owned(), previous);
                    frame.insert(key.clone(), json!(items));
                }
                ("client_metadata", _) => {
                    if prewarm {
                        frame.insert("generate".to_owned(), json!(false));
                    }
                    let mut metadata = value.clone();
                    metadata["x-codex-ws-stream-request-start-ms"] = json!(now_ms.to_string());
                    frame.insert(key.clone(), metadata);
                }
                _ => {
                    frame.insert(key.clone(), value.clone());
                }
            }
        }
        Value::Object(frame)
    }
}

/// Whether an item of the input is the one that the provider keeps. What the client tells about an
/// item does not count. An item that came without an id was given one: 0.164 takes it for another
/// item then.
fn is_kept(kept: &Value, sent: &Value, profile: &Profile) -> bool {
    if kept == sent {
        return true;
    }
    let (Some(kept), Some(sent)) = (kept.as_object(), sent.as_object()) else {
        return false;
    };
    let mut bare = sent.clone();
    if !kept.contains_key(PASSTHROUGH) {
        bare.shift_remove(PASSTHROUGH);
    }
    if profile.anchors_without_id && !kept.contains_key("id") {
        bare.shift_remove("id");
    }
    *kept == bare
}

/// The request that opens a connection for another request.
pub(crate) fn handshake(request: &Request) -> Request {
    let header = |name: &str| {
        let known = request.headers.iter().find(|(key, _)| key == name);
        known.map(|(_, value)| value.clone())
    };
    let headers = HANDSHAKE_HEADERS.into_iter().filter_map(|name| {
        let value = match name {
            "openai-beta" => Some(BETA.to_owned()),
            name => header(name),
        };
        Some((name.to_owned(), value?))
    });
    Request {
        path: request.path,
        headers: headers.collect(),
        body: Vec::new(),
    }
}

impl Socket {
    /// Whether a connection is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.borrow().is_some()
    }

    /// Takes a fresh connection into use.
    pub(crate) fn opened(&self, connection: Rc<dyn Connection>) {
        let anchor = None;
        *self.open.borrow_mut() = Some(Open { connection, anchor });
    }

    /// Moves the connection to a socket of its own: a turn keeps it for itself while it runs.
    pub(crate) fn take(&self) -> Self {
        let open = self.open.borrow_mut().take();
        Self {
            open: Rc::new(RefCell::new(open)),
        }
    }

    /// Takes over what another socket holds, also if that is nothing.
    pub(crate) fn replace(&self, other: &Self) {
        let open = other.open.borrow_mut().take();
        *self.open.borrow_mut() = open;
    }

    /// Gives the connection up.
    pub(crate) fn close(&self) {
        *self.open.borrow_mut() = None;
    }

    /// Sends a request on the open connection.
    pub(crate) async fn send(
        &self,
        request: &Request,
        prewarm: bool,
        now_ms: u64,
        profile: &Profile,
    ) -> Box<dyn EventStream> {
        let sent = Framed::of(request).and_then(|framed| {
            let mut open = self.open.borrow_mut();
            let open = open.as_mut()?;
            // Until the response has completed there is nothing to stand on.
            let anchor = open.anchor.take();
            let frame = framed.frame(anchor.as_ref(), prewarm, now_ms, profile);
            Some((framed, open.connection.send(frame.to_string().into_bytes())))
        });
        let Some((framed, stream)) = sent else {
            return Box::new(Gone);
        };
        Box::new(Watched {
            stream: stream.await,
            socket: self.clone(),
            anchor: Some(Anchor {
                response_id: String::new(),
                fields: framed.fields,
                items: framed.input,
            }),
            keeps: profile.keeps_socket_after_interrupt,
            profile: profile.clone(),
        })
    }
}

/// A response that is read; sets the anchor when it completes, ends the connection when it fails.
struct Watched {
    stream: Box<dyn EventStream>,
    socket: Socket,
    /// What becomes the anchor; gone when the response has ended.
    anchor: Option<Anchor>,
    /// A response that the client leaves does not end the connection (0.144).
    keeps: bool,
    profile: Profile,
}

impl Watched {
    fn note(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("response.output_item.done") => {
                let item = items::from_json(&event["item"], &self.profile);
                if let (Some(item), Some(anchor)) = (item, &mut self.anchor) {
                    anchor.items.push(item.wire(&self.profile));
                }
            }
            Some("response.completed") => {
                let id = event["response"]["id"].as_str();
                let anchor = self.anchor.take().zip(id).map(|(anchor, id)| Anchor {
                    response_id: id.to_owned(),
                    ..anchor
                });
                if let Some(open) = &mut *self.socket.open.borrow_mut() {
                    open.anchor = anchor;
                }
            }
            Some("response.failed" | "response.incomplete") => self.fail(),
            _ => {}
        }
    }

    fn fail(&mut self) {
        self.anchor = None;
        self.socket.close();
    }
}

/// An error frame with a status is an answer with that status.
fn refusal(event: &Value) -> Option<HttpFailure> {
    let status = event["status"]
        .as_u64()
        .filter(|_| event["type"] == "error")?;
    Some(HttpFailure::Status {
        status: u16::try_from(status).ok()?,
        headers: Vec::new(),
        body: event.to_string(),
    })
}

impl EventStream for Watched {
    fn header(&self, name: &str) -> Option<String> {
        self.stream.header(name)
    }

    fn next(&mut self) -> LocalBoxFuture<'_, StreamStep> {
        async move {
            let step = self.stream.next().await;
            match &step {
                StreamStep::Event(event) => {
                    if let Some(refusal) = refusal(event) {
                        self.fail();
                        return StreamStep::End(StreamEnd::Refused(refusal));
                    }
                    self.note(event);
                }
                StreamStep::End(_) => self.fail(),
            }
            step
        }
        .boxed_local()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.anchor.is_some() && !self.keeps {
            self.socket.close();
        }
    }
}

/// The stream of a connection that is gone.
struct Gone;

impl EventStream for Gone {
    fn header(&self, _: &str) -> Option<String> {
        None
    }

    fn next(&mut self) -> LocalBoxFuture<'_, StreamStep> {
        std::future::ready(StreamStep::End(StreamEnd::SocketClosed)).boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Version;

    fn framed(model: &str, input: &Value) -> Framed {
        let body = json!({"model": model, "input": input, "client_metadata": {"a": "b"}});
        let request = Request {
            path: "/responses",
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        };
        Framed::of(&request).expect("a body with an input")
    }

    fn anchor(of: &Framed, answer: Vec<Value>) -> Anchor {
        Anchor {
            response_id: "r".to_owned(),
            fields: of.fields.clone(),
            items: [of.input.clone(), answer].concat(),
        }
    }

    #[test]
    fn a_delta_carries_what_is_behind_the_anchor() {
        let profile = Profile::of(Version::V171);
        let kept = anchor(&framed("m", &json!([1])), vec![json!(2)]);
        let frame = framed("m", &json!([1, 2, 3])).frame(Some(&kept), false, 7, &profile);
        assert_eq!(
            frame.to_string(),
            "{\"type\":\"response.create\",\"model\":\"m\",\"previous_response_id\":\"r\",\
             \"input\":[3],\"client_metadata\":{\"a\":\"b\",\
             \"x-codex-ws-stream-request-start-ms\":\"7\"}}"
        );
    }

    #[test]
    fn another_field_another_item_or_a_shorter_input_is_sent_in_full() {
        let profile = Profile::of(Version::V171);
        let kept = anchor(&framed("m", &json!([1])), vec![json!(2)]);
        for (model, input) in [
            ("n", json!([1, 2, 3])),
            ("m", json!([1, 4, 3])),
            ("m", json!([1])),
        ] {
            let frame = framed(model, &input).frame(Some(&kept), true, 7, &profile);
            assert_eq!(frame["input"], input);
            assert_eq!(frame.get("previous_response_id"), None);
            assert_eq!(frame["generate"], json!(false));
        }
    }

    #[test]
    fn an_item_without_an_id_is_an_anchor_where_the_profile_says_so() {
        let kept = json!({"type": "message", "content": []});
        let sent = json!({"type": "message", "id": "msg_1", "content": []});
        assert!(is_kept(&kept, &sent, &Profile::of(Version::V171)));
        assert!(!is_kept(&kept, &sent, &Profile::of(Version::V164)));
        assert!(!is_kept(&sent, &kept, &Profile::of(Version::V171)));
    }
}
