//! Calls of client tools: started as their items arrive, recorded in call order.

use std::collections::VecDeque;

use futures_util::StreamExt;
use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use crate::events::Event;
use crate::items::{self, Item};
use crate::planted::Planted;
use crate::ports::{ToolCall, ToolOutcome};
use crate::session::Session;
use crate::token_budget::{CONTEXT_REMAINING, NEW_CONTEXT, NEW_CONTEXT_OUTPUT};
use crate::truncate;
use crate::turn::Turn;

/// Output of a call that the client refused.
const REFUSED: &str = "dynamic tool request failed";
/// Output of a call that a used up session budget kept from starting (0.171).
const NOT_DISPATCHED: &str = "aborted before dispatch";
/// Output of a call that was cancelled (0.164+).
const CANCELLED: &str = "dynamic tool call was cancelled before receiving a response";

/// A call between its item and its output.
pub(crate) struct Pending {
    call_id: String,
    kind: &'static str,
    /// Fixed output, or `None` while the client works on it.
    output: Option<Value>,
    name: String,
    namespace: Option<String>,
    arguments: Value,
    arguments_text: String,
    started: bool,
    done: bool,
    /// The harness itself works on it, and tells the client nothing.
    built_in: bool,
}

/// What became of a call that ran.
pub(crate) enum Ran {
    /// The client worked on it.
    Client(ToolOutcome),
    /// The harness itself says what is left of the window, when nothing else is ready.
    ContextRemaining,
}

type Running = FuturesUnordered<LocalBoxFuture<'static, (usize, Ran)>>;

/// The calls of one sampling.
#[derive(Default)]
pub(crate) struct Calls {
    /// Sequence of the newest item in the request.
    pub(crate) asked: u64,
    pub(crate) pending: Vec<Pending>,
    pub(crate) running: Running,
    pub(crate) waiting: VecDeque<usize>,
}

impl Pending {
    /// A call that nobody works on; with an output it is answered by that.
    fn settled(item: &Item, kind: &'static str, output: Option<Value>) -> Self {
        let name = item.payload.get("name").and_then(Value::as_str);
        Self {
            call_id: item.call_id().unwrap_or_default().to_owned(),
            kind,
            output,
            name: name.unwrap_or_default().to_owned(),
            namespace: None,
            arguments: Value::Null,
            arguments_text: String::new(),
            started: false,
            done: true,
            built_in: false,
        }
    }
}

impl Calls {
    /// Whether the newest call waits for the client.
    pub(crate) fn newest_runs(&self) -> bool {
        self.pending
            .last()
            .is_some_and(|call| call.output.is_none() && !call.done)
    }

    /// Calls that did not start never will.
    pub(crate) fn give_up(&mut self) {
        for index in self.waiting.drain(..) {
            self.pending[index].done = true;
            self.pending[index].output = Some(json!(NOT_DISPATCHED));
        }
    }
}

impl Session {
    /// Whether the call is the built-in one that starts a new window.
    pub(crate) fn wishes_new_window(&self, item: &Item) -> bool {
        self.is_budget_tool(item, NEW_CONTEXT)
    }

    fn is_budget_tool(&self, item: &Item, tool: &str) -> bool {
        let plain = !item.payload.contains_key("namespace");
        let name = item.payload.get("name").and_then(Value::as_str);
        self.settings.token_budget.is_some() && plain && name == Some(tool)
    }

