//! One turn: pre-turn check, context, sampling loop, calls and outputs, end of the turn.

use std::cell::OnceCell;

use futures_util::StreamExt;
use serde_json::Value;
use tracing::{Instrument, debug, info_span};

use crate::calls::Calls;
use crate::completed::read_completed;
use crate::error::{Failure, FailureKind};
use crate::events::Event;
use crate::items::Item;
use crate::planted::Planted;
use crate::ports::{EventStream, StreamStep};
use crate::request::{self, Addresses, Purpose};
use crate::rollout::{self, TurnTimes};
use crate::session::{Remarks, Session};
use crate::settings::Settings;
use crate::texts;
use crate::tokens::Usage;
use crate::websocket::Socket;

/// Samplings of one turn before it is taken for a loop.
pub(crate) const SAMPLINGS_MAX: usize = 10_000;
/// A running turn.
pub(crate) struct Turn {
    pub(crate) id: String,
    pub(crate) started_ms: u64,
    pub(crate) first_token_ms: Option<u64>,
    pub(crate) output_schema: Option<Value>,
    pub(crate) last_agent_message: Option<String>,
    /// State that the provider gave to this turn first.
    pub(crate) state: OnceCell<String>,
    /// The client was told that another model answers.
    pub(crate) rerouted: bool,
    /// The thread's connection, which a turn of the user keeps for itself while it runs.
    pub(crate) socket: Option<Socket>,
    /// A failure that the client was told of, behind which the turn went on (0.144).
    pub(crate) outlived: Option<Failure>,
    /// Steers that were taken for a sampling that did not come to be.
    pub(crate) untold: Vec<(u64, Vec<Value>)>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// The model was done.
    Completed,
    /// The client stopped it.
    Interrupted,
    /// A request failed.
    Failed(Failure),
}

/// What one sampling left to do.
#[derive(Default)]
struct Sampled {
    needs_follow_up: bool,
    /// A failure whose place a steer took.
    outlived: Option<Failure>,
}

impl Session {
    /// Runs one turn with this user input (parts in app-server shape; may be empty).
    pub async fn run_turn(&mut self, input: Vec<Value>, output_schema: Option<Value>) -> TurnEnd {
        let mut turn = self.start_turn(output_schema, true);
        let span = info_span!("turn", turn = %turn.id, profile = self.profile.release);
        let result = self.turn_bodies(&mut turn, input).instrument(span).await;
        self.remarks = Remarks::default();
        let interrupted =
            matches!(&result, Err(failure) if failure.kind == FailureKind::Interrupted);
        if interrupted && self.profile.plants(Planted::WaitsForEver) {
            std::future::pending::<()>().await;
        }
        self.end_turn(&turn, result)
    }

    pub(crate) fn start_turn(&mut self, output_schema: Option<Value>, by_user: bool) -> Turn {
        self.begin();
        self.inbox.reset();
        self.turn_usage = Usage::default();
        if !self.profile.base_is_item {
            self.reasoning_included = false;
        }
        let started_ms = self.ports.clock.now_ms();
        let id = self.ports.ids.uuid();
        self.ports
            .observer
            .event(Event::TurnStarted { turn: id.clone() });
        let event = rollout::task_started(
            &self.settings,
            &self.profile,
            &id,
            started_ms / 1000,
            by_user,
        );
        if by_user {
            self.attributed_turn = Some(id.clone());
        }
        self.recorder.event(event);
        Turn {
            id,
            started_ms,
            first_token_ms: None,
            output_schema,
            last_agent_message: None,
            state: OnceCell::new(),
            rerouted: false,
            socket: by_user.then(|| self.socket.take()),
            outlived: None,
            untold: Vec::new(),
        }
    }

    pub(crate) async fn turn_body(
        &mut self,
        turn: &mut Turn,
        input: Vec<Value>,
    ) -> Result<(), Failure> {
        let order = (!input.is_empty()).then(|| self.take_order());
        if let Err(failure) = self.compact_pre_turn(turn).await {
            let interrupted = failure.kind == FailureKind::Interrupted;
            let keep = if interrupted {
                self.profile.keeps_text_after_interrupted_pre_turn
            } else {
                self.profile.keeps_text_after_failed_pre_turn
            };
            if let Some(order) = order.filter(|_| keep) {
                self.record_user(turn, &input, order);
            }
            return Err(failure);
        }
        if turn.outlived.is_none() && self.baseline_turn() != Some(&turn.id) {
            self.record_context(&turn.id);
        }
        if !self.start_hooks(turn) {
            return Ok(());
        }
        self.record_client_context(&turn.id);
        if let Some(order) = order {
            self.record_user(turn, &input, order);
        }
        self.sampling_loop(turn).await
    }

