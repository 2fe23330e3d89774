//! How a stream is opened, over a WebSocket or over HTTP, and when a thread moves from one to the
//! other; and what turn and provider tell each other beside the body: turn state and the name of
//! the model that answers.
//!
//! Nothing here looks into events; `turn.rs` reads the stream.

use http::StatusCode;
use serde_json::json;
use tracing::debug;

use crate::error::{Failure, FailureKind};
use crate::events::Event;
use crate::items;
use crate::ports::{EventStream, HttpFailure, Request, StreamStep};
use crate::request::{self, Purpose};
use crate::session::Session;
use crate::texts;
use crate::turn::Turn;
use crate::websocket::{self, Socket};

/// Response header that says that the usage counts reasoning of earlier turns.
const REASONING_INCLUDED: &str = "x-reasoning-included";
/// Header of the state that a provider gives to a turn, and gets back.
const TURN_STATE: &str = "x-codex-turn-state";
/// Header of the model that answers.
const ANSWERING_MODEL: &str = "openai-model";
/// First pause between attempts, in milliseconds; it doubles.
const BACKOFF_MS: u64 = 200;
/// Doublings after which the pause stays.
const BACKOFF_DOUBLINGS_MAX: u64 = 10;

/// The pause before attempt `number` (from 1), in milliseconds.
fn backoff_ms(number: u64) -> u64 {
    BACKOFF_MS << number.saturating_sub(1).min(BACKOFF_DOUBLINGS_MAX)
}

impl Session {
    /// Warms the connection of a thread that was just started or resumed.
    pub async fn prewarm(&mut self) {
        if !self.asks_over_websocket() {
            return;
        }
        let at = self.addresses("", 0);
        let request = request::build(
            &self.settings,
            &self.profile,
            &at,
            &Purpose::Prewarm,
            &[],
            None,
        );
        // A prewarm that fails is not tried again: the turn opens a connection of its own.
        let socket = self.socket.clone();
        let Ok(mut stream) = self.open_framed(&socket, request, true).await else {
            return;
        };
        while let StreamStep::Event(event) = stream.next().await {
            if event["type"] == "response.completed" {
                return;
            }
        }
    }

    /// Tells the count again when a stream beside the turn was opened: over HTTP every answer tells
    /// the limits of the plan, over a WebSocket none does.
    pub(crate) fn tell_limits(&mut self, stream: &dyn EventStream) {
        if !self.asks_over_websocket() {
            self.read_limits(&|name| stream.header(name));
            self.emit_token_count();
        }
    }

    fn read_limits(&mut self, header: &dyn Fn(&str) -> Option<String>) {
        self.rate_limits.get_or_insert_default().read(header);
    }

    pub(crate) fn asks_over_websocket(&self) -> bool {
        self.settings.websockets && !self.fell_back
    }

    /// Opens a stream beside the running turn, for a compaction: on the thread's connection, or on
    /// one of its own where the turn keeps that for itself.
    pub(crate) async fn open(&mut self, request: Request) -> Result<Box<dyn EventStream>, Failure> {
        let socket = self.socket.clone();
        self.open_on(&socket, request).await
    }

    /// Opens a stream as a part of the turn: on the connection that it keeps for itself, if it
    /// does, and with the turn's state, which goes out and comes in over HTTP alone.
    pub(crate) async fn open_with(
        &mut self,
        turn: &Turn,
        mut request: Request,
    ) -> Result<Box<dyn EventStream>, Failure> {
        if let Some(state) = turn.state.get().filter(|_| !self.asks_over_websocket()) {
            let place = request.headers.len().min(1);
            let header = (TURN_STATE.to_owned(), state.clone());
            request.headers.insert(place, header);
        }
        let socket = turn.socket.as_ref().unwrap_or(&self.socket).clone();
        let stream = self.open_on(&socket, request).await?;
        if let Some(state) = stream.header(TURN_STATE) {
            turn.state.get_or_init(|| state);
        }
        Ok(stream)
    }

    /// Opens a stream: over a WebSocket, or over HTTP with the request's own retries.
    async fn open_on(
        &mut self,
        socket: &Socket,
        request: Request,
    ) -> Result<Box<dyn EventStream>, Failure> {
        if self.asks_over_websocket() {
            let stream = self.open_framed(socket, request.clone(), false).await;
            // A handshake may have moved the thread to HTTP.
            if self.asks_over_websocket() {
                return stream;
            }
        }
        self.open_plain(request).await
    }

    /// Sends a request as a frame, on a fresh connection if none is open.
    async fn open_framed(
        &mut self,
        socket: &Socket,
        request: Request,
        prewarm: bool,
    ) -> Result<Box<dyn EventStream>, Failure> {
        if !socket.is_open() {
            let handshake = websocket::handshake(&request);
            match self.ports.sampler.connect(handshake).await {
                Ok(connection) => socket.opened(connection),
                Err(failure) => {
                    let upgrade = StatusCode::UPGRADE_REQUIRED.as_u16();
                    self.fell_back |= matches!(&failure, HttpFailure::Status { status, .. } if *status == upgrade);
                    return Err(Failure::from_handshake(
                        &failure,
                        &self.settings,
                        &self.profile,
                    ));
                }
            }
        }
        let now_ms = self.ports.clock.now_ms();
        let stream = socket.send(&request, prewarm, now_ms, &self.profile).await;
        Ok(stream)
    }

