//! Masked requests ⇄ golden documents: lifting what varies, folding the rest against the envelope.
//!
//! Every step has an inverse. `document` builds the short form, rebuilds the request from it and
//! compares; where the short form would lose anything, the request stands verbatim. So nothing can
//! hide between envelope and golden.

use mock_provider::script::FRAME_METHOD;
use serde_json::{Map, Value, json};

use super::envelope::{BasePlace, Envelope, ItemIds};
use super::fold::{NOTHING, fold, same, unfold};
use super::handshake;
use super::itemids::Numbering;
use crate::mask::MaskedRequest;
use crate::mask::text::{escape_key, unescape_key};

const RESERVED: &[&str] = &["same_as"];
const METADATA: &str = "/client_metadata/x-codex-turn-metadata/$json";
/// Where the number of a frame's connection stands.
const CONNECTION: &str = "/headers/websocket";
/// How a document says it.
const OVER: &str = "websocket ";
const PREVIOUS: &str = "previous_response_id";
/// Kind of the request that opens a WebSocket.
const HANDSHAKE: &str = "handshake";

/// A request as one value: `method`, `path`, `headers`, `body`.
pub fn value_of(request: &MaskedRequest) -> Value {
    let names: Vec<&String> = request.headers.iter().map(|(name, _)| name).collect();
    let unique = names
        .iter()
        .enumerate()
        .all(|(i, n)| !names[..i].contains(n));
    let headers = if unique {
        Value::Object(
            request
                .headers
                .iter()
                .map(|(n, v)| (n.clone(), v.clone().into()))
                .collect(),
        )
    } else {
        json!(request.headers)
    };
    json!({
        "method": request.method, "path": request.path, "headers": headers, "body": request.body,
    })
}

/// The inverse of [`value_of`].
pub fn request_of(kind: &str, value: &Value) -> Option<MaskedRequest> {
    let headers = match value.get("headers")? {
        Value::Object(map) => map
            .iter()
            .map(|(n, v)| Some((n.clone(), v.as_str()?.to_owned())))
            .collect::<Option<Vec<_>>>()?,
        list => serde_json::from_value(list.clone()).ok()?,
    };
    Some(MaskedRequest {
        kind: kind.to_owned(),
        method: value.get("method")?.as_str()?.to_owned(),
        path: value.get("path")?.as_str()?.to_owned(),
        headers,
        body: value.get("body")?.clone(),
    })
}

/// What is lifted out of a request before it is folded.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Lifted {
    pub(super) turn: Option<String>,
    pub(super) window: Option<String>,
    pub(super) model: Option<String>,
    pub(super) compaction: Option<Value>,
    pub(super) base: Option<String>,
    /// The connection of a frame, by the number of its handshake.
    pub(super) connection: Option<String>,
    /// The kind of the request that a handshake is made for.
    pub(super) purpose: Option<String>,
    /// The response that a frame stands on.
    pub(super) previous: Option<String>,
    pub(crate) tools: Vec<Value>,
    pub(crate) input: Vec<Value>,
    /// The request with holes where the lifted values were.
    pub(crate) rest: Value,
}

/// Memory of one wire document, the same while writing and while reading.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    number: usize,
    /// Number of the request that `input` is from.
    from: usize,
    input: Vec<Value>,
    tools: Option<(usize, Vec<Value>)>,
    base: Option<(usize, String)>,
    ids: Numbering,
}

/// Writes one request. `memory` is that of the requests before.
pub(crate) fn document(request: &MaskedRequest, envelope: &Envelope, memory: &mut Memory) -> Value {
    let number = memory.number + 1;
    let short = lift(request, envelope).and_then(|lifted| {
        let doc = write(&request.kind, &lifted, envelope, memory);
        // Advance by reading what was written: reader and writer cannot drift apart.
        let mut after = memory.fork();
        let back = read(&doc, envelope, &mut after)?;
        (back.kind == request.kind && same_request(&back, request)).then_some((doc, after))
    });
    if let Some((doc, after)) = short {
        *memory = after;
        return doc;
    }
    let doc = json!({"request": number, "kind": request.kind, "verbatim": value_of(request)});
    let back = read(&doc, envelope, memory);
    debug_assert!(back.is_some(), "a document can be read back");
    doc
}

