//! What a task recorded: the user's input, and the response to each sampling request.
//!
//! A response ends at its `token_usage_record` (0.164+) or at the `token_count` that adds to the
//! total. A `token_count` that adds nothing tells of a request that was not completed, unless a
//! compaction asked for it.

use serde_json::Value;

use super::compactions;
use super::read::{Entry, LeftOut};
use crate::rollout_file::Place;

/// One response, or what is known of it.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) place: Place,
    /// Items of the model in order, as recorded.
    pub(super) items: Vec<Value>,
    /// Outputs by call id, and whether the tool failed.
    pub(super) outputs: Vec<(String, Value)>,
    /// Usage of the response.
    pub(super) usage: Option<Value>,
    /// It came to its end.
    pub(super) completed: bool,
    /// Input that the client sent while it ran.
    pub(super) steers: Vec<Value>,
    /// The client interrupted it.
    pub(super) interrupted: bool,
    /// The request failed.
    pub(super) failed: bool,
    /// It answers a compaction.
    pub(super) compaction: Option<compactions::Compaction>,
}

impl Response {
    fn at(place: Place) -> Self {
        Self {
            place,
            ..Self::default()
        }
    }

    /// Whether the model waits for an output.
    pub(super) fn calls(&self) -> bool {
        let kinds = [
            "function_call",
            "custom_tool_call",
            "local_shell_call",
            "tool_search_call",
        ];
        let is_call = |item: &Value| kinds.contains(&item["type"].as_str().unwrap_or_default());
        self.compaction.is_none() && self.items.iter().any(is_call)
    }
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum End {
    #[default]
    Completed,
    Interrupted,
    Failed,
    /// The file does not say.
    Open,
}

/// One task.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub(super) place: Place,
    /// Parts of the message that began it, as recorded; `None` where it had none.
    pub(super) user: Option<Value>,
    pub(super) responses: Vec<Response>,
    /// `turn_context` that its first sampling had.
    pub(super) context: Option<Value>,
    /// Messages of context that Codex put in.
    pub(super) injected: Vec<(Place, Value)>,
    /// `model_context_window` of its beginning.
    pub(super) window: Option<i64>,
    pub(super) end: End,
    /// Failed calls by id.
    pub(super) failed_calls: Vec<String>,
}

/// Reads tasks in order; totals of usage go on from one to the next.
#[derive(Debug, Default)]
pub(super) struct Reader {
    total: Value,
    pub(super) left_out: Vec<LeftOut>,
}

/// Where the reader stands in a task.
#[derive(Default)]
struct State {
    task: Task,
    /// A user message that no event has named as input yet.
    message: Option<(Place, Value)>,
    /// A usage record whose `token_count` is still to come.
    counted: bool,
    /// A checkpoint whose `token_count` is still to come.
    replaced: bool,
    /// A request ended without a response.
    dropped: bool,
    last_message: Value,
}

impl Reader {
    /// One task.
    pub(super) fn task(&mut self, entries: &[Entry]) -> Task {
        let mut state = State::default();
        state.task.end = End::Open;
        state.task.place = entries.first().map(|entry| entry.place).unwrap_or_default();
        for entry in entries {
            match entry.kind.as_str() {
                "response_item" => self.item(&mut state, entry),
                "turn_context" => {
                    // A compaction before the turn writes the settings of the turn before.
                    let sampled = |r: &Response| r.compaction.is_none();
                    if state.task.context.is_none() || !state.task.responses.iter().any(sampled) {
                        state.task.context = Some(entry.payload.clone());
                    }
                }
                "token_usage_record" => {
                    usage(&mut state, entry, entry.payload["usage"].clone());
                    state.counted = true;
                }
                "compacted" => {
                    compactions::add(&mut state.task, entry);
                    let context = compactions::context(&entry.payload);
                    let context = context.into_iter().map(|message| (entry.place, message));
                    state.task.injected.extend(context);
                    state.replaced = true;
                    state.dropped = false;
                }
                "event_msg" => self.event(&mut state, entry),
                "world_state" => {}
                other => self.left_out.push(LeftOut {
                    place: entry.place,
                    what: format!("a record `{}`", crate::doctor::shown(other)),
                }),
            }
        }
        unclaimed(&mut state);
        finish(&mut state);
        compactions::phases(&mut state.task);
        state.task
    }

    fn item(&mut self, state: &mut State, entry: &Entry) {
        let item = &entry.payload;
        let kind = entry.inner();
        let role = item["role"].as_str().unwrap_or_default();
        if kind == "message" && role != "assistant" {
            unclaimed(state);
            state.message = Some((entry.place, item.clone()));
            return;
        }
        unclaimed(state);
        if kind.ends_with("_output") {
            let id = item["call_id"].as_str().unwrap_or_default();
            let owner = state.task.responses.iter_mut().rev().find(|response| {
                response
                    .items
                    .iter()
                    .any(|call| call["call_id"] == id && !id.is_empty())
            });
            match owner {
                Some(owner) => owner.outputs.push((id.to_owned(), item["output"].clone())),
                None => self.left_out.push(LeftOut {
                    place: entry.place,
                    what: "an output without its call in the same task".to_owned(),
                }),
            }
            return;
        }
        let open = state.task.responses.last().is_some_and(|last| {
            !last.completed && last.steers.is_empty() && last.outputs.is_empty()
        });
        if !open {
            state.task.responses.push(Response::at(entry.place));
        }
        state.dropped = false;
        if let Some(last) = state.task.responses.last_mut() {
            last.items.push(item.clone());
        }
    }