    /// What becomes of a function call: a fixed output, or a question to the client.
    pub(crate) fn pending_call(&self, item: &Item) -> Pending {
        let text = |key: &str| {
            item.payload
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let namespace = item.payload.get("namespace").and_then(Value::as_str);
        let known = self
            .settings
            .tools
            .iter()
            .any(|tool| tool.name == text("name") && tool.namespace.as_deref() == namespace);
        let wishes = self.wishes_new_window(item);
        let asks = self.is_budget_tool(item, CONTEXT_REMAINING);
        let (output, arguments) = if wishes {
            (Some(json!(NEW_CONTEXT_OUTPUT)), Value::Null)
        } else if asks {
            (None, Value::Null)
        } else if known {
            match serde_json::from_str::<Value>(text("arguments")) {
                Ok(arguments) => (None, arguments),
                Err(error) => (
                    Some(json!(format!(
                        "failed to parse function arguments: {error}"
                    ))),
                    Value::Null,
                ),
            }
        } else {
            let full = format!("{}{}", namespace.unwrap_or_default(), text("name"));
            (
                Some(json!(format!("unsupported call: {full}"))),
                Value::Null,
            )
        };
        Pending {
            call_id: text("call_id").to_owned(),
            kind: "function_call_output",
            done: output.is_some(),
            output,
            name: text("name").to_owned(),
            namespace: namespace.map(str::to_owned),
            arguments,
            arguments_text: text("arguments").to_owned(),
            started: false,
            built_in: asks,
        }
    }

    /// A call of a free text tool, which no client tool is: one that the model was not offered is
    /// refused, one that it was offered as another kind gets no answer.
    pub(crate) fn custom_call(&self, item: &Item) -> Pending {
        let name = item.payload.get("name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let refused = format!("unsupported custom tool call: {name}");
        let output = (!self.offers_tool(name)).then(|| json!(refused));
        Pending::settled(item, "custom_tool_call_output", output)
    }

    /// Starts calls that may start: all of them, or one at a time.
    pub(crate) fn start_waiting(&mut self, calls: &mut Calls) {
        while let Some(&index) = calls.waiting.front() {
            if !self.profile.concurrent_calls && !calls.running.is_empty() {
                return;
            }
            calls.waiting.pop_front();
            let call = &mut calls.pending[index];
            call.started = true;
            if call.built_in {
                let ready = std::future::ready((index, Ran::ContextRemaining));
                calls.running.push(ready.boxed_local());
                continue;
            }
            self.ports.observer.event(Event::ItemStarted {
                kind: "dynamicToolCall",
                id: call.call_id.clone(),
            });
            let asked = self.ports.tools.call(ToolCall {
                call_id: call.call_id.clone(),
                name: call.name.clone(),
                namespace: call.namespace.clone(),
                arguments: call.arguments.clone(),
            });
            calls
                .running
                .push(async move { (index, Ran::Client(asked.await)) }.boxed_local());
        }
    }

    /// Waits for the calls and records their outputs in call order; `false` when interrupted.
    pub(crate) async fn finish_calls(&mut self, turn: &Turn, calls: &mut Calls) -> bool {
        let inbox = self.inbox();
        while !inbox.is_interrupted() {
            self.take_changes();
            self.start_waiting(calls);
            tokio::select! {
                biased;
                () = inbox.changed() => {}
                next = calls.running.next() => match next {
                    Some((index, outcome)) => self.finish_call(turn, calls, index, outcome),
                    None => break,
                },
            }
        }
        let interrupted = inbox.is_interrupted();
        for place in 0..calls.pending.len() {
            let index = if self.profile.plants(Planted::OutputsReversed) {
                calls.pending.len() - 1 - place
            } else {
                place
            };
            if !calls.pending[index].done {
                self.cancel_call(turn, &mut calls.pending[index]);
            }
            let call = &calls.pending[index];
            if let Some(output) = call.output.clone() {
                self.record_call_output(turn, call, output);
            }
        }
        !interrupted
    }

    fn record_call_output(&mut self, turn: &Turn, call: &Pending, output: Value) {
        let mut item = match call.kind {
            "tool_search_output" => items::search_output(&call.call_id, output),
            kind => items::output(kind, None, &call.call_id, output),
        };
        if self.settings.names_executed_calls(&self.profile) {
            let arguments = match &call.arguments {
                Value::Null => json!(call.arguments_text),
                parsed => parsed.clone(),
            };
            let executed = json!([{"name": call.name, "arguments": arguments}]);
            item.passthrough
                .insert("executed_tool_calls".to_owned(), executed);
            item.passthrough
                .insert("tool_calls_complete".to_owned(), json!(true));
        }
        self.prepare(&mut item, &turn.id, true);
        if self.profile.output_limit_override && call.kind != "tool_search_output" {
            let tokens = truncate::override_tokens(self.settings.truncation());
            item.meta.fallback_token_limit = Some(tokens);
        }
        if self.profile.plants(Planted::OutputTwice) {
            self.commit(item.clone());
        }
        self.commit(item);
    }

    pub(crate) fn finish_call(
        &mut self,
        turn: &Turn,
        calls: &mut Calls,
        index: usize,
        outcome: Ran,
    ) {
        // What the client did while it worked on the call came before its answer.
        self.take_changes();
        let call = &mut calls.pending[index];
        call.done = true;
        let outcome = match outcome {
            Ran::Client(outcome) => outcome,
            Ran::ContextRemaining => {
                call.output = Some(json!(self.context_remaining()));
                return;
            }
        };
        let (output, content, success, error) = match outcome {
            ToolOutcome::Answered { content, success } => {
                (wire_output(&content), content, success, None)
            }
            ToolOutcome::Refused => {
                let content = json!({"type": "inputText", "text": REFUSED});
                (json!(REFUSED), vec![content], false, None)
            }
        };
        call.output = Some(output);
        let call = &calls.pending[index];
        self.announce_call(turn, call, &content, success, error);
    }

    fn cancel_call(&mut self, turn: &Turn, call: &mut Pending) {
        call.done = true;
        if self.profile.concurrent_calls {
            call.output = Some(json!(CANCELLED));
            self.announce_call(turn, call, &[], false, Some(CANCELLED));
        } else {
            call.output = Some(json!("aborted by user after 0.1s"));
        }
    }

    /// Tells the client and, in paginated files, the rollout that a call ended.
    fn announce_call(
        &mut self,
        turn: &Turn,
        call: &Pending,
        content: &[Value],
        success: bool,
        error: Option<&str>,
    ) {
        let status = if success { "completed" } else { "failed" };
        let content = told(content);
        let shown = json!({"tool": call.name, "arguments": call.arguments, "status": status,
            "contentItems": content, "success": success});
        let shown = named(call, shown);
        self.ports.observer.event(Event::ItemCompleted {
            kind: "dynamicToolCall",
            id: call.call_id.clone(),
            shown,
        });
        let mut item = json!({
            "type": "DynamicToolCall",
            "id": call.call_id,
            "tool": call.name,
            "arguments": call.arguments,
            "status": status,
            "content_items": content,
            "success": success,
        });
        if let Some(error) = error {
            item["error"] = json!(error);
        }
        item["duration"] = json!({"secs": 0, "nanos": 0});
        let item = named(call, item);
        self.record_item_completed(&turn.id, &item);
    }
}

/// Says the namespace of a call before its tool.
fn named(call: &Pending, mut item: Value) -> Value {
    if let (Some(namespace), Some(map)) = (&call.namespace, item.as_object_mut()) {
        let place = map.keys().position(|key| key == "tool").unwrap_or(0);
        map.shift_insert(place, "namespace".to_owned(), json!(namespace));
    }
    item
}

/// Whether the client is to search for tools, and has an id to answer to.
pub(crate) fn is_client_search(item: &Item) -> bool {
    let execution = item.payload.get("execution").and_then(Value::as_str);
    execution == Some("client") && item.call_id().is_some()
}

/// A search for tools that the client does not run.
pub(crate) fn fruitless_search(item: &Item) -> Pending {
    Pending::settled(item, "tool_search_output", Some(json!([])))
}

/// Content of a client tool as it is told: the detail of an image is not.
fn told(content: &[Value]) -> Vec<Value> {
    let mut told = content.to_vec();
    for part in told.iter_mut().filter_map(Value::as_object_mut) {
        part.shift_remove("detail");
    }
    told
}

/// Content parts of a client tool as an output: one text is a string, else a list.
fn wire_output(content: &[Value]) -> Value {
    if let [only] = content
        && only["type"] == "inputText"
    {
        return only["text"].clone();
    }
    let part = |part: &Value| match part["type"].as_str() {
        Some("inputImage") => {
            json!({"type": "input_image", "image_url": part["imageUrl"], "detail": "high"})
        }
        _ => json!({"type": "input_text", "text": part["text"]}),
    };
    Value::Array(content.iter().map(part).collect())
}