/// Whether two requests are the same bytes on the wire.
fn same_request(a: &MaskedRequest, b: &MaskedRequest) -> bool {
    let head = |request: &MaskedRequest| {
        let MaskedRequest {
            method,
            path,
            headers,
            ..
        } = request;
        (method.clone(), path.clone(), headers.clone())
    };
    head(a) == head(b) && same(&a.body, &b.body)
}

impl Memory {
    fn fork(&self) -> Self {
        Self {
            number: self.number,
            from: self.from,
            input: self.input.clone(),
            tools: self.tools.clone(),
            base: self.base.clone(),
            ids: self.ids.clone(),
        }
    }
}

/// Takes apart a request; `None` if it has not the shape of a sampling request.
pub(crate) fn lift(request: &MaskedRequest, envelope: &Envelope) -> Option<Lifted> {
    if request.kind == HANDSHAKE {
        return handshake::lift(request);
    }
    let mut rest = value_of(request);
    let mut lifted = Lifted::default();
    let framed = request.method == FRAME_METHOD;
    if framed {
        let number = rest.pointer_mut(CONNECTION)?;
        lifted.connection = Some(number.as_str()?.to_owned());
        *number = "<number>".into();
    }
    let body = rest.get_mut("body")?.as_object_mut()?;
    let Some(Value::Array(input)) = body.insert("input".into(), json!([])) else {
        return None;
    };
    lifted.input = input;
    if framed && stands_before_input(body) {
        let previous = body.shift_remove(PREVIOUS);
        lifted.previous = previous.and_then(|id| id.as_str().map(str::to_owned));
    }
    match envelope.policy.base {
        BasePlace::Instructions => match body.get_mut("instructions") {
            Some(Value::String(text)) => {
                lifted.base = Some(std::mem::take(text));
                body.insert("instructions".into(), "<base>".into());
            }
            Some(_) => return None,
            None => insert_at(body, 1, "instructions", "<base>".into()),
        },
        BasePlace::Input => {
            if let Some(text) = lifted.input.first().and_then(base_text) {
                lifted.base = Some(text);
                lifted.input.remove(0);
            }
        }
    }
    if let Some(Value::Array(tools)) = body.get_mut("tools") {
        // Built-in tools of the version stand in the envelope.
        let prefix = envelope.policy.tools(&request.kind);
        if tools.len() >= prefix.len() && tools.iter().zip(prefix).all(|(a, b)| same(a, b)) {
            lifted.tools = tools.split_off(prefix.len());
        }
    }
    lift_names(&mut rest, &mut lifted, framed);
    lifted.rest = rest;
    Some(lifted)
}

/// Whether a text `previous_response_id` stands directly before the input.
fn stands_before_input(body: &Map<String, Value>) -> bool {
    let place = |key: &str| body.keys().position(|known| known == key);
    body.get(PREVIOUS).is_some_and(Value::is_string)
        && place(PREVIOUS).map(|at| at + 1) == place("input")
}

/// Name of a request's template in the envelope.
pub(crate) fn template_name(kind: &str, lifted: &Lifted) -> String {
    match (&lifted.connection, &lifted.purpose) {
        (Some(_), _) => format!("websocket {kind}"),
        (None, Some(purpose)) => format!("{kind} {purpose}"),
        (None, None) => kind.to_owned(),
    }
}

/// The template of a request; empty where the envelope has none.
fn template<'a>(envelope: &'a Envelope, kind: &str, lifted: &Lifted) -> &'a Value {
    let known = envelope.wire.get(&template_name(kind, lifted));
    known.unwrap_or(&NOTHING)
}