    fn event(&mut self, state: &mut State, entry: &Entry) {
        let payload = &entry.payload;
        match entry.inner() {
            "task_started" => state.task.window = payload["model_context_window"].as_i64(),
            "user_message" => claimed(state),
            "item_completed" => match payload["item"]["type"].as_str() {
                Some("UserMessage") => claimed(state),
                Some("DynamicToolCall") if payload["item"]["success"] == false => {
                    let id = payload["item"]["id"].as_str().unwrap_or_default();
                    state.task.failed_calls.push(id.to_owned());
                }
                _ => {}
            },
            "token_count" => self.count(state, entry),
            "task_complete" => {
                let failed = payload["error"].is_object();
                state.task.end = if failed { End::Failed } else { End::Completed };
                state.last_message = payload["last_agent_message"].clone();
            }
            "turn_aborted" => state.task.end = End::Interrupted,
            "thread_rolled_back" => self.left_out.push(LeftOut {
                place: entry.place,
                what: "a rollback in the middle of a turn".to_owned(),
            }),
            // They tell of requests and turns that no item shows.
            inner @ ("stream_error" | "error" | "entered_review_mode" | "exited_review_mode") => {
                self.left_out.push(LeftOut {
                    place: entry.place,
                    what: format!("an event `{inner}`"),
                });
            }
            // They repeat what items say, or tell a client what no request shows.
            _ => {}
        }
    }

    fn count(&mut self, state: &mut State, entry: &Entry) {
        let info = &entry.payload["info"];
        let grew = info.is_object() && info["total_token_usage"] != self.total;
        if info.is_object() {
            self.total = info["total_token_usage"].clone();
        }
        if std::mem::take(&mut state.counted) || std::mem::take(&mut state.replaced) {
            return;
        }
        if grew {
            usage(state, entry, info["last_token_usage"].clone());
        } else {
            state.dropped = true;
        }
    }
}

/// A response came to its end.
fn usage(state: &mut State, entry: &Entry, usage: Value) {
    state.dropped = false;
    let open = state
        .task
        .responses
        .last_mut()
        .filter(|last| !last.completed && last.compaction.is_none() && last.steers.is_empty());
    match open {
        Some(last) => {
            last.completed = true;
            last.usage = Some(usage);
        }
        None => state.task.responses.push(Response {
            completed: true,
            usage: Some(usage),
            ..Response::at(entry.place)
        }),
    }
}

/// The message before was the user's.
fn claimed(state: &mut State) {
    let Some((place, message)) = state.message.take() else {
        return;
    };
    let content = message["content"].clone();
    let asked = state
        .task
        .responses
        .iter()
        .any(|response| response.compaction.is_none());
    if state.task.user.is_none() && !asked {
        state.task.user = Some(content);
        // What came before belongs to compactions.
        state.dropped = false;
        return;
    }
    let dropped = std::mem::take(&mut state.dropped);
    let last = state.task.responses.last_mut();
    match last.filter(|last| last.compaction.is_none() && !(dropped && last.completed)) {
        Some(last) => last.steers.push(content),
        None => state.task.responses.push(Response {
            steers: vec![content],
            ..Response::at(place)
        }),
    }
}

/// The message before was none of the user's.
fn unclaimed(state: &mut State) {
    state.task.injected.extend(state.message.take());
}

/// Whether another request has to follow the last response: its calls are to be answered, or it is
/// a compaction in whose middle the turn stood.
fn waits(task: &Task) -> bool {
    let Some(last) = task.responses.last() else {
        return true;
    };
    if last.compaction.is_none() {
        return last.calls();
    }
    let mut sampled = task.responses.iter().rev();
    let sampled = sampled.find(|response| response.compaction.is_none());
    // Before any response only a recorded input tells that the turn went on.
    sampled.map_or(task.user.is_some(), Response::calls)
}

/// What the end of a task says of its last response.
fn finish(state: &mut State) {
    let State {
        task,
        dropped,
        last_message,
        ..
    } = state;
    let place = task.place;
    match task.end {
        End::Interrupted => {
            let fits = task.responses.last().is_some_and(|last| {
                last.compaction.is_none() && (!last.completed || last.calls()) && !*dropped
            });
            if !fits {
                task.responses.push(Response::at(place));
            }
            if let Some(last) = task.responses.last_mut() {
                last.interrupted = true;
            }
        }
        End::Completed | End::Failed => {
            let answered = task.responses.last().is_some_and(|last| {
                last.compaction.is_none() && !last.items.is_empty() && !last.calls()
            });
            let spoke = last_message.is_string() && answered;
            if let Some(last) = task.responses.last_mut()
                && task.end == End::Completed
                && !last.completed
                && spoke
            {
                // A response without usage.
                last.completed = true;
            }
            let silent = *dropped && !spoke;
            let waits = waits(task);
            if task.end == End::Failed || silent || waits {
                task.end = End::Failed;
                match task.responses.last_mut().filter(|last| !last.completed) {
                    Some(last) => last.failed = true,
                    None => task.responses.push(Response {
                        failed: true,
                        ..Response::at(place)
                    }),
                }
            }
        }
        End::Open => {}
    }
    let followed = task.responses.len().saturating_sub(1);
    for response in &mut task.responses[..followed] {
        // A later request is only made behind a response that came to its end.
        response.completed |= response.calls() || !response.outputs.is_empty();
    }
}