    async fn sampling_loop(&mut self, turn: &mut Turn) -> Result<(), Failure> {
        let instant = self.instant_interrupt();
        let mut input = Vec::new();
        if turn.outlived.is_some() {
            input = self.take_input();
        }
        for number in 0..SAMPLINGS_MAX {
            self.record_steers(turn, std::mem::take(&mut input));
            turn.last_agent_message = None;
            self.enter_sampling(&turn.id);
            self.remind_of_budget(turn);
            if self.profile.budget_stops_turns {
                self.check_budget()?;
            }
            let span = info_span!("sampling", number);
            let sampled = self.sample(turn).instrument(span).await?;
            self.check_budget()?;
            let follow_up = sampled.needs_follow_up || self.inbox.has_steer();
            if self.inbox.has_steer() {
                // What it leaves out is forgotten as soon as it is there.
                self.client_context.clear();
            }
            let window_ends =
                self.window_ends(turn) && !self.profile.plants(Planted::MidTurnSkipped);
            if follow_up && window_ends {
                if instant {
                    input = self.take_input();
                }
                if self.profile.plants(Planted::SteerLost) {
                    self.take_input();
                    input.clear();
                }
                if let Err(failure) = self.compact_mid_turn(turn).await {
                    turn.untold = input;
                    return Err(failure);
                }
                if self.profile.start_hooks_in_turn && !self.start_hooks(turn) {
                    return Ok(());
                }
                if !instant && !sampled.needs_follow_up {
                    input = self.take_input();
                }
            } else if follow_up {
                input = self.take_input();
            } else {
                return self.compact_post_turn(turn).await;
            }
        }
        let message = format!("the turn made {SAMPLINGS_MAX} samplings (SAMPLINGS_MAX)");
        Err(Failure::fatal(message))
    }

