//! JSON-RPC client of `codex app-server`: one JSON object per line over the pipes of the child.
//!
//! One reader task sorts what comes: responses to whoever asked, everything with a thread id to
//! the queue of that thread. Lines keep their order within a thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

/// Longest wait for the response to one request.
pub(crate) const RESPONSE_MAX: Duration = Duration::from_secs(30);

/// Something the server sent by itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    /// A notification.
    Notification { method: String, params: Value },
    /// A request that has to be answered.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RpcError {
    /// The pipes are closed: the process is gone.
    #[error("{method}: the process has ended")]
    Ended { method: String },
    /// No response in time.
    #[error("{method}: no response within {seconds} s")]
    TimedOut { method: String, seconds: u64 },
    /// The server refused.
    #[error("{method}: {message} ({code})")]
    Refused {
        method: String,
        code: i64,
        message: String,
    },
}

type Queue = mpsc::UnboundedSender<Incoming>;

#[derive(Debug, Default)]
struct Routes {
    pending: BTreeMap<u64, oneshot::Sender<Value>>,
    threads: BTreeMap<String, Queue>,
    /// Queues of threads that nobody asked for yet: a notification may overtake the response.
    unclaimed: BTreeMap<String, mpsc::UnboundedReceiver<Incoming>>,
    next_id: u64,
    ended: bool,
}

impl Routes {
    fn queue(&mut self, thread: &str) -> &Queue {
        let Self {
            threads, unclaimed, ..
        } = self;
        threads.entry(thread.to_owned()).or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            unclaimed.insert(thread.to_owned(), receiver);
            sender
        })
    }

    fn end(&mut self) {
        self.ended = true;
        self.pending.clear();
        self.threads.clear();
    }
}

/// The client's end of one process.
#[derive(Debug)]
pub(crate) struct Rpc {
    writer: AsyncMutex<Option<ChildStdin>>,
    routes: Arc<Mutex<Routes>>,
}

impl Rpc {
    pub(crate) fn new(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        let routes = Arc::new(Mutex::new(Routes::default()));
        tokio::spawn(read(stdout, Arc::clone(&routes)));
        Self {
            writer: AsyncMutex::new(Some(stdin)),
            routes,
        }
    }

    /// Sends a request and waits for its result.
    #[tracing::instrument(name = "rpc", level = "debug", skip(self, params))]
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        self.request_within(method, params, RESPONSE_MAX).await
    }

    /// The same with another limit.
    pub(crate) async fn request_within(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, RpcError> {
        let ended = || RpcError::Ended {
            method: method.to_owned(),
        };
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut routes = lock(&self.routes);
            if routes.ended {
                return Err(ended());
            }
            routes.next_id += 1;
            let id = routes.next_id;
            routes.pending.insert(id, sender);
            id
        };
        if !self
            .send(&json!({"id": id, "method": method, "params": params}))
            .await
        {
            return Err(ended());
        }
        let response = match tokio::time::timeout(limit, receiver).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => return Err(ended()),
            Err(_) => {
                lock(&self.routes).pending.remove(&id);
                return Err(RpcError::TimedOut {
                    method: method.to_owned(),
                    seconds: limit.as_secs(),
                });
            }
        };
        match response.get("error") {
            None => Ok(response.get("result").cloned().unwrap_or(Value::Null)),
            Some(error) => Err(RpcError::Refused {
                method: method.to_owned(),
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str) -> bool {
        self.send(&json!({"method": method})).await
    }

    /// Answers a request of the server.
    pub(crate) async fn answer(&self, id: &Value, answer: Result<Value, Value>) -> bool {
        let line = match answer {
            Ok(result) => json!({"id": id, "result": result}),
            Err(error) => json!({"id": id, "error": error}),
        };
        self.send(&line).await
    }

    /// The queue of a thread; `None` if somebody has it already or the process has ended.
    pub(crate) fn claim(&self, thread: &str) -> Option<mpsc::UnboundedReceiver<Incoming>> {
        let mut routes = lock(&self.routes);
        if routes.ended {
            return None;
        }
        routes.queue(thread);
        routes.unclaimed.remove(thread)
    }

    /// Whether the server has closed its end.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.routes).ended
    }

    /// Closes standard input.
    pub(crate) async fn close(&self) {
        self.writer.lock().await.take();
    }

    async fn send(&self, line: &Value) -> bool {
        tracing::trace!(%line, "sent");
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        match self.writer.lock().await.as_mut() {
            Some(writer) => writer.write_all(&bytes).await.is_ok() && writer.flush().await.is_ok(),
            None => false,
        }
    }
}

fn lock(routes: &Mutex<Routes>) -> std::sync::MutexGuard<'_, Routes> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read(stdout: ChildStdout, routes: Arc<Mutex<Routes>>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::trace!(line, "received");
        match serde_json::from_str::<Value>(&line) {
            Ok(message) => dispatch(message, &mut lock(&routes)),
            Err(error) => tracing::warn!(%error, line, "not JSON"),
        }
    }
    lock(&routes).end();
}

fn dispatch(mut message: Value, routes: &mut Routes) {
    let Some(method) = message["method"].as_str().map(str::to_owned) else {
        let id = message["id"].as_u64();
        if let Some(sender) = id.and_then(|id| routes.pending.remove(&id)) {
            // Whoever asked may have given up.
            let _ = sender.send(message);
        }
        return;
    };
    let params = message["params"].take();
    let thread = params["threadId"]
        .as_str()
        .or_else(|| params.pointer("/thread/id").and_then(Value::as_str))
        .map(str::to_owned);
    let Some(thread) = thread else {
        tracing::debug!(method, %params, "of no thread");
        return;
    };
    let incoming = match message.get("id") {
        Some(id) => Incoming::Request {
            id: id.clone(),
            method,
            params,
        },
        None => Incoming::Notification { method, params },
    };
    // The receiver is gone when its case has ended.
    let _ = routes.queue(&thread).send(incoming);
}
