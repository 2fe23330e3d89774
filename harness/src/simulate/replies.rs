//! The replies of a drawn session: what the provider makes of the request that just came.

use mock_provider::script::Answers;
use serde_json::{Map, Value, json};

use super::session::Draft;
use super::swarm::{ActKind, FaultKind, ReplyKind, UsageKind};
use crate::fuzz;

/// Requests of a step behind which its replies have neither calls nor faults nor usage.
const BUSY: usize = 10;
/// Requests of a step behind which the engine is in a loop that nothing ends.
pub(super) const LOOP: usize = 60;
/// Bytes that an item of any kind is drawn from.
const RAW_BYTES: usize = 48;
/// Bytes of a token, as an engine guesses.
const TOKEN_BYTES: u64 = 4;

/// Statuses of a failed request.
const STATUSES: [u16; 8] = [500, 400, 401, 403, 404, 429, 502, 503];
/// Codes of a failed response; `None` gives none.
const CODES: [&str; 8] = [
    "server_error",
    "rate_limit_exceeded",
    "insufficient_quota",
    "invalid_prompt",
    "server_is_overloaded",
    "slow_down",
    "usage_not_included",
    "something_new",
];
/// Reasons of an incomplete response.
const REASONS: [&str; 2] = ["max_output_tokens", "content_filter"];

impl Draft {
    /// The reply to a request of so many bytes; `None` accepts a handshake, or ends a loop.
    pub(super) fn reply(&mut self, kind: &Answers, bytes: usize) -> Option<Value> {
        let count = self.replies.len();
        let is_busy = count >= BUSY;
        if count >= LOOP {
            return None;
        }
        match kind {
            Answers::Handshake => None,
            Answers::Prewarm => Some(json!({"for": "prewarm", "items": []})),
            Answers::Turn if is_busy => Some(json!({"say": "Enough.", "usage": 10})),
            Answers::Turn => Some(self.turn(bytes)),
            Answers::Compaction {
                implementation,
                phase,
                ..
            } => {
                let mut asked = Map::new();
                asked.insert("compaction".to_owned(), json!(implementation));
                if let Some(phase) = phase {
                    asked.insert("phase".to_owned(), json!(phase));
                }
                let mut reply = self.compaction(implementation, is_busy);
                reply.insert("for".to_owned(), Value::Object(asked));
                Some(Value::Object(reply))
            }
        }
    }

    fn turn(&mut self, bytes: usize) -> Value {
        let fault = self.swarm.fault.pick(&mut self.dice);
        if let Some(whole) = self.whole_fault(fault) {
            return json!({"fault": whole});
        }
        let mut reply = self.content();
        let items = items_of(&reply);
        let kind = |reply: &Map<String, Value>, key: &str| {
            let list = reply.get("items").and_then(Value::as_array);
            reply.contains_key(key)
                || list.is_some_and(|list| list.iter().any(|item| item.get(key).is_some()))
        };
        let calls = kind(&reply, "call") || kind(&reply, "raw");
        let usage = self.usage(bytes);
        reply.insert("usage".to_owned(), usage);
        if let Some(fault) = self.stream_fault(fault, items, calls) {
            reply.insert("fault".to_owned(), fault);
        } else if items > 0
            && let Some(act) = self.act()
        {
            // Between two events, or behind the last item.
            let after = 1 + self.dice.below(items as u64);
            reply.insert(
                "gate".to_owned(),
                json!({"after_events": after, "do": [act]}),
            );
        }
        Value::Object(reply)
    }

    /// A fault that sends no stream.
    fn whole_fault(&mut self, fault: FaultKind) -> Option<Value> {
        if self.head.websockets {
            // A frame has no status.
            return None;
        }
        match fault {
            FaultKind::Http => {
                let status = *self.dice.pick(&STATUSES);
                Some(json!({"http": status}))
            }
            FaultKind::Window if self.dice.below(2) == 0 => {
                Some(json!({"http": 400, "code": "context_length_exceeded"}))
            }
            FaultKind::RateLimit => {
                let mut fault = json!({"http": 429, "message": self.dice.text("Slow")});
                if self.dice.below(2) == 1 {
                    fault["headers"] = json!({"retry-after": "1"});
                }
                Some(fault)
            }
            FaultKind::Drop => Some(json!({"drop_connection": true})),
            _ => None,
        }
    }

    /// A fault inside a stream of so many items, or at its end.
    fn stream_fault(&mut self, fault: FaultKind, items: usize, calls: bool) -> Option<Value> {
        let place = |draft: &mut Self| draft.dice.below(items as u64 + 2);
        match fault {
            FaultKind::Window => Some(json!({"failed": "context_length_exceeded"})),
            FaultKind::Cut => Some(json!({"cut": {"after_events": place(self)}})),
            FaultKind::Failed => Some(json!({"failed": *self.dice.pick(&CODES)})),
            FaultKind::Incomplete => Some(json!({"incomplete": *self.dice.pick(&REASONS)})),
            FaultKind::NoCompleted => Some(json!({"no_completed": true})),
            FaultKind::Malformed => Some(json!({"malformed_event": {"after_events": place(self)}})),
            // The first event is no item, and the last one ends the response.
            // Two calls with one id are a race of the client.
            FaultKind::Duplicate if items > 0 && !calls => Some(json!({"duplicate_event": 2})),
            FaultKind::Duplicate
            | FaultKind::None
            | FaultKind::Http
            | FaultKind::Drop
            | FaultKind::RateLimit => None,
        }
    }