/// Turn, window, model and compaction: what a reader wants to see of the metadata.
fn lift_names(rest: &mut Value, lifted: &mut Lifted, framed: bool) {
    let text = |v: &Value, at: &str| v.pointer(at).and_then(Value::as_str).map(str::to_owned);
    lifted.turn = text(rest, "/body/client_metadata/turn_id").filter(|t| t.starts_with("<turn:"));
    lifted.model = text(rest, "/body/model").filter(|m| m.starts_with("<model:"));
    let window = if framed {
        "/body/client_metadata/x-codex-window-id"
    } else {
        "/headers/x-codex-window-id"
    };
    lifted.window = text(rest, window).filter(|w| window_number(w).is_some());
    if let Some(Value::Object(meta)) = rest.pointer_mut(&format!("/body{METADATA}"))
        && let Some(compaction) = meta.get_mut("compaction")
    {
        lifted.compaction = Some(std::mem::replace(compaction, "<compaction>".into()));
    }
    let pairs = replacements(lifted);
    replace_all(rest, &pairs);
}

pub(super) fn window_number(window: &str) -> Option<i64> {
    window.rsplit_once(':')?.1.parse().ok()
}

/// Whole values and the holes that stand for them.
pub(super) fn replacements(lifted: &Lifted) -> Vec<(Value, Value, &'static str)> {
    let mut pairs = Vec::new();
    if let Some(turn) = &lifted.turn {
        pairs.push((json!(turn), json!("<turn>"), ""));
    }
    if let Some(model) = &lifted.model {
        pairs.push((json!(model), json!("<model>"), ""));
    }
    if let Some((window, n)) = lifted
        .window
        .as_ref()
        .and_then(|w| Some((w, window_number(w)?)))
    {
        pairs.push((json!(window), json!("<window>"), ""));
        pairs.push((json!(n), json!("<window>"), "window_number"));
        pairs.push((
            json!(format!("<window:{}>", n + 1)),
            json!("<context window>"),
            "",
        ));
    }
    pairs
}

