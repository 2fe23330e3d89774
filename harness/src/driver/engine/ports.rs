//! The engine's ports in memory: provider, client, files, events, clock and ids.
//!
//! Everything runs on one thread. What a client does at a gate or inside a tool goes straight into
//! the session's inbox, which is the acknowledgement.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use engine::change::Reach;
use engine::events::Event;
use engine::ports::{
    Clock, Connection, EventStream, HttpFailure, Ids, Inbox, Observer, Request, Sampler, StreamEnd,
    StreamStep, ToolCall, ToolOutcome, Tools,
};
use futures_util::future::{FutureExt, LocalBoxFuture};
use mock_provider::journal::{self, Entry};
use mock_provider::memory::{MemoryProvider, MemoryReply};
use mock_provider::script::{
    Ending, FRAME_HEADER, FRAME_METHOD, HANDSHAKE_METHOD, Kind, ScriptedReply,
};
use serde_json::Value;

use crate::driver::script::{problem_finding, scripted};
use crate::recording::{ClientEvent, Finding};
use crate::scenario::plan::{Action, ModelSpec, PlanReply, PlanStep, ToolAnswer};
use crate::texts::Calibration;

use super::change;
use super::play::Player;
use super::storage::Life;

/// The running session, as the client's actions reach it.
pub(super) struct Attached {
    inbox: RefCell<Option<Rc<Inbox>>>,
    models: Vec<ModelSpec>,
}

impl Attached {
    pub(super) fn new(models: &[ModelSpec]) -> Rc<Self> {
        Rc::new(Self {
            inbox: RefCell::default(),
            models: models.to_vec(),
        })
    }

    /// Does what the client does inside a turn; whether it interrupted it.
    fn act(&self, actions: &[Action]) -> bool {
        let inbox = self.inbox.borrow().clone();
        let Some(inbox) = inbox else { return false };
        let mut interrupted = false;
        for action in actions {
            match action {
                Action::Steer(parts) => inbox.steer(parts.clone()),
                Action::Interrupt => {
                    inbox.interrupt();
                    interrupted = true;
                }
                Action::Settings(wanted) => {
                    inbox.change(Reach::Thread, change(wanted, &self.models));
                }
                Action::TurnSettings(wanted) => {
                    inbox.change(Reach::Turn, change(wanted, &self.models));
                }
            }
        }
        interrupted
    }
}

/// The provider in memory.
#[derive(Clone)]
pub(super) struct Provider {
    memory: Rc<RefCell<MemoryProvider>>,
    step: Rc<RefCell<Vec<PlanReply>>>,
    client: Rc<Attached>,
    /// Nobody listens: nothing is answered, and nothing arrives.
    unreachable: bool,
    life: Rc<Life>,
    /// Makes replies where none waits.
    maker: Option<Maker>,
}

/// Who makes replies, and the client that has to know of their calls.
#[derive(Clone)]
struct Maker {
    player: Rc<dyn Player>,
    tools: Rc<Client>,
}

impl Provider {
    pub(super) fn new(client: Rc<Attached>, unreachable: bool, life: Rc<Life>) -> Self {
        Self {
            memory: Rc::default(),
            step: Rc::default(),
            client,
            unreachable,
            life,
            maker: None,
        }
    }

    /// With replies that are made when they are asked for.
    pub(super) fn made_by(self, player: Rc<dyn Player>, tools: Rc<Client>) -> Self {
        let maker = Some(Maker { player, tools });
        Self { maker, ..self }
    }

    /// Replies of the running step, with those that were made.
    pub(super) fn replies(&self) -> Vec<PlanReply> {
        self.step.borrow().clone()
    }

    /// Has a reply made for a request that none waits for.
    fn make(&self, kind: &Kind, request: &journal::Request) {
        let Some(Maker { player, tools }) = &self.maker else {
            return;
        };
        if !self.memory.borrow().is_dry() {
            return;
        }
        let Some(reply) = player.reply(&kind.answers, request) else {
            return;
        };
        let scripted = scripted(&reply, &self.client.models, &Calibration::default());
        self.memory.borrow_mut().push_reply(scripted);
        tools.expect(&reply);
        self.step.borrow_mut().push(reply);
    }

