//! Replies to server-sent events and whole bodies.
//!
//! Ids are numbered through the whole file, also over replies that another version gets, so that an
//! id means the same item on every version.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::bounds::{Status, header};
use super::plan::{Action, Ending, ReplyBody, ToolAnswer};
use super::reply::{Call, ClientAction, CustomCall, Fault, Item, Output, Reply};
use super::resolve::overrides;
use super::texts::{expand, text, tool_content, user_input};
use super::values::{Many, OneOrMany, Ordered, Text};

/// Usage of a reply that says nothing.
const USAGE_DEFAULT: i64 = 100;
/// Status of an error frame that names none.
const ERROR_FRAME_STATUS_DEFAULT: u16 = 400;

/// Numbers given so far, one for each prefix.
#[derive(Debug, Default)]
pub(super) struct Ids {
    given: Vec<(&'static str, usize)>,
}

impl Ids {
    fn next(&mut self, prefix: &'static str) -> String {
        let known = self.given.iter_mut().find(|(known, _)| *known == prefix);
        let number = if let Some((_, number)) = known {
            *number += 1;
            *number
        } else {
            self.given.push((prefix, 1));
            1
        };
        format!("{prefix}_{number}")
    }

    /// The written id, `None` for a written null, or the next of the prefix.
    fn item(&mut self, prefix: &'static str, written: Option<&Value>) -> Option<String> {
        match written {
            None => Some(self.next(prefix)),
            Some(Value::String(id)) => Some(id.clone()),
            Some(Value::Null) => None,
            Some(other) => Some(other.to_string()),
        }
    }
}

/// What a reply becomes.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) body: ReplyBody,
    pub(super) answers: Vec<ToolAnswer>,
    pub(super) call_ids: Vec<String>,
}

/// Builds the body of a reply and the answers to its calls.
pub(super) fn build(reply: &Reply, ids: &mut Ids) -> Result<Built, String> {
    let response_id = ids.next("resp");
    let mut calls = Calls::default();
    let items = items(reply, ids, &mut calls)?;
    let mut events = match &reply.events {
        Some(events) => events.clone(),
        None => stream(reply, &response_id, items)?,
    };
    let headers = headers(&reply.headers)?;
    let body = match &reply.fault {
        None => ReplyBody::Stream {
            headers,
            events,
            ending: Ending::Complete,
        },
        Some(fault) => {
            if let Some(whole) = whole_fault(fault)? {
                whole
            } else {
                let ending = stream_fault(fault, &mut events)?;
                ReplyBody::Stream {
                    headers,
                    events,
                    ending,
                }
            }
        }
    };
    Ok(Built {
        body,
        answers: calls.answers,
        call_ids: calls.ids,
    })
}

fn headers(headers: &Ordered<Text>) -> Result<Vec<(String, String)>, String> {
    headers
        .0
        .iter()
        .map(|(name, value)| {
            let value = text(value)?;
            header(name, &value)?;
            Ok((name.clone(), value))
        })
        .collect()
}

/// Faults that send no stream at all.
fn whole_fault(fault: &Fault) -> Result<Option<ReplyBody>, String> {
    if fault.http == Some(Status(101)) {
        return Err("101 is for a handshake: `handshake: 101`".to_owned());
    }
    if let Some(Status(status)) = fault.http.or(fault.handshake) {
        let body = match (&fault.body, &fault.code, &fault.message) {
            (Some(Value::String(body)), _, _) => body.clone(),
            (Some(body), _, _) => expand(body)?.to_string(),
            (None, code, message) => {
                let message = message.as_ref().map(text).transpose()?;
                let message = message.unwrap_or_else(|| format!("scripted status {status}"));
                json!({"error": {"message": message, "type": "scripted", "code": code}}).to_string()
            }
        };
        let headers = headers(&fault.headers)?;
        return Ok(Some(ReplyBody::Http {
            status,
            headers,
            body,
        }));
    }
    if fault.drop_connection.is_some() {
        return Ok(Some(ReplyBody::DropConnection));
    }
    Ok(None)
}

