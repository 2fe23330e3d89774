//! What the engine asks of the outside. No implementation lives in this crate.
//!
//! All ports run on one thread. Everything that an implementation returns is recorded, so it has
//! to be the same for the same run.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use serde_json::Value;
use tokio::sync::Notify;

use crate::change::{Change, Reach};
use crate::events::Event;
use crate::hooks::HookOutput;

/// One request as it goes on the wire.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Path below the base URL.
    pub path: &'static str,
    /// Headers in order, without those of the transport (`host`, `content-length`).
    pub headers: Vec<(String, String)>,
    /// Exact body.
    pub body: Vec<u8>,
}

/// Why no stream was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpFailure {
    /// An answer with another status than 200.
    Status {
        /// Status code.
        status: u16,
        /// Headers in order.
        headers: Vec<(String, String)>,
        /// Body text.
        body: String,
    },
    /// The connection ended before an answer.
    Dropped,
    /// Nobody listens.
    Refused,
}

/// One step of an open stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamStep {
    /// A server-sent event's data.
    Event(Value),
    /// Nothing more comes.
    End(StreamEnd),
}

/// Why a stream has no further event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEnd {
    /// The provider ended it.
    Closed,
    /// The connection broke inside it.
    Broken,
    /// It stayed silent longer than its limit.
    Idle,
    /// The provider closed the WebSocket.
    SocketClosed,
    /// The WebSocket broke.
    SocketBroken,
    /// A response over a WebSocket stayed silent longer than its limit.
    SocketIdle,
    /// An error frame of a WebSocket, as an answer with a status.
    Refused(HttpFailure),
}

/// An open answer.
pub trait EventStream {
    /// First value of a response header; `name` is in lower case.
    fn header(&self, name: &str) -> Option<String>;
    /// The next step; after [`StreamStep::End`] it is not called again. Cancel safe.
    fn next(&mut self) -> LocalBoxFuture<'_, StreamStep>;
}

/// An open WebSocket.
pub trait Connection {
    /// Sends one text frame; the stream has the frames that answer it as events.
    fn send(&self, frame: Vec<u8>) -> LocalBoxFuture<'static, Box<dyn EventStream>>;
}

/// Asks the model.
pub trait Sampler {
    /// Opens a WebSocket.
    fn connect(
        &self,
        handshake: Request,
    ) -> LocalBoxFuture<'static, Result<Rc<dyn Connection>, HttpFailure>>;
    /// Opens one stream.
    fn sample(
        &self,
        request: Request,
    ) -> LocalBoxFuture<'static, Result<Box<dyn EventStream>, HttpFailure>>;

    /// Asks for one whole JSON answer.
    fn post(&self, request: Request) -> LocalBoxFuture<'static, Result<Value, HttpFailure>>;
}

/// One call of a client tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Call id given by the model.
    pub call_id: String,
    /// Tool name.
    pub name: String,
    /// Namespace of the tool.
    pub namespace: Option<String>,
    /// Parsed arguments.
    pub arguments: Value,
}

/// What a client tool gave back.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    /// Content parts in app-server shape and the success flag.
    Answered {
        /// `{"type":"inputText","text":…}` …
        content: Vec<Value>,
        /// `success`
        success: bool,
    },
    /// The client answered with an error.
    Refused,
}

/// Runs client tools.
pub trait Tools {
    /// Runs one call.
    fn call(&self, call: ToolCall) -> LocalBoxFuture<'static, ToolOutcome>;
}

/// Why a text did not reach the file, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageFailure {
    /// What the system says.
    pub reason: String,
    /// A part of the text was written: the file ends inside a line.
    pub torn: bool,
}

/// Appends to the rollout.
pub trait RolloutStore {
    /// Appends a text to the thread's file. What came back as written is on disk.
    fn append(&self, text: &str) -> Result<(), StorageFailure>;
}

/// Bytes that can be read anywhere: a rollout file, or a copy of one in memory.
pub trait ReadAt {
    /// How many there are. What is appended later is not looked at.
    fn bytes(&self) -> std::io::Result<u64>;
    /// Fills the buffer with the bytes from `offset` on; fewer than it holds are an error.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()>;
}