    fn respond(&self, request: journal::Request) -> MemoryReply {
        let kind = Kind::of(&request);
        self.make(&kind, &request);
        self.memory.borrow_mut().respond_to_kind(&kind, request)
    }

    pub(super) fn begin(&self, replies: Vec<ScriptedReply>, step: &PlanStep) {
        self.memory.borrow_mut().begin_step(replies);
        step.replies.clone_into(&mut self.step.borrow_mut());
    }

    /// Ends a step; what went wrong in it.
    pub(super) fn end(&self, step: &PlanStep) -> Vec<Finding> {
        let mut memory = self.memory.borrow_mut();
        // Unused replies become problems of the script.
        memory.end_step();
        memory
            .take_problems()
            .iter()
            .map(|problem| problem_finding(step, problem))
            .collect()
    }

    /// Number of requests so far.
    pub(super) fn requests(&self) -> usize {
        self.memory.borrow().journal().len()
    }

    pub(super) fn journal(&self) -> Vec<Entry> {
        self.memory.borrow().journal().to_vec()
    }

    fn gate_actions(&self, label: &str) -> Vec<Action> {
        let step = self.step.borrow();
        let reply = step.iter().find(|reply| reply.label == label);
        reply
            .and_then(|reply| reply.gate.as_ref())
            .map_or_else(Vec::new, |g| g.actions.clone())
    }

    /// Answers a request or a frame; the stream of a reply, or why there is none.
    fn answer(
        &self,
        request: journal::Request,
        over: Transport,
    ) -> Result<Box<dyn EventStream>, HttpFailure> {
        let reply = self.respond(request);
        let number = self.requests() - 1;
        let stream = |headers, events, end, gate| -> Box<dyn EventStream> {
            Box::new(Stream {
                headers,
                events,
                end,
                sent: 0,
                gate,
                number,
                provider: self.clone(),
            })
        };
        match reply {
            MemoryReply::Stream {
                label,
                headers,
                events,
                ending,
                gate_after_events,
            } => {
                let (limit, end) = match ending {
                    Ending::Complete | Ending::Close { .. } => (events.len(), over.closed()),
                    Ending::Cut { after_events } => (after_events, over.broken()),
                    Ending::Stall { after_events } => (after_events, over.idle()),
                };
                let events = events.into_iter().take(limit).collect();
                let gate = gate_after_events.map(|at| (at, self.gate_actions(&label)));
                Ok(stream(headers, events, end, gate))
            }
            // A body that is no stream: nothing in it is an event.
            MemoryReply::Http {
                status: 200,
                headers,
                ..
            } => Ok(stream(headers, VecDeque::new(), over.closed(), None)),
            MemoryReply::Http {
                status,
                headers,
                body,
                ..
            } => Err(HttpFailure::Status {
                status,
                headers,
                body,
            }),
            MemoryReply::Dropped { .. } => Err(HttpFailure::Dropped),
        }
    }
}

/// What carries a stream.
#[derive(Clone, Copy)]
enum Transport {
    Http,
    WebSocket,
}

impl Transport {
    fn closed(self) -> StreamEnd {
        match self {
            Self::Http => StreamEnd::Closed,
            Self::WebSocket => StreamEnd::SocketClosed,
        }
    }

    fn broken(self) -> StreamEnd {
        match self {
            Self::Http => StreamEnd::Broken,
            Self::WebSocket => StreamEnd::SocketBroken,
        }
    }

    fn idle(self) -> StreamEnd {
        match self {
            Self::Http => StreamEnd::Idle,
            Self::WebSocket => StreamEnd::SocketIdle,
        }
    }
}

/// Headers that the transport of a real client puts before those of a handshake.
const HANDSHAKE_HEAD: [(&str, &str); 5] = [
    ("host", "127.0.0.1:1"),
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
];
/// The header that it puts behind them.
const HANDSHAKE_TAIL: (&str, &str) = (
    "sec-websocket-extensions",
    "permessage-deflate; client_max_window_bits",
);

