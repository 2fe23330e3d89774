//! WebSockets of the live adapter: one text frame is one request, each event one text frame.
//!
//! A frame stands in the journal under the method `WS`, with one header that is ours: the number of
//! its handshake. While a response is sent the socket is also read, so that a client that leaves is
//! noted and a frame that comes early is kept for later.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use serde_json::Value;

use crate::case::Case;
use crate::journal::Request;
use crate::live::{REQUEST_BODY_BYTES_MAX, STALL_MAX, whole};
use crate::script::{Body, Ending, FRAME_HEADER, FRAME_METHOD, Planned};

/// Frames that a client may send while a response is under way.
const EARLY_FRAMES_MAX: usize = 16;

/// Answers a handshake: refused as scripted, or accepted and served.
pub(crate) fn open(upgrade: WebSocketUpgrade, case: &Arc<Case>, handshake: Request) -> Response {
    let path = handshake.path.clone();
    let mut extra = Vec::new();
    let (opened, planned) = case.handshake(handshake);
    if let Some(planned) = planned {
        match planned.body {
            Body::Http {
                status, headers, ..
            } if status == StatusCode::SWITCHING_PROTOCOLS.as_u16() => {
                extra = headers;
            }
            refusal => return whole(&refusal),
        }
    }
    let served = Arc::clone(case);
    let mut response = upgrade
        .max_message_size(REQUEST_BODY_BYTES_MAX)
        .max_frame_size(REQUEST_BODY_BYTES_MAX)
        .on_upgrade(move |socket| serve(socket, served, path, opened));
    for (name, value) in extra {
        let name = HeaderName::try_from(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

async fn serve(socket: WebSocket, case: Arc<Case>, path: String, opened: usize) {
    let mut connection = Connection {
        socket,
        case: Arc::clone(&case),
        early: VecDeque::new(),
    };
    let frames = async {
        while let Some(frame) = connection.next_frame().await {
            let request = Request {
                method: FRAME_METHOD.to_owned(),
                path: path.clone(),
                headers: vec![(FRAME_HEADER.to_owned(), opened.to_string())],
                body: Bytes::from(frame),
            };
            let (number, planned) = case.answer(request);
            if connection.send(number, planned).await.is_none() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = frames => {}
        () = case.wait_closed() => {}
    }
}

struct Connection {
    socket: WebSocket,
    case: Arc<Case>,
    /// Frames that came while a response was under way.
    early: VecDeque<Utf8Bytes>,
}

/// What a wait on a socket brought.
enum Heard {
    Frame(Utf8Bytes),
    Left,
}

impl Connection {
    async fn hear(&mut self) -> Heard {
        loop {
            match self.socket.recv().await {
                Some(Ok(Message::Text(text))) => return Heard::Frame(text),
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Heard::Left,
            }
        }
    }

    async fn next_frame(&mut self) -> Option<Utf8Bytes> {
        if let Some(frame) = self.early.pop_front() {
            return Some(frame);
        }
        match self.hear().await {
            Heard::Frame(frame) => Some(frame),
            Heard::Left => None,
        }
    }

    /// Sends a reply; `None` when the connection has ended.
    async fn send(&mut self, number: usize, planned: Planned) -> Option<()> {
        let label = planned.label.unwrap_or_default();
        let (events, ending, gate) = match planned.body {
            Body::Stream {
                events,
                ending,
                gate_after_events,
                ..
            } => (events, ending, gate_after_events),
            // A status has no place in an open connection: its body is sent as a frame.
            Body::Http { body, .. } => (vec![Value::String(body)], Ending::Complete, None),
            Body::DropConnection => (Vec::new(), Ending::Cut { after_events: 0 }, None),
        };
        let limit = match ending {
            Ending::Complete | Ending::Close { .. } => events.len(),
            Ending::Cut { after_events } | Ending::Stall { after_events } => after_events,
        };
        for (sent, event) in events.iter().take(limit).enumerate() {
            if gate == Some(sent) {
                self.hold(number, &label).await?;
            }
            let text = match event {
                Value::String(raw) => raw.clone(),
                event => event.to_string(),
            };
            if self.socket.send(Message::Text(text.into())).await.is_err() {
                self.case.note_client_left(number);
                return None;
            }
        }
        if gate.is_some_and(|gate| gate >= limit) {
            self.hold(number, &label).await?;
        }
        self.end(number, ending).await
    }

    async fn end(&mut self, number: usize, ending: Ending) -> Option<()> {
        match ending {
            Ending::Complete => Some(()),
            Ending::Cut { .. } => None,
            Ending::Stall { .. } => {
                let heard = tokio::time::timeout(STALL_MAX, self.hear()).await;
                if let Ok(Heard::Left) = heard {
                    self.case.note_client_left(number);
                }
                None
            }
            Ending::Close { code } => {
                let reason = "scripted".into();
                let frame = Message::Close(Some(CloseFrame { code, reason }));
                // The client may have gone first.
                let _ = self.socket.send(frame).await;
                None
            }
        }
    }

    /// Holds the response at a gate; `None` when the client leaves meanwhile.
    async fn hold(&mut self, number: usize, label: &str) -> Option<()> {
        let case = Arc::clone(&self.case);
        let released = case.hold(label.to_owned());
        tokio::pin!(released);
        loop {
            tokio::select! {
                biased;
                heard = self.hear() => match heard {
                    Heard::Frame(frame) if self.early.len() < EARLY_FRAMES_MAX => {
                        self.early.push_back(frame);
                    }
                    Heard::Frame(_) | Heard::Left => {
                        self.case.note_client_left(number);
                        return None;
                    }
                },
                () = &mut released => return Some(()),
            }
        }
    }
}

#[cfg(test)]
#[path = "websocket_tests.rs"]
mod tests;
