//! One case of a server: its script, its journal and its gates; and the list of open cases.
//!
//! A server serves many cases at once: the first segment of the path is the key of the case.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};

use crate::journal::{Entry, Journal, Request};
use crate::script::{FRAME_METHOD, Planned, Problem, Script, ScriptedReply, is_compact_path};

/// A stream that waits. Dropping `release` also releases it.
#[derive(Debug)]
pub struct GateReached {
    /// Label of the reply.
    pub label: String,
    /// Lets the stream go on.
    pub release: oneshot::Sender<()>,
}

/// What the adapters share of one case.
#[derive(Debug)]
pub(crate) struct Case {
    script: Mutex<Script>,
    journal: Mutex<Journal>,
    gates: mpsc::UnboundedSender<GateReached>,
    /// Requests answered so far.
    answered: watch::Sender<usize>,
    closed: watch::Sender<bool>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Case {
    /// Answers a request and notes it; the number is its place in the journal.
    pub(crate) fn answer(&self, request: Request) -> (usize, Planned) {
        let planned = {
            let mut script = lock(&self.script);
            let path = request.path.split('?').next().unwrap_or_default();
            match (request.method.as_str(), path) {
                ("POST", path) if path.ends_with("/responses") || is_compact_path(path) => {
                    script.next(&request)
                }
                (FRAME_METHOD, path) if path.ends_with("/responses") => script.next(&request),
                ("GET", path) if path.ends_with("/models") => {
                    Planned::unlabelled(200, &json!({"models": []}))
                }
                _ => script.unknown_route(&request),
            }
        };
        tracing::debug!(path = request.path, reply = planned.label, "answered");
        let number = lock(&self.journal).push(request, planned.label.clone());
        self.answered.send_modify(|count| *count += 1);
        (number, planned)
    }

    /// Notes the opening of a WebSocket: its number, and an answer if it is not accepted as it is.
    pub(crate) fn handshake(&self, request: Request) -> (usize, Option<Planned>) {
        let planned = lock(&self.script).handshake(&request);
        let label = planned.as_ref().and_then(|planned| planned.label.clone());
        let number = {
            let mut journal = lock(&self.journal);
            journal.push(request, label);
            journal.handshakes()
        };
        self.answered.send_modify(|count| *count += 1);
        (number, planned)
    }

    pub(crate) fn note_client_left(&self, number: usize) {
        lock(&self.journal).note_client_left(number);
    }

    /// Holds a stream until the driver releases it, or the case ends.
    pub(crate) async fn hold(&self, label: String) {
        let (release, released) = oneshot::channel();
        if self.gates.send(GateReached { label, release }).is_ok() {
            // A sender that was dropped releases too.
            let _ = released.await;
        }
    }

    /// Waits until the case ends.
    pub(crate) async fn wait_closed(&self) {
        let mut closed = self.closed.subscribe();
        // An error means that the case is gone, which is the end as well.
        let _ = closed.wait_for(|closed| *closed).await;
    }
}

/// The open cases of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    cases: Arc<Mutex<BTreeMap<String, Arc<Case>>>>,
}

impl Registry {
    pub(crate) fn open(&self, key: &str, origin: &str) -> CaseHandle {
        let (gates, gates_reached) = mpsc::unbounded_channel();
        let case = Arc::new(Case {
            script: Mutex::default(),
            journal: Mutex::default(),
            gates,
            answered: watch::Sender::new(0),
            closed: watch::Sender::new(false),
        });
        lock(&self.cases).insert(key.to_owned(), Arc::clone(&case));
        CaseHandle {
            key: key.to_owned(),
            base_url: format!("{origin}/{key}/v1"),
            registry: self.clone(),
            case,
            gates_reached,
        }
    }

    /// The case of a path, and the rest of the path below its base URL.
    pub(crate) fn find(&self, path: &str) -> Option<(Arc<Case>, String)> {
        let (key, rest) = path.strip_prefix('/')?.split_once('/')?;
        let case = lock(&self.cases).get(key).cloned()?;
        let rest = rest.strip_prefix("v1").filter(|rest| rest.starts_with('/'));
        Some((case, rest.map_or_else(|| path.to_owned(), str::to_owned)))
    }
}

/// The driver's side of one case. Dropping it closes the case: later requests get a 404.
#[derive(Debug)]
pub struct CaseHandle {
    key: String,
    base_url: String,
    registry: Registry,
    case: Arc<Case>,
    gates_reached: mpsc::UnboundedReceiver<GateReached>,
}

impl CaseHandle {
    /// Base URL for the client, with `/v1`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Starts a step with its replies.
    pub fn begin_step(&self, replies: Vec<ScriptedReply>) {
        lock(&self.case.script).begin_step(replies);
    }

    /// Ends a step; the labels of its unused replies.
    pub fn end_step(&self) -> Vec<String> {
        lock(&self.case.script).end_step()
    }

    /// Takes what went wrong so far.
    pub fn take_problems(&self) -> Vec<Problem> {
        lock(&self.case.script).take_problems()
    }

    /// What was received so far.
    pub fn journal(&self) -> Vec<Entry> {
        lock(&self.case.journal).entries().to_vec()
    }

    /// Waits until what a client sends before its first turn is answered.
    pub async fn early_answered(&self) {
        let mut answered = self.case.answered.subscribe();
        // The sender lives as long as the case that this handle holds.
        let _ = answered
            .wait_for(|_| !lock(&self.case.script).waits_for_prewarm())
            .await;
    }

    /// The next gate that a stream waits at. Cancelling the wait loses nothing.
    pub async fn next_gate(&mut self) -> Option<GateReached> {
        self.gates_reached.recv().await
    }
}

impl Drop for CaseHandle {
    fn drop(&mut self) {
        lock(&self.registry.cases).remove(&self.key);
        self.case.closed.send_replace(true);
    }
}