/// A request over HTTP as the provider gets it.
fn posted(request: Request) -> journal::Request {
    let mut headers = request.headers;
    headers.push(("host".to_owned(), "127.0.0.1:1".to_owned()));
    headers.push(("content-length".to_owned(), request.body.len().to_string()));
    journal::Request {
        method: "POST".to_owned(),
        path: request.path.to_owned(),
        headers,
        body: Bytes::from(request.body),
    }
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

impl Sampler for Provider {
    fn sample(
        &self,
        request: Request,
    ) -> LocalBoxFuture<'static, Result<Box<dyn EventStream>, HttpFailure>> {
        if self.life.is_dead() {
            return std::future::pending().boxed_local();
        }
        let result = if self.unreachable {
            Err(HttpFailure::Refused)
        } else {
            self.answer(posted(request), Transport::Http)
        };
        std::future::ready(result).boxed_local()
    }

    fn connect(
        &self,
        handshake: Request,
    ) -> LocalBoxFuture<'static, Result<Rc<dyn Connection>, HttpFailure>> {
        if self.life.is_dead() {
            return std::future::pending().boxed_local();
        }
        let head = HANDSHAKE_HEAD.into_iter().map(owned);
        let headers = head.chain(handshake.headers).chain([owned(HANDSHAKE_TAIL)]);
        let opening = journal::Request {
            method: HANDSHAKE_METHOD.to_owned(),
            path: handshake.path.to_owned(),
            headers: headers.collect(),
            body: Bytes::new(),
        };
        self.make(&Kind::of(&opening), &opening);
        let (number, refused) = self.memory.borrow_mut().handshake(opening);
        let result: Result<Rc<dyn Connection>, HttpFailure> = match refused {
            None | Some(MemoryReply::Http { status: 101, .. }) => {
                let provider = self.clone();
                Ok(Rc::new(Socket { provider, number }))
            }
            Some(MemoryReply::Http {
                status,
                headers,
                body,
                ..
            }) => Err(HttpFailure::Status {
                status,
                headers,
                body,
            }),
            Some(MemoryReply::Stream { .. } | MemoryReply::Dropped { .. }) => {
                Err(HttpFailure::Dropped)
            }
        };
        std::future::ready(result).boxed_local()
    }

    fn post(&self, request: Request) -> LocalBoxFuture<'static, Result<Value, HttpFailure>> {
        if self.life.is_dead() {
            return std::future::pending().boxed_local();
        }
        let reply = self.respond(posted(request));
        let result = match reply {
            MemoryReply::Http {
                status: 200, body, ..
            } => Ok(serde_json::from_str(&body).unwrap_or(Value::Null)),
            MemoryReply::Http {
                status,
                headers,
                body,
                ..
            } => Err(HttpFailure::Status {
                status,
                headers,
                body,
            }),
            MemoryReply::Stream { .. } => Ok(Value::Null),
            MemoryReply::Dropped { .. } => Err(HttpFailure::Dropped),
        };
        std::future::ready(result).boxed_local()
    }
}

/// An open WebSocket.
struct Socket {
    provider: Provider,
    /// Number of its handshake.
    number: usize,
}

impl Connection for Socket {
    fn send(&self, frame: Vec<u8>) -> LocalBoxFuture<'static, Box<dyn EventStream>> {
        if self.provider.life.is_dead() {
            return std::future::pending().boxed_local();
        }
        let received = journal::Request {
            method: FRAME_METHOD.to_owned(),
            path: "/responses".to_owned(),
            headers: vec![(FRAME_HEADER.to_owned(), self.number.to_string())],
            body: Bytes::from(frame),
        };
        let stream = self.provider.answer(received, Transport::WebSocket);
        // A dropped connection has nothing to read.
        let stream = stream.unwrap_or_else(|_| {
            Box::new(Stream {
                headers: Vec::new(),
                events: VecDeque::new(),
                end: StreamEnd::SocketBroken,
                sent: 0,
                gate: None,
                number: self.provider.memory.borrow().journal().len() - 1,
                provider: self.provider.clone(),
            })
        });
        std::future::ready(stream).boxed_local()
    }
}