    /// The items of a response.
    fn content(&mut self) -> Map<String, Value> {
        let kind = self.swarm.reply.pick(&mut self.dice);
        let say = |draft: &mut Self| json!({"say": draft.dice.text("Done")});
        let items = match kind {
            ReplyKind::Say => vec![say(self)],
            ReplyKind::NoEnd => {
                let mut reply = object(say(self));
                reply.insert("end_turn".to_owned(), json!(false));
                return reply;
            }
            ReplyKind::Messages => vec![say(self), say(self)],
            ReplyKind::Reasoning => {
                let reasoning = json!({"reasoning": {"summary": [self.dice.text("Why")],
                    "encrypted_content": "c2VjcmV0"}});
                vec![reasoning, say(self)]
            }
            ReplyKind::Nothing => Vec::new(),
            ReplyKind::Raw => {
                let bytes = self.dice.bytes(RAW_BYTES);
                let items = fuzz::items_of(&bytes).into_iter().take(2);
                let items = items.filter(|item| fuzz::parses(item, &self.version));
                items.map(|item| json!({"raw": item})).collect()
            }
            ReplyKind::Call => vec![self.call("lookup", true)],
            ReplyKind::Calls => {
                let count = 2 + self.dice.below(2);
                (0..count).map(|_| self.call("lookup", false)).collect()
            }
            ReplyKind::UnknownTool => {
                let arguments = json!({"path": self.dice.text("at")});
                vec![json!({"call": {"tool": "mislaid", "arguments": arguments}})]
            }
        };
        match <[Value; 1]>::try_from(items) {
            // One item needs no list.
            Ok([item]) => object(item),
            Err(items) => object(json!({"items": items})),
        }
    }

    fn call(&mut self, tool: &str, is_alone: bool) -> Value {
        let arguments = json!({"path": self.dice.text("at")});
        let output = match self.dice.below(8) {
            1 => json!({"fail": self.dice.text("Failed")}),
            2 => json!({"rpc_error": true}),
            3 => json!({"repeat": "line of output\n", "bytes": 200 + self.dice.below(3000)}),
            4 => json!(""),
            5 => json!([{"text": self.dice.text("Part")}, {"image": {"png": self.size()}}]),
            _ => json!(self.dice.text("Found")),
        };
        let mut call = json!({"tool": tool, "arguments": arguments, "output": output});
        if is_alone && let Some(act) = self.act() {
            call["while_running"] = json!([act]);
        }
        json!({"call": call})
    }

    /// What a client does meanwhile.
    fn act(&mut self) -> Option<Value> {
        let act = self.swarm.act.pick(&mut self.dice);
        match act {
            ActKind::Steer => Some(json!({"steer": self.dice.text("And")})),
            ActKind::Interrupt => Some(json!({"interrupt": true})),
            ActKind::Settings => Some(json!({"settings": self.settings()})),
            ActKind::TurnSettings if self.head.turn_settings => {
                let model = *self.dice.pick(&["main", "other"]);
                Some(json!({"turn_settings": {"model": model}}))
            }
            ActKind::None | ActKind::TurnSettings => None,
        }
    }

    fn usage(&mut self, bytes: usize) -> Value {
        let limit = *self.dice.pick(&self.head.limits);
        let kind = self.swarm.usage.pick(&mut self.dice);
        match kind {
            UsageKind::Small => json!(10 + self.dice.below(500)),
            UsageKind::Honest => {
                let input = bytes as u64 / TOKEN_BYTES;
                json!({"input": input, "cached": input / 2, "output": 20, "reasoning": 8,
                    "total": input + 20})
            }
            UsageKind::Near => json!(limit - 1 + self.dice.below(3) as i64),
            UsageKind::Over => json!(limit + limit / 10 + self.dice.below(100) as i64),
            UsageKind::Zero => json!(0),
            UsageKind::Absent => json!("absent"),
            UsageKind::Null => Value::Null,
        }
    }

    /// The answer to a compaction request.
    fn compaction(&mut self, implementation: &str, is_busy: bool) -> Map<String, Value> {
        let is_local = implementation == "local";
        if !is_busy {
            let fault = self.swarm.fault.pick(&mut self.dice);
            if let Some(whole) = self.whole_fault(fault) {
                return object(json!({"fault": whole}));
            }
            // The answer of remote compaction v1 is no stream.
            if implementation != "remote_v1"
                && let Some(inside) = self.stream_fault(fault, 1, false)
            {
                let mut reply = self.summary(is_local);
                reply.insert("fault".to_owned(), inside);
                return reply;
            }
            if self.dice.rarely(8) {
                return self.odd_summary(is_local);
            }
        }
        let mut reply = self.summary(is_local);
        reply.insert("usage".to_owned(), json!(50 + self.dice.below(300)));
        if !is_busy
            && implementation != "remote_v1"
            && let Some(act) = self.act()
        {
            reply.insert("gate".to_owned(), json!({"after_events": 1, "do": [act]}));
        }
        reply
    }

    fn summary(&mut self, is_local: bool) -> Map<String, Value> {
        let text = self.dice.text("Summary");
        let key = if is_local { "say" } else { "compaction" };
        object(json!({key: text}))
    }

    /// An answer that is not one summary.
    fn odd_summary(&mut self, is_local: bool) -> Map<String, Value> {
        let items = match (self.dice.below(4), is_local) {
            (0, _) => json!([]),
            (1, true) => json!([{"say": ""}]),
            (1, false) => json!([{"compaction": "one"}, {"compaction": "two"}]),
            (2, _) => json!([{"reasoning": {"summary": ["Hm."]}}]),
            (_, true) => json!([{"say": "Summary one."}, {"say": "Summary two."}]),
            (_, false) => json!([{"say": "Summary in words."}]),
        };
        object(json!({"items": items, "usage": 60}))
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Number of items of a reply.
fn items_of(reply: &Map<String, Value>) -> usize {
    match reply.get("items") {
        Some(Value::Array(items)) => items.len(),
        _ => 1,
    }
}