pub(super) fn replace_all(value: &mut Value, pairs: &[(Value, Value, &'static str)]) {
    fn go(value: &mut Value, key: &str, pairs: &[(Value, Value, &'static str)]) {
        match value {
            Value::Object(map) => {
                for (key, child) in map.iter_mut() {
                    let key = key.clone();
                    go(child, &key, pairs);
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|child| go(child, key, pairs)),
            leaf => {
                let hit = |at: &&str| at.is_empty() || *at == key;
                if let Some((_, to, _)) = pairs.iter().find(|(f, _, at)| f == leaf && hit(at)) {
                    *leaf = to.clone();
                }
            }
        }
    }
    // Tools and schemas are the scenario's own: only the rest of a request is searched.
    if let Some(headers) = value.get_mut("headers") {
        go(headers, "headers", pairs);
    }
    if let Some(Value::Object(body)) = value.get_mut("body") {
        for key in ["model", "client_metadata"] {
            if let Some(child) = body.get_mut(key) {
                go(child, key, pairs);
            }
        }
    }
}

fn base_text(item: &Value) -> Option<String> {
    let text = item.pointer("/content/0/text")?.as_str()?;
    same(item, &base_item(text)).then(|| text.to_owned())
}

fn base_item(text: &str) -> Value {
    json!({
        "type": "message", "id": "msg_<item:1>", "role": "developer",
        "content": [{"type": "input_text", "text": text}],
    })
}

fn insert_at(map: &mut Map<String, Value>, at: usize, key: &str, value: Value) {
    map.shift_insert(at.min(map.len()), key.to_owned(), value);
}

fn write(kind: &str, lifted: &Lifted, envelope: &Envelope, memory: &Memory) -> Value {
    let mut doc = Map::new();
    let mut put = |key: &str, value: Value| drop(doc.insert(key.to_owned(), value));
    put("request", (memory.number + 1).into());
    put("kind", kind.into());
    if let Some(purpose) = &lifted.purpose {
        put("for", purpose.clone().into());
    }
    if let Some(number) = &lifted.connection {
        put("over", format!("{OVER}{number}").into());
    }
    for (key, value) in [
        ("turn", &lifted.turn),
        ("window", &lifted.window),
        ("model", &lifted.model),
    ] {
        if let Some(value) = value {
            put(key, value.clone().into());
        }
    }
    if let Some(compaction) = lifted.compaction.clone() {
        put("compaction", compaction);
    }
    match (&lifted.base, &memory.base) {
        (Some(base), Some((at, known))) if base == known => put("base", json!({"$same_as": at})),
        (Some(base), _) => put("base", base.clone().into()),
        (None, _) => {}
    }
    match &memory.tools {
        _ if lifted.tools.is_empty() => {}
        Some((at, known)) if same(&json!(known), &json!(lifted.tools)) => {
            put("tools", json!({"$same_as": at}));
        }
        _ => put("tools", Value::Array(lifted.tools.clone())),
    }
    if let Some(previous) = &lifted.previous {
        put("previous", previous.clone().into());
    }
    if kind != HANDSHAKE {
        put("input", write_input(kind, lifted, envelope, memory));
    }
    let diff = fold(&lifted.rest, template(envelope, kind, lifted));
    if diff.as_object().is_none_or(|d| !d.is_empty()) {
        put("rest", diff);
    }
    Value::Object(doc)
}

fn write_input(kind: &str, lifted: &Lifted, envelope: &Envelope, memory: &Memory) -> Value {
    let input = &lifted.input;
    let shared = input
        .iter()
        .zip(&memory.input)
        .take_while(|(a, b)| same(a, b))
        .count();
    let mut out = Vec::new();
    if shared > 0 {
        out.push(json!({"$same_as": memory.from, "items": format!("0..={}", shared - 1)}));
    }
    let mut ids = memory.ids.clone();
    ids.begin(&input[..shared], lifted.base.is_some());
    for (at, item) in input.iter().enumerate().skip(shared) {
        let last_of_compaction = kind == "compaction" && at + 1 == input.len();
        let short = match envelope.policy.item_ids {
            ItemIds::None => item.clone(),
            ItemIds::Canonical => ids.shorten(item, last_of_compaction),
        };
        out.push(match short {
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(k, v)| (escape_key(&k, RESERVED), v))
                    .collect(),
            ),
            other => other,
        });
    }
    Value::Array(out)
}

/// Reads one request document. The inverse of `document`.
pub(crate) fn read(doc: &Value, envelope: &Envelope, memory: &mut Memory) -> Option<MaskedRequest> {
    memory.number += 1;
    let kind = doc.get("kind")?.as_str()?;
    if let Some(verbatim) = doc.get("verbatim") {
        let request = request_of(kind, verbatim)?;
        let lifted = lift(&request, envelope);
        memory.remember(lifted.as_ref(), request.body.get("input"));
        return Some(request);
    }
    let text = |key: &str| doc.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut lifted = Lifted {
        turn: text("turn"),
        window: text("window"),
        model: text("model"),
        compaction: doc.get("compaction").cloned(),
        base: match doc.get("base") {
            None => None,
            Some(Value::String(base)) => Some(base.clone()),
            Some(_) => Some(memory.base.as_ref()?.1.clone()),
        },
        tools: match doc.get("tools") {
            None => Vec::new(),
            Some(Value::Array(tools)) => tools.clone(),
            Some(_) => memory.tools.as_ref()?.1.clone(),
        },
        connection: text("over").and_then(|over| over.strip_prefix(OVER).map(str::to_owned)),
        purpose: text("for"),
        previous: text("previous"),
        input: Vec::new(),
        rest: Value::Null,
    };
    let template = template(envelope, kind, &lifted);
    lifted.rest = unfold(doc.get("rest").unwrap_or(&NOTHING), template)?;
    if kind == HANDSHAKE {
        return request_of(kind, &handshake::lower(&lifted)?);
    }
    let base = lifted.base.is_some();
    lifted.input = read_input(kind, doc.get("input")?.as_array()?, base, envelope, memory)?;
    memory.remember(Some(&lifted), None);
    let value = lower(lifted, envelope)?;
    request_of(kind, &value)
}

impl Memory {
    fn remember(&mut self, lifted: Option<&Lifted>, raw_input: Option<&Value>) {
        let raw = raw_input
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        self.input = lifted.map_or(raw, |l| l.input.clone());
        self.from = self.number;
        let base = lifted.is_some_and(|l| l.base.is_some());
        self.ids.finish(&self.input, base);
        let Some(lifted) = lifted else { return };
        if !lifted.tools.is_empty()
            && self
                .tools
                .as_ref()
                .is_none_or(|(_, t)| !same(&json!(t), &json!(lifted.tools)))
        {
            self.tools = Some((self.number, lifted.tools.clone()));
        }
        if let Some(base) = &lifted.base
            && self.base.as_ref().is_none_or(|(_, b)| b != base)
        {
            self.base = Some((self.number, base.clone()));
        }
    }
}

fn read_input(
    kind: &str,
    list: &[Value],
    base: bool,
    envelope: &Envelope,
    memory: &Memory,
) -> Option<Vec<Value>> {
    let mut input = Vec::new();
    let mut list = list;
    if let Some(first) = list.first()
        && first.get("$same_as").is_some()
    {
        let end: usize = first
            .get("items")?
            .as_str()?
            .strip_prefix("0..=")?
            .parse()
            .ok()?;
        input.extend_from_slice(memory.input.get(..=end)?);
        list = &list[1..];
    }
    let mut ids = memory.ids.clone();
    ids.begin(&input, base);
    for (at, item) in list.iter().enumerate() {
        let plain = match item {
            Value::Object(map) => {
                let pairs = map
                    .iter()
                    .map(|(k, v)| Some((unescape_key(k, RESERVED)?, v.clone())));
                Value::Object(pairs.collect::<Option<_>>()?)
            }
            other => other.clone(),
        };
        let last_of_compaction = kind == "compaction" && at + 1 == list.len();
        input.push(match envelope.policy.item_ids {
            ItemIds::None => plain,
            ItemIds::Canonical => ids.lengthen(&plain, last_of_compaction),
        });
    }
    Some(input)
}

/// Puts the names back that [`lift_names`] took out.
pub(super) fn lower_names(rest: &mut Value, lifted: &Lifted) {
    let back: Vec<_> = replacements(lifted)
        .into_iter()
        .map(|(a, b, at)| (b, a, at))
        .collect();
    // `window_number` is tried before the window's name, which has the same hole.
    let (numbers, names): (Vec<_>, Vec<_>) = back.into_iter().partition(|p| !p.2.is_empty());
    replace_all(rest, &[numbers, names].concat());
}

/// Puts a request together again. The inverse of [`lift`].
fn lower(lifted: Lifted, envelope: &Envelope) -> Option<Value> {
    let mut lifted = lifted;
    let mut rest = std::mem::take(&mut lifted.rest);
    lower_names(&mut rest, &lifted);
    if let Some(number) = lifted.connection {
        *rest.pointer_mut(CONNECTION)? = number.into();
    }
    if let Some(compaction) = lifted.compaction {
        *rest.pointer_mut(&format!("/body{METADATA}/compaction"))? = compaction;
    }
    let mut input = lifted.input;
    let body = rest.get_mut("body")?.as_object_mut()?;
    match (envelope.policy.base, lifted.base) {
        (BasePlace::Instructions, Some(base)) => {
            *body.get_mut("instructions")? = base.into();
        }
        (BasePlace::Instructions, None) => drop(body.shift_remove("instructions")?),
        (BasePlace::Input, Some(base)) => input.insert(0, base_item(&base)),
        (BasePlace::Input, None) => {}
    }
    if !lifted.tools.is_empty() {
        body.get_mut("tools")?.as_array_mut()?.extend(lifted.tools);
    }
    *body.get_mut("input")? = Value::Array(input);
    if let Some(previous) = lifted.previous {
        let at = body.keys().position(|key| key == "input")?;
        insert_at(body, at, PREVIOUS, previous.into());
    }
    Some(rest)
}