impl ReadAt for Vec<u8> {
    fn bytes(&self) -> std::io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(buffer.len());
        match self.get(start..end) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The time of the run.
pub trait Clock {
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> u64;
    /// Lets this many milliseconds pass.
    fn wait(&self, ms: u64);
}

/// Makes ids.
pub trait Ids {
    /// A fresh UUIDv7 text.
    fn uuid(&self) -> String;
}

/// Sees client events.
pub trait Observer {
    /// Takes one event.
    fn event(&self, event: Event);
}

/// Runs the hooks of the user.
pub trait Hooks {
    /// Runs the hook at this place of the settings; `input` goes to its standard input.
    fn run(&self, place: usize, input: &Value) -> HookOutput;
}

/// All ports of one session.
#[derive(Clone)]
pub struct Ports {
    /// The model.
    pub sampler: Rc<dyn Sampler>,
    /// The client's tools.
    pub tools: Rc<dyn Tools>,
    /// The rollout file.
    pub store: Rc<dyn RolloutStore>,
    /// The time.
    pub clock: Rc<dyn Clock>,
    /// Ids.
    pub ids: Rc<dyn Ids>,
    /// Hooks.
    pub hooks: Rc<dyn Hooks>,
    /// The client.
    pub observer: Rc<dyn Observer>,
}

/// What the client sends into a running turn.
#[derive(Debug, Default)]
pub struct Inbox {
    steers: RefCell<VecDeque<(u64, Vec<Value>)>>,
    next_order: Cell<u64>,
    interrupted: RefCell<bool>,
    cut: RefCell<bool>,
    changes: RefCell<VecDeque<(Reach, Change)>>,
    changed: Notify,
}

impl Inbox {
    /// Adds user input to the running turn.
    pub fn steer(&self, parts: Vec<Value>) {
        let order = self.take_order();
        self.steers.borrow_mut().push_back((order, parts));
        *self.cut.borrow_mut() = true;
        self.changed.notify_one();
    }

    /// Changes settings while a turn runs.
    pub fn change(&self, reach: Reach, change: Change) {
        self.changes.borrow_mut().push_back((reach, change));
        self.changed.notify_one();
    }

    /// Takes the changes that came in.
    pub(crate) fn take_changes(&self) -> Vec<(Reach, Change)> {
        self.changes.borrow_mut().drain(..).collect()
    }

    /// Asks the running turn to stop.
    pub fn interrupt(&self) {
        *self.interrupted.borrow_mut() = true;
        self.changed.notify_one();
    }

    /// Whether input waits.
    pub fn has_steer(&self) -> bool {
        !self.steers.borrow().is_empty()
    }

    /// Takes all waiting input.
    pub(crate) fn take_steers(&self) -> Vec<(u64, Vec<Value>)> {
        self.steers.borrow_mut().drain(..).collect()
    }

    /// Whether an interrupt was asked for.
    pub(crate) fn is_interrupted(&self) -> bool {
        *self.interrupted.borrow()
    }

    /// Takes the wish to cut the open stream, set by a steer since it was last taken.
    pub(crate) fn take_cut(&self) -> bool {
        std::mem::take(&mut *self.cut.borrow_mut())
    }

    /// Next order among inputs, calls and answers; given when an input arrives.
    pub(crate) fn take_order(&self) -> u64 {
        let order = self.next_order.get();
        self.next_order.set(order.saturating_add(1));
        order
    }

    /// The order that the next input would get.
    pub(crate) fn next_order(&self) -> u64 {
        self.next_order.get()
    }

    /// Goes on counting at `order`.
    pub(crate) fn set_next_order(&self, order: u64) {
        self.next_order.set(order);
    }

    /// Forgets an interrupt and a cut; waiting input stays.
    pub(crate) fn reset(&self) {
        *self.interrupted.borrow_mut() = false;
        *self.cut.borrow_mut() = false;
    }

    /// Resolves when something new was sent.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