/// Faults inside a stream. A broken data line is a text among the events, sent as it stands.
fn stream_fault(fault: &Fault, events: &mut Vec<Value>) -> Result<Ending, String> {
    let inside = |place: usize, events: &[Value]| {
        let sent = events.len();
        if place <= sent {
            Ok(place)
        } else {
            Err(format!(
                "after_events {place} is beyond the {sent} events of this reply"
            ))
        }
    };
    if let Some(place) = fault.malformed_event {
        let index = inside(place.after_events, events)?;
        events.insert(
            index,
            Value::String("{\"type\":\"response.output_item.done\",".to_owned()),
        );
    }
    if let Some(number) = fault.duplicate_event {
        let index = number.checked_sub(1).filter(|index| *index < events.len());
        let index = index.ok_or_else(|| format!("there is no event {number} in this reply"))?;
        events.insert(index, events[index].clone());
    }
    if let Some(code) = fault.websocket_close {
        return Ok(Ending::Close { code });
    }
    match (fault.cut, fault.stall) {
        (Some(place), _) => Ok(Ending::Cut {
            after_events: inside(place.after_events, events)?,
        }),
        (None, Some(place)) => Ok(Ending::Stall {
            after_events: inside(place.after_events, events)?,
        }),
        (None, None) => Ok(Ending::Complete),
    }
}

fn stream(reply: &Reply, id: &str, items: Vec<Value>) -> Result<Vec<Value>, String> {
    let mut events = vec![json!({"type": "response.created", "response": {"id": id}})];
    events.extend(
        items
            .into_iter()
            .map(|item| json!({"type": "response.output_item.done", "item": item})),
    );
    events.extend(last_event(reply, id)?);
    Ok(events)
}

fn last_event(reply: &Reply, id: &str) -> Result<Option<Value>, String> {
    if let Some(fault) = &reply.fault {
        if let Some(code) = &fault.failed {
            let message = fault.message.as_ref().map(text).transpose()?;
            let message = message.unwrap_or_else(|| format!("scripted failure {code}"));
            let error = json!({"code": code, "message": message});
            let response = json!({"id": id, "status": "failed", "error": error});
            return Ok(Some(
                json!({"type": "response.failed", "response": response}),
            ));
        }
        if let Some(reason) = &fault.incomplete {
            let details = json!({"reason": reason});
            let response = json!({"id": id, "status": "incomplete", "incomplete_details": details});
            return Ok(Some(
                json!({"type": "response.incomplete", "response": response}),
            ));
        }
        if let Some(code) = &fault.error_frame {
            let message = fault.message.as_ref().map(text).transpose()?;
            let message = message.unwrap_or_else(|| format!("scripted error {code}"));
            let status = fault.status.unwrap_or(ERROR_FRAME_STATUS_DEFAULT);
            let error = json!({"type": "scripted", "code": code, "message": message});
            return Ok(Some(
                json!({"type": "error", "status": status, "error": error}),
            ));
        }
        if fault.no_completed.is_some() || fault.websocket_close.is_some() {
            return Ok(None);
        }
    }
    let mut response = Map::new();
    response.insert("id".to_owned(), id.into());
    if let Some(usage) = usage(reply.usage.as_ref())? {
        response.insert("usage".to_owned(), usage);
    }
    if let Some(end_turn) = reply.end_turn {
        response.insert("end_turn".to_owned(), end_turn.into());
    }
    Ok(Some(
        json!({"type": "response.completed", "response": response}),
    ))
}

/// Counts of a usage in tokens, as a scenario names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    #[serde(default)]
    input: i64,
    cached: Option<i64>,
    cache_write: Option<i64>,
    #[serde(default)]
    output: i64,
    reasoning: Option<i64>,
    total: Option<i64>,
}

impl Counts {
    fn json(self) -> Value {
        let details = |counts: &[(&str, Option<i64>)]| {
            let given = counts
                .iter()
                .filter_map(|(key, count)| Some((*key, (*count)?)));
            let map: Map<String, Value> = given
                .map(|(key, count)| (key.to_owned(), count.into()))
                .collect();
            Some(map).filter(|map| !map.is_empty())
        };
        json!({
            "input_tokens": self.input,
            "input_tokens_details": details(&[
                ("cached_tokens", self.cached),
                ("cache_write_tokens", self.cache_write),
            ]),
            "output_tokens": self.output,
            "output_tokens_details": details(&[("reasoning_tokens", self.reasoning)]),
            "total_tokens": self.total.unwrap_or(self.input.saturating_add(self.output)),
        })
    }
}

