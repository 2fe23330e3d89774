//! Replies over live streams on axum: gates, cuts, stalls and dropped connections. A WebSocket is
//! opened here and served by `websocket.rs`.
//!
//! A cut breaks the connection inside the body, after everything before it was flushed. A dropped
//! connection is a body that fails at once: nothing was flushed by then, so the client sees no
//! byte. When the client closes a stream before its end, the journal notes it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body as AxumBody, to_bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts as _, Request as AxumRequest, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::case::{Case, CaseHandle, Registry};
use crate::journal::Request;
use crate::script::{
    Body, Ending, HANDSHAKE_METHOD, Planned, ScriptedReply, compact_body, is_compact_path,
};
use crate::{sse, websocket};

/// Largest request body.
pub(crate) const REQUEST_BODY_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Longest stall; a case that ends earlier ends the stall.
pub(crate) const STALL_MAX: Duration = Duration::from_mins(10);

/// A server of live streams.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    registry: Registry,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts on a free port of 127.0.0.1. An error means that loopback is denied.
    pub async fn start() -> std::io::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts on an address.
    pub async fn start_at(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let registry = Registry::default();
        let router = Router::new().fallback(handle).with_state(registry.clone());
        let listener = listener.tap_io(|socket| {
            if let Err(error) = socket.set_nodelay(true) {
                tracing::warn!(%error, "no TCP_NODELAY");
            }
        });
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "live server ended");
            }
        });
        let server = Self {
            address,
            registry,
            task,
        };
        crate::reach::reach(address).await?;
        Ok(server)
    }

    /// Opens a case under a key that is unique among the open cases.
    pub fn open_case(&self, key: &str) -> CaseHandle {
        self.registry.open(key, &format!("http://{}", self.address))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves one script for any client until the future is dropped; gates are released at once.
///
/// The base URL is `http://ADDRESS/script/v1`; `ready` gets it once the port is open.
pub async fn serve(
    replies: Vec<ScriptedReply>,
    address: SocketAddr,
    ready: impl FnOnce(&str),
) -> std::io::Result<()> {
    let server = Server::start_at(address).await?;
    let mut case = server.open_case("script");
    case.begin_step(replies);
    ready(case.base_url());
    while let Some(gate) = case.next_gate().await {
        tracing::info!(label = gate.label, "gate released");
    }
    Ok(())
}

pub(crate) async fn handle(State(registry): State<Registry>, request: AxumRequest) -> Response {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    let Some((case, path)) = registry.find(&path) else {
        return whole(&Planned::error(404, "no such case").body);
    };
    let (mut parts, body) = request.into_parts();
    let headers = headers_of(&parts);
    if let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        let received = Request {
            method: HANDSHAKE_METHOD.to_owned(),
            path,
            headers,
            body: Bytes::new(),
        };
        return websocket::open(upgrade, &case, received);
    }
    let Ok(body) = to_bytes(body, REQUEST_BODY_BYTES_MAX).await else {
        return whole(&Planned::error(400, "request body could not be read").body);
    };
    let received = Request {
        method: parts.method.to_string(),
        path: path.clone(),
        headers,
        body,
    };
    let (number, planned) = case.answer(received);
    match planned.body {
        Body::Stream {
            headers, events, ..
        } if is_compact_path(&path) => {
            let body = compact_body(&events).to_string();
            whole(&Body::Http {
                status: 200,
                headers,
                body,
            })
        }
        Body::Stream {
            headers,
            events,
            ending,
            gate_after_events,
        } => {
            let live = LiveStream {
                case,
                number,
                label: planned.label.unwrap_or_default(),
                events,
                sent: 0,
                ending,
                gate_after_events,
                ours_to_end: false,
            };
            let body = AxumBody::from_stream(stream::unfold(live, LiveStream::next));
            respond(200, &headers, "text/event-stream", body)
        }
        body @ (Body::Http { .. } | Body::DropConnection) => whole(&body),
    }
}

fn headers_of(parts: &Parts) -> Vec<(String, String)> {
    let headers = parts.headers.iter();
    headers
        .map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect()
}

pub(crate) fn whole(body: &Body) -> Response {
    match body {
        Body::Http {
            status,
            headers,
            body,
        } => respond(
            *status,
            headers,
            "application/json",
            AxumBody::from(body.clone()),
        ),
        Body::DropConnection | Body::Stream { .. } => {
            let failed: Result<Bytes, _> = Err(broken());
            let body = AxumBody::from_stream(stream::iter([failed]));
            respond(200, &[], "text/event-stream", body)
        }
    }
}

fn respond(status: u16, headers: &[(String, String)], kind: &str, body: AxumBody) -> Response {
    let mut builder = Response::builder().status(status);
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
    {
        builder = builder.header("content-type", kind);
    }
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(body).unwrap_or_else(|error| {
        whole(&Planned::error(500, &format!("scripted headers are not valid: {error}")).body)
    })
}

fn broken() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionAborted, "scripted break")
}

struct LiveStream {
    case: Arc<Case>,
    number: usize,
    label: String,
    events: Vec<Value>,
    sent: usize,
    ending: Ending,
    gate_after_events: Option<usize>,
    /// The end of the stream was scripted: its drop does not mean that the client left.
    ours_to_end: bool,
}

impl LiveStream {
    async fn next(mut self) -> Option<(std::io::Result<Bytes>, Self)> {
        if self.gate_after_events == Some(self.sent) {
            self.gate_after_events = None;
            // A pending body lets the server flush what was sent before the driver hears of it.
            tokio::task::yield_now().await;
            self.case.hold(self.label.clone()).await;
        }
        match self.ending {
            Ending::Cut { after_events } if self.sent >= after_events => {
                tokio::task::yield_now().await;
                self.ours_to_end = true;
                return Some((Err(broken()), self));
            }
            Ending::Stall { after_events } if self.sent >= after_events => {
                // Either way the stream ends; what ended it is not the client.
                let _ = tokio::time::timeout(STALL_MAX, self.case.wait_closed()).await;
                self.ours_to_end = true;
                return None;
            }
            Ending::Complete | Ending::Close { .. } | Ending::Cut { .. } | Ending::Stall { .. } => {
            }
        }
        let Some(event) = self.events.get(self.sent) else {
            self.ours_to_end = true;
            return None;
        };
        let chunk = sse::encode(event);
        self.sent += 1;
        Some((Ok(chunk), self))
    }
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        if !self.ours_to_end {
            self.case.note_client_left(self.number);
        }
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
