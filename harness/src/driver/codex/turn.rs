//! What the client does while a turn runs: tool answers, gates, and the wait for its end.

use std::time::Duration;

use mock_provider::case::GateReached;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::events::client_event;
use super::rpc::{Incoming, RpcError};
use super::session::Session;
use crate::driver::NoVerdict;
use crate::recording::ClientEvent;
use crate::scenario::plan::{Action, Ends, PlanReply, PlanStep, ReplyBody, ToolAnswer, TurnStatus};
use crate::scenario::quoted;

/// Longest step, retries of the binary included.
const STEP_MAX: Duration = Duration::from_secs(90);
/// Time for the client to open a stream that shows nothing before its gate.
const GATE_QUIET: Duration = Duration::from_millis(250);
/// Longest time until the client has seen what was sent before a gate.
const GATE_SETTLE_MAX: Duration = Duration::from_secs(10);

/// Longest time until the client drops a stream that it is expected to drop.
const DROP_MAX: Duration = Duration::from_secs(5);

/// A tool call that waits for its answer.
struct Call {
    request: Value,
    id: String,
    /// Place of its answer: reply, answer.
    place: Option<(usize, usize)>,
}

/// One turn while it runs.
pub(super) struct Turn<'s, 'a> {
    session: &'s mut Session<'a>,
    step: &'s PlanStep,
    id: Option<String>,
    /// Asked and not answered, in the order they were asked.
    calls: Vec<Call>,
    used: Vec<(usize, usize)>,
    /// Reply whose held calls are being answered, and how many of them are.
    ordered: Option<(usize, usize)>,
    /// Call whose `item/completed` lets the next held answer go.
    awaited: Option<String>,
    interrupted: bool,
    first_event: usize,
    end: Option<(String, Option<(String, Value)>)>,
}

enum Wake {
    Message(Option<Incoming>),
    Gate(GateReached),
    Late,
}

impl<'s, 'a> Turn<'s, 'a> {
    pub(super) fn new(
        session: &'s mut Session<'a>,
        step: &'s PlanStep,
        id: Option<String>,
    ) -> Self {
        let first_event = session.events.len();
        Self {
            session,
            step,
            id,
            calls: Vec::new(),
            used: Vec::new(),
            ordered: None,
            awaited: None,
            interrupted: false,
            first_event,
            end: None,
        }
    }

    /// Waits for the end of the turn and does what the plan says on the way.
    pub(super) async fn play(mut self) -> Result<(), NoVerdict> {
        let deadline = Instant::now() + STEP_MAX;
        while self.end.is_none() {
            match self.wake(deadline).await {
                Wake::Message(message) => self.message(message).await?,
                Wake::Gate(gate) => self.gate(gate).await?,
                Wake::Late => {
                    self.give_up().await;
                    let limit = STEP_MAX.as_secs();
                    return Err(self.undecided(&format!("no turn/completed within {limit} s")));
                }
            }
        }
        self.compare_end();
        Ok(())
    }

    async fn wake(&mut self, deadline: Instant) -> Wake {
        let Session { inbox, case, .. } = &mut *self.session;
        tokio::select! {
            biased;
            message = inbox.recv() => Wake::Message(message),
            Some(gate) = case.next_gate() => Wake::Gate(gate),
            () = tokio::time::sleep_until(deadline) => Wake::Late,
        }
    }

    fn undecided(&self, why: &str) -> NoVerdict {
        let step = self.step;
        let tail = self.session.process().stderr_tail();
        let tail = self.session.calibration().to_ours(&tail);
        NoVerdict::CouldNotDecide(format!(
            "step {} (line {}): {why}{tail}",
            step.number, step.line
        ))
    }

    /// Frees the shared process from a turn that does not end.
    async fn give_up(&mut self) {
        if let Err(error) = self.act(&Action::Interrupt).await {
            tracing::debug!(%error, "not interrupted");
        }
    }

    async fn message(&mut self, message: Option<Incoming>) -> Result<(), NoVerdict> {
        match message {
            None => Err(self.undecided("the process has ended")),
            Some(Incoming::Request { id, method, params }) if method == "item/tool/call" => {
                self.called(id, &params).await
            }
            Some(Incoming::Request { id, method, .. }) => {
                let error = json!({"code": -32601, "message": "not a part of any scenario"});
                self.session.process().rpc.answer(&id, Err(error)).await;
                self.find("client.unexpected_request", &method);
                Ok(())
            }
            Some(Incoming::Notification { method, params }) => {
                self.notification(&method, &params);
                self.answer_ready().await
            }
        }
    }