/// `None` omits the key.
fn usage(written: Option<&Value>) -> Result<Option<Value>, String> {
    let plain = |input: i64| Counts {
        input,
        ..Counts::default()
    };
    let counts = match written {
        None => plain(USAGE_DEFAULT),
        Some(Value::Null) => return Ok(Some(Value::Null)),
        Some(Value::String(word)) if word == "absent" => return Ok(None),
        Some(map @ Value::Object(_)) => Counts::deserialize(map)
            .map_err(|error| format!("usage is a mapping of whole numbers of tokens: {error}"))?,
        Some(other) => match other.as_i64() {
            Some(total) => plain(total),
            None => {
                return Err(format!(
                    "usage is a number, a mapping, `absent` or null, not {other}"
                ));
            }
        },
    };
    Ok(Some(counts.json()))
}

#[derive(Default)]
struct Calls {
    ids: Vec<String>,
    answers: Vec<ToolAnswer>,
}

fn items(reply: &Reply, ids: &mut Ids, calls: &mut Calls) -> Result<Vec<Value>, String> {
    if let Some(items) = &reply.items {
        return items
            .0
            .iter()
            .map(|item| one(&item.value, ids, calls))
            .collect();
    }
    let item = Item {
        say: reply.say.clone(),
        phase: reply.phase.clone(),
        item_id: reply.item_id.clone(),
        call: reply.call.clone(),
        custom_call: reply.custom_call.clone(),
        reasoning: reply.reasoning.clone(),
        compaction: reply.compaction.clone(),
        raw: reply.raw.clone(),
    };
    if content_keys(&item).is_empty() {
        Ok(Vec::new())
    } else {
        Ok(vec![one(&item, ids, calls)?])
    }
}

/// The contents that an item holds.
pub(super) fn content_keys(item: &Item) -> Vec<&'static str> {
    let Item {
        say,
        phase: _,
        item_id: _,
        call,
        custom_call,
        reasoning,
        compaction,
        raw,
    } = item;
    [
        ("say", say.is_some()),
        ("call", call.is_some()),
        ("custom_call", custom_call.is_some()),
        ("reasoning", reasoning.is_some()),
        ("compaction", compaction.is_some()),
        ("raw", raw.is_some()),
    ]
    .into_iter()
    .filter_map(|(key, is_there)| is_there.then_some(key))
    .collect()
}

fn one(item: &Item, ids: &mut Ids, calls: &mut Calls) -> Result<Value, String> {
    if let Some(say) = &item.say {
        let mut object = typed("message", ids.item("msg", item.item_id.as_ref()));
        object.insert("role".to_owned(), "assistant".into());
        let content = json!([{"type": "output_text", "text": text(say)?}]);
        object.insert("content".to_owned(), content);
        if let Some(phase) = &item.phase {
            object.insert("phase".to_owned(), phase.as_str().into());
        }
        return Ok(Value::Object(object));
    }
    if let Some(call) = &item.call {
        return function_call(call, ids, calls);
    }
    if let Some(custom) = &item.custom_call {
        return custom_call(custom, ids, calls);
    }
    if let Some(reasoning) = &item.reasoning {
        let fields = &reasoning.fields;
        let mut object = typed("reasoning", ids.item("rs", fields.item_id.as_ref()));
        object.insert(
            "summary".to_owned(),
            texts(fields.summary.as_ref(), "summary_text")?,
        );
        if fields.content.is_some() {
            let content = texts(fields.content.as_ref(), "reasoning_text")?;
            object.insert("content".to_owned(), content);
        }
        if let Some(encrypted) = &fields.encrypted_content {
            object.insert("encrypted_content".to_owned(), text(encrypted)?.into());
        }
        return Ok(Value::Object(object));
    }
    if let Some(compaction) = &item.compaction {
        let fields = &compaction.fields;
        let mut object = typed("compaction", ids.item("cmp", fields.item_id.as_ref()));
        object.insert(
            "encrypted_content".to_owned(),
            text(&fields.encrypted_content)?.into(),
        );
        return Ok(Value::Object(object));
    }
    match &item.raw {
        Some(raw) => expand(raw),
        None => Err("an item without content".to_owned()),
    }
}

