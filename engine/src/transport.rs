//! What a turn and the provider tell each other beside the body: turn state and the name of the
//! model that answers; and how a stream is opened, with the request's own retries.
//!
//! Nothing here looks into events; `turn.rs` reads the stream.

use serde_json::json;
use tracing::debug;

use crate::error::Failure;
use crate::events::Event;
use crate::items;
use crate::ports::{EventStream, Request};
use crate::session::Session;
use crate::texts;
use crate::turn::Turn;

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
    /// Opens a stream, with the request's own retries.
    pub(crate) async fn open(&mut self, request: Request) -> Result<Box<dyn EventStream>, Failure> {
        let mut attempt = 0;
        loop {
            match self.ports.sampler.sample(request.clone()).await {
                Ok(stream) => {
                    self.rate_limits_seen = true;
                    return Ok(stream);
                }
                Err(failure) => {
                    let failure =
                        Failure::from_http(&failure, &self.settings, &self.profile, request.path);
                    if attempt >= self.settings.request_max_retries || !failure.repeats_request() {
                        return Err(failure);
                    }
                    attempt += 1;
                    self.ports.clock.wait(backoff_ms(attempt));
                }
            }
        }
    }

    /// Asks for a whole JSON answer, with the request's own retries.
    pub(crate) async fn post(&mut self, request: Request) -> Result<serde_json::Value, Failure> {
        let mut attempt = 0;
        loop {
            match self.ports.sampler.post(request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    let failure =
                        Failure::from_http(&failure, &self.settings, &self.profile, request.path);
                    if attempt >= self.settings.request_max_retries || !failure.repeats_request() {
                        return Err(failure);
                    }
                    attempt += 1;
                    self.ports.clock.wait(backoff_ms(attempt));
                }
            }
        }
    }

    /// Opens the stream of an ordinary sampling: the turn's state goes out and comes in.
    pub(crate) async fn open_turn(
        &mut self,
        turn: &mut Turn,
        mut request: Request,
    ) -> Result<Box<dyn EventStream>, Failure> {
        if let Some(state) = &turn.state {
            let place = request.headers.len().min(1);
            let header = (TURN_STATE.to_owned(), state.clone());
            request.headers.insert(place, header);
        }
        let stream = self.open(request).await?;
        if turn.state.is_none() {
            turn.state = stream.header(TURN_STATE);
        }
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

    /// Tells the client about a retry and lets the pause pass that the provider asked for.
    pub(crate) fn announce_retry(&mut self, attempt: u64, failure: &Failure) {
        let limit = self.settings.stream_max_retries;
        self.ports.observer.event(Event::Error {
            message: format!("Reconnecting... {attempt}/{limit}"),
            will_retry: true,
            code: failure.retry_code(),
        });
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