/// One scripted stream.
struct Stream {
    headers: Vec<(String, String)>,
    events: VecDeque<Value>,
    end: StreamEnd,
    sent: usize,
    gate: Option<(usize, Vec<Action>)>,
    /// Place of its request in the journal.
    number: usize,
    provider: Provider,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.events.is_empty() {
            let mut memory = self.provider.memory.borrow_mut();
            memory.note_client_left(self.number);
        }
    }
}

/// Times that other futures may run before a gate acts: enough for every call to be answered.
const SETTLE_YIELDS: usize = 64;

impl EventStream for Stream {
    fn header(&self, name: &str) -> Option<String> {
        let known = self.headers.iter().find(|(key, _)| key == name);
        known.map(|(_, value)| value.clone())
    }

    fn next(&mut self) -> LocalBoxFuture<'_, StreamStep> {
        async move {
            self.provider.life.lives().await;
            if self.gate.as_ref().is_some_and(|(at, _)| self.sent >= *at) {
                for _ in 0..SETTLE_YIELDS {
                    tokio::task::yield_now().await;
                }
                if let Some((_, actions)) = self.gate.take() {
                    self.provider.client.act(&actions);
                }
                // The engine looks into its inbox before the next event.
                tokio::task::yield_now().await;
            }
            match self.events.pop_front() {
                Some(event) => {
                    self.sent += 1;
                    StreamStep::Event(event)
                }
                None => StreamStep::End(self.end.clone()),
            }
        }
        .boxed_local()
    }
}

/// The client's side of tool calls.
pub(super) struct Client {
    attached: Rc<Attached>,
    answers: RefCell<Vec<ToolAnswer>>,
    order: Rc<Turnstile>,
    life: Rc<Life>,
}

/// Lets held answers through in the order of the plan.
#[derive(Default)]
struct Turnstile {
    order: RefCell<Vec<String>>,
    asked: RefCell<Vec<String>>,
    passed: Cell<usize>,
    moved: tokio::sync::Notify,
}

impl Turnstile {
    async fn pass(&self, call_id: &str) {
        self.asked.borrow_mut().push(call_id.to_owned());
        self.moved.notify_waiters();
        loop {
            let place = self.order.borrow().iter().position(|id| id == call_id);
            let Some(place) = place else { return };
            let all = self
                .order
                .borrow()
                .iter()
                .all(|id| self.asked.borrow().contains(id));
            if all && place == self.passed.get() {
                self.passed.set(place + 1);
                self.moved.notify_waiters();
                return;
            }
            self.moved.notified().await;
        }
    }
}

impl Client {
    pub(super) fn new(attached: Rc<Attached>, life: Rc<Life>) -> Self {
        Self {
            attached,
            life,
            answers: RefCell::default(),
            order: Rc::default(),
        }
    }

    pub(super) fn attach(&self, inbox: Rc<Inbox>) {
        *self.attached.inbox.borrow_mut() = Some(inbox);
    }

    pub(super) fn begin(&self, step: &PlanStep) {
        let answers = step
            .replies
            .iter()
            .flat_map(|reply| reply.tool_answers.clone());
        *self.answers.borrow_mut() = answers.collect();
        let order = step
            .replies
            .iter()
            .filter_map(|reply| reply.answer_order.clone());
        *self.order.order.borrow_mut() = order.flatten().collect();
        self.order.asked.borrow_mut().clear();
        self.order.passed.set(0);
    }

    /// More answers, of a reply that was made for a request of the running step.
    fn expect(&self, reply: &PlanReply) {
        let answers = reply.tool_answers.iter().cloned();
        self.answers.borrow_mut().extend(answers);
        let order = reply.answer_order.iter().flatten().cloned();
        self.order.order.borrow_mut().extend(order);
    }

    fn take(&self, call_id: &str) -> Option<ToolAnswer> {
        let mut answers = self.answers.borrow_mut();
        let place = answers
            .iter()
            .position(|answer| answer.call_id == call_id)?;
        Some(answers.remove(place))
    }
}