fn typed(kind: &str, id: Option<String>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("type".to_owned(), kind.into());
    if let Some(id) = id {
        object.insert("id".to_owned(), id.into());
    }
    object
}

fn texts(texts: Option<&OneOrMany<Text>>, kind: &str) -> Result<Value, String> {
    let texts = texts.map(OneOrMany::as_slice).unwrap_or_default();
    texts
        .iter()
        .map(|part| Ok(json!({"type": kind, "text": text(part)?})))
        .collect()
}

fn function_call(call: &Call, ids: &mut Ids, calls: &mut Calls) -> Result<Value, String> {
    let call_id = call.call_id.clone().unwrap_or_else(|| ids.next("call"));
    let mut object = typed("function_call", ids.item("fc", call.item_id.as_ref()));
    object.insert("call_id".to_owned(), call_id.as_str().into());
    object.insert("name".to_owned(), call.tool.as_str().into());
    if let Some(namespace) = &call.namespace {
        object.insert("namespace".to_owned(), namespace.as_str().into());
    }
    let arguments = if let Some(written) = &call.arguments_text {
        text(written)?
    } else {
        let entries = call
            .arguments
            .iter()
            .flat_map(|arguments| arguments.0.iter().cloned());
        Value::Object(entries.collect()).to_string()
    };
    object.insert("arguments".to_owned(), arguments.into());
    calls.ids.push(call_id.clone());
    if call.output.is_some() || call.while_running.is_some() {
        calls.answers.push(answer(call, call_id)?);
    }
    Ok(Value::Object(object))
}

fn custom_call(call: &CustomCall, ids: &mut Ids, calls: &mut Calls) -> Result<Value, String> {
    let call_id = call.call_id.clone().unwrap_or_else(|| ids.next("call"));
    let mut object = typed("custom_tool_call", ids.item("ctc", call.item_id.as_ref()));
    object.insert("call_id".to_owned(), call_id.as_str().into());
    object.insert("name".to_owned(), call.tool.as_str().into());
    object.insert("input".to_owned(), text(&call.input)?.into());
    calls.ids.push(call_id);
    Ok(Value::Object(object))
}

fn answer(call: &Call, call_id: String) -> Result<ToolAnswer, String> {
    let while_running = call
        .while_running
        .as_ref()
        .map(actions)
        .transpose()?
        .unwrap_or_default();
    let (content, success, rpc_error) = match &call.output {
        Some(Output::Parts(parts)) => (tool_content(parts)?, true, false),
        Some(Output::Fail(parts)) => (tool_content(parts)?, false, false),
        Some(Output::RpcError) => (Vec::new(), false, true),
        None => (Vec::new(), true, false),
    };
    Ok(ToolAnswer {
        call_id,
        while_running,
        content,
        success,
        rpc_error,
    })
}

/// What the client does inside a stream or a tool call.
pub(super) fn actions(written: &Many<ClientAction>) -> Result<Vec<Action>, String> {
    written
        .0
        .iter()
        .map(|action| {
            let ClientAction {
                steer,
                interrupt,
                settings,
                turn_settings,
            } = &action.value;
            let boxed = |settings| Box::new(overrides(settings));
            match (steer, interrupt, settings, turn_settings) {
                (Some(parts), None, None, None) if parts.as_slice().is_empty() => {
                    Err("every version refuses a steer without input".to_owned())
                }
                (Some(parts), None, None, None) => user_input(parts).map(Action::Steer),
                (None, Some(_), None, None) => Ok(Action::Interrupt),
                (None, None, Some(settings), None) => Ok(Action::Settings(boxed(settings))),
                (None, None, None, Some(settings)) => Ok(Action::TurnSettings(boxed(settings))),
                _ => Err(
                    "an action is exactly one of `steer`, `interrupt`, `settings`, `turn_settings`"
                        .to_owned(),
                ),
            }
        })
        .collect()
}