    /// Opens streams until one ends well or the retries are used up.
    async fn sample(&mut self, turn: &mut Turn) -> Result<Sampled, Failure> {
        let mut attempt = 0;
        loop {
            match self.sample_once(turn).await {
                Ok(sampled) => {
                    let again = |failure: &Failure| {
                        failure.repeats_stream() && attempt < self.settings.stream_max_retries
                    };
                    if let Some(failure) = sampled.outlived.as_ref().filter(|it| again(it)) {
                        self.reconnect(attempt + 1, failure);
                    }
                    return Ok(sampled);
                }
                Err(failure) => {
                    if failure.kind == FailureKind::ContentFilter
                        && self.profile.guides_after_content_filter
                    {
                        self.guide_after_content_filter(turn);
                    }
                    let again =
                        failure.repeats_stream() && !self.profile.plants(Planted::RetryForgotten);
                    if again && attempt < self.settings.stream_max_retries {
                        attempt += 1;
                        self.reconnect(attempt, &failure);
                    } else if again && self.falls_back(&failure) {
                        attempt = 0;
                    } else {
                        self.account_for(&failure);
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// What a failed turn says of window and plan.
    fn account_for(&mut self, failure: &Failure) {
        if failure.kind == FailureKind::ContextWindowExceeded {
            self.fill_window();
        } else if failure.kind == FailureKind::PlanLimit {
            self.emit_token_count();
        }
    }

    async fn sample_once(&mut self, turn: &mut Turn) -> Result<Sampled, Failure> {
        let prompt = self.history.for_prompt(&self.settings.model, &self.profile);
        let schema = turn.output_schema.clone();
        self.settle_world_state();
        let built = self.build(turn, &Purpose::Turn, &prompt, schema.as_ref());
        let asked = self.counters.history;
        // A steer made while nothing was streaming cuts the next stream before it opens.
        let cut = self.instant_interrupt() && self.inbox.take_cut();
        debug!(items = prompt.len(), "asking the model");
        let framed = self.asks_over_websocket();
        let mut stream = self.open_turn(turn, built).await?;
        if cut {
            return Ok(Sampled {
                needs_follow_up: true,
                ..Sampled::default()
            });
        }
        let mut calls = Calls {
            asked,
            ..Calls::default()
        };
        let read = self.read_stream(turn, stream.as_mut(), &mut calls).await;
        drop(stream);
        if self.profile.budget_stops_turns && self.check_budget().is_err() {
            calls.give_up();
        }
        let interrupted = !self.finish_calls(turn, &mut calls).await;
        // Over HTTP every answer tells the limits of the plan, and the count is told again.
        let completed = matches!(&read, Ok(end) if end.completed);
        if completed || !framed {
            self.emit_token_count();
        }
        // A steer made while the calls of a broken response ran takes the place of its failure.
        let end = match read {
            Err(failure) if !interrupted && self.instant_interrupt() && self.inbox.take_cut() => {
                return Ok(Sampled {
                    needs_follow_up: true,
                    outlived: Some(failure),
                });
            }
            read => read?,
        };
        if interrupted || self.inbox.is_interrupted() {
            return Err(Failure::interrupted());
        }
        Ok(Sampled {
            needs_follow_up: !calls.pending.is_empty() || end.asks_again,
            outlived: None,
        })
    }

    pub(crate) fn addresses<'a>(&'a self, turn: &'a str, turn_started_ms: u64) -> Addresses<'a> {
        Addresses {
            session: &self.root,
            thread: &self.thread,
            turn,
            window_number: self.window.number,
            window_id: &self.window.id,
            history_initialization: self.history_initialization,
            forked_from: self.origin.forked_from.as_ref(),
            turn_started_ms,
            base_id: &self.base_id,
            client_metadata: &self.remarks.metadata,
        }
    }

    pub(crate) fn build(
        &self,
        turn: &Turn,
        purpose: &Purpose,
        prompt: &[Item],
        schema: Option<&Value>,
    ) -> crate::ports::Request {
        self.build_for(&self.settings, turn, purpose, prompt, schema)
    }

    /// Builds a request with other settings than the turn's.
    pub(crate) fn build_for(
        &self,
        settings: &Settings,
        turn: &Turn,
        purpose: &Purpose,
        prompt: &[Item],
        schema: Option<&Value>,
    ) -> crate::ports::Request {
        let at = self.addresses(&turn.id, turn.started_ms);
        request::build(settings, &self.profile, &at, purpose, prompt, schema)
    }

    /// Reads events until the response ends, the client stops it or a steer cuts it.
    async fn read_stream(
        &mut self,
        turn: &mut Turn,
        stream: &mut dyn EventStream,
        calls: &mut Calls,
    ) -> Result<StreamEnd, Failure> {
        let inbox = self.inbox();
        loop {
            self.take_changes();
            if inbox.is_interrupted() || (self.instant_interrupt() && inbox.take_cut()) {
                return Ok(StreamEnd::left());
            }
            if !self.budget_holds_calls() {
                self.start_waiting(calls);
            }
            let step = tokio::select! {
                biased;
                () = inbox.changed() => continue,
                step = stream.next() => step,
                Some((index, outcome)) = calls.running.next() => {
                    self.finish_call(turn, calls, index, outcome);
                    continue;
                }
            };
            let event = match step {
                StreamStep::Event(event) => event,
                StreamStep::End(end) => {
                    return Err(Failure::from_end(&end, &self.settings, &self.profile));
                }
            };
            if let Some(end) = self.handle_event(turn, &event, calls)? {
                return Ok(end);
            }
        }
    }

    fn handle_event(
        &mut self,
        turn: &mut Turn,
        event: &Value,
        calls: &mut Calls,
    ) -> Result<Option<StreamEnd>, Failure> {
        match event["type"].as_str() {
            Some("response.output_item.done") => {
                self.take_output_item(turn, &event["item"], calls);
                Ok(None)
            }
            Some("response.output_text.delta") => {
                // An empty piece counts too.
                if event["delta"].is_string() {
                    let now = self.ports.clock.now_ms();
                    turn.first_token_ms.get_or_insert(now);
                }
                Ok(None)
            }
            Some("response.completed") => {
                let Some(response) = read_completed(&event["response"], &self.profile)? else {
                    return Ok(None);
                };
                let window = self.turn_settings().effective_window();
                self.record_usage(response.usage, window, &turn.id, &response.id);
                Ok(Some(StreamEnd {
                    completed: true,
                    asks_again: response.asks_again,
                }))
            }
            Some("response.failed") => Err(Failure::from_failed(&event["response"], &self.profile)),
            Some("response.incomplete") => {
                Err(Failure::from_incomplete(&event["response"], &self.profile))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn end_turn(&mut self, turn: &Turn, result: Result<(), Failure>) -> TurnEnd {
        let stopped = matches!(&result, Err(failure) if failure.kind == FailureKind::HookStopped);
        let end = match result {
            Ok(()) => TurnEnd::Completed,
            Err(failure) if failure.kind == FailureKind::Interrupted => {
                self.record_aborted(turn);
                TurnEnd::Interrupted
            }
            Err(failure) if failure.kind == FailureKind::HookStopped => TurnEnd::Interrupted,
            Err(failure) => {
                if failure.kind == FailureKind::SessionBudget && self.profile.budget_stops_turns {
                    let text = texts::TURN_STOPPED;
                    self.record_note(turn, "developer", "generic.turn_aborted", text);
                }
                TurnEnd::Failed(failure)
            }
        };
        if let Some(socket) = &turn.socket {
            self.socket.replace(socket);
        }
        let times = TurnTimes {
            started_ms: turn.started_ms,
            ended_ms: self.ports.clock.now_ms(),
            first_token_ms: turn.first_token_ms,
        };
        let failure = match &end {
            TurnEnd::Failed(failure) => Some(failure),
            TurnEnd::Completed | TurnEnd::Interrupted => None,
        };
        if let Some(failure) = failure {
            self.tell_failure(failure);
        }
        self.settle_steers(turn, end != TurnEnd::Interrupted || stopped);
        let last = turn
            .last_agent_message
            .as_deref()
            .filter(|_| end == TurnEnd::Completed);
        let record = if end == TurnEnd::Interrupted {
            rollout::turn_aborted(&self.profile, &turn.id, times)
        } else {
            rollout::task_complete(&self.profile, &turn.id, last, failure, times)
        };
        self.recorder.event(record);
        self.warn_of_unsaved();
        let outlived = turn.outlived.as_ref().filter(|_| end == TurnEnd::Completed);
        let told = failure.or(outlived).cloned();
        let status = match &end {
            TurnEnd::Completed if told.is_none() => "completed",
            TurnEnd::Interrupted => "interrupted",
            TurnEnd::Completed | TurnEnd::Failed(_) => "failed",
        };
        self.ports.observer.event(Event::TurnEnded {
            turn: turn.id.clone(),
            status,
            error: told
                .as_ref()
                .map(|failure| (failure.message.clone(), failure.client_code(&self.profile))),
        });
        self.leave_turn();
        told.map_or(end, TurnEnd::Failed)
    }

    pub(crate) fn tell_failure(&self, failure: &Failure) {
        self.ports.observer.event(Event::Error {
            message: failure.message.clone(),
            will_retry: false,
            code: failure.client_code(&self.profile),
        });
    }

    /// Says that records of the thread are not in its rollout.
    fn warn_of_unsaved(&mut self) {
        if let Some(failure) = self.recorder.unsaved() {
            let message = format!(
                "{}thread-store internal error: {}",
                texts::NOT_SAVED,
                failure.reason
            );
            self.ports.observer.event(Event::Warning { message });
        }
    }

    /// Window-full accounting after a context-length failure (compaction.md §2.4).
    pub(crate) fn fill_window(&mut self) {
        let Some(window) = self.turn_settings().effective_window() else {
            return;
        };
        let info = self.info.get_or_insert_default();
        let before = info.total.total;
        info.total = Usage {
            total: window,
            ..Usage::default()
        };
        info.last = Usage {
            total: window.saturating_sub(before).max(0),
            ..Usage::default()
        };
        info.includes_reasoning = None;
        info.window = Some(window);
        self.history.mark_covered();
        self.emit_token_count();
    }

    fn record_aborted(&mut self, turn: &Turn) {
        if self.profile.plants(Planted::AbortUntold) {
            return;
        }
        self.record_note(turn, "user", "generic.turn_aborted", texts::TURN_ABORTED);
    }
}

/// How a stream ended without failure.
struct StreamEnd {
    completed: bool,
    asks_again: bool,
}

impl StreamEnd {
    /// The client did not read on.
    fn left() -> Self {
        Self {
            completed: false,
            asks_again: false,
        }
    }
}