    /// Lets the pause before the same request pass and counts it; the failure where it is not sent
    /// again.
    fn before_repeat(
        &mut self,
        answer: &HttpFailure,
        path: &str,
        attempt: u64,
    ) -> Result<u64, Failure> {
        let failure = Failure::from_http(answer, &self.settings, &self.profile, path);
        if let (FailureKind::PlanLimit, HttpFailure::Status { headers, .. }) =
            (failure.kind, answer)
        {
            self.read_limits(&|name| {
                let mut named = headers.iter().filter(|(key, _)| key == name);
                named.next().map(|(_, value)| value.clone())
            });
        }
        if attempt >= self.settings.request_max_retries || !failure.repeats_request() {
            return Err(failure);
        }
        self.ports.clock.wait(backoff_ms(attempt + 1));
        Ok(attempt + 1)
    }

    async fn open_plain(&mut self, request: Request) -> Result<Box<dyn EventStream>, Failure> {
        let mut attempt = 0;
        loop {
            match self.ports.sampler.sample(request.clone()).await {
                Ok(stream) => return Ok(stream),
                Err(failure) => attempt = self.before_repeat(&failure, request.path, attempt)?,
            }
        }
    }

    /// Moves the thread to HTTP for good, if it asked over a WebSocket.
    pub(crate) fn falls_back(&mut self, failure: &Failure) -> bool {
        if !self.asks_over_websocket() {
            return false;
        }
        self.fell_back = true;
        let why = &failure.message;
        self.ports.observer.event(Event::Warning {
            message: format!("Falling back from WebSockets to HTTPS transport. {why}"),
        });
        true
    }

    /// Asks for a whole JSON answer, with the request's own retries.
    pub(crate) async fn post(&mut self, request: Request) -> Result<serde_json::Value, Failure> {
        let mut attempt = 0;
        loop {
            match self.ports.sampler.post(request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => attempt = self.before_repeat(&failure, request.path, attempt)?,
            }
        }
    }

    /// Opens the stream of an ordinary sampling.
    pub(crate) async fn open_turn(
        &mut self,
        turn: &mut Turn,
        request: Request,
    ) -> Result<Box<dyn EventStream>, Failure> {
        let stream = self.open_with(turn, request).await?;
        if !self.asks_over_websocket() {
            self.read_limits(&|name| stream.header(name));
        }
        let included = stream.header(REASONING_INCLUDED).is_some();
        // 0.171 keeps the flag with each usage, earlier versions keep it for the session.
        self.reasoning_included = included || (self.reasoning_included && !self.profile.sequences);
        if let Some(model) = stream.header(ANSWERING_MODEL) {
            self.note_model(turn, &model);
        }
        Ok(stream)
    }

    /// Tells the client, once in a turn, that another model answers.
    fn note_model(&mut self, turn: &mut Turn, model: &str) {
        let asked = &self.settings.model.slug;
        if turn.rerouted || model.eq_ignore_ascii_case(asked) {
            return;
        }
        turn.rerouted = true;
        self.ports.observer.event(Event::ModelRerouted {
            from: asked.clone(),
            to: model.to_owned(),
        });
        self.ports.observer.event(Event::Warning {
            message: texts::REROUTED_WARNING.to_owned(),
        });
    }

    /// Before a turn's stream is opened again. The first reconnect of a WebSocket goes unsaid.
    pub(crate) fn reconnect(&mut self, attempt: u64, failure: &Failure) {
        if attempt > 1 || !self.asks_over_websocket() {
            self.announce_retry(attempt, failure);
        } else {
            self.pause(attempt, failure);
        }
    }

    /// Tells the client about a retry and lets the pause before it pass.
    pub(crate) fn announce_retry(&mut self, attempt: u64, failure: &Failure) {
        let limit = self.settings.stream_max_retries;
        self.ports.observer.event(Event::Error {
            message: format!("Reconnecting... {attempt}/{limit}"),
            will_retry: true,
            code: failure.retry_code(),
        });
        self.pause(attempt, failure);
    }

    /// Lets the pause pass that the provider asked for, or else the backoff.
    fn pause(&self, attempt: u64, failure: &Failure) {
        debug!(%attempt, message = %failure.message, "retrying");
        let pause = failure.retry_after_ms.unwrap_or(backoff_ms(attempt));
        self.ports.clock.wait(pause);
    }

    /// Tells the model that the content filter stopped its response.
    pub(crate) fn guide_after_content_filter(&mut self, turn: &Turn) {
        let text = texts::CONTENT_FILTER_GUIDANCE;
        let content = vec![json!({"type": "input_text", "text": text})];
        let mut item = items::message("developer", None, content);
        let kinds = json!(["generic.content_filter_guidance"]);
        item.passthrough
            .insert("content_item_kinds".to_owned(), kinds);
        let provenance = json!([{"provenance": {"type": "harness", "hook": false}}]);
        item.passthrough
            .insert("content_item_metadata".to_owned(), provenance);
        self.prepare(&mut item, &turn.id, true);
        self.commit(item);
    }
}