    fn notification(&mut self, method: &str, params: &Value) {
        let Some(mut event) = client_event(method, params) else {
            return;
        };
        if let ClientEvent::HookCompleted { input, .. } = &mut event {
            let place = params.pointer("/run/displayOrder");
            *input = self
                .session
                .seat
                .hooks
                .next_input(place.and_then(Value::as_i64));
        }
        match &event {
            ClientEvent::TurnStarted { turn } => {
                self.id.get_or_insert_with(|| turn.clone());
            }
            ClientEvent::TurnEnded {
                turn,
                status,
                error,
            } => {
                if self.id.as_ref().is_none_or(|id| id == turn) {
                    self.end = Some((status.clone(), error.clone()));
                }
            }
            ClientEvent::ItemCompleted { kind, id, .. } => {
                if kind == "dynamicToolCall" && self.awaited.as_ref() == Some(id) {
                    self.awaited = None;
                }
            }
            ClientEvent::ItemStarted { .. }
            | ClientEvent::TokenUsage { .. }
            | ClientEvent::ModelRerouted { .. }
            | ClientEvent::HookStarted { .. }
            | ClientEvent::HookCompleted { .. }
            | ClientEvent::Warning { .. }
            | ClientEvent::Error { .. } => {}
        }
        self.session.events.push(event);
    }

    async fn called(&mut self, request: Value, params: &Value) -> Result<(), NoVerdict> {
        let call_id = params["callId"].as_str().unwrap_or_default().to_owned();
        let mut places = self
            .step
            .replies
            .iter()
            .enumerate()
            .flat_map(|(number, reply)| {
                let answers = reply.tool_answers.iter().enumerate();
                answers.map(move |(place, answer)| ((number, place), answer))
            });
        let place = places
            .find(|(place, answer)| answer.call_id == call_id && !self.used.contains(place))
            .map(|(place, _)| place);
        self.used.extend(place);
        self.calls.push(Call {
            request,
            id: call_id,
            place,
        });
        self.answer_ready().await
    }

    /// Answers every call that may be answered now.
    async fn answer_ready(&mut self) -> Result<(), NoVerdict> {
        while self.awaited.is_none()
            && let Some(number) = self.next_ready()
        {
            let call = self.calls.remove(number);
            self.answer(call).await?;
        }
        Ok(())
    }

    /// The place in `calls` of the call to answer next.
    fn next_ready(&mut self) -> Option<usize> {
        if let Some((reply, done)) = self.ordered {
            let order = self.step.replies[reply]
                .answer_order
                .as_deref()
                .unwrap_or_default();
            if let Some(next) = order.get(done) {
                let place = self.calls.iter().position(|call| call.id == *next);
                if place.is_some() {
                    self.ordered = Some((reply, done + 1));
                    self.awaited = Some(next.clone());
                }
                return place;
            }
            self.ordered = None;
        }
        let order_of = |call: &Call| {
            let reply = call.place?.0;
            let order = self.step.replies[reply].answer_order.as_deref()?;
            order.contains(&call.id).then_some((reply, order))
        };
        for (number, call) in self.calls.iter().enumerate() {
            let Some((reply, order)) = order_of(call) else {
                return Some(number);
            };
            let asked = |id: &String| self.calls.iter().any(|call| call.id == *id);
            if order.iter().all(asked) {
                self.ordered = Some((reply, 0));
                return self.next_ready();
            }
        }
        None
    }

    async fn answer(&mut self, call: Call) -> Result<(), NoVerdict> {
        let step = self.step;
        let Some((reply, place)) = call.place else {
            let error = json!({"code": -32603, "message": "no answer is scripted"});
            self.session
                .process()
                .rpc
                .answer(&call.request, Err(error))
                .await;
            self.find(
                "script.unanswered_call",
                &format!("no answer for {}", call.id),
            );
            return Ok(());
        };
        let answer: &ToolAnswer = &step.replies[reply].tool_answers[place];
        for action in &answer.while_running {
            self.act_or_find(&step.replies[reply].label, action).await?;
        }
        if self.interrupted {
            // The call is gone with its turn.
            return Ok(());
        }
        let sent = if answer.rpc_error {
            Err(json!({"code": -32000, "message": "scripted failure"}))
        } else {
            let content = self
                .session
                .calibration()
                .to_real_value(&json!(answer.content));
            Ok(json!({"contentItems": content, "success": answer.success}))
        };
        self.session.process().rpc.answer(&call.request, sent).await;
        Ok(())
    }

    async fn gate(&mut self, mut gate: GateReached) -> Result<(), NoVerdict> {
        let step = self.step;
        let Some(reply) = step.replies.iter().find(|reply| reply.label == gate.label) else {
            return Ok(());
        };
        self.settle(reply).await?;
        let actions = reply.gate.as_ref().map_or(&[][..], |gate| &gate.actions);
        for action in actions {
            self.act_or_find(&reply.label, action).await?;
        }
        let steers = actions
            .iter()
            .any(|action| matches!(action, Action::Steer(_)));
        if reply.delivered_cut || (steers && self.session.drops_at_a_steer()) {
            // The response to a steer comes before the drop: what follows must not overtake it.
            let dropped = tokio::time::timeout(DROP_MAX, gate.release.closed()).await;
            tracing::debug!(label = gate.label, dropped = dropped.is_ok(), "gate");
        }
        // The client may have dropped the stream: then nobody waits.
        let _ = gate.release.send(());
        Ok(())
    }

