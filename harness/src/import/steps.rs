//! Steps of the scenario: tasks, compactions, and what stood between tasks.

use serde_json::{Map, Value, json};

use super::compactions::{Compaction, is_alone};
use super::items::{Answer, Items, map, parts, supplied};
use super::read::{Entry, LeftOut};
use super::redact::Texts;
use super::replies::{End, Response, Task};
use super::settings::{Settings, usage};
use super::tools::Tools;

/// Outputs that Codex itself gives to a call that an interrupt ended.
const CUT_OFF: [&str; 4] = [
    "aborted by user after ",
    "dynamic tool call was cancelled before receiving a response",
    "aborted",
    "Wall time: ",
];
/// Event of a rollback.
const ROLLED_BACK: &str = "thread_rolled_back";
/// Status of a request that failed: the file does not say which it was.
const FAILED_STATUS: u16 = 400;
/// Versions that drop an open stream for a steer or an interrupt.
const DROPS_STREAM: &str = ">=0.164";

/// Writes steps.
pub(super) struct Steps<'a> {
    pub(super) texts: &'a Texts,
    pub(super) tools: &'a Tools,
    pub(super) settings: &'a mut Settings,
    pub(super) items: Items,
    /// The version has rollbacks.
    pub(super) rolls_back: bool,
    pub(super) written: Vec<Value>,
    pub(super) left_out: Vec<LeftOut>,
}