impl Tools for Client {
    fn call(&self, call: ToolCall) -> LocalBoxFuture<'static, ToolOutcome> {
        let answer = self.take(&call.call_id);
        let client = Rc::clone(&self.attached);
        let order = Rc::clone(&self.order);
        let life = Rc::clone(&self.life);
        async move {
            life.lives().await;
            order.pass(&call.call_id).await;
            let Some(answer) = answer else {
                return ToolOutcome::Refused;
            };
            if client.act(&answer.while_running) {
                // An interrupted call is never answered.
                std::future::pending::<()>().await;
            }
            if answer.rpc_error {
                return ToolOutcome::Refused;
            }
            ToolOutcome::Answered {
                content: answer.content,
                success: answer.success,
            }
        }
        .boxed_local()
    }
}

/// Client events of the run.
pub(super) struct Seen {
    events: RefCell<Vec<ClientEvent>>,
    /// Events that were looked at for turns.
    looked: Cell<usize>,
    life: Rc<Life>,
}

impl Seen {
    pub(super) fn new(life: Rc<Life>) -> Self {
        Self {
            events: RefCell::default(),
            looked: Cell::default(),
            life,
        }
    }

    /// Turns that started since the last look.
    pub(super) fn new_turns(&self) -> Vec<String> {
        let events = self.events.borrow();
        let looked = self.looked.replace(events.len()).min(events.len());
        let turns = events[looked..].iter().filter_map(|event| match event {
            ClientEvent::TurnStarted { turn } => Some(turn.clone()),
            _ => None,
        });
        turns.collect()
    }

    /// Events so far.
    pub(super) fn count(&self) -> usize {
        self.events.borrow().len()
    }

    pub(super) fn take(&self) -> Vec<ClientEvent> {
        std::mem::take(&mut *self.events.borrow_mut())
    }
}

impl Observer for Seen {
    fn event(&self, event: Event) {
        if self.life.is_dead() {
            return;
        }
        let event = match event {
            Event::TurnStarted { turn } => ClientEvent::TurnStarted { turn },
            Event::TurnEnded {
                turn,
                status,
                error,
            } => ClientEvent::TurnEnded {
                turn,
                status: status.to_owned(),
                error,
            },
            Event::ItemStarted { kind, id } => ClientEvent::ItemStarted {
                kind: kind.to_owned(),
                id,
            },
            Event::ItemCompleted { kind, id, shown } => ClientEvent::ItemCompleted {
                kind: kind.to_owned(),
                id,
                shown,
            },
            Event::TokenUsage {
                total,
                last,
                window,
            } => ClientEvent::TokenUsage {
                total,
                last,
                window,
            },
            Event::ModelRerouted { from, to } => ClientEvent::ModelRerouted {
                from,
                to,
                reason: "highRiskCyberActivity".to_owned(),
            },
            Event::HookStarted { hook } => ClientEvent::HookStarted {
                hook: hook.to_owned(),
            },
            Event::HookCompleted {
                hook,
                status,
                entries,
                input,
            } => ClientEvent::HookCompleted {
                hook: hook.to_owned(),
                status: status.to_owned(),
                entries,
                input,
            },
            Event::Warning { message } => ClientEvent::Warning { message },
            Event::Error {
                message,
                will_retry,
                code,
            } => ClientEvent::Error {
                message,
                will_retry,
                code,
            },
        };
        self.events.borrow_mut().push(event);
    }
}

/// Time that passes by one millisecond whenever it is read.
pub(super) struct VirtualClock {
    now_ms: Cell<u64>,
}

impl Default for VirtualClock {
    /// 2026-01-01T00:00:00Z
    fn default() -> Self {
        Self {
            now_ms: Cell::new(1_767_225_600_000),
        }
    }
}

impl Clock for VirtualClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.set(self.now_ms.get() + 1);
        self.now_ms.get()
    }

    fn wait(&self, ms: u64) {
        self.now_ms.set(self.now_ms.get() + ms);
    }
}

/// Ids that count up.
#[derive(Default)]
pub(super) struct Counter {
    last: Cell<u64>,
}

impl Ids for Counter {
    fn uuid(&self) -> String {
        self.last.set(self.last.get() + 1);
        format!("019b0000-0000-7000-8000-{:012x}", self.last.get())
    }
}