    /// Waits until the client has shown the items sent before the gate.
    async fn settle(&mut self, reply: &PlanReply) -> Result<(), NoVerdict> {
        let deadline = Instant::now() + GATE_SETTLE_MAX;
        let expected = items_before_gate(reply);
        if expected.is_empty() {
            // Nothing of what was sent shows: the client is only given time to open the stream.
            tokio::time::sleep(GATE_QUIET).await;
        }
        while self.end.is_none() && !self.has_shown(&expected) {
            let message = tokio::time::timeout_at(deadline, self.session.inbox.recv()).await;
            if let Ok(message) = message {
                self.message(message).await?;
            } else {
                let limit = GATE_SETTLE_MAX.as_secs();
                let why = format!(
                    "{}: the items before the gate were not shown within {limit} s",
                    reply.label
                );
                self.give_up().await;
                return Err(self.undecided(&why));
            }
        }
        Ok(())
    }

    fn has_shown(&self, expected: &[Expected]) -> bool {
        let shown = &self.session.events[self.first_event..];
        expected.iter().all(|expected| {
            shown.iter().any(|event| match (event, expected) {
                (ClientEvent::ItemCompleted { kind, shown, .. }, Expected::Message(text)) => {
                    let text = self.session.calibration().to_real(text);
                    kind == "agentMessage" && shown.as_str() == Some(&text)
                }
                (ClientEvent::ItemStarted { kind, id }, Expected::Call(call)) => {
                    kind == "dynamicToolCall" && id == call
                }
                _ => false,
            })
        })
    }

    async fn act_or_find(&mut self, label: &str, action: &Action) -> Result<(), NoVerdict> {
        match self.act(action).await {
            Ok(()) => Ok(()),
            Err(RpcError::Refused {
                method, message, ..
            }) => {
                self.find("client.refused", &format!("{label}: {method}: {message}"));
                Ok(())
            }
            Err(error @ (RpcError::Ended { .. } | RpcError::TimedOut { .. })) => {
                Err(self.undecided(&error.to_string()))
            }
        }
    }

    async fn act(&mut self, action: &Action) -> Result<(), RpcError> {
        let thread = self.session.thread();
        let (method, params) = match action {
            Action::Steer(parts) => {
                let input = self.session.calibration().to_real_value(&json!(parts));
                let params = json!({"threadId": thread, "input": input, "expectedTurnId": self.id});
                ("turn/steer", params)
            }
            Action::Interrupt => {
                self.interrupted = true;
                (
                    "turn/interrupt",
                    json!({"threadId": thread, "turnId": self.id}),
                )
            }
            Action::Settings(overrides) => (
                "thread/settings/update",
                self.session.settings_params(overrides),
            ),
            Action::TurnSettings(overrides) => {
                let mut params = self.session.settings_params(overrides);
                params["turnId"] = json!(self.id);
                ("turn/settings/update", params)
            }
        };
        self.session
            .process()
            .rpc
            .request(method, params)
            .await
            .map(drop)
    }

    fn find(&mut self, id: &str, message: &str) {
        let message = format!(
            "step {} (line {}): {message}",
            self.step.number, self.step.line
        );
        self.session.find(id, &message);
    }

    fn compare_end(&mut self) {
        let Some((status, error)) = self.end.take() else {
            return;
        };
        let default = Ends {
            status: TurnStatus::Completed,
            message: None,
        };
        let expected = self.step.ends.as_ref().unwrap_or(&default);
        let word = expected.status.as_str();
        let said = error.map(|(message, _)| message).unwrap_or_default();
        let said = self.session.calibration().to_ours(&said);
        let fits = expected
            .message
            .as_ref()
            .is_none_or(|part| said.contains(part));
        if status != word || !fits {
            let said = if said.is_empty() {
                said
            } else {
                format!(" with {}", quoted(&said))
            };
            self.find(
                "step.ends",
                &format!("expected to end {expected}, ended {status}{said}"),
            );
        }
    }
}

/// An item that the client shows once it was received.
enum Expected {
    Message(String),
    Call(String),
}

fn items_before_gate(reply: &PlanReply) -> Vec<Expected> {
    let (ReplyBody::Stream { events, .. }, Some(gate)) = (&reply.body, &reply.gate) else {
        return Vec::new();
    };
    let done = events.iter().take(gate.after_events);
    done.filter(|event| event["type"] == "response.output_item.done")
        .filter_map(|event| {
            let item = &event["item"];
            match item["type"].as_str()? {
                "message" => {
                    let text = item.pointer("/content/0/text")?.as_str()?;
                    Some(Expected::Message(text.to_owned()))
                }
                "function_call" => {
                    let call = item["call_id"].as_str()?;
                    let known = reply
                        .tool_answers
                        .iter()
                        .any(|answer| answer.call_id == call);
                    known.then(|| Expected::Call(call.to_owned()))
                }
                _ => None,
            }
        })
        .collect()
}