impl Steps<'_> {
    /// What no task holds: items, and rollbacks in their places.
    pub(super) fn between(&mut self, entries: &[Entry]) {
        let mut rest = entries;
        let is_marker = |entry: &Entry| entry.is_event(ROLLED_BACK);
        while let Some(at) = rest.iter().position(is_marker) {
            self.outside(&rest[..at]);
            self.roll_back(&rest[at]);
            rest = &rest[at + 1..];
        }
        self.outside(rest);
    }

    /// A rollback of so many turns; only 0.144 has that step.
    fn roll_back(&mut self, entry: &Entry) {
        let turns = entry.payload["num_turns"]
            .as_u64()
            .filter(|turns| *turns > 0);
        match turns {
            Some(turns) if self.rolls_back && !self.written.is_empty() => {
                self.written.push(json!({"rollback": {"turns": turns}}));
            }
            _ => self.left_out.push(LeftOut {
                place: entry.place,
                what: "a rollback that no step of this version makes".to_owned(),
            }),
        }
    }

    /// Items that no task holds: those before the first task began the thread.
    fn outside(&mut self, entries: &[Entry]) {
        // Items that are injected are told the context first, and the turn context says so; a
        // supplied history has none.
        let told = entries
            .iter()
            .rposition(|entry| entry.kind == "turn_context");
        if let Some(at) = told {
            let context = entries[..at].iter();
            let context = context.filter(|entry| entry.kind == "response_item");
            let context = context.map(|entry| (entry.place, entry.payload.clone()));
            let injected = context.collect();
            let task = Task {
                injected,
                ..Task::default()
            };
            self.settings.injected(&task, self.texts);
        }
        let items = entries.iter().skip(told.map_or(0, |at| at + 1));
        let items = items.filter(|entry| entry.kind == "response_item");
        let items: Vec<Value> = items
            .map(|entry| supplied(&entry.payload, self.texts))
            .collect();
        for entry in entries {
            let known = ["response_item", "event_msg", "world_state", "turn_context"];
            if !known.contains(&entry.kind.as_str()) {
                self.left_out.push(LeftOut {
                    place: entry.place,
                    what: format!(
                        "a record `{}` between turns",
                        crate::doctor::shown(&entry.kind)
                    ),
                });
            }
        }
        if items.is_empty() {
            return;
        }
        if self.written.is_empty() && told.is_none() {
            self.supply(&items);
        } else {
            self.written.push(json!({"inject": items}));
        }
    }

    /// A thread that begins with a history.
    pub(super) fn supply(&mut self, items: &[Value]) {
        self.written
            .push(json!({"resume": {"by": "history", "history": items}}));
    }

    /// One task.
    pub(super) fn task(&mut self, task: &Task) {
        self.settings.injected(task, self.texts);
        if task.end == End::Open {
            self.left_out.push(LeftOut {
                place: task.place,
                what: "a turn that the file does not end: what followed is not known".to_owned(),
            });
            if task.user.is_none() && task.responses.is_empty() {
                return;
            }
        }
        let full = self.settings.is_full(task.window);
        let compacted = task
            .responses
            .iter()
            .any(|response| response.compaction.is_some());
        let mut alone = is_alone(task);
        let mut step = Map::new();
        if alone && full && !compacted {
            // A turn that did not get past its compaction records no input.
            self.left_out.push(LeftOut {
                place: task.place,
                what: "the input of a turn that ended in its compaction: it is not recorded".into(),
            });
            step.insert("user".to_owned(), json!("x"));
            alone = false;
        } else if alone {
            step.insert("compact".to_owned(), json!(true));
        } else {
            let user = task.user.as_ref().map(|content| parts(content, self.texts));
            step.insert("user".to_owned(), user.unwrap_or_else(|| json!([])));
            step.append(&mut self.settings.changes(task, self.texts));
        }
        let count = task.responses.len();
        let mut replies = Vec::new();
        for (index, response) in task.responses.iter().enumerate() {
            let sampled = |r: &Response| r.compaction.is_none();
            let goes_on = task.responses[index + 1..count].iter().any(sampled);
            replies.push(Value::Object(self.reply(task, response, goes_on, alone)));
        }
        if !replies.is_empty() {
            step.insert("replies".to_owned(), Value::Array(replies));
        }
        match task.end {
            End::Interrupted => {
                step.insert("ends".to_owned(), json!("interrupted"));
            }
            End::Failed => {
                step.insert("ends".to_owned(), json!("failed"));
            }
            End::Completed | End::Open => {}
        }
        self.written.push(Value::Object(step));
    }

    fn reply(
        &mut self,
        task: &Task,
        response: &Response,
        goes_on: bool,
        alone: bool,
    ) -> Map<String, Value> {
        let mut reply = Map::new();
        let unanswered = !response.completed && response.items.is_empty();
        let for_compaction = unanswered && (alone || self.settings.is_full(task.window));
        let asked = if for_compaction {
            let by = if self.settings.is_remote() {
                "remote_v2"
            } else {
                "local"
            };
            Some(json!({"compaction": by}))
        } else {
            response.compaction.as_ref().map(answers)
        };
        self.settings.played(response);
        if let Some(asked) = asked {
            reply.insert("for".to_owned(), asked);
        }
        let mut items = self.response_items(task, response);
        if items.len() == 1 && !items[0].contains_key("raw") {
            reply.append(&mut items[0]);
        } else {
            reply.insert("items".to_owned(), json!(items));
        }
        let sent = 1 + response.items.len();
        if response.failed {
            self.left_out.push(LeftOut {
                place: response.place,
                what: "how a request failed: the scenario fails it in the plainest way".to_owned(),
            });
            if response.items.is_empty() {
                reply.shift_remove("items");
                reply.insert("fault".to_owned(), json!({"http": FAILED_STATUS}));
            } else {
                reply.insert("fault".to_owned(), json!({"cut": {"after_events": sent}}));
            }
            return reply;
        }
        match &response.usage {
            Some(recorded) => {
                reply.insert("usage".to_owned(), usage(recorded));
            }
            None if response.completed => {
                reply.insert("usage".to_owned(), json!("absent"));
            }
            None => {}
        }
        let in_call = response.calls();
        if goes_on && response.compaction.is_none() && response.completed {
            let plain = response.steers.is_empty() && !in_call;
            if plain {
                reply.insert("end_turn".to_owned(), json!(false));
            }
        }
        if !in_call && (response.interrupted || !response.steers.is_empty()) {
            let mut actions = self.steers(response);
            if response.interrupted {
                actions.push(json!({"interrupt": true}));
            }
            let after = if response.completed { 1 } else { sent };
            reply.insert(
                "gate".to_owned(),
                json!({"after_events": after, "do": actions}),
            );
            if !response.completed {
                reply.insert("delivered".to_owned(), json!({"cut": DROPS_STREAM}));
            }
        }
        reply
    }

    fn steers(&self, response: &Response) -> Vec<Value> {
        // No client sends a message without parts.
        let steers = response.steers.iter();
        steers
            .filter(|content| content.as_array().is_none_or(|parts| !parts.is_empty()))
            .map(|content| json!({"steer": parts(content, self.texts)}))
            .collect()
    }

    fn response_items(&mut self, task: &Task, response: &Response) -> Vec<Map<String, Value>> {
        let calls = response.items.iter().rev();
        let mut calls = calls.filter(|item| item["type"] == "function_call");
        let last_call = calls.next().and_then(|call| call["call_id"].as_str());
        let answer = |call_id: &str| {
            let output = response.outputs.iter().find(|(id, _)| id == call_id);
            let output = output.map(|(_, output)| output);
            let said = output.and_then(Value::as_str).unwrap_or_default();
            let cut = output.is_none() || CUT_OFF.iter().any(|head| said.starts_with(head));
            match output {
                // The interrupt came while the last call ran.
                _ if cut && response.interrupted && last_call == Some(call_id) => Answer::None,
                // What a model is told of a call without an output.
                None => Answer::Output(json!("aborted")),
                Some(output) if task.failed_calls.iter().any(|id| id == call_id) => {
                    Answer::Failure(output.clone())
                }
                Some(output) => Answer::Output(output.clone()),
            }
        };
        // A compaction request offers no tools: what it calls is never run, and the format asks for
        // an output all the same.
        let unanswered = |_: &str| Answer::Output(json!(""));
        let answer: &dyn Fn(&str) -> Answer = if response.compaction.is_some() {
            &unanswered
        } else {
            &answer
        };
        let mut items = Vec::new();
        for item in &response.items {
            items.push(self.items.item(item, self.texts, self.tools, answer));
            self.unplayable(response, item);
            let keys = super::items::keys_of_call_left_out(item, self.tools);
            if !keys.is_empty() {
                self.left_out.push(LeftOut {
                    place: response.place,
                    what: format!(
                        "`{}` of a call: the format has no such key",
                        keys.join("`, `")
                    ),
                });
            }
            let id = item["call_id"].as_str().unwrap_or_default();
            let open = !response.outputs.iter().any(|(of, _)| of == id);
            if open && item["type"] == "function_call" && response.calls() && !response.interrupted
            {
                self.left_out.push(LeftOut {
                    place: response.place,
                    what: "a call without output: it is answered as an aborted one".to_owned(),
                });
            }
        }
        if response.calls() {
            let mut actions = self.steers(response);
            if response.interrupted {
                actions.push(json!({"interrupt": true}));
            }
            let last = items.iter_mut().rev().find_map(|item| item.get_mut("call"));
            let is_run = |call: &&mut Value| call.get("output").is_some() || response.interrupted;
            match last.filter(is_run) {
                Some(call) if !actions.is_empty() => call["while_running"] = json!(actions),
                None if !actions.is_empty() => self.left_out.push(LeftOut {
                    place: response.place,
                    what: "what the client did while a call ran that it does not answer".into(),
                }),
                _ => {}
            }
        }
        items
    }

    /// Notes an item whose output the client of a scenario cannot give.
    fn unplayable(&mut self, response: &Response, item: &Value) {
        if let Some(what) = unplayable(response, item) {
            self.left_out.push(LeftOut {
                place: response.place,
                what,
            });
        }
    }
}

/// Why the output of a recorded call cannot be given again.
pub(super) fn unplayable(response: &Response, item: &Value) -> Option<String> {
    let kind = item["type"].as_str()?;
    let own = ["custom_tool_call", "local_shell_call", "tool_search_call"];
    if !own.contains(&kind) || response.compaction.is_some() {
        return None;
    }
    let id = item["call_id"].as_str().unwrap_or_default();
    let output = response
        .outputs
        .iter()
        .find(|(of, _)| of == id && !of.is_empty())?;
    let said = output.1.as_str().unwrap_or_default();
    // A tool that Codex does not have: it says so again.
    let itself = said.starts_with("unsupported custom tool call: ");
    let id = crate::doctor::shown(id);
    (!itself).then(|| {
        format!("the output of a `{kind}` ({id}): only Codex itself answers it; --mode supplied")
    })
}

/// The request that a compaction makes.
fn answers(compaction: &Compaction) -> Value {
    let by = if compaction.remote {
        "remote_v2"
    } else {
        "local"
    };
    let mut asked = map(json!({"compaction": by}));
    let phase = compaction.phase.unwrap_or("standalone_turn");
    asked.insert("phase".to_owned(), json!(phase));
    if compaction.phase.is_none() {
        asked.insert("reason".to_owned(), json!("user_requested"));
    }
    Value::Object(asked)
}
